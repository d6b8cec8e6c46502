/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a context: registered buffers to send from and to receive into.
 *
 * Two pools, one for each use, with rights and a budget of their own: neither can starve the other.
 * Three tiers by size:
 *
 *	1  up to 1 MiB	objects of nine sizes (4 KiB << n) cut out of 4 MiB slabs
 *	2  up to 8 MiB	spans in steps of 2 MiB, each registered by itself, kept when released
 *	3  above		spans registered on demand; the next that fits finds one registered
 *
 * Slabs and spans are registered when first needed and given back by xr_mem_trim(). A request that
 * finds registered room costs neither a system call nor malloc, in constant time (tier 3: a walk
 * over the spans kept).
 *
 * Nothing here is locked: a context belongs to one thread. Failures explain themselves by
 * xr_error().
 */
#ifndef XRDMA_MEM_H
#define XRDMA_MEM_H

#include "xrdma/pool.h"
#include "xrdma/regcache.h"
#include "xrdma/region_mem.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xr_mem;

enum xr_mem_use {
	XR_TX, /* sent from, or read by the peer */
	XR_RX, /* received into, or the sink of our READs */
	XR_N_USES,
};

struct xr_mem_conf {
	/* IBV_ACCESS_*: the least that will do. A pool that READs land in needs LOCAL_WRITE. */
	unsigned access[XR_N_USES];
	uint64_t budget_bytes[XR_N_USES]; /* registered at most, but for whole huge pages */
	uint64_t keep_bytes[XR_N_USES];   /* what trimming leaves registered */
	size_t slab_bytes;                /* at least 2 MiB */
	size_t small_bytes;    /* objects for payloads up to this have room for a header too... */
	size_t headroom_bytes; /* ...of this size: larger payloads do not carry one */
	uint64_t trim_ns;      /* unused for so long: goes back to the system */
	enum xr_huge huge;
	int numa_node;          /* -1: no preference */
	enum xr_odp odp;        /* callers' own buffers and regions: never the pools */
	bool guard;             /* every buffer ends at a page that must not be touched; slow */
	uint32_t cache_entries; /* callers' own buffers kept registered, at most */
	uint64_t cache_bytes;
};

extern const struct xr_mem_conf xr_mem_conf_default;

struct xr_mem_stats {
	struct xr_pool_stats pool[XR_N_USES];
	struct xr_regcache_stats cache;
	uint32_t mrs; /* of pools, cache and regions */
	uint64_t mr_bytes;
	uint64_t huge_bytes; /* of them in huge pages, as far as the kernel tells */
	uint64_t odp_made;   /* registrations for on-demand paging so far */
};

/* The PD stays the caller's and must outlive it. */
int xr_mem_new(const struct xr_mem_conf *conf, struct ibv_pd *pd, struct xr_mem **ret_mem);

/* Regions have been given back; buffers that have not are gone all the same. */
void xr_mem_free(struct xr_mem *mem);

/*
 * -ENOBUFS: the budget of this use is spent; it works again when something is released.
 * -ENOMEM and others: memory could not be had or registered.
 */
int xr_mem_alloc(struct xr_mem *mem, enum xr_mem_use use, size_t len, struct xr_buf *ret_buf);
/* The NIC must be done with it. */
void xr_mem_release(struct xr_mem *mem, const struct xr_buf *buf);

/* To be called now and then: what two calls at least trim_ns apart find unused goes back to the
 * system. Returns how many bytes. */
uint64_t xr_mem_trim(struct xr_mem *mem, uint64_t now_ns);
/* Is there anything that a later call will give back? */
bool xr_mem_may_shrink(const struct xr_mem *mem);
void xr_mem_set_trim(struct xr_mem *mem, uint64_t trim_ns);

/* The cache of registrations of callers' own buffers. */
struct xr_regcache *xr_mem_regcache(struct xr_mem *mem);

void xr_mem_stats(const struct xr_mem *mem, struct xr_mem_stats *ret_stats);

/*
 * A persistent region; numa_node -1: that of the configuration. Not of the pools' budgets. To be
 * given back before xr_mem_free().
 */
int xr_mem_region_new(struct xr_mem *mem, size_t bytes, unsigned access, int numa_node,
		      struct xr_region_mem *ret_region);
void xr_mem_region_free(struct xr_mem *mem, struct xr_region_mem *region);
/* One more key to it, with rights of its own. */
int xr_mem_region_key(struct xr_mem *mem, const struct xr_region_mem *region, unsigned access,
		      struct ibv_mr **ret_mr);
void xr_mem_region_unkey(struct xr_mem *mem, struct ibv_mr *mr);

#endif
