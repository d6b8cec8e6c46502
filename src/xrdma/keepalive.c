/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is the peer still there? After keepalive_ms without a sign of it a WRITE of no bytes is posted:
 * the peer's NIC answers, its processors do not notice. If it is not answered, the queue pair's
 * resends run out, and that breaks the channel: a dead peer is found in keepalive_ms and the time
 * of the resends (options timeout, retry_cnt), also over a channel that is idle.
 */
#include "xrdma/channel.h"

static uint64_t silence_ns(const struct xrdma_channel *ch)
{
	return ch->ctx->conf.keepalive_ms * NSEC_PER_MSEC;
}

void xr_keepalive_start(struct xrdma_channel *ch)
{
	ch->heard_at = ch->ctx->now;
	if (ch->ctx->conf.keepalive_ms)
		xr_timer_set(ch->ctx, &ch->alive_timer, ch->heard_at + silence_ns(ch));
}

void xr_keepalive_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, alive_timer);
	struct xrdma_context *ctx = ch->ctx;
	uint64_t due = ch->heard_at + silence_ns(ch);

	if (!xr_channel_flows(ch) || ctx->conf.keepalive_ms == 0)
		return;
	if (due > ctx->now) {
		xr_timer_set(ctx, t, due);
		return;
	}
	/* One at a time; and no room means that others wait for an answer already. */
	if (!ch->alive_posted && xr_channel_post_alive(ch))
		ctx->stats.keepalives++;
	xr_timer_set(ctx, t, ctx->now + silence_ns(ch));
}
