/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of our own that is registered as a whole: what slabs, spans and persistent regions are. */
#ifndef XRDMA_REGION_MEM_H
#define XRDMA_REGION_MEM_H

#include "xrdma/mem_map.h"
#include "xrdma/mem_reg.h"

struct xr_region_mem {
	struct xr_map map; /* addr, bytes, backing, huge_bytes, numa_node: what was got */
	struct ibv_mr *mr;
};

struct xr_mem_source {
	struct xr_reg reg;
	enum xr_huge huge;
	int numa_node; /* -1: no preference */
	uint64_t huge_bytes;
};

/* -ENOMEM; else as xr_reg_mr(). */
int xr_region_mem_new(struct xr_mem_source *source, size_t bytes, unsigned access,
		      enum xr_reg_path path, int numa_node, struct xr_region_mem *ret_region);
void xr_region_mem_free(struct xr_mem_source *source, struct xr_region_mem *region);

#endif
