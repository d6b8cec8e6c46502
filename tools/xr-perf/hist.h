/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A histogram of times: exact below 128 ns, above that each power of two is cut into 64 buckets, so
 * that a percentile is off by at most 1/128 of itself. Adding is O(1) and allocates nothing.
 */
#ifndef XR_PERF_HIST_H
#define XR_PERF_HIST_H

#include <stdint.h>

enum {
	XR_HIST_SUB_BITS = 6,
	XR_HIST_SUB = 1 << XR_HIST_SUB_BITS,
	XR_HIST_BUCKETS = (64 - XR_HIST_SUB_BITS + 1) * XR_HIST_SUB,
};

struct xr_hist {
	uint64_t n;
	uint64_t sum_ns;
	uint64_t min_ns; /* undefined while n is 0 */
	uint64_t max_ns;
	uint64_t buckets[XR_HIST_BUCKETS];
};

void xr_hist_reset(struct xr_hist *h);
void xr_hist_add(struct xr_hist *h, uint64_t ns);
void xr_hist_merge(struct xr_hist *into, const struct xr_hist *from);

/*
 * The least time that at least the given share of all, 0 to 1, do not exceed; min and max are
 * exact. 0 of an empty one.
 */
uint64_t xr_hist_percentile(const struct xr_hist *h, double share);
double xr_hist_mean(const struct xr_hist *h);

#endif
