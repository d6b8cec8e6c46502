/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a channel. Its states are in channel.h, what may follow what in the table below. */
#include "xrdma/channel.h"

#include "xrdma/error.h"
#include "xrdma/log.h"
#include "xrdma/region.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DRAIN_NS = 1000000000, CHANNEL_TIMERS = 6 };

#define TO(state) (1U << XR_CH_##state)

static const struct {
	const char *name;
	unsigned next; /* states that may follow */
	bool sockets;  /* waits for them, not for completions */
} states[XR_CH_N_STATES] = {
	[XR_CH_DIALING] = {.name = "dialing", .next = TO(HELLO) | TO(DRAINING), .sockets = true},
	[XR_CH_HELLO] = {.name = "hello",
			 .next = TO(READY) | TO(BREAKING) | TO(DRAINING),
			 .sockets = true},
	[XR_CH_READY] = {.name = "ready",
			 .next = TO(PROBING) | TO(BREAKING) | TO(DRAINING),
			 .sockets = true},
	[XR_CH_PROBING] = {.name = "probing",
			   .next = TO(OPENING) | TO(BREAKING) | TO(DRAINING),
			   .sockets = true},
	[XR_CH_OPENING] = {.name = "opening",
			   .next = TO(OPEN) | TO(BREAKING) | TO(DRAINING),
			   .sockets = true},
	[XR_CH_OPEN] = {.name = "open", .next = TO(CLOSING) | TO(BREAKING) | TO(DRAINING)},
	[XR_CH_CLOSING] = {.name = "closing", .next = TO(BYE) | TO(BREAKING) | TO(DRAINING)},
	[XR_CH_BYE] = {.name = "bye", .next = TO(BREAKING) | TO(DRAINING)},
	[XR_CH_BREAKING] = {.name = "breaking", .next = TO(WAITING) | TO(DRAINING)},
	[XR_CH_WAITING] = {.name = "waiting", .next = TO(HELLO) | TO(DRAINING), .sockets = true},
	[XR_CH_DRAINING] = {.name = "draining", .next = TO(CLOSED)},
	[XR_CH_CLOSED] = {.name = "closed", .next = 0},
};

const char *xr_channel_state_name(enum xr_ch_state state)
{
	return states[state].name;
}

void xr_channel_set_state(struct xrdma_channel *ch, enum xr_ch_state state)
{
	assert(states[ch->state].next & (1U << state));
	ch->ctx->n_setting_up -= states[ch->state].sockets;
	ch->ctx->n_setting_up += states[state].sockets;
	log_debug("channel %u: %s -> %s", ch->handle, states[ch->state].name, states[state].name);
	ch->state = state;
	xr_channel_touch(ch);
}

/* ---- handles ---- */

enum { INDEX_BITS = 20, GENERATION_BITS = 10, NO_ENTRY = UINT32_MAX };

static int entries_grow(struct xrdma_context *ctx)
{
	uint32_t n = ctx->n_entries ? ctx->n_entries * 2 : 16;
	struct xr_entry *entries = realloc(ctx->entries, n * sizeof(*entries));

	if (!entries)
		return xr_error(-ENOMEM, "out of memory for a channel");
	for (uint32_t i = ctx->n_entries; i < n; i++)
		entries[i] = (struct xr_entry){.next_free = i + 1 < n ? i + 1 : ctx->free_entry};
	ctx->free_entry = ctx->n_entries;
	ctx->entries = entries;
	ctx->n_entries = n;
	return 0;
}

static int handle_take(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	struct xr_entry *entry;
	int ret;

	if (ctx->n_channels >= ctx->conf.max_channels)
		return xr_error(-EMFILE, "this context has %u channels (max_channels)",
				ctx->n_channels);
	if (ctx->free_entry == NO_ENTRY) {
		ret = entries_grow(ctx);
		if (ret)
			return ret;
	}
	ch->handle = ctx->free_entry;
	entry = &ctx->entries[ch->handle];
	ctx->free_entry = entry->next_free;
	entry->ch = ch;
	ch->handle |= entry->generation << INDEX_BITS;
	ctx->n_channels++;
	ctx->n_setting_up++;
	return 0;
}

static void handle_drop(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	uint32_t index = ch->handle & ((1U << INDEX_BITS) - 1);
	struct xr_entry *entry = &ctx->entries[index];

	entry->ch = NULL;
	entry->generation = (entry->generation + 1) & ((1U << GENERATION_BITS) - 1);
	entry->next_free = ctx->free_entry;
	ctx->free_entry = index;
	ctx->n_channels--;
}

uint32_t xr_channel_index(const struct xrdma_channel *ch)
{
	return ch->handle & ((1U << INDEX_BITS) - 1);
}

struct xrdma_channel *xr_channel_by_handle(struct xrdma_context *ctx, uint32_t handle)
{
	uint32_t index = handle & ((1U << INDEX_BITS) - 1);
	const struct xr_entry *entry = &ctx->entries[index];

	if (index >= ctx->n_entries || entry->generation != handle >> INDEX_BITS)
		return NULL;
	return entry->ch;
}

/* ---- beginning ---- */

static void drain_late(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, drain_timer);

	uint32_t left = xr_flow_outstanding(&ch->flow) + ch->own_rq.posted;

	if (ch->ctx->behind) { /* their completions may be there, behind those of others */
		xr_timer_set(ch->ctx, t, ch->ctx->now + DRAIN_NS);
		return;
	}
	/* The kernel's rxe never says that a shared receive queue is not touched any more. */
	if (left == 0)
		ch->ctx->no_last_wqe = true;
	else
		log_warn("a queue pair did not end %u of its work requests in time", left);
	ch->drained = true;
	xr_channel_touch(ch);
}

static int init_parts(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	uint32_t words = xr_window_words(ctx->conf.window);
	uint32_t places = xr_window_words(ctx->conf.window + XR_LATE) * 64;

	ch->done_bits = calloc(words, sizeof(uint64_t));
	ch->unacked = calloc(places, sizeof(struct xrdma_msg *));
	ch->unacked_mask = places - 1;
	if (!ch->done_bits || !ch->unacked)
		return xr_error(-ENOMEM, "out of memory for a channel");
	return xr_calls_init(ch);
}

static void destroy(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;

	xr_channel_boot_close(ch);
	if (ch->calls.chunks)
		xr_calls_fini(ch);
	timer_remove(&ctx->timers, &ch->ack_timer.timer);
	timer_remove(&ctx->timers, &ch->boot_timer.timer);
	timer_remove(&ctx->timers, &ch->drain_timer.timer);
	timer_remove(&ctx->timers, &ch->alive_timer.timer);
	timer_remove(&ctx->timers, &ch->rec.timer.timer);
	timer_remove(&ctx->timers, &ch->mock.timer.timer);
	xr_boot_target_free(ch->rec.target);
	ctx->n_timers -= CHANNEL_TIMERS;
	list_del(&ch->link);
	list_del(&ch->touched);
	free(ch->done_bits);
	free(ch->unacked);
	free(ch->why);
	free(ch);
}

static void drop_msg(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	xrdma_msg_free(msg);
}

int xr_channel_new(struct xrdma_context *ctx, const struct xrdma_handlers *handlers, void *arg,
		   struct xrdma_channel **ret_ch)
{
	struct xrdma_channel *ch = calloc(1, sizeof(*ch));
	int ret;

	if (!ch)
		return xr_error(-ENOMEM, "out of memory for a channel");
	ret = xr_timers_reserve(ctx, CHANNEL_TIMERS);
	if (ret) {
		free(ch);
		return ret;
	}
	ch->ctx = ctx;
	ch->handlers = *handlers;
	if (!ch->handlers.on_msg)
		ch->handlers.on_msg = drop_msg;
	ch->arg = arg;
	ch->boot_watch.fd = -1;
	ch->bounds = (struct xr_bounds){.small_bytes = ctx->conf.small_bytes,
					.max_bytes = ctx->conf.max_msg};
	list_init(&ch->link);
	list_init(&ch->touched);
	list_init(&ch->dial);
	list_init(&ch->own_rq.debts);
	list_init(&ch->queue);
	list_init(&ch->in_order);
	list_init(&ch->replies);
	list_init(&ch->moving);
	list_init(&ch->rec.moves);
	list_init(&ch->remotes);
	xr_flow_queue_init(&ch->flow, 0);
	xr_timer_init(&ch->ack_timer, xr_channel_ack_due);
	xr_timer_init(&ch->drain_timer, drain_late);
	xr_timer_init(&ch->boot_timer, xr_channel_boot_due);
	xr_timer_init(&ch->rec.timer, xr_recover_due);
	xr_mock_init(ch);
	xr_timer_init(&ch->alive_timer, xr_keepalive_due);
	list_add_tail(&ctx->channels, &ch->link);
	ret = init_parts(ch);
	if (!ret)
		ret = handle_take(ch);
	if (ret) {
		destroy(ch);
		return ret;
	}
	*ret_ch = ch;
	return 0;
}

void xr_channel_discard(struct xrdma_channel *ch)
{
	ch->ctx->n_setting_up--;
	handle_drop(ch);
	destroy(ch);
}

/* ---- end ---- */

/* What was on its way and has no callback of its own. */
static void drop_messages(struct xrdma_channel *ch)
{
	xr_channel_forget_arrivals(ch);
	for (struct list *node = list_pop(&ch->queue); node; node = list_pop(&ch->queue)) {
		struct xrdma_msg *m = container_of(node, struct xrdma_msg, link);

		m->state = XR_M_SENT;
		xr_msg_sent_check(m);
	}
	ch->queued = 0;
	xr_channel_let_go(ch);
	for (uint16_t seq = ch->win.acked; seq != ch->win.next; seq++) {
		struct xrdma_msg *m = ch->unacked[seq & ch->unacked_mask];

		m->unacked = false;
		xr_msg_sent_check(m);
	}
	ch->win.acked = ch->let_go = ch->win.next;
	if (ch->probe)
		xr_msg_put(ch->probe);
	ch->probe = NULL;
}

/* One-sided operations that were still to be posted. */
static void end_moves(struct xrdma_channel *ch)
{
	while (!list_empty(&ch->rec.moves))
		list_add_tail(&ch->moving, list_pop(&ch->rec.moves));
	for (struct list *node = list_pop(&ch->moving); node; node = list_pop(&ch->moving)) {
		struct xrdma_msg *m = container_of(node, struct xrdma_msg, moving);

		if (m->state != XR_M_MOVING)
			continue;
		xr_msg_to_app(m);
		m->done(ch, ch->status ? ch->status : -ECANCELED, m, m->arg);
	}
}

static void finish(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	int status = ch->status;

	xr_rq_flush(ctx);
	xr_qp_free(ch);
	xr_channel_boot_close(ch);
	timer_off(&ch->ack_timer.timer);
	timer_off(&ch->drain_timer.timer);
	timer_off(&ch->rec.timer.timer);
	timer_off(&ch->alive_timer.timer);
	if (status)
		ctx->stats.channels_failed++;
	else
		ctx->stats.channels_closed++;
	xr_channel_set_state(ch, XR_CH_CLOSED);
	end_moves(ch);
	xr_calls_end_all(ch, status ? status : -ECANCELED);
	drop_messages(ch);
	ctx->fed = true; /* others may have waited for memory behind its messages */
	if (ch->why)
		xr_error(status, "%s", ch->why); /* since then another may have failed */
	if (ch->announced && ch->handlers.on_event)
		ch->handlers.on_event(ch, XRDMA_CLOSED, status, ch->arg);
	xr_regions_forget(ch);
	handle_drop(ch);
	xr_channel_check_gone(ch);
}

void xr_channel_check_gone(struct xrdma_channel *ch)
{
	/* Its handle is dropped last: before, XRDMA_CLOSED is still being told. */
	if (ch->state == XR_CH_CLOSED && ch->held == 0 &&
	    xr_channel_by_handle(ch->ctx, ch->handle) != ch)
		destroy(ch);
}

static bool all_ended(const struct xrdma_channel *ch)
{
	if (!ch->qp || ch->drained)
		return true;
	if (xr_flow_outstanding(&ch->flow))
		return false;
	if (ch->rq == &ch->own_rq)
		return ch->own_rq.posted == 0;
	/*
	 * No receive of the shared queue is touched after it. Where it never comes, a receive that
	 * the queue pair had taken may be lost with it.
	 */
	return ch->last_wqe || ch->ctx->no_last_wqe;
}

void xr_channel_drain_step(struct xrdma_channel *ch)
{
	if (ch->state == XR_CH_DRAINING && all_ended(ch))
		finish(ch);
}

void xr_channel_stop(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;

	if (!ch->qp)
		return;
	/* Not since the last look at the clock: a handler, or a sleep, may lie between. */
	xr_timer_set(ctx, &ch->drain_timer, clock_now_ns() + DRAIN_NS);
	xr_qp_error(ch);
	/* Sends without a completion of their own end by one that comes after them. */
	if (xr_flow_outstanding(&ch->flow) && !xr_channel_post_beacon(ch))
		ch->drained = true;
}

static void drain(struct xrdma_channel *ch)
{
	enum xr_ch_state from = ch->state;

	xr_mock_stop(ch);
	xr_channel_set_state(ch, XR_CH_DRAINING);
	if (from == XR_CH_WAITING)
		ch->drained = true;
	else if (from != XR_CH_BREAKING)
		xr_channel_stop(ch);
}

/* Else the peer would wait for us to recover. */
static void say_it_is_over(struct xrdma_channel *ch, const char *why)
{
	uint8_t block[XR_REJECT_BYTES];

	if (ch->boot && (xr_recovering(ch) || ch->state >= XR_CH_OPEN) && !ch->rec.refused)
		(void)xr_channel_boot_send(ch, XR_BLOCK_REJECT, block,
					   xr_reject_encode(-ECONNRESET, why, block));
}

void xr_channel_fail(struct xrdma_channel *ch, int status, const char *why)
{
	if (ch->state >= XR_CH_DRAINING)
		return;
	ch->status = status;
	say_it_is_over(ch, why);
	log_info("channel %u fails while %s: %s (%s)", ch->handle, states[ch->state].name, why,
		 strerror(-status));
	xr_error(status, "channel closed: %s", why);
	ch->why = strdup(xrdma_last_error());
	drain(ch);
}

/* All that was accepted is consumed by the peer. */
bool xr_channel_all_sent(const struct xrdma_channel *ch)
{
	return ch->queued == 0 && xr_window_unacked(&ch->win) == 0 && list_empty(&ch->moving) &&
	       list_empty(&ch->rec.moves) && ch->fragments == 0;
}

static void close_step(struct xrdma_channel *ch)
{
	if (ch->state == XR_CH_OPEN && ch->close_asked)
		xr_channel_set_state(ch, XR_CH_CLOSING);
	if (ch->state == XR_CH_CLOSING && xr_channel_all_sent(ch) && xr_channel_send_bye(ch) &&
	    ch->state == XR_CH_CLOSING)
		xr_channel_set_state(ch, XR_CH_BYE);
	/* Our BYE has arrived if its completion says so, or the peer is beyond needing it. */
	if (ch->state == XR_CH_BYE && ch->bye_received && (ch->bye_ended || ch->tcp_bye)) {
		xr_channel_boot_bye(ch);
		drain(ch);
	}
}

/* What is due after a batch of completions, or an event. */
void xr_channel_settle(struct xrdma_channel *ch)
{
	xr_channel_let_go(ch);
	xr_channel_pump(ch);
	if (ch->state == XR_CH_OPEN && !ch->close_asked)
		return; /* as nearly always */
	close_step(ch);
	if (ch->state == XR_CH_BREAKING && all_ended(ch))
		xr_recover_drained(ch);
	xr_recover_step(ch);
	xr_channel_drain_step(ch); /* may free it */
}

void xr_channel_abort(struct xrdma_channel *ch)
{
	if (ch->state < XR_CH_DRAINING)
		xr_channel_fail(ch, -ECANCELED, "xrdma_close()");
}

void xr_channel_force(struct xrdma_channel *ch)
{
	ch->drained = true;
	xr_channel_drain_step(ch);
}

/* What the application still holds goes with the context. */
void xr_channel_forget(struct xrdma_channel *ch)
{
	destroy(ch);
}

/* ---- public ---- */

void xrdma_channel_close(struct xrdma_channel *ch)
{
	if (xr_context_guard(ch->ctx) || ch->close_asked)
		return;
	ch->close_asked = true;
	if (ch->rec.open_epoch == 0)
		xr_channel_fail(ch, -ECANCELED, "closed before it was connected");
	xr_channel_touch(ch);
}

void xrdma_channel_set_user(struct xrdma_channel *ch, void *user)
{
	ch->user = user;
}

void *xrdma_channel_user(const struct xrdma_channel *ch)
{
	return ch->user;
}
