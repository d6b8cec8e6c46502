/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-way messages. The clock is read once a turn. The time ends when the server has said that it
 * has them all.
 */
#include "worker.h"

#include "base/clock.h"

#include <errno.h>

static int next_message(struct xr_lane *lane, struct xrdma_msg **ret_msg)
{
	*ret_msg = lane->waiting;
	lane->waiting = NULL;
	return *ret_msg ? 0 : xr_lane_message(lane, ret_msg);
}

/* As many as the queue takes. */
static void feed(struct xr_worker *w, struct xr_lane *lane)
{
	while (lane->ch && w->issued < w->limit) {
		struct xrdma_msg *msg;
		int ret = next_message(lane, &msg);

		if (!ret) {
			ret = xrdma_send_msg(lane->ch, msg);
			if (ret)
				lane->waiting = msg;
		}
		if (ret) {
			if (ret != -EAGAIN && ret != -EPIPE &&
			    (ret != -ENOBUFS || lane->next_number == 0))
				xr_worker_fail(w, "%s", xrdma_last_error());
			return;
		}
		lane->next_number++;
		lane->end->messages += w->measured;
		w->issued++;
		xr_worker_count(w, 1);
	}
}

static void feed_all(struct xr_worker *w)
{
	for (unsigned e = 0; e < w->n_ends; e++) {
		for (unsigned i = 0; i < w->job->channels; i++)
			feed(w, &w->ends[e].lanes[i]);
	}
}

static void drop_waiting(struct xr_worker *w)
{
	for (unsigned e = 0; e < w->n_ends; e++) {
		for (unsigned i = 0; i < w->job->channels; i++) {
			xrdma_msg_free(w->ends[e].lanes[i].waiting);
			w->ends[e].lanes[i].waiting = NULL;
		}
	}
}

void xr_oneway_run(struct xr_worker *w)
{
	do
		feed_all(w);
	while (xr_worker_wants(w, clock_now_ns()) && xr_worker_turn(w));
	drop_waiting(w);
	xr_worker_finish(w);
	w->end_ns = clock_now_ns();
}
