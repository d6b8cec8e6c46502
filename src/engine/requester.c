/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: request packets, pulled one at a time (IBA 9.7.2-9.7.3). sq.cur and req.psn say
 * what is next; going back is moving them. A READ may leave as several READ requests, each asking
 * for what the window has room for, so that responses cannot overrun a network without PFC.
 */
#include "engine/mr.h"
#include "engine/mw.h"
#include "engine/qp.h"
#include "wire/aeth.h"

#include <assert.h>

/*
 * A READ leaves in requests of this share of the full window. Their boundaries are fixed, whatever
 * is lost: a repeated READ request may only ask for (the tail of) what one asked for before.
 */
enum { READ_SHARE = 4 };

/*
 * The peer is a program like us and may have to wait for a processor. The specification lets the
 * timeout be up to four times its nominal value (IBA 9.7.6.1.3): the first try takes the nominal
 * one, so that loss is repaired soon, later ones more and more of what is allowed.
 */
uint64_t requester_timeout_ns(const struct urxe_qp *qp)
{
	return aeth_timeout_ns(qp->attr.timeout) << qp->req.backoff;
}

void requester_restart_timer(struct urxe_qp *qp, uint64_t now)
{
	/* What is queued counts as outstanding even while the link has no room for it. */
	bool outstanding =
		qp->state == IBV_QPS_RTS ? qp->sq.head != qp->sq.tail : qp->req.una != qp->req.psn;

	if (qp->req.rnr_wait)
		return;
	if (!outstanding || qp->attr.timeout == 0 || !qp->reliable)
		timer_off(&qp->timer);
	else
		timer_set(&qp->engine->timers, &qp->timer, now + requester_timeout_ns(qp));
}

void requester_seek(struct urxe_qp *qp, uint32_t psn)
{
	struct send_queue *sq = &qp->sq;
	uint32_t i = sq->head;

	while (i != qp->req.begun) {
		const struct send_wqe *w = sq_at(sq, i);

		if (psn_diff(psn, psn_add(w->first_psn, w->n_psn)) < 0)
			break;
		i++;
	}
	sq->cur = i;
	qp->req.psn = psn;
}

/* A request that cannot begin now leaves the QP without being ready; an event brings it back. */
static bool may_begin(struct urxe_qp *qp, struct send_wqe *w)
{
	struct requester *req = &qp->req;

	if (qp->state != IBV_QPS_RTS)
		return false;
	if (!qp->reliable)
		return true;
	/* Fence: READs and ATOMICs before it must be done (IBA 10.8.3.3). */
	if (w->fence && req->rd_out > 0)
		return false;
	/* Out of credits: one request at a time may ask (IBA 9.7.7.2.5). */
	return !(w->needs_recv && req->credits &&
		 (int32_t)(req->recv_limit - req->recv_begun) <= 0 && req->una != req->psn);
}

static bool local_access_ok(struct urxe_qp *qp, const struct send_wqe *w)
{
	bool writes = w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	/* A single packet's payload is looked at when that is built, which is now. */
	if (w->is_inline || (!writes && w->length <= qp->mtu))
		return true;
	return mr_check_sges(qp->pd, w->sge, w->num_sge, writes ? IBV_ACCESS_LOCAL_WRITE : 0);
}

static bool is_local(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV;
}

/* What it takes to begin the request; for one about keys that is all of it. */
static enum ibv_wc_status prepare(struct urxe_qp *qp, const struct send_wqe *w)
{
	if (w->opcode == IBV_WR_BIND_MW)
		return mw_bind(qp, w);
	if (w->opcode == IBV_WR_LOCAL_INV)
		return mw_invalidate_local(qp, w->imm_be);
	return local_access_ok(qp, w) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

static bool begin(struct urxe_qp *qp, struct send_wqe *w)
{
	struct requester *req = &qp->req;
	enum ibv_wc_status status;

	if (!may_begin(qp, w))
		return false;
	status = prepare(qp, w);
	if (status != IBV_WC_SUCCESS) {
		completer_local_error(qp, status);
		return false;
	}
	w->first_psn = req->next_psn;
	w->n_psn = is_local(w) ? 0 : type_is_connected(qp->type) ? psns_of(qp, w->length) : 1;
	req->next_psn = psn_add(req->next_psn, w->n_psn);
	if (w->needs_recv)
		w->recv_ordinal = ++req->recv_begun;
	req->begun++;
	return true;
}

static bool gather(struct urxe_qp *qp, const struct send_wqe *w, uint32_t off, uint32_t len,
		   struct urxe_frame *f)
{
	int n;

	f->payload_len = len;
	if (w->is_inline) {
		f->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)(w->inline_data + off),
					   .iov_len = len};
		f->n_iov = len > 0;
		return true;
	}
	n = mr_gather(qp->pd, w->sge, w->num_sge, off, len, f->iov);
	if (n < 0) {
		completer_local_error(qp, IBV_WC_LOC_PROT_ERR);
		return false;
	}
	f->n_iov = (uint8_t)n;
	return true;
}

static uint8_t send_opcode(const struct send_wqe *w, bool first, bool last)
{
	if (!last)
		return first ? OP_SEND_FIRST : OP_SEND_MIDDLE;
	switch (w->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		return first ? OP_SEND_ONLY_IMM : OP_SEND_LAST_IMM;
	case IBV_WR_SEND_WITH_INV:
		return first ? OP_SEND_ONLY_INV : OP_SEND_LAST_INV;
	default:
		return first ? OP_SEND_ONLY : OP_SEND_LAST;
	}
}

static uint8_t write_opcode(const struct send_wqe *w, bool first, bool last)
{
	bool imm = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (first)
		return !last ? OP_WRITE_FIRST : imm ? OP_WRITE_ONLY_IMM : OP_WRITE_ONLY;
	return !last ? OP_WRITE_MIDDLE : imm ? OP_WRITE_LAST_IMM : OP_WRITE_LAST;
}

/* Room in the window, in PSNs. */
static uint32_t room(const struct requester *req)
{
	uint32_t in_flight = psn_add(req->psn, PSN_MASK + 1 - req->una) & PSN_MASK;

	return in_flight >= req->window ? 0 : req->window - in_flight;
}

/* Returns how many PSNs the packet stands for, 0 for no packet. */
static uint32_t build_read(struct urxe_qp *qp, const struct send_wqe *w, uint32_t done,
			   struct urxe_pkt *pkt)
{
	struct requester *req = &qp->req;
	uint32_t share = req->max_window > READ_SHARE ? req->max_window / READ_SHARE : 1;
	uint32_t n = share - done % share;
	uint64_t off = (uint64_t)done * qp->mtu;

	if (n > w->n_psn - done)
		n = w->n_psn - done;
	if (req->rd_out >= qp->attr.max_rd_atomic || (n > room(req) && req->psn != req->una))
		return 0;
	pkt->opcode = qp->service | OP_READ_REQ;
	pkt->ack_req = true;
	pkt->va = w->rc.va + off;
	pkt->rkey = w->rc.rkey;
	pkt->dma_len = w->length - (uint32_t)off;
	if (done + n < w->n_psn)
		pkt->dma_len = n * qp->mtu;
	req->rd_out++;
	return n;
}

static uint32_t build_atomic(struct urxe_qp *qp, const struct send_wqe *w, struct urxe_pkt *pkt)
{
	bool swap = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	if (qp->req.rd_out >= qp->attr.max_rd_atomic)
		return 0;
	pkt->opcode = qp->service | (swap ? OP_CMP_SWAP : OP_FETCH_ADD);
	pkt->ack_req = true;
	pkt->va = w->rc.va;
	pkt->rkey = w->rc.rkey;
	pkt->swap_add = swap ? w->rc.swap : w->rc.compare_add;
	pkt->compare = swap ? w->rc.compare_add : 0;
	qp->req.rd_out++;
	return 1;
}

static uint32_t build_atomic_write(struct urxe_qp *qp, const struct send_wqe *w,
				   struct urxe_pkt *pkt, struct urxe_frame *f)
{
	if (qp->req.rd_out >= qp->attr.max_rd_atomic || !gather(qp, w, 0, w->length, f))
		return 0;
	pkt->opcode = qp->service | OP_ATOMIC_WRITE;
	pkt->ack_req = true;
	pkt->va = w->rc.va;
	pkt->rkey = w->rc.rkey;
	pkt->dma_len = w->length;
	qp->req.rd_out++;
	return 1;
}

static uint32_t build_message(struct urxe_qp *qp, const struct send_wqe *w, uint32_t done,
			      struct urxe_pkt *pkt, struct urxe_frame *f)
{
	uint64_t off = (uint64_t)done * qp->mtu;
	uint32_t left = w->length - (uint32_t)off;
	bool last = done + 1 == w->n_psn;
	bool write = w->opcode == IBV_WR_RDMA_WRITE || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (!gather(qp, w, (uint32_t)off, last ? left : qp->mtu, f))
		return 0;
	pkt->opcode = qp->service |
		      (write ? write_opcode(w, done == 0, last) : send_opcode(w, done == 0, last));
	pkt->se = last && w->solicited;
	pkt->ack_req = qp->reliable && (last || (done & qp->req.ack_mask) == qp->req.ack_mask ||
					room(&qp->req) == 1);
	pkt->imm_be = w->imm_be;
	pkt->inv_rkey = w->imm_be;
	if (write && done == 0) {
		pkt->va = w->rc.va;
		pkt->rkey = w->rc.rkey;
		pkt->dma_len = w->length;
	}
	return 1;
}

static uint32_t build_datagram(struct urxe_qp *qp, const struct send_wqe *w, struct urxe_pkt *pkt,
			       struct urxe_frame *f)
{
	if (!gather(qp, w, 0, w->length, f))
		return 0;
	pkt->opcode =
		URXE_UD | (w->opcode == IBV_WR_SEND_WITH_IMM ? OP_SEND_ONLY_IMM : OP_SEND_ONLY);
	pkt->dqpn = w->ud.dqpn;
	/* A Q_Key with the top bit set stands for the QP's own (IBA 10.2.5). */
	pkt->qkey = w->ud.qkey & 0x80000000u ? qp->attr.qkey : w->ud.qkey;
	pkt->sqpn = qp->qpn;
	pkt->se = w->solicited;
	pkt->imm_be = w->imm_be;
	f->path = &w->ud.path;
	f->grh = true;
	return 1;
}

static uint32_t build(struct urxe_qp *qp, const struct send_wqe *w, struct urxe_pkt *pkt,
		      struct urxe_frame *f)
{
	uint32_t done = (uint32_t)psn_diff(qp->req.psn, w->first_psn);

	assert(done < w->n_psn);
	if (qp->type == IBV_QPT_UD)
		return build_datagram(qp, w, pkt, f);
	switch (w->opcode) {
	case IBV_WR_RDMA_READ:
		return build_read(qp, w, done, pkt);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return build_atomic(qp, w, pkt);
	case IBV_WR_ATOMIC_WRITE:
		return build_atomic_write(qp, w, pkt, f);
	default:
		return build_message(qp, w, done, pkt, f);
	}
}

/* What follows from having handed out n PSNs of w. */
static void sent(struct urxe_qp *qp, const struct send_wqe *w, uint32_t n, uint64_t now)
{
	struct requester *req = &qp->req;
	bool was_idle = req->psn == req->una;

	req->psn = psn_add(req->psn, n);
	if (psn_diff(req->psn, req->high) <= 0)
		count(qp->engine, URXE_CNT_RETRANSMITS);
	else
		req->high = req->psn;
	if (req->psn == psn_add(w->first_psn, w->n_psn))
		qp->sq.cur++;
	if (!qp->reliable) {
		req->una = req->psn;
		/* Unacknowledged services complete when the last packet has left. */
		while (qp->sq.head != qp->sq.cur)
			qp_retire_send(qp, IBV_WC_SUCCESS);
	} else if (was_idle) {
		requester_restart_timer(qp, now);
	}
}

/* The request at cur is executed, now or before what is being sent again; go on behind it. */
static bool pass_local(struct urxe_qp *qp, uint64_t now)
{
	qp->sq.cur++;
	completer_retire_local(qp);
	requester_restart_timer(qp, now);
	return true;
}

bool requester_pull(struct urxe_qp *qp, uint64_t now, struct urxe_frame *f)
{
	struct requester *req = &qp->req;
	struct send_queue *sq = &qp->sq;
	struct urxe_pkt pkt;
	struct send_wqe *w;
	uint32_t n;

	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) || req->rnr_wait ||
	    req->failed || room(req) == 0)
		return false;
	do {
		if (sq->cur == sq->tail)
			return false;
		w = sq_at(sq, sq->cur);
		if (sq->cur == req->begun && !begin(qp, w))
			return false;
	} while (w->n_psn == 0 && pass_local(qp, now));
	frame_begin(qp, f);
	pkt = (struct urxe_pkt){
		.dqpn = qp->attr.dest_qp_num, .psn = req->psn, .srqn = w->remote_srqn};
	n = build(qp, w, &pkt, f);
	if (n == 0)
		return false;
	frame_end(f, &pkt);
	sent(qp, w, n, now);
	return true;
}
