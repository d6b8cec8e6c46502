/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

#include <string.h>

const struct xr_test *const xr_tests[] = {
	&xr_test_latency, &xr_test_bandwidth, &xr_test_rate,   &xr_test_sweep, &xr_test_channels,
	&xr_test_threads, &xr_test_storm,     &xr_test_incast, NULL,
};

const struct xr_test *xr_test_find(const char *name)
{
	for (const struct xr_test *const *test = xr_tests; *test; test++) {
		if (strcmp((*test)->name, name) == 0)
			return *test;
	}
	return NULL;
}

unsigned xr_test_sizes(const struct xr_bench *bench, const size_t *defaults, unsigned n,
		       const size_t **ret_sizes)
{
	const struct xr_options *o = bench->options;

	*ret_sizes = o->n_sizes ? o->sizes : defaults;
	return o->n_sizes ? o->n_sizes : n;
}

uint32_t xr_test_next(uint32_t now, uint32_t most)
{
	if (now >= most)
		return 0;
	return now > most / 2 ? most : now * 2;
}
