/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* Linux 5.14; older C libraries do not name them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* -EFAULT if a page of the range is not mapped. */
static int check_mapped(uintptr_t start, size_t len)
{
	enum { CHUNK_PAGES = 4096 };
	unsigned char vec[CHUNK_PAGES];
	size_t chunk = CHUNK_PAGES * (size_t)sysconf(_SC_PAGESIZE);

	for (size_t done = 0; done < len; done += chunk) {
		size_t n = len - done < chunk ? len - done : chunk;

		if (mincore((void *)(start + done), n, vec))
			return errno == ENOMEM ? -EFAULT : -errno;
	}
	return 0;
}

/*
 * Fault the region in, for writing if the NIC may write to it: what a NIC does when it pins a
 * region, and the moment where it finds that there is no such memory.
 */
static int populate(void *addr, size_t length, unsigned access)
{
	const unsigned writes =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)addr & ~(page - 1);
	size_t len = (((uintptr_t)addr + length + page - 1) & ~(page - 1)) - start;
	int ret;

	if (!length)
		return 0;
	/* Pages come when they are touched, but a peer must not touch what is not mapped at all. */
	if (access & IBV_ACCESS_ON_DEMAND)
		return addr ? check_mapped(start, len) : 0;
	do
		ret = madvise((void *)start, len,
			      access & writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (ret && errno == EINTR);
	if (!ret)
		return 0;
	if (errno == EINVAL && madvise((void *)start, 0, MADV_POPULATE_READ))
		return check_mapped(start, len); /* the kernel is older than that */
	if (errno != ENOMEM)
		return -EFAULT; /* forbidden, beyond a file's end, or a device's */
	ret = check_mapped(start, len);
	return ret ? ret : -ENOMEM;
}

static struct ibv_mr *fail(struct vmr *vmr, int error)
{
	free(vmr);
	errno = error;
	return NULL;
}

/*
 * The kernel copies between two places of ours as it would between two processes: a page that is
 * not there is an error to it, whoever unmaps it when.
 */
bool urxe_mr_copy(void *to, const void *from, size_t len, bool write)
{
	struct iovec mine = {.iov_base = write ? (void *)(uintptr_t)from : to, .iov_len = len};
	struct iovec other = {.iov_base = write ? to : (void *)(uintptr_t)from, .iov_len = len};
	ssize_t n = write ? process_vm_writev(getpid(), &mine, 1, &other, 1, 0)
			  : process_vm_readv(getpid(), &mine, 1, &other, 1, 0);

	if (n >= 0 || errno == EFAULT)
		return n == (ssize_t)len;
	/* A sandbox forbids the call: look, and hope that it stays. */
	if (populate(other.iov_base, len, write ? IBV_ACCESS_LOCAL_WRITE : 0))
		return false;
	memcpy(to, from, len);
	return true;
}

struct ibv_mr *urxe_verbs_alloc_null_mr(struct ibv_pd *pd)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vmr *vmr = calloc(1, sizeof(*vmr));
	int ret;

	if (!vmr)
		return NULL;
	if (!urxe_context_lock(ctx))
		return fail(vmr, EPERM);
	ret = urxe_mr_new_null(vpd_of(pd)->pd, &vmr->mr);
	urxe_context_unlock(ctx);
	if (ret)
		return fail(vmr, -ret);
	vmr->ibv.context = pd->context;
	vmr->ibv.pd = pd;
	vmr->ibv.length = SIZE_MAX;
	vmr->ibv.lkey = urxe_mr_lkey(vmr->mr);
	return &vmr->ibv;
}

struct ibv_mr *urxe_verbs_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vmr *vmr = calloc(1, sizeof(*vmr));
	int ret;

	if (!vmr)
		return NULL;
	if (!urxe_context_lock(ctx))
		return fail(vmr, EPERM);
	ret = urxe_mr_reg(vpd_of(pd)->pd, addr, length, iova, access, &vmr->mr);
	urxe_context_unlock(ctx);
	if (ret)
		return fail(vmr, -ret);

	/* Long for large regions, hence without the lock; nobody knows the keys yet. */
	ret = populate(addr, length, access);
	if (ret) {
		if (urxe_context_lock(ctx)) {
			urxe_mr_dereg(vmr->mr);
			urxe_context_unlock(ctx);
		}
		return fail(vmr, -ret);
	}
	vmr->ibv.context = pd->context;
	vmr->ibv.pd = pd;
	vmr->ibv.addr = addr;
	vmr->ibv.length = length;
	vmr->access = access;
	vmr->ibv.lkey = urxe_mr_lkey(vmr->mr);
	vmr->ibv.rkey = urxe_mr_rkey(vmr->mr);
	return &vmr->ibv;
}

int urxe_verbs_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	struct urxe_context *ctx = urxe_context_of(mr->context);
	struct vmr *vmr = container_of(mr, struct vmr, ibv);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool changes = flags & IBV_REREG_MR_CHANGE_ACCESS;
	int ret;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (moves && (!addr || !length)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != mr->context))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (vmr->dm) {
		errno = EOPNOTSUPP;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (!changes)
		access = (int)vmr->access;
	ret = populate(moves ? addr : mr->addr, moves ? length : mr->length, (unsigned)access);
	if (!ret && !urxe_context_lock(ctx))
		ret = -EPERM;
	if (!ret) {
		ret = urxe_mr_rereg(vmr->mr, flags, pd ? vpd_of(pd)->pd : NULL, addr, length,
				    (unsigned)access);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		errno = -ret;
		return IBV_REREG_MR_ERR_CMD;
	}
	vmr->access = (unsigned)access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (moves) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

/* Everything is pageable here: to prefetch is to touch the pages. */
int urxe_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && !write &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	for (uint32_t i = 0; i < num_sge; i++) {
		void *memory;
		int ret = 0;

		if (!urxe_context_lock(ctx))
			return EPERM;
		memory = urxe_mr_memory(vpd_of(pd)->pd, &sg_list[i], write);
		urxe_context_unlock(ctx);
		if (!memory)
			return EFAULT;
		if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			ret = populate(memory, sg_list[i].length,
				       write ? IBV_ACCESS_LOCAL_WRITE : 0);
		/* Without the flag it would have been done later, and failed unheard. */
		if (ret && flags & IBV_ADVISE_MR_FLAG_FLUSH)
			return -ret;
	}
	return 0;
}

int urxe_verbs_dereg_mr(struct ibv_mr *mr)
{
	struct urxe_context *ctx = urxe_context_of(mr->context);
	struct vmr *vmr = container_of(mr, struct vmr, ibv);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_mr_dereg(vmr->mr);
	if (!ret && vmr->dm)
		vmr->dm->refs--;
	urxe_context_unlock(ctx);
	if (!ret)
		free(vmr);
	return -ret;
}
