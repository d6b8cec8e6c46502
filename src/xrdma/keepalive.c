/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is the peer still there? After keepalive_ms without a sign of it a WRITE of no bytes is posted:
 * the peer's NIC answers, its processors do not notice. If it is not answered, the queue pair's
 * resends run out, and that breaks the channel: a dead peer is found in keepalive_ms and the time
 * of the resends (options timeout, retry_cnt), also over a channel that is idle.
 *
 * Each question alone would wake this process, the peer's NIC and this process again. So channels
 * ask at common moments, PER_SILENCE of them in keepalive_ms, for which some ask early: what a
 * context of thousands costs is that of its few moments.
 */
#include "xrdma/channel.h"

enum { PER_SILENCE = 8 };

static uint64_t silence_ns(const struct xrdma_channel *ch)
{
	return ch->ctx->conf.keepalive_ms * NSEC_PER_MSEC;
}

/* The last common moment until when. */
static uint64_t moment(const struct xrdma_channel *ch, uint64_t when)
{
	return when - when % (silence_ns(ch) / PER_SILENCE);
}

void xr_keepalive_start(struct xrdma_channel *ch)
{
	ch->heard_at = ch->ctx->now;
	if (ch->ctx->conf.keepalive_ms)
		xr_timer_set(ch->ctx, &ch->alive_timer, moment(ch, ch->heard_at + silence_ns(ch)));
}

void xr_keepalive_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, alive_timer);
	struct xrdma_context *ctx = ch->ctx;
	uint64_t due;
	bool asked;

	if (!xr_channel_flows(ch) || ctx->conf.keepalive_ms == 0)
		return;
	due = moment(ch, ch->heard_at + silence_ns(ch));
	if (due > ctx->now) {
		xr_timer_set(ctx, t, due);
		return;
	}
	/* One at a time. No room: so many of the context's others wait for an answer just now. */
	asked = !ch->alive_posted && xr_channel_post_alive(ch);
	ctx->stats.keepalives += asked;
	xr_timer_set(ctx, t, moment(ch, ctx->now + silence_ns(ch) / (asked ? 1 : PER_SILENCE)));
}
