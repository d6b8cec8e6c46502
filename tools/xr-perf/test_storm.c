/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	struct xr_job job = {
		.test = test->name,
		.kind = XR_JOB_CONNECT,
		.in_flight = xr_or(bench->options->in_flight, 32),
		.channels = 1,
		.contexts = 1,
		.threads = 1,
	};

	xr_bench_run(bench, &job);
}

const struct xr_test xr_test_storm = {
	.name = "storm",
	.doc = "channels set up and closed per second, many at once",
	.run = run,
};
