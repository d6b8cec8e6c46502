/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: the only way from a key and an address to bytes. */
#ifndef URXE_ENGINE_MR_H
#define URXE_ENGINE_MR_H

#include "engine/engine_priv.h"

#include <string.h>

/* What a key names: a region, or the part of one that a window shows. */
struct urxe_mr {
	struct urxe_pd *pd;
	uint8_t *base; /* host memory that iova stands for */
	uint64_t iova;
	uint64_t length;
	unsigned access;
	bool is_window;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t n_windows;       /* bound to it */
	const struct urxe_qp *qp; /* a window of type 2 is this QP's peer's only; else NULL */
};

/* The host memory behind [va, va + len) if mr contains it and grants access, else NULL. */
static inline uint8_t *mr_at(const struct urxe_mr *mr, uint64_t va, uint64_t len, unsigned access)
{
	uint64_t off = va - mr->iova; /* wraps to something huge when va is below */

	if ((mr->access & access) != access || off > mr->length || len > mr->length - off)
		return NULL;
	return (uint8_t *)((uintptr_t)mr->base +
			   off); /* of the whole address space, base is NULL */
}

/*
 * The host memory behind [va, va + len) if the lkey names a region of this PD that contains it and
 * grants every right in access (0: local read, always granted); else NULL (IBA 10.6.3.2).
 */
static inline uint8_t *mr_local(const struct urxe_pd *pd, uint32_t lkey, uint64_t va, uint64_t len,
				unsigned access)
{
	const struct urxe_mr *mr = key_find(&pd->engine->keys, lkey, false);

	return mr && mr->pd == pd ? mr_at(mr, va, len, access) : NULL;
}

/* The same by an rkey, for what a peer asks of this QP. */
static inline uint8_t *mr_remote(const struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t rkey,
				 uint64_t va, uint64_t len, unsigned access)
{
	const struct urxe_mr *mr = key_find(&pd->engine->keys, rkey, true);

	if (!mr || mr->pd != pd || (mr->qp && mr->qp != qp))
		return NULL;
	return mr_at(mr, va, len, access);
}

/* May every scatter/gather element be used so? Elements of length 0 are not looked at. */
bool mr_check_sges(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n,
		   unsigned access);

/*
 * Turn [off, off + len) of a gather list into an iovec of at most n entries. Returns the number
 * of entries, or -EACCES when a key is not valid (any more).
 */
int mr_gather(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	      uint32_t len, struct iovec *iov);

/* Copy len bytes to offset off of a scatter list; 0, or -EACCES having written nothing. */
int mr_scatter(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	       const void *data, uint32_t len);

#endif
