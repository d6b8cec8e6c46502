/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The measuring side. A worker is a thread; it has ends (contexts), and they have lanes (channels).
 * Nothing is shared between workers but what stays the same.
 */
#ifndef XR_PERF_WORKER_H
#define XR_PERF_WORKER_H

#include "job.h"
#include "loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <xrdma/xrdma.h>

#define XR_PATIENCE_NS                                                                             \
	(10 * UINT64_C(1000000000)) /* without any message; then the server hangs                  \
				     */

/* A call, or a connection, that is repeated. */
struct xr_slot {
	struct xr_lane *lane;
	uint64_t since_ns;
	uint32_t number; /* of the message */
	struct xr_slot *next_idle;
};

struct xr_lane {
	struct xr_end *end;
	struct xrdma_channel *ch; /* NULL: not yet, or no more */
	struct xr_slot *slots;    /* job.in_flight of them */
	uint64_t seed;
	uint32_t next_number;
	struct xrdma_msg *waiting; /* one-way, and there was no room in the queue */
	bool open, asked;
	struct xr_perf_report report; /* of the server */
};

struct xr_end {
	struct xr_worker *worker;
	struct xrdma_context *ctx;
	struct xr_lane *lanes; /* job.channels of them */
	uint64_t messages;     /* measured */
};

struct xr_worker {
	const struct xr_bench *bench;
	const struct xr_job *job;
	unsigned index;
	struct xr_end *ends;
	unsigned n_ends;
	struct xr_loop loop;

	/* this phase: */
	bool measured; /* or is it the warm-up */
	uint64_t limit, until_ns;
	uint64_t issued;
	uint64_t pending;     /* of what was issued, what has not ended */
	struct xr_slot *idle; /* had no room, or no memory */

	_Atomic uint64_t completed; /* only the worker writes; who shows progress reads */
	uint64_t start_ns, end_ns;  /* of what is measured */
	struct hist times;
	uint64_t wrong; /* replies */
	uint64_t setup_ns, rss_bytes, registered_bytes;
	bool closing;
	bool failed;
	char problem[600];
};

/* The first one counts. */
void xr_worker_fail(struct xr_worker *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for what is wrong but does not end the measurement. */
void xr_worker_note(struct xr_worker *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A channel is gone, or a call ended with it. What is sent before its XRDMA_CLOSED gets -EPIPE. */
void xr_worker_lost(struct xr_worker *w, int status);

static inline bool xr_worker_wants(const struct xr_worker *w, uint64_t now_ns)
{
	return w->issued < w->limit && now_ns < w->until_ns && !w->failed;
}

static inline void xr_worker_count(struct xr_worker *w, uint64_t n)
{
	uint64_t completed = atomic_load_explicit(&w->completed, memory_order_relaxed);

	atomic_store_explicit(&w->completed, completed + n, memory_order_relaxed);
}

/* Let things happen once; false: the worker has failed. */
bool xr_worker_turn(struct xr_worker *w);

/* setup.c: contexts, and channels that have said START. */
void xr_worker_open(struct xr_worker *w);
void xr_worker_open_contexts(struct xr_worker *w);
void xr_worker_close(struct xr_worker *w);
/* Ask every lane for the server's report; returns when all have it, or the worker failed. */
void xr_worker_finish(struct xr_worker *w);

/* A DATA message of a lane, filled if somebody will look at it or the memory is still new. */
int xr_lane_message(struct xr_lane *lane, struct xrdma_msg **ret_msg);

/* A phase of each kind; to be started with limit and until_ns set. */
void xr_calls_run(struct xr_worker *w);
void xr_oneway_run(struct xr_worker *w);
void xr_connect_run(struct xr_worker *w);

#endif
