/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Among the indexed registrations of the same rights none lies inside another, so that in order of
 * their starts they are in order of their ends, too: of those that start at or before an address,
 * the last reaches furthest, and it alone need be looked at. A new one takes the place of those
 * inside it; if one of them is in use, it leaves the index and dies with its last user.
 */
#include "xrdma/regcache.h"

#include "base/list.h"
#include "xrdma/error.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
	struct list link; /* idle, or free */
	uintptr_t start;
	uintptr_t end;
	unsigned access;
	uint32_t refs;
	bool indexed;
	struct ibv_mr *mr; /* NULL: free */
};

struct xr_regcache {
	struct xr_reg *reg;
	uint32_t max_entries;
	uint64_t max_bytes;
	uintptr_t page_mask;
	struct xr_regcache_stats stats;
	struct list idle; /* indexed and not in use, least recently used first */
	struct list free;
	uint32_t n; /* indexed */
	struct entry **index;
	struct entry entries[];
};

int xr_regcache_new(struct xr_reg *reg, uint32_t max_entries, uint64_t max_bytes,
		    struct xr_regcache **ret_cache)
{
	struct xr_regcache *c =
		calloc(1, sizeof(*c) + max_entries * (sizeof(c->entries[0]) + sizeof(c->index[0])));

	if (!c)
		return xr_error(-ENOMEM, "out of memory for a registration cache of %" PRIu32,
				max_entries);
	c->reg = reg;
	c->max_entries = max_entries;
	c->max_bytes = max_bytes;
	c->page_mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	c->index = (struct entry **)(void *)&c->entries[max_entries];
	list_init(&c->idle);
	list_init(&c->free);
	for (uint32_t i = 0; i < max_entries; i++)
		list_add_tail(&c->free, &c->entries[i].link);
	*ret_cache = c;
	return 0;
}

/* How many indexed ones come at or before this. */
static uint32_t upper_bound(const struct xr_regcache *c, unsigned access, uintptr_t start)
{
	uint32_t lo = 0, hi = c->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const struct entry *e = c->index[mid];

		if (e->access < access || (e->access == access && e->start <= start))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void unindex(struct xr_regcache *c, struct entry *e)
{
	uint32_t i = upper_bound(c, e->access, e->start) - 1;

	assert(c->index[i] == e);
	memmove(&c->index[i], &c->index[i + 1], (--c->n - i) * sizeof(c->index[0]));
	e->indexed = false;
}

/* Of one that is not indexed and not in use. */
static void destroy(struct xr_regcache *c, struct entry *e)
{
	c->stats.entries--;
	c->stats.bytes -= e->end - e->start;
	xr_reg_dereg(c->reg, e->mr);
	e->mr = NULL;
	list_add_tail(&c->free, &e->link);
}

static void drop_idle(struct xr_regcache *c, struct entry *e)
{
	unindex(c, e);
	list_del(&e->link);
	destroy(c, e);
}

static void insert(struct xr_regcache *c, struct entry *e)
{
	uint32_t i = upper_bound(c, e->access, e->start);

	/* One that starts at the same address ends earlier, or it would have been a hit. */
	if (i && c->index[i - 1]->access == e->access && c->index[i - 1]->start == e->start)
		i--;
	while (i < c->n && c->index[i]->access == e->access && c->index[i]->end <= e->end) {
		struct entry *inside = c->index[i];

		if (inside->refs)
			unindex(c, inside);
		else
			drop_idle(c, inside);
	}
	memmove(&c->index[i + 1], &c->index[i], (c->n++ - i) * sizeof(c->index[0]));
	c->index[i] = e;
	e->indexed = true;
}

bool xr_regcache_evict(struct xr_regcache *cache)
{
	if (list_empty(&cache->idle))
		return false;
	drop_idle(cache, container_of(cache->idle.next, struct entry, link));
	cache->stats.evictions++;
	return true;
}

static int make_room(struct xr_regcache *c, uint64_t bytes)
{
	while (list_empty(&c->free) || bytes > c->max_bytes ||
	       c->stats.bytes > c->max_bytes - bytes) {
		if (bytes > c->max_bytes || !xr_regcache_evict(c))
			return xr_error(-ENOBUFS,
					"the registration cache is in use: %" PRIu32 " of %" PRIu32
					" entries (regcache_entries), %" PRIu64 " of %" PRIu64
					" bytes (regcache_bytes), %" PRIu64 " more are needed",
					c->stats.in_use, c->max_entries, c->stats.bytes,
					c->max_bytes, bytes);
	}
	return 0;
}

static int add(struct xr_regcache *c, uintptr_t start, uintptr_t end, unsigned access,
	       struct entry **ret_entry)
{
	struct ibv_mr *mr;
	struct entry *e;
	int ret = make_room(c, end - start);

	if (!ret)
		ret = xr_reg_mr(c->reg, (void *)start, end - start, access, XR_COLD, &mr);
	if (ret)
		return ret;
	e = container_of(list_pop(&c->free), struct entry, link);
	e->start = start;
	e->end = end;
	e->access = access;
	e->mr = mr;
	insert(c, e);
	c->stats.entries++;
	c->stats.bytes += end - start;
	*ret_entry = e;
	return 0;
}

int xr_regcache_get(struct xr_regcache *cache, const void *addr, size_t len, unsigned access,
		    struct xr_regcache_ref *ret_ref)
{
	const unsigned remote =
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uintptr_t start = (uintptr_t)addr, end = start + len;
	struct entry *e = NULL;
	uint32_t i;
	int ret;

	if (!len || len > UINTPTR_MAX - cache->page_mask - start)
		return xr_error(-EINVAL, "%zu bytes at %p are not a buffer", len, addr);
	if (!(access & remote)) {
		start &= ~cache->page_mask;
		end = (end + cache->page_mask) & ~cache->page_mask;
	}
	i = upper_bound(cache, access, start);
	if (i && cache->index[i - 1]->access == access && cache->index[i - 1]->end >= end) {
		e = cache->index[i - 1];
		list_del(&e->link);
		cache->stats.hits++;
	} else {
		ret = add(cache, start, end, access, &e);
		if (ret)
			return ret;
		cache->stats.misses++;
	}
	cache->stats.in_use += !e->refs++;
	ret_ref->lkey = e->mr->lkey;
	ret_ref->rkey = e->mr->rkey;
	ret_ref->mr = e->mr;
	ret_ref->entry = e;
	return 0;
}

void xr_regcache_put(struct xr_regcache *cache, const struct xr_regcache_ref *ref)
{
	struct entry *e = ref->entry;

	assert(e->mr && e->refs);
	if (--e->refs)
		return;
	cache->stats.in_use--;
	if (e->indexed)
		list_add_tail(&cache->idle, &e->link);
	else
		destroy(cache, e);
}

int xr_regcache_forget(struct xr_regcache *cache, const void *addr, size_t len)
{
	uintptr_t mask = cache->page_mask;
	uintptr_t first = (uintptr_t)addr & ~mask;
	uintptr_t last = ((uintptr_t)addr + len - 1) | mask; /* of its last page */
	struct entry *e;

	if (!len)
		return 0;
	for (e = cache->entries; e < &cache->entries[cache->max_entries]; e++)
		if (e->mr && e->refs && e->start <= last && e->end > first)
			return xr_error(-EBUSY,
					"%zu bytes at %p are in use by a message or an operation",
					len, addr);
	for (e = cache->entries; e < &cache->entries[cache->max_entries]; e++)
		if (e->mr && e->start <= last && e->end > first)
			drop_idle(cache, e);
	return 0;
}

void xr_regcache_free(struct xr_regcache *cache)
{
	if (!cache)
		return;
	for (uint32_t i = 0; i < cache->max_entries; i++)
		if (cache->entries[i].mr)
			xr_reg_dereg(cache->reg, cache->entries[i].mr);
	free(cache);
}

void xr_regcache_stats(const struct xr_regcache *cache, struct xr_regcache_stats *ret_stats)
{
	*ret_stats = cache->stats;
}
