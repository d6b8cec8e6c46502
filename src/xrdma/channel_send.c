/* SPDX-License-Identifier: BSD-2-Clause */
/* What a channel posts to its send queue, and how that ends. */
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/region.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static bool room(const struct xrdma_channel *ch, uint32_t spare)
{
	return xr_flow_room(&ch->ctx->flow, &ch->flow, spare);
}

static void wait_turn(struct xrdma_channel *ch)
{
	xr_flow_wait(&ch->ctx->flow, &ch->flow);
}

/* Windows of type 1 are not bound by ordinary requests. */
static int submit(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_mw_bind bind;

	if (wr->opcode != IBV_WR_BIND_MW || wr->bind_mw.mw->type != IBV_MW_TYPE_1)
		return ibv_post_send(qp, wr, &bad);
	bind = (struct ibv_mw_bind){.wr_id = wr->wr_id,
				    .send_flags = wr->send_flags,
				    .bind_info = wr->bind_mw.bind_info};
	return ibv_bind_mw(qp, wr->bind_mw.mw, &bind);
}

/*
 * Post one work request, described but for its id and flags. 0, or -EAGAIN: the device has no room
 * although we think so; the next completion makes some.
 */
static int post(struct xrdma_channel *ch, struct ibv_send_wr *wr, enum xr_wqe_op op,
		struct xrdma_msg *m, bool signal)
{
	struct xrdma_context *ctx = ch->ctx;
	uint32_t pos = ch->flow.head;
	int ret;

	wr->wr_id = (uint64_t)XR_WR_SEND << 62 | (uint64_t)ch->handle << 32 | pos;
	if (xr_flow_post(&ctx->flow, &ch->flow, signal))
		wr->send_flags |= IBV_SEND_SIGNALED;
	ret = submit(ch->qp, wr);
	if (ret == 0) {
		ch->wqes[pos & ch->wqe_mask] = (struct xr_wqe){.msg = m, .op = op};
		if (m)
			m->wrs++;
		return 0;
	}
	xr_flow_unpost(&ctx->flow, &ch->flow);
	if (ret != ENOMEM || xr_flow_outstanding(&ch->flow) == 0)
		xr_channel_break(ch, -ret, "the device refuses a send");
	return -EAGAIN;
}

static void fill_head(struct xrdma_channel *ch, const struct xrdma_msg *m, struct xr_head *h)
{
	h->type = (enum xr_type)m->type;
	h->id = m->id;
	h->len = m->len;
	h->epoch = ch->bounds.epoch;
	h->ctrl_ack = ch->win.ctl_seen;
	h->large = h->traced = h->stamped = false;
	if (m->type <= XR_RSP) {
		h->large = m->len > ch->bounds.small_bytes;
		h->key = (struct xr_key){(uintptr_t)m->data, m->mw ? m->mw->mw->rkey : m->rkey,
					 ch->bounds.epoch};
	} else if (m->type == XR_ERR_RSP) {
		h->status = m->status;
	} else if (m->type == XR_SLOT) {
		h->slot = (uint16_t)m->slot;
	} else if (m->type == XR_REGION) {
		xr_region_describe(ch, m->id, h);
		h->tag = m->tag;
		h->key.epoch = ch->bounds.epoch;
	}
}

/* Acknowledgements and, if it invalidates a window, that. */
static void stamp(const struct xrdma_channel *ch, const struct xrdma_msg *m, struct xr_head *h,
		  struct ibv_send_wr *wr)
{
	struct xr_stamp s = xr_window_stamp(&ch->win);

	xr_mw_choose(ch, m, h);
	wr->opcode = h->stamped ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND_WITH_IMM;
	h->seq = s.seq;
	h->ack = s.ack;
	if (h->stamped)
		wr->invalidate_rkey = h->invalidates;
	else
		wr->imm_data = htobe32(xr_imm(s.seq, s.ack));
}

/* Nearly all are: nothing but a header of the first 16 bytes, and behind it the payload. */
static bool is_plain(const struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	return m->origin == XR_FROM_SMALL && m->len <= ch->bounds.small_bytes && !m->traced &&
	       !ch->ctx->faults && !ch->mws_read.n;
}

/* One piece: the header goes into the headroom of the payload. */
static int post_plain(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	struct xr_stamp s = xr_window_stamp(&ch->win);
	struct ibv_sge sge = {
		.addr = (uintptr_t)m->data - XR_HDR_BYTES,
		.length = XR_HDR_BYTES + m->len,
		.lkey = m->lkey,
	};
	bool inlined = sge.length <= ch->max_inline;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = inlined ? IBV_SEND_INLINE : 0,
		.imm_data = htobe32(xr_imm(s.seq, s.ack)),
	};

	xr_head_put_plain((uint8_t *)m->data - XR_HDR_BYTES, m->type, s.ctrl_ack, m->id, m->len,
			  ch->bounds.epoch);
	/* A buffer waits for its completion: do not let it wait for sends that may never come. */
	return post(ch, &wr, XR_WQE_SEND, inlined ? NULL : m, !inlined && ch->queued <= 1);
}

/* Post header and, if it is small, payload of a message: m, or a control message (m NULL). */
static int post_message(struct xrdma_channel *ch, struct xr_head *h, struct xrdma_msg *m,
			enum xr_wqe_op op)
{
	uint8_t *head = (uint8_t *)ch->heads.addr + (ch->flow.head & ch->wqe_mask) * XR_HEAD_STRIDE;
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)head, .lkey = ch->heads.lkey}};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1};
	bool payload = m && h->type <= XR_RSP && !h->large && h->len, inlined;
	enum xr_verdict verdict;
	int ret;

	stamp(ch, m, h, &wr);
	sge[0].length = (uint32_t)xr_head_put(head, h);
	if (payload) {
		sge[1] = (struct ibv_sge){(uintptr_t)m->data, m->len, m->lkey};
		wr.num_sge = 2;
	}
	inlined = sge[0].length + sge[1].length <= ch->max_inline;
	if (inlined)
		wr.send_flags = IBV_SEND_INLINE;
	if (ch->ctx->faults && (verdict = xr_fault_out(ch, head)) != XR_VERDICT_PASS)
		return verdict == XR_VERDICT_LOSE ? 0 : -EAGAIN;
	/* A buffer waits for its completion: do not let it wait for sends that may never come. */
	ret = post(ch, &wr, op, payload && !inlined ? m : NULL,
		   op == XR_WQE_BYE || (payload && !inlined && ch->queued <= 1));
	if (!ret && ch->mws_read.n)
		xr_mw_told(ch, h, h->ack);
	if (ch->ctx->faults && !ret && room(ch, XR_SPARE_BEACON) && xr_fault_again(ch))
		(void)post_message(ch, h, m, op);
	return ret;
}

/* One with more to it, or of the caller's memory. */
static int post_other(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	struct xr_head h;
	int ret;

	if (ch->ctx->faults && xr_fault_held(ch))
		return -EAGAIN;
	ret = xr_mw_bind(ch, m);
	if (ret)
		return ret;
	fill_head(ch, m, &h);
	if (m->traced && ch->bounds.trace)
		xr_trace_sent(ch, m, &h);
	return post_message(ch, &h, m, XR_WQE_SEND);
}

static int send_now(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	struct xrdma_context *ctx = ch->ctx;
	int ret = is_plain(ch, m) ? post_plain(ch, m) : post_other(ch, m);

	if (ret)
		return ret;
	m->seq = ch->win.next;
	xr_window_sent(&ch->win, true);
	ch->unacked[m->seq & ch->unacked_mask] = m;
	m->unacked = true;
	m->state = XR_M_SENT;
	ctx->stats.msgs_sent++;
	ctx->stats.bytes_sent += m->len;
	ch->counts.msgs_sent++;
	ch->counts.bytes_sent += m->len;
	return 0;
}

static bool can_send(const struct xrdma_channel *ch)
{
	return xr_channel_flows(ch) && xr_window_open(&ch->win) && room(ch, XR_SPARE_CONTROL);
}

static int prepare(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	/* Before the limits are agreed the smaller part of them may turn out to be the peer's. */
	bool large = m->len > ch->bounds.small_bytes || ch->state < XR_CH_READY;

	return xr_msg_register(m, large ? xr_mw_access(ch->ctx) : 0);
}

/*
 * Accept a message, out of the application's hands, for sending. must: even if the queue is full,
 * which replies and the library's own messages are.
 */
int xr_channel_send(struct xrdma_channel *ch, struct xrdma_msg *m, bool must)
{
	struct xrdma_context *ctx = ch->ctx;
	int ret;

	if (ch->queued >= ctx->conf.queue_depth && !must) {
		ctx->stats.queue_full++;
		return xr_error_counted(-EAGAIN, ch->queued,
					"messages wait in this channel (queue_depth): the peer "
					"does not consume them");
	}
	ret = prepare(ch, m);
	if (ret)
		return ret;
	if (m->state == XR_M_APP || m->state == XR_M_DELIVERING)
		xr_msg_from_app(m, XR_M_QUEUED);
	if (ch->queued == 0 && can_send(ch) && send_now(ch, m) == 0)
		return 0;
	if (xr_channel_flows(ch) && !xr_window_open(&ch->win))
		ctx->stats.window_closed++;
	list_add_tail(&ch->queue, &m->link);
	ch->queued++;
	if (xr_channel_flows(ch))
		wait_turn(ch);
	return 0;
}

static bool pump_queue(struct xrdma_channel *ch)
{
	while (ch->queued && xr_window_open(&ch->win)) {
		struct list *node = ch->queue.next;

		if (xr_mw_starved(ch, container_of(node, struct xrdma_msg, link)))
			return true;
		if (!room(ch, XR_SPARE_CONTROL) || ch->flow.quantum == 0)
			return false;
		if (send_now(ch, container_of(node, struct xrdma_msg, link)))
			return false;
		list_del(node);
		ch->queued--;
		/* Half a turn for fragments, if there are any. */
		if (!list_empty(&ch->moving) && ch->flow.quantum <= ch->ctx->flow.quantum / 2)
			break;
	}
	return true;
}

static bool post_ack(struct xrdma_channel *ch, enum xr_type type)
{
	struct xr_head h = {.type = type, .ctrl_ack = ch->win.ctl_seen, .epoch = ch->bounds.epoch};

	if (!xr_window_control_open(&ch->win))
		return true; /* a report of the peer will open it, and bring us here again */
	if (!room(ch, XR_SPARE_BEACON))
		return false;
	if (post_message(ch, &h, NULL, type == XR_BYE ? XR_WQE_BYE : XR_WQE_SEND))
		return false;
	xr_window_sent(&ch->win, false);
	ch->ctx->stats.acks_sent += type == XR_ACK;
	ch->bye_sent |= type == XR_BYE;
	return true;
}

bool xr_channel_send_bye(struct xrdma_channel *ch)
{
	if (!post_ack(ch, XR_BYE))
		wait_turn(ch);
	return ch->bye_sent;
}

static void delay_ack(struct xrdma_channel *ch)
{
	ch->ack_overdue = false;
	ch->told_then = ch->win.told;
	xr_timer_set(ch->ctx, &ch->ack_timer,
		     ch->ctx->now + ch->ctx->conf.ack_delay_us * NSEC_PER_USEC);
}

void xr_channel_ack_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, ack_timer);

	if (!xr_channel_flows(ch) || xr_window_ack(&ch->win) == XR_ACK_NONE)
		return;
	/* Messages take acknowledgements along: what came since the last one is not old yet. */
	if (ch->told_then != ch->win.told) {
		delay_ack(ch);
	} else if (!post_ack(ch, XR_ACK)) {
		ch->ack_overdue = true;
		wait_turn(ch);
	}
}

/* A turn of the channel: messages, then what acknowledgement none of them carried, fragments. */
void xr_channel_pump(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	bool done;

	if (!xr_channel_flows(ch))
		return;
	ch->flow.quantum = ctx->flow.quantum;
	done = (!ch->mws.all || xr_mw_pump(ch)) && pump_queue(ch);
	switch (xr_window_ack(&ch->win)) {
	case XR_ACK_AT_ONCE:
		done &= post_ack(ch, XR_ACK);
		break;
	case XR_ACK_LATER:
		if (ch->ack_overdue && ch->told_then == ch->win.told)
			done &= post_ack(ch, XR_ACK);
		else if (ch->ack_timer.timer.due_ns == CLOCK_NEVER)
			delay_ack(ch);
		break;
	case XR_ACK_NONE: /* the timer, if it runs, finds that */
		break;
	}
	if (!list_empty(&ch->moving) && xr_channel_flows(ch))
		done &= xr_move_pump(ch);
	if (!done && xr_channel_flows(ch))
		wait_turn(ch);
}

/* The peer's application has consumed what lies before win.acked. */
void xr_channel_let_go(struct xrdma_channel *ch)
{
	while (ch->let_go != ch->win.acked) {
		struct xrdma_msg **place = &ch->unacked[ch->let_go++ & ch->unacked_mask];
		struct xrdma_msg *m = *place;

		*place = NULL;
		m->unacked = false;
		if (m->mw)
			xr_mw_due(ch, m);
		if (m->type == XR_GONE)
			xr_export_let_go(ch, m->id);
		xr_msg_sent_check(m);
	}
}

/*
 * win.acked has moved on. One small message, which is what a reply acknowledges, is let go when the
 * answer to that is on its way; memory of others may be what the answer needs.
 */
void xr_channel_acked(struct xrdma_channel *ch)
{
	uint16_t n = (uint16_t)(ch->win.acked - ch->let_go);

	if (n > XR_LATE ||
	    (n && ch->unacked[ch->let_go & ch->unacked_mask]->origin != XR_FROM_SMALL))
		xr_channel_let_go(ch);
}

void xr_channel_requeue(struct xrdma_channel *ch, uint16_t end)
{
	while (end != ch->win.acked) {
		struct xrdma_msg **place = &ch->unacked[--end & ch->unacked_mask], *m = *place;

		*place = NULL;
		m->unacked = false;
		m->state = XR_M_QUEUED;
		list_add_tail(ch->queue.next, &m->link); /* before the first */
		ch->queued++;
		ch->ctx->stats.resent++;
	}
}

/* ---- others ---- */

bool xr_channel_post_beacon(struct xrdma_channel *ch)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	return post(ch, &wr, XR_WQE_BEACON, NULL, true) == 0;
}

bool xr_channel_post_alive(struct xrdma_channel *ch)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	if (!room(ch, XR_SPARE_BEACON) || post(ch, &wr, XR_WQE_ALIVE, NULL, true))
		return false;
	ch->alive_posted = true;
	return true;
}

int xr_channel_post_probe(struct xrdma_channel *ch)
{
	struct xrdma_msg *m = ch->probe;
	struct ibv_sge sge = {(uintptr_t)m->data, XR_PROBE_BYTES, m->lkey};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = m->key.addr, .rkey = m->key.rkey},
	};

	if (ch->ctx->faults && !ch->tcp)
		xr_fault_probe(ch, ch->qp);
	return post(ch, &wr, XR_WQE_PROBE, m, true);
}

int xr_channel_post_mw(struct xrdma_channel *ch, struct ibv_send_wr *wr, struct xrdma_msg *m,
		       bool signal)
{
	return post(ch, wr, XR_WQE_MW, m, signal);
}

int xr_channel_post_move(struct xrdma_channel *ch, struct xrdma_msg *m, uint32_t len,
			 uint32_t fragments)
{
	uint32_t pos = ch->flow.head;
	struct ibv_sge sge = {(uintptr_t)m->data + m->posted, len, m->lkey};
	struct ibv_send_wr wr = {
		.opcode = m->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = m->key.addr + m->posted, .rkey = m->key.rkey},
	};

	int ret = post(ch, &wr, XR_WQE_MOVE, m, true);

	if (ret)
		return ret;
	ch->wqes[pos & ch->wqe_mask].fragments = fragments;
	ch->flow.quantum -= fragments - 1;
	ch->ctx->stats.fragments += fragments;
	return 0;
}

/* ---- ends ---- */

static void end_wqe(struct xrdma_channel *ch, const struct xr_wqe *wqe, int status)
{
	struct xrdma_msg *m = wqe->msg;

	if (m)
		m->wrs--;
	switch (wqe->op) {
	case XR_WQE_SEND:
		if (m)
			xr_msg_sent_check(m);
		break;
	case XR_WQE_BYE:
		ch->bye_ended = true;
		break;
	case XR_WQE_PROBE:
		if (status == 0)
			xr_channel_probe_ended(ch);
		else
			xr_mock_failed(ch, status);
		break;
	case XR_WQE_MOVE:
		xr_move_ended(ch, m, wqe->fragments, status);
		break;
	case XR_WQE_BEACON:
		break;
	case XR_WQE_MW:
		if (m)
			xr_mw_ended(ch, m, status);
		break;
	case XR_WQE_ALIVE:
		ch->alive_posted = false;
		break;
	}
}

void xr_channel_send_completed(struct xrdma_channel *ch, uint32_t pos, enum ibv_wc_status wc)
{
	struct xrdma_context *ctx = ch->ctx;
	int status = xr_wc_status(ctx, wc);
	uint32_t first = ch->flow.tail, n = xr_flow_retire(&ctx->flow, &ch->flow, pos);

	if (n == 0) {
		ctx->stats.stale_completions++;
		return;
	}
	if (status)
		xr_channel_break(ch, status, ibv_wc_status_str(wc));
	else
		ch->heard_at = ctx->now;
	for (uint32_t i = 0; i < n; i++) {
		struct xr_wqe wqe = ch->wqes[(first + i) & ch->wqe_mask];

		end_wqe(ch, &wqe, i + 1 == n ? status : 0);
	}
	xr_channel_touch(ch);
}

void xr_channel_drop_posted(struct xrdma_channel *ch)
{
	uint32_t first = ch->flow.tail, n = xr_flow_outstanding(&ch->flow);

	xr_flow_leave(&ch->ctx->flow, &ch->flow);
	for (uint32_t i = 0; i < n; i++) {
		struct xr_wqe wqe = ch->wqes[(first + i) & ch->wqe_mask];

		end_wqe(ch, &wqe, -ECONNRESET);
	}
}
