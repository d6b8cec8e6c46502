/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer: what comes back to the requester (IBA 9.7.5.1, 9.7.6, 9.9.2).
 *
 * One timer per QP. It is the local ACK timeout while anything is outstanding, restarted by every
 * progress; or, in rnr_wait, the end of the delay that the peer's RNR NAK asked for.
 */
#include "engine/mr.h"
#include "engine/qp.h"
#include "wire/aeth.h"

enum { MIN_WINDOW = 4, RNR_RETRY_INFINITE = 7, MAX_BACKOFF = 2 };

static bool is_read_or_atomic(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || w->opcode == IBV_WR_ATOMIC_WRITE;
}

static uint32_t last_psn(const struct send_wqe *w)
{
	return psn_add(w->first_psn, w->n_psn - 1);
}

/* The oldest request if its sending has begun, else NULL. */
static struct send_wqe *oldest(struct urxe_qp *qp)
{
	return qp->sq.head == qp->req.begun ? NULL : sq_at(&qp->sq, qp->sq.head);
}

/* The oldest request has failed: it completes with the reason, all others are flushed. */
static void fail(struct urxe_qp *qp, enum ibv_wc_status status)
{
	if (qp->sq.head != qp->sq.tail)
		qp_retire_send(qp, status);
	if (qp->reliable)
		qp_fail(qp);
	else
		qp_fail_sends(qp);
}

void completer_retire_local(struct urxe_qp *qp)
{
	const struct send_wqe *w;

	while ((w = oldest(qp)) && w->n_psn == 0)
		qp_retire_send(qp, IBV_WC_SUCCESS);
}

void completer_local_error(struct urxe_qp *qp, enum ibv_wc_status status)
{
	if (qp->sq.head == qp->sq.cur)
		fail(qp, status);
	else
		qp->req.failed = (uint8_t)status;
}

/* Send again from psn on, more carefully: loss is the only congestion signal here. */
static void go_back(struct urxe_qp *qp, uint32_t psn, bool lost)
{
	struct requester *req = &qp->req;

	if (lost && req->window > MIN_WINDOW)
		req->window = req->window / 2 > MIN_WINDOW ? req->window / 2 : MIN_WINDOW;
	req->window_credit = 0;
	req->rd_out = 0;
	req->failed = 0; /* found again when its turn comes again */
	requester_seek(qp, psn);
	qp_ready(qp);
}

/* PSNs up to una - 1 are done now. */
static void progress(struct urxe_qp *qp, uint32_t n, uint64_t now)
{
	struct requester *req = &qp->req;

	completer_retire_local(qp);
	req->backoff = 0;
	req->retries_left = qp->attr.retry_cnt;
	req->rnr_retries_left = qp->attr.rnr_retry;
	req->implied_nak = false;
	req->window_credit += n;
	if (req->window < req->max_window && req->window_credit >= req->window) {
		req->window_credit = 0;
		req->window++;
	}
	/* A late answer may overtake what was about to be sent again. */
	if (psn_diff(req->una, req->psn) > 0)
		requester_seek(qp, req->una);
	requester_restart_timer(qp, now);
	if (req->failed && qp->sq.head == qp->sq.cur)
		fail(qp, (enum ibv_wc_status)req->failed);
	else if (qp->sq.cur != qp->sq.tail)
		qp_ready(qp);
	if (qp->state == IBV_QPS_SQD)
		qp_report_drained(qp);
}

/*
 * Everything up to and including psn has been received by the peer. READs and ATOMICs are done
 * only by their responses: one that is passed over lost them, an implied NAK (IBA 9.7.5.1.4).
 * Returns the number of PSNs that this completed.
 */
static uint32_t acknowledge(struct urxe_qp *qp, uint32_t psn, bool *ret_passed_over)
{
	struct requester *req = &qp->req;
	uint32_t before = req->una;
	struct send_wqe *w;

	*ret_passed_over = false;
	while ((w = oldest(qp)) && (w->n_psn == 0 || psn_diff(w->first_psn, psn) <= 0)) {
		if (is_read_or_atomic(w)) {
			*ret_passed_over = psn_diff(req->una, psn) <= 0;
			break;
		}
		if (psn_diff(last_psn(w), psn) > 0) {
			if (psn_diff(psn_add(psn, 1), req->una) > 0)
				req->una = psn_add(psn, 1);
			break;
		}
		req->una = psn_add(last_psn(w), 1);
		qp_retire_send(qp, IBV_WC_SUCCESS);
	}
	return (uint32_t)psn_diff(req->una, before);
}

/* A later packet was answered while this READ or ATOMIC was not: ask again, once. */
static void implied_nak(struct urxe_qp *qp)
{
	if (qp->req.implied_nak)
		return;
	qp->req.implied_nak = true;
	count(qp->engine, URXE_CNT_RCVD_SEQ_ERR);
	go_back(qp, qp->req.una, true);
}

static void take_credits(struct urxe_qp *qp, uint8_t syndrome)
{
	struct requester *req = &qp->req;
	uint8_t value = syndrome & AETH_VALUE_MASK;
	uint32_t not_acked = 0;

	req->credits = value != AETH_CREDIT_INVALID;
	if (!req->credits)
		return;
	/* They count from the last message that this ACK covers: all begun but those still queued.
	 */
	for (uint32_t i = qp->sq.head; i != req->begun; i++)
		not_acked += sq_at(&qp->sq, i)->needs_recv;
	req->recv_limit = req->recv_begun - not_acked + aeth_credit_decode(value);
}

static void on_rnr(struct urxe_qp *qp, uint8_t syndrome, uint64_t now)
{
	struct requester *req = &qp->req;

	count(qp->engine, URXE_CNT_RCVD_RNR_ERR);
	if (req->rnr_wait)
		return;
	if (qp->attr.rnr_retry != RNR_RETRY_INFINITE) {
		if (req->rnr_retries_left == 0) {
			count(qp->engine, URXE_CNT_RETRY_RNR_EXCEEDED_ERR);
			fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		req->rnr_retries_left--;
	}
	go_back(qp, req->una, false);
	req->rnr_wait = true;
	timer_set(&qp->engine->timers, &qp->timer, now + aeth_rnr_ns(syndrome & AETH_VALUE_MASK));
}

static void on_seq_nak(struct urxe_qp *qp, uint64_t now)
{
	struct requester *req = &qp->req;

	count(qp->engine, URXE_CNT_RCVD_SEQ_ERR);
	if (req->retries_left == 0) {
		count(qp->engine, URXE_CNT_RETRY_EXCEEDED_ERR);
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	req->retries_left--;
	go_back(qp, req->una, true);
	requester_restart_timer(qp, now);
}

static void on_nak(struct urxe_qp *qp, uint8_t syndrome, uint64_t now)
{
	static const enum ibv_wc_status status[] = {
		[NAK_INVALID_REQ] = IBV_WC_REM_INV_REQ_ERR,
		[NAK_REM_ACCESS_ERR] = IBV_WC_REM_ACCESS_ERR,
		[NAK_REM_OP_ERR] = IBV_WC_REM_OP_ERR,
		[NAK_INVALID_RD_REQ] = IBV_WC_REM_INV_RD_REQ_ERR,
	};
	uint8_t code = syndrome & AETH_VALUE_MASK;

	if (code == NAK_PSN_SEQ_ERR) {
		on_seq_nak(qp, now);
	} else if (code <= NAK_INVALID_RD_REQ) {
		count(qp->engine, URXE_CNT_COMPLETER_RETRY_ERR);
		fail(qp, status[code]);
	}
}

static void on_ack(struct urxe_qp *qp, uint64_t now, const struct urxe_pkt *pkt)
{
	uint8_t class = pkt->syndrome & AETH_CLASS_MASK;
	/* A NAK names the PSN that it is about; those before it have arrived. */
	uint32_t acked = class == AETH_ACK ? pkt->psn : psn_add(pkt->psn, PSN_MASK);
	bool passed_over;
	uint32_t n = acknowledge(qp, acked, &passed_over);

	if (class == AETH_ACK)
		take_credits(qp, pkt->syndrome);
	if (n > 0)
		progress(qp, n, now);
	if (qp->state == IBV_QPS_ERR)
		return;
	if (passed_over)
		implied_nak(qp);
	else if (class == AETH_ACK && qp->sq.cur != qp->sq.tail)
		qp_ready(qp); /* credits may have come */
	/* A NAK for what is done already is stale, and so is one that a READ's loss overtakes. */
	if (class == AETH_ACK || passed_over || pkt->psn != qp->req.una)
		return;
	if (class == AETH_RNR)
		on_rnr(qp, pkt->syndrome, now);
	else if (class == AETH_NAK)
		on_nak(qp, pkt->syndrome, now);
}

/* The part of the oldest request that a response at its next PSN must carry; false: not that. */
static bool response_fits(const struct urxe_qp *qp, const struct send_wqe *w,
			  const struct urxe_pkt *pkt, uint64_t *ret_off)
{
	const struct urxe_opcode *op = &urxe_opcodes[pkt->opcode];
	uint64_t left;

	if (op->kind == KIND_ATOMIC_ACK) {
		*ret_off = 0;
		return w->opcode != IBV_WR_RDMA_READ && w->opcode != IBV_WR_ATOMIC_WRITE;
	}
	/* An ATOMIC WRITE is answered like a READ of nothing. */
	if (w->opcode == IBV_WR_ATOMIC_WRITE) {
		*ret_off = 0;
		return op->first && op->last && pkt->payload_len == 0;
	}
	if (w->opcode != IBV_WR_RDMA_READ)
		return false;
	*ret_off = (uint64_t)(uint32_t)psn_diff(pkt->psn, w->first_psn) * qp->mtu;
	left = w->length - *ret_off;
	if (pkt->psn == last_psn(w))
		return op->last && pkt->payload_len == left;
	return pkt->payload_len == qp->mtu;
}

static void on_response(struct urxe_qp *qp, uint64_t now, const struct urxe_pkt *pkt)
{
	const struct urxe_opcode *op = &urxe_opcodes[pkt->opcode];
	struct requester *req = &qp->req;
	const void *data = pkt->payload;
	uint32_t len = pkt->payload_len;
	struct send_wqe *w;
	bool passed_over;
	uint32_t n = acknowledge(qp, psn_add(pkt->psn, PSN_MASK), &passed_over);
	uint64_t off;

	w = oldest(qp);
	if (!w || pkt->psn != req->una || !is_read_or_atomic(w)) {
		if (n > 0)
			progress(qp, n, now);
		if (passed_over && qp->state != IBV_QPS_ERR)
			implied_nak(qp);
		return;
	}
	if (!response_fits(qp, w, pkt, &off)) {
		fail(qp, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (op->kind == KIND_ATOMIC_ACK) {
		data = &pkt->orig;
		len = sizeof(pkt->orig);
	}
	if (mr_scatter(qp->pd, w->sge, w->num_sge, off, data, len) < 0) {
		fail(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	if (op->last && req->rd_out > 0)
		req->rd_out--;
	req->una = psn_add(pkt->psn, 1);
	if (pkt->psn == last_psn(w))
		qp_retire_send(qp, IBV_WC_SUCCESS);
	progress(qp, n + 1, now);
}

void completer_rx(struct urxe_qp *qp, uint64_t now, const struct urxe_pkt *pkt)
{
	const struct requester *req = &qp->req;
	bool ack = urxe_opcodes[pkt->opcode].kind == KIND_ACK;

	/* The peer can only mean PSNs that are outstanding; others are ghosts (IBA 9.7.5.1.6). */
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) ||
	    psn_diff(pkt->psn, req->high) >= 0 || psn_diff(pkt->psn, req->una) < 0) {
		count(qp->engine, URXE_CNT_RX_UNEXPECTED);
		return;
	}
	if (ack)
		on_ack(qp, now, pkt);
	else
		on_response(qp, now, pkt);
}

void completer_timer(struct urxe_qp *qp, uint64_t now)
{
	struct requester *req = &qp->req;

	if (req->rnr_wait) {
		req->rnr_wait = false;
		qp_ready(qp);
		requester_restart_timer(qp, now);
		return;
	}
	/* Held back with nothing on the way: nobody is late. */
	if (dcqcn_holds(&qp->dcqcn, now) && req->una == req->psn) {
		requester_restart_timer(qp, now);
		return;
	}
	count(qp->engine, URXE_CNT_TIMEOUTS);
	if (req->retries_left == 0) {
		count(qp->engine, URXE_CNT_RETRY_EXCEEDED_ERR);
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	req->retries_left--;
	if (req->backoff < MAX_BACKOFF)
		req->backoff++;
	req->implied_nak = false;
	go_back(qp, req->una, true);
	/* Also while the link has no room: a peer that takes nothing is as silent as a dead one. */
	timer_set(&qp->engine->timers, &qp->timer, now + requester_timeout_ns(qp));
}
