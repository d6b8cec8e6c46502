/* SPDX-License-Identifier: BSD-2-Clause */
/* Anonymous memory in the largest pages to be had, and what was got in the end. */
#ifndef XRDMA_MEM_MAP_H
#define XRDMA_MEM_MAP_H

#include <stddef.h>
#include <stdint.h>

enum xr_huge {
	XR_HUGE_AUTO, /* 1 GiB, 2 MiB, transparent huge pages, ordinary pages: the first that works
		       */
	XR_HUGE_ON,   /* reserved huge pages, or -ENOMEM */
	XR_HUGE_OFF,
};

enum xr_backing {
	XR_BACKING_1G,
	XR_BACKING_2M,
	XR_BACKING_THP, /* asked for: huge_bytes tells what the kernel gave */
	XR_BACKING_PAGES,
};

struct xr_map {
	void *addr;
	size_t bytes; /* rounded up to whole pages of its backing */
	enum xr_backing backing;
	size_t huge_bytes;
	int numa_node; /* the node preferred, or -1 */
};

/* Zeroed. Prefers the node if the kernel lets us; numa_node tells. 0 or -ENOMEM. */
int xr_map_new(size_t bytes, enum xr_huge huge, int numa_node, struct xr_map *ret_map);
void xr_map_free(struct xr_map *map);

/* Set huge_bytes of memory that has been touched. What the kernel (before Linux 6.7) does not tell
 * counts as not huge. */
void xr_map_measure(struct xr_map *map);

const char *xr_backing_name(enum xr_backing backing);

#endif
