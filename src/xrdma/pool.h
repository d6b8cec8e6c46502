/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffers of one use, in three tiers, within one budget. mem.h tells the whole. */
#ifndef XRDMA_POOL_H
#define XRDMA_POOL_H

#include "base/list.h"
#include "xrdma/region_mem.h"

#include <stddef.h>
#include <stdint.h>

enum { XR_N_TIERS = 3, XR_N_CLASSES = 9, XR_N_STEPS = 4 };

#define XR_CLASS_BYTES ((size_t)4096)    /* the smallest objects; the next twice as large... */
#define XR_TIER1_BYTES ((size_t)1 << 20) /* ...up to this */
#define XR_STEP_BYTES  ((size_t)2 << 20) /* spans are multiples of it */
#define XR_TIER2_BYTES (XR_N_STEPS * XR_STEP_BYTES)

struct xr_buf {
	void *addr; /* aligned to 64 bytes; to 8 in guard mode */
	size_t capacity;
	uint32_t lkey;
	uint32_t rkey;
	struct ibv_mr *mr; /* that it lies in */
	/* private: where it goes when released */
	unsigned use;
	void *owner;
};

struct xr_tier_stats {
	uint64_t hits;   /* found registered room */
	uint64_t misses; /* had to register first */
};

struct xr_pool_stats {
	struct xr_tier_stats tier[XR_N_TIERS];
	uint64_t refused; /* the budget was spent */
	uint64_t trimmed_bytes;
	uint64_t registered_bytes;
	uint64_t used_bytes;
};

struct xr_pool_conf {
	const char *name; /* in messages */
	unsigned access;
	uint64_t budget_bytes;
	uint64_t keep_bytes;
	size_t slab_bytes;
	size_t small_bytes;
	size_t headroom_bytes;
	uint64_t trim_ns;
};

struct xr_pool {
	struct xr_mem_source *source;
	struct xr_pool_conf conf;
	struct xr_pool_stats stats;

	size_t stride[XR_N_CLASSES];
	struct list partial[XR_N_CLASSES]; /* slabs with objects in use and room for more */
	struct list full;
	struct list empty; /* slabs that any class may take */

	struct list parked[XR_N_STEPS + 1]; /* spans of n + 1 steps; the last: larger ones */
	struct list lent;                   /* spans in use */
};

/* -EINVAL: the slabs are too small for the largest objects. */
int xr_pool_init(struct xr_pool *pool, struct xr_mem_source *source,
		 const struct xr_pool_conf *conf);
void xr_pool_fini(struct xr_pool *pool); /* takes back what is still in use, too */

int xr_pool_alloc(struct xr_pool *pool, size_t len, struct xr_buf *ret_buf);
void xr_pool_release(struct xr_pool *pool, const struct xr_buf *buf);
uint64_t xr_pool_trim(struct xr_pool *pool, uint64_t now_ns);
/* Is anything unused that trimming will give back in time? */
bool xr_pool_may_shrink(const struct xr_pool *pool);

/* Give one unused slab or span back at once; false: there is none. */
bool xr_pool_shed(struct xr_pool *pool);

/* Make room for bytes in the budget, giving unused memory back if that helps; -ENOBUFS. */
int xr_pool_reserve(struct xr_pool *pool, size_t bytes);

#endif
