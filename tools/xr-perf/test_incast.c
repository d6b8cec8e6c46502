/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests.h"

#include <unistd.h>

enum { CLIENTS = 8, ANSWER_BYTES = 8 };

static void run(struct xr_bench *bench, const struct xr_test *test)
{
	static const size_t defaults[] = {65536};
	uint32_t clients = xr_or(bench->options->clients, CLIENTS);
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	/* Threads beyond the processors would measure the scheduler. */
	uint32_t threads =
		xr_or(bench->options->threads, processors > 2 ? (uint32_t)processors - 1 : 1);
	const size_t *sizes;
	unsigned n = xr_test_sizes(bench, defaults, 1, &sizes);

	for (unsigned i = 0; i < n; i++) {
		struct xr_job job = {
			.test = test->name,
			.kind = XR_JOB_CALLS,
			.request_bytes = (uint32_t)sizes[i],
			.reply_bytes = ANSWER_BYTES,
			.in_flight = xr_or(bench->options->in_flight, 2),
			.channels = xr_or(bench->options->channels, 1),
			.contexts = clients,
			.threads = threads < clients ? threads : clients,
		};

		xr_bench_run(bench, &job);
	}
}

const struct xr_test xr_test_incast = {
	.name = "incast",
	.doc = "many contexts send to one: what arrives, and how fair it is",
	.run = run,
};
