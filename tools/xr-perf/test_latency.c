/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {64, 4096};
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 2, &sizes);

	for (unsigned i = 0; i < n; i++) {
		struct xr_job job = {
			.test = test->name,
			.kind = XR_JOB_CALLS,
			.request_bytes = (uint32_t)sizes[i],
			.reply_bytes = (uint32_t)sizes[i],
			.in_flight = xr_or(bench->options->in_flight, 1),
			.channels = xr_or(bench->options->channels, 1),
			.contexts = 1,
			.threads = 1,
		};

		xr_bench_run(bench, &job);
	}
}

const struct xr_test xr_test_latency = {
	.name = "latency",
	.doc = "round trip of a request and a reply of the same size",
	.run = run,
};
