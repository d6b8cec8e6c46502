/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; older C libraries do not name them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

struct ibv_pd *urxe_verbs_alloc_pd(struct ibv_context *context)
{
	struct urxe_context *ctx = urxe_context_of(context);
	struct vpd *vpd = calloc(1, sizeof(*vpd));
	int ret = -EPERM;

	if (!vpd)
		return NULL;
	if (urxe_context_lock(ctx)) {
		ret = urxe_pd_new(ctx->engine, &vpd->pd);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vpd);
		errno = -ret;
		return NULL;
	}
	vpd->ibv.context = context;
	return &vpd->ibv;
}

int urxe_verbs_dealloc_pd(struct ibv_pd *pd)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_pd_free(vpd_of(pd)->pd);
	urxe_context_unlock(ctx);
	if (!ret)
		free(vpd_of(pd));
	return -ret;
}

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

	if (!length || (access & IBV_ACCESS_ON_DEMAND))
		return 0;
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

struct ibv_mr *urxe_verbs_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vmr *vmr = calloc(1, sizeof(*vmr));
	int ret;

	if (!vmr)
		return NULL;
	if ((uintptr_t)addr + length < (uintptr_t)addr)
		return fail(vmr, EINVAL);
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
	vmr->ibv.lkey = urxe_mr_lkey(vmr->mr);
	vmr->ibv.rkey = urxe_mr_rkey(vmr->mr);
	return &vmr->ibv;
}

int urxe_verbs_dereg_mr(struct ibv_mr *mr)
{
	struct urxe_context *ctx = urxe_context_of(mr->context);
	struct vmr *vmr = container_of(mr, struct vmr, ibv);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_mr_dereg(vmr->mr);
	urxe_context_unlock(ctx);
	if (!ret)
		free(vmr);
	return -ret;
}
