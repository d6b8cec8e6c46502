/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small histogram (base/hist.h) for shared memory: eight buckets each power of two. One writer,
 * any number of readers: each word is consistent, the whole nearly so.
 */
#ifndef XR_HIST_H
#define XR_HIST_H

#include "base/hist.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
	XR_HIST_BITS = 3,
	XR_HIST_SUB = 1 << XR_HIST_BITS,
	XR_HIST_TOP = 40, /* values from 2^40 on (18 minutes in ns) fall in the last bucket */
	XR_HIST_BUCKETS = (XR_HIST_TOP - XR_HIST_BITS + 1) << XR_HIST_BITS,
};

struct xr_hist {
	_Atomic uint64_t sum, max;
	_Atomic uint64_t bucket[XR_HIST_BUCKETS];
};

/* What a reader works on. */
struct xr_hist_copy {
	uint64_t count, sum, max;
	uint64_t bucket[XR_HIST_BUCKETS];
};

static inline unsigned xr_hist_index(uint64_t value)
{
	unsigned index = hist_index(value, XR_HIST_BITS);

	return index < XR_HIST_BUCKETS ? index : XR_HIST_BUCKETS - 1;
}

static inline uint64_t xr_relaxed(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void xr_set_relaxed(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

/* The writer's: loads and stores, nothing locked. */
static inline void xr_hist_add(struct xr_hist *h, uint64_t value)
{
	_Atomic uint64_t *bucket = &h->bucket[xr_hist_index(value)];

	xr_set_relaxed(bucket, xr_relaxed(bucket) + 1);
	xr_set_relaxed(&h->sum, xr_relaxed(&h->sum) + value);
	if (value > xr_relaxed(&h->max))
		xr_set_relaxed(&h->max, value);
}

void xr_hist_read(const struct xr_hist *h, struct xr_hist_copy *ret_copy);

/* The value that this share (0..1) of all do not exceed: the middle of its bucket. 0 if empty. */
uint64_t xr_hist_quantile(const struct xr_hist_copy *h, double share);

#endif
