/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payloads that do not come inside a message: READ in fragments by the receiver, and one-sided
 * operations of the application likewise. As many fragments of a channel are outstanding as its
 * queue pair may have READs in flight: more would only stand in the way of its sends.
 */
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/region.h"

#include <errno.h>

enum { JOINED_BYTES = 256 << 10 };

static struct xrdma_msg *moving_msg(struct list *node)
{
	return container_of(node, struct xrdma_msg, moving);
}

void xr_move_start(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	if (m->state == XR_M_MOVING)
		m->remote->in_flight++;
	m->posted = 0;
	list_add_tail(&ch->moving, &m->moving);
	xr_channel_touch(ch);
}

/*
 * How many fragments of the message may be posted at once. They leave as one READ or WRITE, as each
 * of those has its cost at both NICs; of what may be outstanding it is a quarter at most, so that
 * the rest is under way while it ends.
 */
static uint32_t due(const struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	uint32_t frag = ch->agreed.frag_bytes, room = ch->max_fragments - ch->fragments;
	uint32_t left = (m->len - m->posted) / frag + ((m->len - m->posted) % frag > 0);
	uint32_t n = ch->max_fragments / 4;

	if (n > JOINED_BYTES / frag)
		n = JOINED_BYTES / frag;
	if (n > ch->flow.quantum)
		n = ch->flow.quantum;
	if (n > room)
		n = room;
	if (n > left)
		n = left;
	return n ? n : 1;
}

/* False: there is more to post than there is room for. */
bool xr_move_pump(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;

	while (!list_empty(&ch->moving)) {
		struct xrdma_msg *m = moving_msg(ch->moving.next);
		uint32_t len = m->len - m->posted, n;

		if (ch->fragments >= ch->max_fragments)
			return true; /* a fragment's end brings us here again */
		if (!xr_flow_room(&ctx->flow, &ch->flow, XR_SPARE_CONTROL) || ch->flow.quantum == 0)
			return false;
		n = due(ch, m);
		if (len > (uint64_t)n * ch->agreed.frag_bytes)
			len = n * ch->agreed.frag_bytes;
		if (xr_channel_post_move(ch, m, len, n))
			return false;
		ch->fragments += n;
		m->posted += len;
		if (m->posted == m->len)
			list_del(&m->moving);
	}
	return true;
}

/*
 * Not done, and not for a reason of its own: it starts again when the channel is whole. Moving the
 * same bytes twice does no harm: until it is told that the operation is done, nobody may rely on
 * what is there.
 */
static bool may_repeat(const struct xrdma_msg *m)
{
	switch (m->status) {
	case 0:
		return m->posted < m->len;
	case -ETIMEDOUT:
	case -ECONNRESET:
	case -ENOBUFS:
		return true;
	default:
		return false;
	}
}

static void end_move(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	int ret = m->posted < m->len && m->status == 0 ? -ECONNRESET : m->status;
	struct xrdma_remote_region *remote = m->remote;

	remote->in_flight--;
	list_del(&m->moving);
	xr_msg_to_app(m);
	m->done(ch, ret, m, m->arg);
	if (remote->gone && remote->in_flight == 0)
		xr_channel_deliver(ch);
}

/* A one-sided operation that goes nowhere any more, now at least. */
static void put_off(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	m->remote->in_flight--;
	list_del(&m->moving);
	list_add_tail(&ch->rec.moves, &m->moving);
}

void xr_move_ended(struct xrdma_channel *ch, struct xrdma_msg *m, uint32_t fragments, int status)
{
	ch->fragments -= fragments;
	if (status && m->status == 0)
		m->status = status;
	if (m->wrs || (m->posted < m->len && xr_channel_flows(ch)))
		return;
	if (m->state == XR_M_MOVING && ch->state == XR_CH_BREAKING && may_repeat(m)) {
		put_off(ch, m);
		return;
	}
	if (m->state == XR_M_MOVING) {
		end_move(ch, m);
		return;
	}
	if (m->posted < m->len || m->status || !xr_channel_flows(ch))
		return; /* the channel's end frees it */
	ch->ctx->stats.large_read++;
	m->complete = true;
	xr_mw_read(ch, m);
	if (m->type == XR_RSP)
		xr_channel_deliver_reply(ch, m);
	else
		xr_channel_deliver(ch);
}

void xr_move_suspend(struct xrdma_channel *ch)
{
	while (!list_empty(&ch->moving))
		put_off(ch, moving_msg(ch->moving.next));
}

void xr_move_restart(struct xrdma_channel *ch)
{
	for (struct list *node = list_pop(&ch->rec.moves); node; node = list_pop(&ch->rec.moves)) {
		struct xrdma_msg *m = moving_msg(node);

		m->status = 0;
		m->key = m->remote->key;
		m->key.addr += m->remote_offset;
		if (m->key.epoch == ch->bounds.epoch && !m->remote->gone) {
			xr_move_start(ch, m);
			continue;
		}
		ch->ctx->stats.stale_epochs++;
		xr_msg_to_app(m);
		m->done(ch, -ESTALE, m, m->arg);
	}
}

/* A large message was announced: m has key and len, and no memory yet. */
void xr_large_begin(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	struct xrdma_context *ctx = ch->ctx;

	m->status = 0;
	if (list_empty(&ctx->hungry) && xr_msg_alloc(m, XR_RX, m->len) == 0) {
		xr_move_start(ch, m);
		return;
	}
	ctx->stats.rx_starved++;
	list_add_tail(&ctx->hungry, &m->moving);
}

void xr_large_feed(struct xrdma_context *ctx)
{
	while (!list_empty(&ctx->hungry)) {
		struct xrdma_msg *m = moving_msg(ctx->hungry.next);

		if (xr_msg_alloc(m, XR_RX, m->len))
			return;
		list_del(&m->moving);
		xr_move_start(m->ch, m);
	}
}
