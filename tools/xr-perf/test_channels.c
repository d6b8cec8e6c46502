/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

/* In flight over all channels, so that few of them are not idle for want of requests. */
enum { TOTAL = 64, MOST = 64 };

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {64};
	uint32_t most = xr_or(bench->options->channels, MOST);
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 1, &sizes);

	for (unsigned i = 0; i < n; i++) {
		for (uint32_t k = 1; k; k = xr_test_next(k, most)) {
			struct xr_job job = {
				.test = test->name,
				.kind = XR_JOB_CALLS,
				.request_bytes = (uint32_t)sizes[i],
				.reply_bytes = (uint32_t)sizes[i],
				.in_flight =
					xr_or(bench->options->in_flight, k < TOTAL ? TOTAL / k : 1),
				.channels = k,
				.contexts = 1,
				.threads = 1,
			};

			xr_bench_run(bench, &job);
		}
	}
}

const struct xr_test xr_test_channels = {
	.name = "channels",
	.doc = "1, 2, 4... channels of one context: rate, memory of each, set-ups per second",
	.varies = "channels",
	.run = run,
};
