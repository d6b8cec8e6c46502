/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/slab.h"

#include "xrdma/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int xr_slab_new(struct xr_mem_source *source, size_t bytes, unsigned access, size_t min_stride,
		struct xr_slab **ret_slab)
{
	struct xr_region_mem mem;
	struct xr_slab *slab;
	size_t max_objs, head;
	int ret = xr_region_mem_new(source, bytes, access, XR_HOT, source->numa_node, &mem);

	if (ret)
		return ret;
	max_objs = mem.map.bytes / min_stride;
	head = (sizeof(*slab) + max_objs + 3) & ~(size_t)3;
	slab = calloc(1, head + max_objs * sizeof(slab->free[0]));
	if (!slab) {
		xr_region_mem_free(source, &mem);
		return xr_error(-ENOMEM, "out of memory for the books of a slab");
	}
	slab->mem = mem;
	slab->free = (uint32_t *)(void *)((char *)slab + head);
	list_init(&slab->link);
	*ret_slab = slab;
	return 0;
}

void xr_slab_free(struct xr_mem_source *source, struct xr_slab *slab)
{
	list_del(&slab->link);
	xr_region_mem_free(source, &slab->mem);
	free(slab);
}

void xr_slab_cut(struct xr_slab *slab, unsigned class, size_t stride)
{
	slab->class = class;
	slab->stride = stride;
	slab->n_objs = (uint32_t)(slab->mem.map.bytes / stride);
	slab->n_fresh = 0;
	slab->n_free = 0;
}

void *xr_slab_take(struct xr_slab *slab)
{
	uint32_t i = slab->n_free ? slab->free[--slab->n_free] : slab->n_fresh++;

	slab->n_used++;
	slab->used[i] = true;
	slab->idle_ns = 0;
	return (char *)slab->mem.map.addr + i * slab->stride;
}

void xr_slab_give(struct xr_slab *slab, void *object)
{
	size_t offset = (size_t)((char *)object - (char *)slab->mem.map.addr);
	size_t i = offset / slab->stride;

	assert(i * slab->stride == offset && i < slab->n_objs && slab->used[i]);
	slab->used[i] = false;
	slab->free[slab->n_free++] = (uint32_t)i;
	slab->n_used--;
}
