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

bool xr_stat_is_gauge(unsigned index)
{
	static const char *const gauges[] = {"channels",
					     "qps",
					     "receives_posted",
					     "sends_posted",
					     "messages_held",
					     "memory_regions",
					     "memory_bytes",
					     "memory_huge_bytes",
					     "tcp_channels",
					     "regions_lingering",
					     "dials"};

	for (unsigned i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		if (strcmp(stats[index].name, gauges[i]) == 0)
			return true;
	}
	return false;
}

static void add_memory(const struct xrdma_context *ctx, struct xr_stats *now)
{
	struct xr_mem_stats mem;

	xr_mem_stats(ctx->mem, &mem);
	now->memory_regions = mem.mrs;
	now->memory_bytes = mem.mr_bytes;
	now->memory_huge_bytes = mem.huge_bytes;
	for (unsigned use = 0; use < XR_N_USES; use++) {
		for (unsigned tier = 0; tier < XR_N_TIERS; tier++) {
			now->pool_hits += mem.pool[use].tier[tier].hits;
			now->pool_misses += mem.pool[use].tier[tier].misses;
		}
		now->pool_refused += mem.pool[use].refused;
	}
	now->regcache_hits = mem.cache.hits;
	now->regcache_misses = mem.cache.misses;
	now->odp_registrations = mem.odp_made;
}

void xr_stats_read(const struct xrdma_context *ctx, struct xr_stats *ret_stats)
{
	*ret_stats = ctx->stats;
	add_memory(ctx, ret_stats);
	ret_stats->channels = ctx->n_channels;
	ret_stats->dials = ctx->boot.n_dialing;
	ret_stats->tls_handshakes = ctx->boot.n_tls;
	ret_stats->tls_resumed = ctx->boot.n_tls_resumed;
	ret_stats->sends_posted = ctx->flow.used;
}

uint64_t xrdma_stat(const struct xrdma_context *ctx, unsigned index)
{
	struct xr_stats now;

	if (index >= N_STATS)
		return 0;
	xr_stats_read(ctx, &now);
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
