/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests and replies. One reading of the clock per message: the end of a round trip is the
 * beginning of the next one of its slot. A reply is freed before the next call, which acknowledges
 * it: a large one's memory at the server serves again. Figures are kept while that is on its way:
 * they are ours, not the middleware's.
 */
#include "worker.h"

#include "base/ticks.h"

#include <errno.h>

static void launch(struct xr_slot *slot, uint64_t now_ns);

static void check(const struct xr_slot *slot, uint32_t wanted, struct xrdma_msg *reply)
{
	struct xr_worker *w = slot->lane->end->worker;
	const uint8_t *data = xrdma_msg_data(reply);
	size_t len = xrdma_msg_len(reply);
	struct xr_pattern_fault fault;
	uint32_t number = 0;

	if (len != w->job->reply_bytes || xr_perf_head(data, len, &number) != XR_PERF_DATA ||
	    number != wanted) {
		w->wrong++;
		xr_worker_note(w, "request %u was answered with %zu bytes for request %u", wanted,
			       len, number);
		return;
	}
	if (!w->bench->options->verify ||
	    !xr_pattern_check(~slot->lane->seed, number, data + XR_PERF_HEAD_BYTES,
			      len - XR_PERF_HEAD_BYTES, &fault))
		return;
	w->wrong++;
	xr_worker_note(w, "reply %u: byte %zu is 0x%02x and should be 0x%02x", number,
		       fault.offset + XR_PERF_HEAD_BYTES, fault.got, fault.wanted);
}

static void explain(struct xr_worker *w, int status)
{
	if (status == -ENOMSG)
		xr_worker_fail(w, "the server had no memory for a reply: fewer messages in flight, "
				  "or more there, for example by -o tx_budget_bytes=4G");
	else
		xr_worker_lost(w, status);
}

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct xr_slot *slot = arg;
	struct xr_end *end = slot->lane->end;
	struct xr_worker *w = end->worker;
	uint64_t now_ns = ticks_now_ns(), since_ns = slot->since_ns;
	uint32_t number = slot->number;

	w->pending--;
	if (status) {
		explain(w, status);
		return;
	}
	check(slot, number, reply);
	xrdma_msg_free(reply);
	if (xr_worker_wants(w, now_ns))
		launch(slot, now_ns);
	w->end_ns = now_ns;
	if (w->measured) {
		hist_add(&w->times, now_ns - since_ns);
		end->messages++;
	}
	xr_worker_count(w, 1);
}

static int call(struct xr_slot *slot)
{
	struct xrdma_msg *msg;
	int ret = xr_lane_message(slot->lane, &msg);

	if (ret)
		return ret;
	slot->number = slot->lane->next_number;
	ret = xrdma_call(slot->lane->ch, msg, 0, done, slot, NULL);
	if (ret)
		xrdma_msg_free(msg);
	return ret;
}

static void launch(struct xr_slot *slot, uint64_t now_ns)
{
	struct xr_worker *w = slot->lane->end->worker;
	int ret;

	slot->since_ns = now_ns;
	ret = slot->lane->ch ? call(slot) : -EPIPE;
	if (ret == 0) {
		slot->lane->next_number++;
		w->issued++;
		w->pending++;
	} else if (ret == -EPIPE || ((ret == -EAGAIN || ret == -ENOBUFS) && w->pending)) {
		slot->next_idle = w->idle;
		w->idle = slot;
	} else {
		xr_worker_fail(w, "%s", xrdma_last_error());
	}
}

static void launch_idle(struct xr_worker *w)
{
	uint64_t now_ns = ticks_now_ns();
	struct xr_slot *slot = w->idle, *next;

	w->idle = NULL;
	for (; slot; slot = next) {
		next = slot->next_idle;
		if (xr_worker_wants(w, now_ns))
			launch(slot, now_ns);
	}
}

void xr_calls_run(struct xr_worker *w)
{
	uint64_t now_ns = w->start_ns;

	w->idle = NULL;
	for (unsigned k = 0; k < w->job->in_flight; k++) {
		for (unsigned e = 0; e < w->n_ends; e++) {
			for (unsigned i = 0; i < w->job->channels; i++) {
				if (xr_worker_wants(w, now_ns))
					launch(&w->ends[e].lanes[i].slots[k], now_ns);
			}
		}
	}
	while ((w->pending || w->idle) && xr_worker_turn(w)) {
		if (w->idle)
			launch_idle(w);
	}
}
