/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mem.h"

#include "xrdma/error.h"
#include "xrdma/guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct xr_mem {
	struct xr_mem_source source;
	struct xr_pool pool[XR_N_USES];
	struct xr_regcache *cache;
	bool guard;
	struct list guards;
};

const struct xr_mem_conf xr_mem_conf_default = {
	.access = {[XR_TX] = IBV_ACCESS_REMOTE_READ, [XR_RX] = IBV_ACCESS_LOCAL_WRITE},
	.budget_bytes = {[XR_TX] = 1 << 30, [XR_RX] = 1 << 30},
	.keep_bytes = {[XR_TX] = 4 << 20, [XR_RX] = 4 << 20},
	.slab_bytes = 4 << 20,
	.small_bytes = 4096,
	.headroom_bytes = 64,
	.trim_ns = 1000000000,
	.numa_node = -1,
	.cache_entries = 1024,
	.cache_bytes = (uint64_t)1 << 32,
};

/* When the device or the system has no more registrations: what is unused goes first. */
static bool reclaim(void *arg)
{
	struct xr_mem *mem = arg;

	return xr_regcache_evict(mem->cache) || xr_pool_shed(&mem->pool[XR_TX]) ||
	       xr_pool_shed(&mem->pool[XR_RX]);
}

static int init_pools(struct xr_mem *mem, const struct xr_mem_conf *conf)
{
	static const char *const names[] = {[XR_TX] = "tx", [XR_RX] = "rx"};

	for (unsigned use = 0; use < XR_N_USES; use++) {
		const struct xr_pool_conf pool_conf = {
			.name = names[use],
			.access = conf->access[use],
			.budget_bytes = conf->budget_bytes[use],
			.keep_bytes = conf->keep_bytes[use],
			.slab_bytes = conf->slab_bytes,
			.small_bytes = conf->small_bytes,
			.headroom_bytes = conf->headroom_bytes,
			.trim_ns = conf->trim_ns,
		};
		int ret = xr_pool_init(&mem->pool[use], &mem->source, &pool_conf);

		if (ret)
			return ret;
	}
	return 0;
}

int xr_mem_new(const struct xr_mem_conf *conf, struct ibv_pd *pd, struct xr_mem **ret_mem)
{
	struct xr_mem *mem = calloc(1, sizeof(*mem));
	int ret;

	if (!mem)
		return xr_error(-ENOMEM, "out of memory for a context");
	ret = xr_reg_init(&mem->source.reg, pd, conf->odp);
	if (!ret)
		ret = init_pools(mem, conf);
	if (!ret)
		ret = xr_regcache_new(&mem->source.reg, conf->cache_entries, conf->cache_bytes,
				      &mem->cache);
	if (ret) {
		free(mem);
		return ret;
	}
	mem->source.reg.reclaim = reclaim;
	mem->source.reg.arg = mem;
	mem->source.huge = conf->huge;
	mem->source.numa_node = conf->numa_node;
	mem->guard = conf->guard;
	list_init(&mem->guards);
	*ret_mem = mem;
	return 0;
}

void xr_mem_free(struct xr_mem *mem)
{
	if (!mem)
		return;
	list_for_each_safe (pos, &mem->guards)
		xr_guard_free(&mem->source.reg, container_of(pos, struct xr_guard, link));
	xr_regcache_free(mem->cache);
	for (unsigned use = 0; use < XR_N_USES; use++)
		xr_pool_fini(&mem->pool[use]);
	free(mem);
}

static int alloc_guarded(struct xr_mem *mem, enum xr_mem_use use, size_t len,
			 struct xr_buf *ret_buf)
{
	struct xr_pool *pool = &mem->pool[use];
	struct xr_guard *guard;
	int ret = xr_pool_reserve(pool, len);

	pool->stats.refused += ret == -ENOBUFS;
	if (!ret)
		ret = xr_guard_new(&mem->source.reg, len, pool->conf.access, &guard);
	if (ret)
		return ret;
	list_add_tail(&mem->guards, &guard->link);
	pool->stats.registered_bytes += len;
	pool->stats.used_bytes += len;
	ret_buf->addr = guard->addr;
	ret_buf->capacity = len;
	ret_buf->lkey = guard->mr->lkey;
	ret_buf->rkey = guard->mr->rkey;
	ret_buf->mr = guard->mr;
	ret_buf->owner = guard;
	return 0;
}

int xr_mem_alloc(struct xr_mem *mem, enum xr_mem_use use, size_t len, struct xr_buf *ret_buf)
{
	ret_buf->use = use;
	if (mem->guard)
		return alloc_guarded(mem, use, len ? len : 1, ret_buf);
	return xr_pool_alloc(&mem->pool[use], len, ret_buf);
}

void xr_mem_release(struct xr_mem *mem, const struct xr_buf *buf)
{
	struct xr_pool *pool = &mem->pool[buf->use];

	if (!mem->guard) {
		xr_pool_release(pool, buf);
		return;
	}
	pool->stats.registered_bytes -= buf->capacity;
	pool->stats.used_bytes -= buf->capacity;
	xr_guard_free(&mem->source.reg, buf->owner);
}

uint64_t xr_mem_trim(struct xr_mem *mem, uint64_t now_ns)
{
	return xr_pool_trim(&mem->pool[XR_TX], now_ns) + xr_pool_trim(&mem->pool[XR_RX], now_ns);
}

bool xr_mem_may_shrink(const struct xr_mem *mem)
{
	return xr_pool_may_shrink(&mem->pool[XR_TX]) || xr_pool_may_shrink(&mem->pool[XR_RX]);
}

void xr_mem_set_trim(struct xr_mem *mem, uint64_t trim_ns)
{
	for (unsigned use = 0; use < XR_N_USES; use++)
		mem->pool[use].conf.trim_ns = trim_ns;
}

struct xr_regcache *xr_mem_regcache(struct xr_mem *mem)
{
	return mem->cache;
}

void xr_mem_stats(const struct xr_mem *mem, struct xr_mem_stats *ret_stats)
{
	for (unsigned use = 0; use < XR_N_USES; use++)
		ret_stats->pool[use] = mem->pool[use].stats;
	xr_regcache_stats(mem->cache, &ret_stats->cache);
	ret_stats->mrs = mem->source.reg.mrs;
	ret_stats->mr_bytes = mem->source.reg.bytes;
	ret_stats->huge_bytes = mem->source.huge_bytes;
	ret_stats->odp_made = mem->source.reg.odp_made;
}

int xr_mem_region_new(struct xr_mem *mem, size_t bytes, unsigned access, int numa_node,
		      struct xr_region_mem *ret_region)
{
	int ret = xr_limits_check(&mem->source.reg.limits, mem->source.reg.mrs, bytes);

	if (ret && ret != -ENOMEM) /* too many regions: some may be given up yet */
		return ret;
	if (numa_node < 0)
		numa_node = mem->source.numa_node;
	return xr_region_mem_new(&mem->source, bytes, access, XR_COLD, numa_node, ret_region);
}

void xr_mem_region_free(struct xr_mem *mem, struct xr_region_mem *region)
{
	xr_region_mem_free(&mem->source, region);
}

int xr_mem_region_key(struct xr_mem *mem, const struct xr_region_mem *region, unsigned access,
		      struct ibv_mr **ret_mr)
{
	return xr_reg_mr(&mem->source.reg, region->map.addr, region->map.bytes, access, XR_COLD,
			 ret_mr);
}

void xr_mem_region_unkey(struct xr_mem *mem, struct ibv_mr *mr)
{
	xr_reg_dereg(&mem->source.reg, mr);
}
