/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What arrives: parsed, put through the window, delivered. A message counts as consumed when its
 * callback has returned, a large one that is freed there at once: if the application keeps it,
 * another buffer takes its place in the receive queue, and where there is none the acknowledgement
 * waits.
 */
#include "base/ticks.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/region.h"

#include <assert.h>
#include <errno.h>

/* The message's place may be filled again and its sequence counts as consumed; that of a large one
 * does already if the callback freed it: see xr_msg_release(). */
static void consume(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	if (!m->small) { /* its place was filled when it arrived */
		if (m->state != XR_M_RETURNED)
			xr_window_consume(&ch->win, m->seq);
		xr_msg_put(m);
		return;
	}
	if (m->region)
		xr_region_unuse(m->region);
	m->region = NULL;
	(void)xr_rq_refill(ch->rq, m, ch, m->seq); /* cannot fail: m has a buffer */
}

/* The application has kept m: another buffer for its place. */
static void replace(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	if (!m->small)
		xr_window_consume(&ch->win, m->seq);
	else if (!xr_rq_refill(ch->rq, NULL, ch, m->seq))
		xr_rq_owe(ch->rq, m);
}

/* What was delivered counts as consumed, whether or not its place was filled: it is all new soon.
 */
static void forgive_debts(struct xrdma_channel *ch)
{
	list_for_each_safe (pos, &ch->rq->debts) {
		struct xrdma_msg *m = container_of(pos, struct xrdma_msg, link);

		if (m->ch != ch)
			continue;
		list_del(pos);
		m->owes = false;
		xr_window_consume(&ch->win, m->seq);
		if (ch->rq != &ch->own_rq)
			(void)xr_rq_refill(ch->rq, NULL, NULL, 0);
	}
}

/* Not delivered: its place may be filled again, and that is all. */
static void give_back(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	if (!m->small) {
		xr_msg_put(m);
		return;
	}
	if (m->region)
		xr_region_unuse(m->region);
	m->region = NULL;
	(void)xr_rq_refill(ch->rq, m, NULL, 0);
}

static void give_back_all(struct xrdma_channel *ch, struct list *head)
{
	for (struct list *node = list_pop(head); node; node = list_pop(head))
		give_back(ch, container_of(node, struct xrdma_msg, link));
}

void xr_channel_forget_arrivals(struct xrdma_channel *ch)
{
	list_for_each (pos, &ch->in_order) {
		const struct xrdma_msg *m = container_of(pos, struct xrdma_msg, link);

		if (m->type == XR_REGION)
			xr_remote_forget(ch, m->id);
	}
	give_back_all(ch, &ch->in_order);
	give_back_all(ch, &ch->replies);
	if (ch->rq)
		forgive_debts(ch);
}

void xr_msg_release(struct xrdma_msg *m)
{
	struct xrdma_channel *ch = m->ch;
	bool delivering = m->state == XR_M_DELIVERING;

	xr_msg_from_app(m, XR_M_RETURNED);
	if (delivering) {
		if (!m->small) /* what is sent after this acknowledges it */
			xr_window_consume(&ch->win, m->seq);
		return; /* the rest is done when the callback has returned */
	}
	if (m->owes) {
		list_del(&m->link);
		m->owes = false;
		(void)xr_rq_refill(ch->rq, m, ch, m->seq);
		xr_channel_touch(ch);
		return;
	}
	xr_msg_put(m);
	xr_channel_check_gone(ch);
}

/* In a callback that is given m: hand over, call, and see what became of it. */
#define DELIVER(ch, m, call)                                                                       \
	do {                                                                                       \
		uint64_t began = (ch)->ctx->conf.slow_handler_us ? ticks_now_ns() : 0;             \
		xr_msg_to_app(m);                                                                  \
		(m)->state = XR_M_DELIVERING;                                                      \
		call;                                                                              \
		if (began)                                                                         \
			xr_trace_handler(ch, began);                                               \
		if ((m)->state == XR_M_RETURNED)                                                   \
			consume(ch, m);                                                            \
		else                                                                               \
			keep(ch, m);                                                               \
	} while (0)

static void keep(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	m->state = XR_M_APP;
	replace(ch, m);
}

static void count(struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	ch->ctx->stats.msgs_received++;
	ch->ctx->stats.bytes_received += m->len;
	ch->counts.msgs_received++;
	ch->counts.bytes_received += m->len;
}

static void deliver(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	count(ch, m);
	if (m->type == XR_REGION) {
		struct xrdma_remote_region *remote = xr_remote_find(ch, m->id);

		if (ch->handlers.on_region)
			ch->handlers.on_region(ch, remote, ch->arg);
	}
	if (m->type == XR_REGION || m->type == XR_GONE) {
		consume(ch, m);
		return;
	}
	if (m->traced)
		xr_trace_delivered(m);
	DELIVER(ch, m, ch->handlers.on_msg(ch, m, ch->arg));
}

/* Who acknowledges that a key is gone has no operation under way that uses it. */
static bool deliverable(const struct xrdma_msg *m)
{
	return m->type == XR_GONE ? m->remote->in_flight == 0 : m->complete;
}

void xr_channel_deliver(struct xrdma_channel *ch)
{
	while (!list_empty(&ch->in_order) && xr_channel_flows(ch)) {
		struct xrdma_msg *m = container_of(ch->in_order.next, struct xrdma_msg, link);

		if (!deliverable(m))
			return;
		list_del(&m->link);
		deliver(ch, m);
	}
	xr_channel_touch(ch);
}

/* A reply, or what stands for one, is here. */
void xr_channel_deliver_reply(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	struct xr_call *call = xr_call_find(ch, m->id);

	list_del(&m->link);
	if (!call) {
		ch->ctx->stats.late_replies++;
		consume(ch, m);
	} else if (m->type == XR_ERR_RSP) {
		count(ch, m);
		xr_call_end(call, m->status, NULL);
		consume(ch, m);
	} else {
		count(ch, m);
		if (m->traced)
			xr_trace_done(call, m);
		DELIVER(ch, m, xr_call_end(call, 0, m));
	}
	xr_channel_touch(ch);
}

/*
 * Of a large message only the announcement came: the payload gets a message of its own, and the
 * buffer goes back.
 */
static struct xrdma_msg *announce(struct xrdma_channel *ch, struct xrdma_msg *m,
				  const struct xr_head *h)
{
	struct xrdma_msg *big = xr_msg_get(ch->ctx);

	if (!big) {
		xr_channel_fail(ch, -ENOMEM, "out of memory for a message");
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
		return NULL;
	}
	big->ch = ch;
	big->state = XR_M_ARRIVED;
	big->seq = m->seq;
	big->key = h->key;
	(void)xr_rq_refill(ch->rq, m, NULL, 0);
	return big;
}

/* -ESTALE: of a region that was there; else there is no such slot, or one region too many. */
static int special(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h)
{
	if (h->type == XR_SLOT)
		return xr_region_arrived_slot(ch, m, h);
	if (h->type == XR_REGION)
		return xr_remote_new(ch, h);
	if (h->type == XR_GONE)
		return xr_remote_gone(ch, m, h);
	return 0;
}

static void accept_message(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h)
{
	int ret;

	if (h->large) {
		m = announce(ch, m, h);
		if (!m)
			return;
	}
	m->type = (uint8_t)h->type;
	m->id = h->id;
	m->len = h->len;
	m->status = h->status;
	m->received = true;
	m->answered = false;
	m->complete = m->small = !h->large;
	m->slot = -1;
	m->traced = h->traced;
	if (m->small) /* they lie before the payload */
		m->data = (uint8_t *)m->data + xr_head_extra(h);
	if (h->traced)
		xr_trace_received(m, h);
	if (h->type == XR_RSP || h->type == XR_ERR_RSP) {
		if (m->complete || !xr_call_find(ch, h->id)) {
			xr_channel_deliver_reply(ch, m);
			return;
		}
		list_add_tail(&ch->replies, &m->link);
		xr_large_begin(ch, m);
		return;
	}
	ret = special(ch, m, h);
	if (ret == -ESTALE) { /* the peer cannot know yet: there is nothing to deliver */
		ch->ctx->stats.stale_epochs++;
		consume(ch, m);
		return;
	}
	if (ret) {
		give_back(ch, m);
		ch->ctx->stats.protocol_errors++;
		xr_channel_fail(ch, -EPROTO, "the peer names a slot or region there cannot be");
		return;
	}
	list_add_tail(&ch->in_order, &m->link);
	if (h->large)
		xr_large_begin(ch, m);
	else
		xr_channel_deliver(ch);
}

static void accept_control(struct xrdma_channel *ch, struct xrdma_msg *m, enum xr_type type)
{
	(void)xr_rq_refill(ch->rq, m, NULL, 0);
	if (type == XR_ACK) {
		ch->ctx->stats.acks_received++;
		return;
	}
	ch->bye_received = true;
	if (ch->state == XR_CH_OPEN)
		xr_channel_set_state(ch, XR_CH_CLOSING);
}

static int check(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc,
		 struct xr_head *h, const char **ret_why)
{
	const uint8_t *head = (const uint8_t *)m->data - XR_HDR_BYTES;
	bool invalidates = xr_mw_invalidates(wc);
	struct xr_stamp stamp;
	int ret;

	if (!(invalidates || wc->wc_flags & IBV_WC_WITH_IMM) || wc->opcode != IBV_WC_RECV) {
		*ret_why = "a message without its immediate data";
		return -EPROTO;
	}
	ret = xr_head_parse(head, wc->byte_len, &ch->bounds, h, ret_why);
	if (ret)
		return ret;
	if (h->stamped != invalidates || (invalidates && h->invalidates != wc->invalidated_rkey)) {
		*ret_why = "a message that does not say which key it invalidates";
		return -EPROTO;
	}
	if (ch->bye_received && h->type != XR_ACK) {
		*ret_why = "a message after the last one";
		return -EPROTO;
	}
	stamp.seq = invalidates ? h->seq : xr_imm_seq(be32toh(wc->imm_data));
	stamp.ack = invalidates ? h->ack : xr_imm_ack(be32toh(wc->imm_data));
	stamp.ctrl_ack = h->ctrl_ack;
	m->seq = stamp.seq;
	return xr_window_receive(&ch->win, &stamp, xr_type_windowed(h->type), ret_why);
}

void xr_channel_received(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc)
{
	const char *why = NULL;
	struct xr_head h;
	int ret;

	if (ch->ctx->faults && xr_fault_in(ch, m, wc))
		return;
	m->ch = ch;
	m->state = XR_M_ARRIVED;
	m->data = (uint8_t *)(uintptr_t)m->recv_sge.addr + XR_HDR_BYTES;
	if (ch->state == XR_CH_OPENING)
		xr_channel_opened(ch); /* who sends has read our probe */
	if (!xr_channel_flows(ch)) {
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
		return;
	}
	ret = check(ch, m, wc, &h, &why);
	if (ret < 0) {
		if (ret == -ESTALE)
			ch->ctx->stats.stale_epochs++;
		else
			ch->ctx->stats.protocol_errors++;
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
		xr_channel_fail(ch, ret, why);
		return;
	}
	ch->heard_at = ch->ctx->now;
	xr_channel_acked(ch);
	if (!xr_type_windowed(h.type))
		accept_control(ch, m, h.type);
	else if (ret == 1)
		accept_message(ch, m, &h);
	else
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
	xr_channel_touch(ch);
}
