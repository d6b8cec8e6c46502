/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations of callers' own buffers, kept after use: the second time costs a look-up.
 *
 * A registration serves every buffer that lies wholly inside it and asks for exactly its rights;
 * one that is covered only in part gets a registration of its own. Where peers get rights the
 * registration is of the buffer's bytes alone; else it is of whole pages, which neighbours share.
 * Unused ones go, least recently used first, when entries or bytes run out.
 *
 * Who unmaps a buffer must say so first (xr_regcache_forget): a registration holds on to the pages
 * it was made of.
 */
#ifndef XRDMA_REGCACHE_H
#define XRDMA_REGCACHE_H

#include "xrdma/mem_reg.h"

#include <stddef.h>
#include <stdint.h>

struct xr_regcache;

struct xr_regcache_stats {
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions; /* to make room */
	uint32_t entries;   /* registered now */
	uint32_t in_use;    /* of them not evictable */
	uint64_t bytes;
};

struct xr_regcache_ref {
	uint32_t lkey;
	uint32_t rkey;
	struct ibv_mr *mr;
	void *entry; /* private */
};

int xr_regcache_new(struct xr_reg *reg, uint32_t max_entries, uint64_t max_bytes,
		    struct xr_regcache **ret_cache);
void xr_regcache_free(struct xr_regcache *cache);

/*
 * access: IBV_ACCESS_*. Every get is followed by one put. -ENOBUFS: all that fits is in use (copy
 * through pool memory instead, or wait); -EFAULT: not all of it is memory; else as xr_reg_mr().
 */
int xr_regcache_get(struct xr_regcache *cache, const void *addr, size_t len, unsigned access,
		    struct xr_regcache_ref *ret_ref);
void xr_regcache_put(struct xr_regcache *cache, const struct xr_regcache_ref *ref);

/* Drop all that shares a page with the range. -EBUSY: something of it is in use; nothing was
 * dropped. */
int xr_regcache_forget(struct xr_regcache *cache, const void *addr, size_t len);

/* Drop the least recently used one that is not in use; false: there is none. */
bool xr_regcache_evict(struct xr_regcache *cache);

void xr_regcache_stats(const struct xr_regcache *cache, struct xr_regcache_stats *ret_stats);

#endif
