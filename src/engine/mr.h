/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: the only way from a key and an address to bytes. */
#ifndef URXE_ENGINE_MR_H
#define URXE_ENGINE_MR_H

#include "engine/engine_priv.h"

#include <string.h>

/* No packet has a longer payload: what a null region needs of memory. */
enum { MR_NULL_BYTES = 16384 };

/* What a key names: a region, or the part of one that a window shows. */
struct urxe_mr {
	struct urxe_pd *pd;
	uint8_t *base; /* host memory that iova stands for */
	uint64_t iova;
	uint64_t length;
	unsigned access;
	bool is_window;
	bool is_null; /* base is zeros to read, and behind them a sink to write to */
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
	if (__builtin_expect(mr->is_null, false))
		return mr->base + (access ? MR_NULL_BYTES : 0);
	return (uint8_t *)((uintptr_t)mr->base +
			   off); /* of the whole address space, base is NULL */
}

/* May it go at any moment? Then it is read and written by the engine's copy() only. */
static inline bool mr_may_go(const struct urxe_mr *mr)
{
	return __builtin_expect(mr->access & IBV_ACCESS_ON_DEMAND, 0) && mr->pd->engine->copy;
}

/*
 * Bytes of the region, at p, as payload of the frame that is being pulled, at its offset off: where
 * they are, or staged until the next frame. NULL: they are gone.
 */
static inline uint8_t *mr_payload(const struct urxe_mr *mr, uint8_t *p, uint32_t len, uint32_t off)
{
	const struct urxe_engine *e = mr->pd->engine;

	if (!p || !mr_may_go(mr))
		return p;
	return e->copy(e->staging + off, p, len, false) ? e->staging + off : NULL;
}

/* Write to bytes of the region, at p; false: there are none. */
static inline bool mr_write(const struct urxe_mr *mr, uint8_t *p, const void *data, uint32_t len)
{
	if (!p)
		return false;
	if (mr_may_go(mr))
		return mr->pd->engine->copy(p, data, len, true);
	memcpy(p, data, len);
	return true;
}

/* The region of this PD that the lkey names, or NULL. */
static inline const struct urxe_mr *mr_by_lkey(const struct urxe_pd *pd, uint32_t lkey)
{
	const struct urxe_mr *mr = key_find(&pd->engine->keys, lkey, false);

	return mr && mr->pd == pd ? mr : NULL;
}

/* The region or window that an rkey names to this QP's peer, or NULL. */
static inline const struct urxe_mr *mr_by_rkey(const struct urxe_qp *qp, const struct urxe_pd *pd,
					       uint32_t rkey)
{
	const struct urxe_mr *mr = key_find(&pd->engine->keys, rkey, true);

	return mr && mr->pd == pd && (!mr->qp || mr->qp == qp) ? mr : NULL;
}

/*
 * The host memory behind [va, va + len) if the lkey names a region of this PD that contains it and
 * grants every right in access (0: local read, always granted); else NULL (IBA 10.6.3.2).
 */
static inline uint8_t *mr_local(const struct urxe_pd *pd, uint32_t lkey, uint64_t va, uint64_t len,
				unsigned access)
{
	const struct urxe_mr *mr = mr_by_lkey(pd, lkey);

	return mr ? mr_at(mr, va, len, access) : NULL;
}

/* The same by an rkey, for what a peer asks of this QP. */
static inline uint8_t *mr_remote(const struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t rkey,
				 uint64_t va, uint64_t len, unsigned access)
{
	const struct urxe_mr *mr = mr_by_rkey(qp, pd, rkey);

	return mr ? mr_at(mr, va, len, access) : NULL;
}

/* May every scatter/gather element be used so? Elements of length 0 are not looked at. */
bool mr_check_sges(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n,
		   unsigned access);

/*
 * Turn [off, off + len) of a list into the payload of the frame that is being pulled: an iovec of
 * at most n entries. Returns their number, or -EACCES when a key is not valid (any more).
 */
int mr_gather(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	      uint32_t len, struct iovec *iov);

/*
 * Copy len bytes to offset off of a scatter list; 0, or -EACCES having written nothing, or no more
 * than there was memory for.
 */
int mr_scatter(const struct urxe_pd *pd, const struct ibv_sge *sge, uint32_t n, uint64_t off,
	       const void *data, uint32_t len);

#endif
