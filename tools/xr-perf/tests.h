/* SPDX-License-Identifier: BSD-2-Clause */
/* The tests by name. Each is a series of jobs. */
#ifndef XR_PERF_TESTS_H
#define XR_PERF_TESTS_H

#include "job.h"

struct xr_test {
	const char *name;
	const char *doc;
	const char *varies; /* what differs between its results, or NULL; an axis of the plot */
	void (*run)(struct xr_bench *bench, const struct xr_test *test);
};

extern const struct xr_test xr_test_latency, xr_test_bandwidth, xr_test_rate, xr_test_sweep,
	xr_test_channels, xr_test_threads, xr_test_storm, xr_test_incast;

extern const struct xr_test *const xr_tests[]; /* ends with NULL */

/* NULL: there is none. */
const struct xr_test *xr_test_find(const char *name);

/* The sizes asked for, or else these. */
unsigned xr_test_sizes(const struct xr_bench *bench, const size_t *defaults, unsigned n,
		       const size_t **ret_sizes);
/* What was asked for, or else the default. */
static inline uint32_t xr_or(uint32_t asked, uint32_t otherwise)
{
	return asked ? asked : otherwise;
}

/* 1, 2, 4... and at last most itself: the next one after now; 0: there is none. */
uint32_t xr_test_next(uint32_t now, uint32_t most);

#endif
