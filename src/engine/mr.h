/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: the only way from a key and an address to bytes. */
#ifndef URXE_ENGINE_MR_H
#define URXE_ENGINE_MR_H

#include "engine/engine_priv.h"

#include <string.h>

struct urxe_mr {
	struct urxe_pd *pd;
	uint8_t *base; /* host memory that iova stands for */
	uint64_t iova;
	uint64_t length;
	unsigned access;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * The host memory behind [va, va + len) if the key names a region of this PD that contains it and
 * grants every right in access (0: local read, always granted); else NULL (IBA 10.6.3.2).
 */
static inline uint8_t *mr_resolve(const struct urxe_engine *e, const struct urxe_pd *pd,
				  uint32_t key, bool remote, uint64_t va, uint64_t len,
				  unsigned access)
{
	const struct urxe_mr *mr = key_find(&e->keys, key, remote);
	uint64_t off;

	if (!mr || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	off = va - mr->iova; /* wraps to something huge when va is below */
	if (off > mr->length || len > mr->length - off)
		return NULL;
	return mr->base + off;
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
