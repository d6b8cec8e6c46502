/* SPDX-License-Identifier: BSD-2-Clause */
#include "hist.h"

#include <math.h>
#include <string.h>

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns < 2 * XR_HIST_SUB)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - XR_HIST_SUB_BITS;
	return shift * XR_HIST_SUB + (unsigned)(ns >> shift);
}

static uint64_t middle_of(unsigned bucket)
{
	unsigned shift = bucket < 2 * XR_HIST_SUB ? 0 : bucket / XR_HIST_SUB - 1;
	uint64_t first = (uint64_t)(bucket - shift * XR_HIST_SUB) << shift;

	return first + (shift ? (uint64_t)1 << (shift - 1) : 0);
}

void xr_hist_reset(struct xr_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

void xr_hist_add(struct xr_hist *h, uint64_t ns)
{
	h->n++;
	h->sum_ns += ns;
	if (ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->buckets[bucket_of(ns)]++;
}

void xr_hist_merge(struct xr_hist *into, const struct xr_hist *from)
{
	into->n += from->n;
	into->sum_ns += from->sum_ns;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	for (unsigned i = 0; i < XR_HIST_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

static uint64_t clamp(const struct xr_hist *h, uint64_t ns)
{
	if (ns < h->min_ns)
		return h->min_ns;
	return ns > h->max_ns ? h->max_ns : ns;
}

uint64_t xr_hist_percentile(const struct xr_hist *h, double share)
{
	double rank = ceil(share * (double)h->n);
	uint64_t wanted = rank < 1 ? 1 : (uint64_t)rank, seen = 0;

	if (h->n == 0)
		return 0;
	if (share <= 0)
		return h->min_ns;
	if (wanted >= h->n)
		return h->max_ns;
	for (unsigned i = 0; i < XR_HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= wanted)
			return clamp(h, middle_of(i));
	}
	return h->max_ns;
}

double xr_hist_mean(const struct xr_hist *h)
{
	return h->n ? (double)h->sum_ns / (double)h->n : 0;
}
