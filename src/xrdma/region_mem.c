/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/region_mem.h"

#include "xrdma/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Ordinary memory that could be had without swapping; what huge pages are reserved for is apart. */
static uint64_t available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib, available = UINT64_MAX;
	char line[128];

	if (!f)
		return available;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			available = kib * 1024;
	fclose(f);
	return available;
}

/* Pinning more than there is would not fail: it would get somebody killed. */
static int check_available(const struct xr_map *map)
{
	uint64_t available = available_bytes();

	if (map->bytes <= available || map->backing < XR_BACKING_THP)
		return 0;
	return xr_error(-ENOMEM,
			"a region of %zu bytes is to be pinned and %" PRIu64
			" bytes are available (MemAvailable): make it smaller",
			map->bytes, available);
}

int xr_region_mem_new(struct xr_mem_source *source, size_t bytes, unsigned access,
		      enum xr_reg_path path, int numa_node, struct xr_region_mem *ret_region)
{
	struct xr_region_mem region;
	int ret = xr_map_new(bytes, source->huge, numa_node, &region.map);

	if (ret)
		return ret;
	if (path == XR_COLD)
		ret = check_available(&region.map);
	/* All that is mapped: libibverbs cannot keep a part of a huge page from fork(). */
	if (!ret)
		ret = xr_reg_mr(&source->reg, region.map.addr, region.map.bytes, access, path,
				&region.mr);
	if (ret) {
		xr_map_free(&region.map);
		return ret;
	}
	xr_map_measure(&region.map);
	source->huge_bytes += region.map.huge_bytes;
	*ret_region = region;
	return 0;
}

void xr_region_mem_free(struct xr_mem_source *source, struct xr_region_mem *region)
{
	source->huge_bytes -= region->map.huge_bytes;
	xr_reg_dereg(&source->reg, region->mr);
	xr_map_free(&region->map);
}
