/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose turn it is to dial. After a switch has restarted thousands of channels want to at once: a
 * peer would meet as many TLS handshakes, and refuse those over its max_pending. So max_dials are
 * under way at once, each until the peer has answered over it, has refused it, or time is up; the
 * others wait, first come first served. First connections and recoveries have a queue each and take
 * turns, so that neither starves behind the other.
 */
#include "xrdma/channel.h"
#include "xrdma/error.h"

static bool anyone_waits(const struct xrdma_context *ctx)
{
	return !list_empty(&ctx->dials[0]) || !list_empty(&ctx->dials[1]);
}

static bool room(const struct xrdma_context *ctx)
{
	return ctx->boot.n_dialing < ctx->conf.max_dials;
}

static int start(struct xrdma_channel *ch)
{
	int ret = xr_boot_start(ch->boot, ch->ctx->now);

	return ret ? ret : xr_channel_boot_watch(ch);
}

int xr_dial(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;

	if (!anyone_waits(ctx) && room(ctx))
		return start(ch);
	list_add_tail(&ctx->dials[xr_recovering(ch)], &ch->dial);
	xr_timer_set(ctx, &ch->boot_timer, xr_boot_deadline(ch->boot));
	ctx->stats.dials_delayed++;
	return 0;
}

static struct xrdma_channel *take_next(struct xrdma_context *ctx)
{
	struct list *node;

	ctx->dial_again = !ctx->dial_again;
	node = list_pop(&ctx->dials[ctx->dial_again]);
	if (!node)
		node = list_pop(&ctx->dials[!ctx->dial_again]);
	return container_of(node, struct xrdma_channel, dial);
}

int xr_dials_go_on(struct xrdma_context *ctx)
{
	int n = 0;

	for (; anyone_waits(ctx) && room(ctx); n++) {
		struct xrdma_channel *ch = take_next(ctx);
		int ret = start(ch);

		if (ret)
			xr_channel_boot_ended(ch, ret, xrdma_last_error());
	}
	return n;
}
