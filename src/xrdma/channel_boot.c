/* SPDX-License-Identifier: BSD-2-Clause */
/* The TCP connection of a channel: blocks in and out, and what its end means. */
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/tcp_qp.h"

#include <errno.h>
#include <stdio.h>

enum { LAST_WORDS_NS = 1000000000 };

int xr_channel_boot_send(struct xrdma_channel *ch, enum xr_block_type type, const void *data,
			 size_t len)
{
	return xr_boot_send(ch->boot, (uint8_t)type, data, len, ch->ctx->now);
}

void xr_channel_boot_rewatch(struct xrdma_channel *ch)
{
	xr_watch_change(ch->ctx, &ch->boot_watch, xr_boot_fd(ch->boot), xr_boot_events(ch->boot));
	xr_timer_set(ch->ctx, &ch->boot_timer, xr_boot_deadline(ch->boot));
}

/* Errors that no further attempt can mend. */
static bool hopeless(const struct xrdma_channel *ch, int status)
{
	return ch->rec.refused || status == -EPROTO || status == -EPROTONOSUPPORT ||
	       status == -ESTALE || status == -EREMCHG;
}

/* A block was refused by us, or refuses us. Say why, if the peer is still there to hear it. */
static void block_failed(struct xrdma_channel *ch, int status)
{
	char why[XR_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", xrdma_last_error());
	if (xr_recovering(ch) && !hopeless(ch, status)) {
		xr_channel_break(ch, status, why);
		return;
	}
	if (ch->state < XR_CH_OPEN && !xr_recovering(ch) && *xr_boot_why(ch->boot) == '\0') {
		uint8_t block[XR_REJECT_BYTES];

		(void)xr_channel_boot_send(ch, XR_BLOCK_REJECT, block,
					   xr_reject_encode(status, why, block));
	}
	xr_channel_fail(ch, status, why);
}

void xr_channel_boot_ended(struct xrdma_channel *ch, int status, const char *reason)
{
	char why[XR_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", reason);
	if (ch->tcp_bye || ch->state >= XR_CH_DRAINING) {
		xr_channel_boot_close(ch);
		/* Who said BYE here has said it there before: it lies in the completion queue. */
		xr_timer_set(ch->ctx, &ch->boot_timer, ch->ctx->now + LAST_WORDS_NS);
	} else if (ch->rec.resumable && xr_established(ch) && !hopeless(ch, status) &&
		   status != -EACCES /* of TLS: not the peer */) {
		xr_recover_boot_lost(ch, status, why);
	} else {
		xr_channel_boot_close(ch);
		xr_channel_fail(ch, status, why);
	}
}

/* 1: ch is no more, its connection another channel's. */
static int take_blocks(struct xrdma_channel *ch)
{
	const uint8_t *data;
	int ret = 0;
	uint8_t type;
	size_t len;

	if (ch->dialed && ch->state == XR_CH_DIALING && xr_boot_is_open(ch->boot))
		ret = xr_channel_say_hello(ch);
	while (!ret && ch->boot && xr_boot_next(ch->boot, &type, &data, &len)) {
		if (ch->state < XR_CH_DRAINING) /* else dropped, so that its end is seen */
			ret = xr_channel_got_block(ch, type, data, len);
	}
	return ret;
}

void xr_channel_boot_step(struct xrdma_channel *ch)
{
	int lost = xr_boot_io(ch->boot, ch->ctx->now);
	int ret = take_blocks(ch);

	if (ret > 0)
		return;
	if (ch->tcp)
		xr_tcp_qp_writable(ch->tcp);
	if (ret)
		block_failed(ch, ret);
	if (!lost && ch->boot && *xr_boot_why(ch->boot) != '\0') /* of what we sent or looked for */
		lost = xr_boot_io(ch->boot, ch->ctx->now);
	/* Whatever the queue pair was doing: the peer had nothing more to come. */
	if (ch->tcp_bye && xr_recovering(ch))
		xr_channel_fail(ch, ch->close_asked && xr_channel_all_sent(ch) ? 0 : -ECONNRESET,
				"the peer has closed it");
	if (ch->boot && lost)
		xr_channel_boot_ended(ch, lost, xr_boot_why(ch->boot));
	else if (ch->boot)
		xr_channel_boot_rewatch(ch);
	xr_recover_step(ch);
	xr_channel_touch(ch);
}

static void boot_ready(struct xr_watch *w, uint32_t events)
{
	xr_channel_boot_step(container_of(w, struct xrdma_channel, boot_watch));
}

void xr_channel_boot_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, boot_timer);

	if (ch->boot)
		xr_channel_boot_step(ch);
	else
		xr_channel_fail(ch, -ECONNRESET,
				"the peer said BYE and went without its last message");
}

void xr_channel_boot_bye(struct xrdma_channel *ch)
{
	if (ch->boot)
		(void)xr_channel_boot_send(ch, XR_BLOCK_BYE, NULL, 0);
}

void xr_channel_boot_close(struct xrdma_channel *ch)
{
	if (!ch->boot)
		return;
	list_del(&ch->dial);
	xr_watch_remove(ch->ctx, &ch->boot_watch);
	timer_off(&ch->boot_timer.timer);
	xr_boot_close(ch->boot);
	ch->boot = NULL;
}

int xr_channel_boot_watch(struct xrdma_channel *ch)
{
	int ret = xr_watch_add(ch->ctx, &ch->boot_watch, xr_boot_fd(ch->boot),
			       xr_boot_events(ch->boot), boot_ready);

	if (!ret)
		xr_timer_set(ch->ctx, &ch->boot_timer, xr_boot_deadline(ch->boot));
	return ret;
}
