/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/mr.h"

#include <errno.h>
#include <stdlib.h>

enum {
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB,
	ACCESS_BY_PEERS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
	ACCESS_NEEDS_LOCAL_WRITE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

static bool is_implicit(void *addr, uint64_t length, unsigned access)
{
	return access & IBV_ACCESS_ON_DEMAND && !addr && length == UINT64_MAX;
}

static int check(const struct urxe_engine *e, void *addr, uint64_t length, uint64_t iova,
		 unsigned access)
{
	if (access & ~(unsigned)ACCESS_KNOWN)
		return -EINVAL;
	if ((access & ACCESS_NEEDS_LOCAL_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if (is_implicit(addr, length, access))
		return access & ACCESS_BY_PEERS ? -EOPNOTSUPP : 0;
	if (length > e->limits.max_mr_size || (uintptr_t)addr + length < (uintptr_t)addr)
		return -EINVAL;
	if (length > 0 && iova + (length - 1) < iova)
		return -EINVAL;
	return 0;
}

/* What the first region on demand takes. */
static int have_staging(struct urxe_engine *e, unsigned access)
{
	if (access & IBV_ACCESS_ON_DEMAND && !e->staging)
		e->staging = malloc(MR_NULL_BYTES);
	return access & IBV_ACCESS_ON_DEMAND && !e->staging ? -ENOMEM : 0;
}

int urxe_mr_reg(struct urxe_pd *pd, void *addr, uint64_t length, uint64_t iova, unsigned access,
		struct urxe_mr **ret_mr)
{
	struct urxe_engine *e = pd->engine;
	struct urxe_mr *mr;
	int rc;

	access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	rc = check(e, addr, length, iova, access);
	if (rc < 0)
		return rc;
	rc = have_staging(e, access);
	if (rc < 0)
		return rc;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = (struct urxe_mr){
		.pd = pd, .base = addr, .iova = iova, .length = length, .access = access};
	rc = key_take(&e->keys, mr, &mr->lkey, &mr->rkey);
	if (rc < 0) {
		free(mr);
		return rc;
	}
	pd->refs++;
	*ret_mr = mr;
	return 0;
}

int urxe_mr_new_null(struct urxe_pd *pd, struct urxe_mr **ret_mr)
{
	struct urxe_mr *mr = malloc(sizeof(*mr));
	uint8_t *memory = calloc(2, MR_NULL_BYTES);
	int rc = -ENOMEM;

	if (!mr || !memory)
		goto err_free;
	*mr = (struct urxe_mr){.pd = pd,
			       .base = memory,
			       .length = UINT64_MAX,
			       .access = IBV_ACCESS_LOCAL_WRITE,
			       .is_null = true};
	rc = key_take(&pd->engine->keys, mr, &mr->lkey, &mr->rkey);
	if (rc < 0)
		goto err_free;
	pd->refs++;
	*ret_mr = mr;
	return 0;

err_free:
	free(memory);
	free(mr);
	return rc;
}

int urxe_mr_rereg(struct urxe_mr *mr, int flags, struct urxe_pd *pd, void *addr, uint64_t length,
		  unsigned access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int rc;

	if (mr->n_windows)
		return -EBUSY;
	access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE
						    : mr->access;
	if (mr->is_null)
		return -EINVAL;
	rc = check(mr->pd->engine, moves ? addr : mr->base, moves ? length : mr->length,
		   moves ? (uintptr_t)addr : mr->iova, access);
	if (!rc)
		rc = have_staging(mr->pd->engine, access);
	if (rc < 0)
		return rc;
	mr->access = access;
	if (moves) {
		mr->base = addr;
		mr->length = length;
		mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->pd->refs--;
		pd->refs++;
		mr->pd = pd;
	}
	return 0;
}

void *urxe_mr_memory(const struct urxe_pd *pd, const struct ibv_sge *sge, bool write)
{
	const struct urxe_mr *mr = mr_by_lkey(pd, sge->lkey);

	if (!mr || mr->is_null)
		return NULL;
	return mr_at(mr, sge->addr, sge->length, write ? IBV_ACCESS_LOCAL_WRITE : 0);
}

int urxe_mr_dereg(struct urxe_mr *mr)
{
	if (!mr)
		return 0;
	if (mr->n_windows)
		return -EBUSY; /* a window never outlives what it shows (IBA 10.6.7.2.4) */
	key_give(&mr->pd->engine->keys, mr->lkey);
	mr->pd->refs--;
	if (mr->is_null)
		free(mr->base);
	free(mr);
	return 0;
}

uint32_t urxe_mr_lkey(const struct urxe_mr *mr)
{
	return mr->lkey;
}

uint32_t urxe_mr_rkey(const struct urxe_mr *mr)
{
	return mr->rkey;
}

bool mr_check_sges(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, unsigned access)
{
	for (uint32_t i = 0; i < n; i++) {
		if (sge[i].length > 0 &&
		    !mr_local(pd, sge[i].lkey, sge[i].addr, sge[i].length, access))
			return false;
	}
	return true;
}

/* An element, from off on, as the bytes from `at` on of the payload. */
static bool gather_from(const struct urxe_pd *pd, const struct ibv_sge *sge, uint64_t off,
			uint32_t len, uint32_t at, struct iovec *ret_iov)
{
	const struct urxe_mr *mr = mr_by_lkey(pd, sge->lkey);
	uint8_t *p = mr ? mr_payload(mr, mr_at(mr, sge->addr + off, len, 0), len, at) : NULL;

	*ret_iov = (struct iovec){.iov_base = p, .iov_len = len};
	return p;
}

int mr_gather(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	      uint32_t len, struct iovec *iov)
{
	uint32_t done = 0;
	int n_iov = 0;

	if (n == 1 && len > 0) /* as nearly always */
		return gather_from(pd, sge, off, len, 0, iov) ? 1 : -EACCES;
	for (uint32_t i = 0; i < n && done < len; i++) {
		uint32_t take;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		take = sge[i].length - (uint32_t)off;
		if (take > len - done)
			take = len - done;
		if (!gather_from(pd, &sge[i], off, take, done, &iov[n_iov++]))
			return -EACCES;
		done += take;
		off = 0;
	}
	return n_iov;
}

/* As nearly all lists are: the one look at its key is for all of it. */
static int scatter_to_one(const struct urxe_pd *pd, const struct ibv_sge *sge, uint64_t off,
			  const void *data, uint32_t len)
{
	const struct urxe_mr *mr = mr_by_lkey(pd, sge->lkey);
	uint8_t *p = mr ? mr_at(mr, sge->addr, sge->length, IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (!p || off >= sge->length)
		return p || !sge->length ? 0 : -EACCES;
	if (!mr->is_null)
		p += off;
	if (len > sge->length - off)
		len = sge->length - (uint32_t)off;
	return mr_write(mr, p, data, len) ? 0 : -EACCES;
}

int mr_scatter(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	       const void *data, uint32_t len)
{
	const uint8_t *src = data;

	if (n == 1)
		return scatter_to_one(pd, sge, off, data, len);
	if (!mr_check_sges(pd, sge, n, IBV_ACCESS_LOCAL_WRITE))
		return -EACCES;
	for (uint32_t i = 0; i < n && len > 0; i++) {
		const struct urxe_mr *mr;
		uint32_t take;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		take = sge[i].length - (uint32_t)off;
		if (take > len)
			take = len;
		mr = mr_by_lkey(pd, sge[i].lkey);
		if (!mr_write(mr, mr_at(mr, sge[i].addr + off, take, IBV_ACCESS_LOCAL_WRITE), src,
			      take))
			return -EACCES;
		src += take;
		len -= take;
		off = 0;
	}
	return 0;
}
