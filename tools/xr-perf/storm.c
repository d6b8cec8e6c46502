/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels set up and closed again. */
#include "worker.h"

#include "base/clock.h"

#include <string.h>

static void connect_next(struct xr_slot *slot, uint64_t now_ns);

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct xr_slot *slot = arg;
	struct xr_worker *w = slot->lane->end->worker;
	uint64_t now_ns = clock_now_ns();

	if (event == XRDMA_CONNECTED) {
		if (w->measured)
			hist_add(&w->times, now_ns - slot->since_ns);
		xrdma_channel_close(ch);
		return;
	}
	if (event != XRDMA_CLOSED) /* broken or whole again: what was sent is not lost */
		return;
	w->pending--;
	if (status) {
		xr_worker_fail(w, "a connection failed: %s: %s", strerror(-status),
			       xrdma_last_error());
		return;
	}
	w->end_ns = now_ns;
	slot->lane->end->messages += w->measured;
	xr_worker_count(w, 1);
	if (xr_worker_wants(w, now_ns))
		connect_next(slot, now_ns);
}

static void connect_next(struct xr_slot *slot, uint64_t now_ns)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	struct xr_end *end = slot->lane->end;
	struct xr_worker *w = end->worker;
	struct xrdma_channel *ch;

	slot->since_ns = now_ns;
	if (xrdma_connect(end->ctx, w->bench->options->address, &handlers, slot, &ch)) {
		xr_worker_fail(w, "%s", xrdma_last_error());
		return;
	}
	w->issued++;
	w->pending++;
}

void xr_connect_run(struct xr_worker *w)
{
	struct xr_lane *lane = &w->ends[0].lanes[0];

	for (unsigned k = 0; k < w->job->in_flight && xr_worker_wants(w, w->start_ns); k++)
		connect_next(&lane->slots[k], w->start_ns);
	while (w->pending && xr_worker_turn(w))
		;
}
