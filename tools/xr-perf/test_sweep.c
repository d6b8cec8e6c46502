/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {64};
	uint32_t most = xr_or(bench->options->in_flight, 128);
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 1, &sizes);

	for (unsigned i = 0; i < n; i++) {
		for (uint32_t k = 1; k; k = xr_test_next(k, most)) {
			struct xr_job job = {
				.test = test->name,
				.kind = XR_JOB_CALLS,
				.request_bytes = (uint32_t)sizes[i],
				.reply_bytes = (uint32_t)sizes[i],
				.in_flight = k,
				.channels = xr_or(bench->options->channels, 1),
				.contexts = 1,
				.threads = 1,
			};

			xr_bench_run(bench, &job);
		}
	}
}

const struct xr_test xr_test_sweep = {
	.name = "sweep",
	.doc = "requests with 1, 2, 4... of them in flight: rate and latency",
	.varies = "requests in flight",
	.run = run,
};
