/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A registered block of memory, cut into objects of one size. What is known of the objects lies
 * outside of it: nothing that a peer writes, late or out of bounds, can mislead the allocator.
 */
#ifndef XRDMA_SLAB_H
#define XRDMA_SLAB_H

#include "base/list.h"
#include "xrdma/region_mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xr_slab {
	struct list link; /* the pool's */
	struct xr_region_mem mem;
	uint64_t idle_ns; /* since when it is known to be unused; 0: not known */
	unsigned class;   /* the pool's */
	size_t stride;
	uint32_t n_objs;
	uint32_t n_used;
	uint32_t n_fresh; /* objects from here on have not been handed out since it was cut */
	uint32_t n_free;
	uint32_t *free; /* a stack: the last released is the warmest */
	bool used[];
};

/* To be cut into objects of min_stride or more. -ENOMEM; else as xr_region_mem_new(). */
int xr_slab_new(struct xr_mem_source *source, size_t bytes, unsigned access, size_t min_stride,
		struct xr_slab **ret_slab);
void xr_slab_free(struct xr_mem_source *source, struct xr_slab *slab);

/* Cut a block that is not in use anew; costs nothing. */
void xr_slab_cut(struct xr_slab *slab, unsigned class, size_t stride);

static inline bool xr_slab_full(const struct xr_slab *slab)
{
	return slab->n_used == slab->n_objs;
}

void *xr_slab_take(struct xr_slab *slab);              /* of one that is not full */
void xr_slab_give(struct xr_slab *slab, void *object); /* asserts that it was taken */

#endif
