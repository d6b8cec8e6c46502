/* SPDX-License-Identifier: BSD-2-Clause */
/* What is to be measured, and what came of it. */
#ifndef XR_PERF_JOB_H
#define XR_PERF_JOB_H

#include "base/hist.h"
#include "options.h"
#include "proto.h"

enum xr_job_kind {
	XR_JOB_CALLS,  /* requests and replies, in_flight of them always on their way */
	XR_JOB_ONEWAY, /* messages as fast as the window lets */
	XR_JOB_CONNECT /* channels set up and closed, in_flight of them at once */
};

struct xr_job {
	const char *test;
	enum xr_job_kind kind;
	uint32_t request_bytes;
	uint32_t reply_bytes; /* of calls */
	uint32_t in_flight;   /* per channel; of one-way messages: the window */
	uint32_t channels;    /* per context */
	uint32_t contexts;    /* in all, dealt out to the threads */
	uint32_t threads;
	bool spread; /* contexts go to the server's threads in turn; else all to its first */
};

struct xr_result {
	struct xr_job job;
	uint64_t messages; /* or connections */
	uint64_t bytes;    /* of payload, both directions together */
	double seconds;    /* the longest of all threads */
	double messages_per_s, gb_per_s;
	struct hist times;   /* round trips, or set-ups */
	double setups_per_s; /* of the channels used; 0: not measured */
	double bytes_per_channel, registered_per_channel;
	double share_min, share_max; /* of a context's messages, 1 being a fair share */
	bool verified;               /* each byte was checked, and right */
	uint64_t errors;
	char problem[600]; /* the first, for a person; empty: none */
};

struct xr_bench {
	const struct xr_options *options;
	struct xr_perf_info info; /* of the server */
	char device[32];
	bool by_tcp; /* in place of RDMA, when it began */
	bool failed; /* something was wrong */
	bool over;   /* the rest would fail too */
	void (*report)(struct xr_bench *bench, struct xr_result *result); /* takes the result */
	struct xr_collection *collection;                                 /* of the reports */
};

/* Measure; the result goes to bench->report. A failure is part of it. */
void xr_bench_run(struct xr_bench *bench, const struct xr_job *job);

#endif
