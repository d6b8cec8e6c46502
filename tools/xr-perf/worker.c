/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 0))) static void note(struct xr_worker *w, const char *fmt,
						       va_list ap)
{
	if (!w->problem[0])
		vsnprintf(w->problem, sizeof(w->problem), fmt, ap);
}

void xr_worker_fail(struct xr_worker *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note(w, fmt, ap);
	va_end(ap);
	w->failed = true;
}

void xr_worker_note(struct xr_worker *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note(w, fmt, ap);
	va_end(ap);
}

void xr_worker_lost(struct xr_worker *w, int status)
{
	xr_worker_fail(w, "the server is gone: %s; what it printed may say why",
		       status ? strerror(-status) : "it closed the channel");
}

bool xr_worker_turn(struct xr_worker *w)
{
	uint64_t pulse = atomic_load_explicit(&w->completed, memory_order_relaxed);
	int n = xr_loop_wait(&w->loop, pulse, XR_PATIENCE_NS);

	if (n == -ETIMEDOUT)
		xr_worker_fail(w,
			       "nothing came from the server for %u s: does it hang, or is it "
			       "out of processor time?",
			       (unsigned)(XR_PATIENCE_NS / 1000000000));
	else if (n < 0)
		xr_worker_fail(w, "%s", xrdma_last_error());
	return !w->failed;
}

int xr_lane_message(struct xr_lane *lane, struct xrdma_msg **ret_msg)
{
	const struct xr_worker *w = lane->end->worker;
	const struct xr_options *o = w->bench->options;
	uint32_t bytes = w->job->request_bytes;
	struct xrdma_msg *msg;
	uint8_t *data;
	int ret = xrdma_msg_new(lane->ch, bytes, &msg);

	if (ret)
		return ret;
	data = xrdma_msg_data(msg);
	xr_perf_put_head(data, XR_PERF_DATA, lane->next_number);
	if (o->verify || !w->measured)
		xr_pattern_fill(lane->seed, lane->next_number, data + XR_PERF_HEAD_BYTES,
				bytes - XR_PERF_HEAD_BYTES);
	if (o->corrupt && lane->next_number + UINT64_C(1) == o->corrupt)
		data[bytes - 1] ^= 1;
	*ret_msg = msg;
	return 0;
}
