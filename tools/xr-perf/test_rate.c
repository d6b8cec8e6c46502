/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {64};
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 1, &sizes);

	for (unsigned i = 0; i < n; i++) {
		struct xr_job job = {
			.test = test->name,
			.kind = XR_JOB_ONEWAY,
			.request_bytes = (uint32_t)sizes[i],
			.in_flight = xr_or(bench->options->in_flight, 64),
			.channels = xr_or(bench->options->channels, 1),
			.contexts = 1,
			.threads = 1,
		};

		xr_bench_run(bench, &job);
	}
}

const struct xr_test xr_test_rate = {
	.name = "rate",
	.doc = "one-way small messages per second, the window always full",
	.run = run,
};
