/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

#include <unistd.h>

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {64};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t most = xr_or(bench->options->threads, processors > 1 ? (uint32_t)processors : 2);
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 1, &sizes);

	for (unsigned i = 0; i < n; i++) {
		for (uint32_t k = 1; k; k = xr_test_next(k, most)) {
			struct xr_job job = {
				.test = test->name,
				.kind = XR_JOB_CALLS,
				.request_bytes = (uint32_t)sizes[i],
				.reply_bytes = (uint32_t)sizes[i],
				.in_flight = xr_or(bench->options->in_flight, 32),
				.channels = xr_or(bench->options->channels, 1),
				.contexts = k,
				.threads = k,
				.spread = true,
			};

			xr_bench_run(bench, &job);
		}
	}
}

const struct xr_test xr_test_threads = {
	.name = "threads",
	.doc = "1, 2, 4... threads with a context each, to the threads of the server in turn",
	.varies = "threads",
	.run = run,
};
