/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

/* A request that asks for a large reply. */
enum { ASK_BYTES = 64 };

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {65536, 1048576};
	enum xr_direction direction = bench->options->direction;
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 2, &sizes);

	for (unsigned i = 0; i < n; i++) {
		uint32_t bytes = (uint32_t)sizes[i];
		struct xr_job job = {
			.test = test->name,
			.kind = direction == XR_DIRECTION_OUT ? XR_JOB_ONEWAY : XR_JOB_CALLS,
			.request_bytes = direction == XR_DIRECTION_IN ? ASK_BYTES : bytes,
			.reply_bytes = direction == XR_DIRECTION_OUT ? 0 : bytes,
			/* Enough to keep both sides busy, few enough to stay in a cache. */
			.in_flight = xr_or(bench->options->in_flight, bytes > 262144 ? 2 : 16),
			.channels = xr_or(bench->options->channels, 1),
			.contexts = 1,
			.threads = 1,
		};

		xr_bench_run(bench, &job);
	}
}

const struct xr_test xr_test_bandwidth = {
	.name = "bandwidth",
	.doc = "large messages: announced, and read by the receiver",
	.run = run,
};
