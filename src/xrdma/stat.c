/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/stat.h"

#include "xrdma/context.h"
#include "xrdma/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} stats[] = {
#define X(field) {#field, offsetof(struct xr_stats, field)},
	XR_STATS(X)
#undef X
};

enum { N_STATS = sizeof(stats) / sizeof(stats[0]) };

const char *xrdma_stat_name(unsigned index)
{
	return index < N_STATS ? stats[index].name : NULL;
}

uint64_t xrdma_stat(const struct xrdma_context *ctx, unsigned index)
{
	struct xr_stats now = ctx->stats;
	struct xr_mem_stats mem;

	if (index >= N_STATS)
		return 0;
	xr_mem_stats(ctx->mem, &mem);
	now.memory_regions = mem.mrs;
	now.memory_bytes = mem.mr_bytes;
	now.channels = ctx->n_channels;
	now.sends_posted = ctx->flow.used;
	return *(const uint64_t *)(const void *)((const char *)&now + stats[index].offset);
}

int xrdma_stat_by_name(const struct xrdma_context *ctx, const char *name, uint64_t *ret_value)
{
	for (unsigned i = 0; i < N_STATS; i++) {
		if (strcmp(stats[i].name, name) == 0) {
			*ret_value = xrdma_stat(ctx, i);
			return 0;
		}
	}
	return xr_error(-ENOENT, "there is no counter \"%s\"; xrdma_stat_name() lists them", name);
}
