/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/pool.h"

#include "xrdma/error.h"
#include "xrdma/slab.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { ALIGN = 64, SPAN_CLASS = XR_N_CLASSES }; /* classes from here on: spans of n + 1 steps */

#define slab_of(node) container_of(node, struct xr_slab, link)

static size_t align_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

int xr_pool_init(struct xr_pool *pool, struct xr_mem_source *source,
		 const struct xr_pool_conf *conf)
{
	memset(pool, 0, sizeof(*pool));
	pool->source = source;
	pool->conf = *conf;
	list_init(&pool->full);
	list_init(&pool->empty);
	list_init(&pool->lent);
	for (unsigned i = 0; i < XR_N_STEPS + 1; i++)
		list_init(&pool->parked[i]);
	for (unsigned c = 0; c < XR_N_CLASSES; c++) {
		size_t payload = XR_CLASS_BYTES << c;
		size_t headroom = payload <= conf->small_bytes ? conf->headroom_bytes : 0;

		list_init(&pool->partial[c]);
		pool->stride[c] = align_up(payload + headroom, ALIGN);
	}
	if (pool->stride[XR_N_CLASSES - 1] > conf->slab_bytes)
		return xr_error(-EINVAL, "slab_bytes is %zu; a slab must hold an object of %zu",
				conf->slab_bytes, pool->stride[XR_N_CLASSES - 1]);
	return 0;
}

static size_t slab_drop(struct xr_pool *pool, struct xr_slab *slab)
{
	size_t bytes = slab->mem.map.bytes;

	pool->stats.registered_bytes -= bytes;
	xr_slab_free(pool->source, slab);
	return bytes;
}

static void drop_all(struct xr_pool *pool, struct list *slabs)
{
	list_for_each_safe (pos, slabs)
		slab_drop(pool, slab_of(pos));
}

void xr_pool_fini(struct xr_pool *pool)
{
	drop_all(pool, &pool->full);
	drop_all(pool, &pool->empty);
	drop_all(pool, &pool->lent);
	for (unsigned i = 0; i < XR_N_STEPS + 1; i++)
		drop_all(pool, &pool->parked[i]);
	for (unsigned c = 0; c < XR_N_CLASSES; c++)
		drop_all(pool, &pool->partial[c]);
	pool->stats.used_bytes = 0;
}

/* ---- budget ---- */

bool xr_pool_shed(struct xr_pool *pool)
{
	/* The largest first, of the same size the longest unused. */
	for (int i = XR_N_STEPS; i >= 0; i--) {
		if (!list_empty(&pool->parked[i])) {
			slab_drop(pool, slab_of(pool->parked[i].next));
			return true;
		}
	}
	if (list_empty(&pool->empty))
		return false;
	slab_drop(pool, slab_of(pool->empty.next));
	return true;
}

int xr_pool_reserve(struct xr_pool *pool, size_t bytes)
{
	const struct xr_pool_stats *s = &pool->stats;
	uint64_t budget = pool->conf.budget_bytes;

	while (bytes > budget || s->registered_bytes > budget - bytes) {
		if (bytes > budget || !xr_pool_shed(pool))
			return xr_error(-ENOBUFS,
					"the %s memory of this context is spent: %" PRIu64
					" bytes are registered, %" PRIu64
					" of them in use, %zu more are needed, %s_budget_bytes "
					"allows %" PRIu64,
					pool->conf.name, s->registered_bytes, s->used_bytes, bytes,
					pool->conf.name, budget);
	}
	return 0;
}

static int grow(struct xr_pool *pool, size_t bytes, size_t min_stride, struct xr_slab **ret_slab)
{
	int ret = xr_pool_reserve(pool, bytes);

	if (!ret)
		ret = xr_slab_new(pool->source, bytes, pool->conf.access, min_stride, ret_slab);
	if (!ret)
		pool->stats.registered_bytes += (*ret_slab)->mem.map.bytes;
	return ret;
}

static void count(struct xr_pool *pool, unsigned tier, bool hit)
{
	if (hit)
		pool->stats.tier[tier].hits++;
	else
		pool->stats.tier[tier].misses++;
}

/* Take an object of a slab that is not full. */
static void take(struct xr_pool *pool, struct xr_slab *slab, struct xr_buf *ret_buf)
{
	ret_buf->addr = xr_slab_take(slab);
	ret_buf->capacity = slab->stride;
	ret_buf->lkey = slab->mem.mr->lkey;
	ret_buf->rkey = slab->mem.mr->rkey;
	ret_buf->mr = slab->mem.mr;
	ret_buf->owner = slab;
	pool->stats.used_bytes += slab->stride;
}

static void move(struct xr_slab *slab, struct list *to)
{
	list_del(&slab->link);
	list_add_tail(to, &slab->link);
}

/* ---- tier 1: objects ---- */

/* The smallest class that holds len bytes, len being small enough for one of them. */
static unsigned class_of(const struct xr_pool *pool, size_t len)
{
	/* From the power of two below: the object that has headroom may do. */
	unsigned c = len <= XR_CLASS_BYTES ? 0 : 51U - (unsigned)__builtin_clzl(len);

	return c + (pool->stride[c] < len);
}

/* A slab of this class with room, among those that are registered; NULL: there is none. */
static struct xr_slab *find_object(struct xr_pool *pool, unsigned class)
{
	struct xr_slab *slab;

	if (!list_empty(&pool->partial[class]))
		return slab_of(pool->partial[class].prev);
	if (list_empty(&pool->empty))
		return NULL;
	slab = slab_of(pool->empty.prev);
	xr_slab_cut(slab, class, pool->stride[class]);
	move(slab, &pool->partial[class]);
	return slab;
}

/* When there can be no more slabs, an object of a larger class does as well. */
static struct xr_slab *find_larger(struct xr_pool *pool, unsigned class)
{
	while (++class < XR_N_CLASSES)
		if (!list_empty(&pool->partial[class]))
			return slab_of(pool->partial[class].prev);
	return NULL;
}

static int alloc_object(struct xr_pool *pool, size_t len, struct xr_buf *ret_buf)
{
	unsigned class = class_of(pool, len);
	struct xr_slab *slab = find_object(pool, class);
	int ret = 0;

	if (!slab) {
		ret = grow(pool, pool->conf.slab_bytes, pool->stride[0], &slab);
		if (!ret) {
			xr_slab_cut(slab, class, pool->stride[class]);
			move(slab, &pool->partial[class]);
			count(pool, 0, false);
		} else {
			slab = find_larger(pool, class);
			if (!slab)
				return ret;
			count(pool, 0, true);
		}
	} else {
		count(pool, 0, true);
	}
	take(pool, slab, ret_buf);
	if (xr_slab_full(slab))
		move(slab, &pool->full);
	return 0;
}

/* ---- tiers 2 and 3: spans, which are slabs of one object ---- */

/* Spans of the top list differ in size: the warmest that wastes less than half of itself. */
static struct xr_slab *find_span(struct xr_pool *pool, unsigned step, size_t bytes)
{
	struct list *parked = &pool->parked[step];

	for (struct list *pos = parked->prev; pos != parked; pos = pos->prev) {
		size_t has = slab_of(pos)->stride;

		if (has >= bytes && has / 2 < bytes)
			return slab_of(pos);
	}
	return NULL;
}

static int alloc_span(struct xr_pool *pool, size_t len, struct xr_buf *ret_buf)
{
	size_t bytes = align_up(len, XR_STEP_BYTES);
	unsigned tier = bytes <= XR_TIER2_BYTES ? 1 : 2;
	unsigned step = tier == 1 ? (unsigned)(bytes / XR_STEP_BYTES) - 1 : XR_N_STEPS;
	struct xr_slab *slab = find_span(pool, step, bytes);
	int ret;

	count(pool, tier, slab);
	if (!slab) {
		ret = grow(pool, bytes, bytes, &slab);
		if (ret)
			return ret;
		xr_slab_cut(slab, SPAN_CLASS + step, slab->mem.map.bytes);
	}
	take(pool, slab, ret_buf);
	move(slab, &pool->lent);
	return 0;
}

/* ---- */

int xr_pool_alloc(struct xr_pool *pool, size_t len, struct xr_buf *ret_buf)
{
	int ret;

	if (len > SIZE_MAX - XR_STEP_BYTES)
		return xr_error(-ENOMEM, "a buffer of %zu bytes: no memory is that large", len);
	ret = len <= pool->stride[XR_N_CLASSES - 1] ? alloc_object(pool, len, ret_buf)
						    : alloc_span(pool, len, ret_buf);
	pool->stats.refused += ret == -ENOBUFS;
	return ret;
}

void xr_pool_release(struct xr_pool *pool, const struct xr_buf *buf)
{
	struct xr_slab *slab = buf->owner;

	xr_slab_give(slab, buf->addr);
	pool->stats.used_bytes -= slab->stride;
	if (slab->class >= SPAN_CLASS)
		move(slab, &pool->parked[slab->class - SPAN_CLASS]);
	else if (!slab->n_used)
		move(slab, &pool->empty);
	else if (slab->n_used == slab->n_objs - 1)
		move(slab, &pool->partial[slab->class]);
}

/* Is it one of those that trimming need not leave? */
static bool is_excess(const struct xr_pool *pool, const struct xr_slab *slab)
{
	return pool->stats.registered_bytes - slab->mem.map.bytes >= pool->conf.keep_bytes;
}

static bool has_excess(const struct xr_pool *pool, const struct list *idle)
{
	list_for_each (pos, idle) {
		if (is_excess(pool, slab_of(pos)))
			return true;
	}
	return false;
}

bool xr_pool_may_shrink(const struct xr_pool *pool)
{
	for (int i = 0; i <= XR_N_STEPS; i++) {
		if (has_excess(pool, &pool->parked[i]))
			return true;
	}
	return has_excess(pool, &pool->empty);
}

static uint64_t trim_list(struct xr_pool *pool, struct list *idle, uint64_t now_ns)
{
	uint64_t freed = 0;

	list_for_each_safe (pos, idle) {
		struct xr_slab *slab = slab_of(pos);

		if (!slab->idle_ns)
			slab->idle_ns = now_ns;
		else if (now_ns - slab->idle_ns >= pool->conf.trim_ns && is_excess(pool, slab))
			freed += slab_drop(pool, slab);
	}
	return freed;
}

uint64_t xr_pool_trim(struct xr_pool *pool, uint64_t now_ns)
{
	uint64_t freed = 0;

	for (int i = XR_N_STEPS; i >= 0; i--)
		freed += trim_list(pool, &pool->parked[i], now_ns);
	freed += trim_list(pool, &pool->empty, now_ns);
	pool->stats.trimmed_bytes += freed;
	return freed;
}
