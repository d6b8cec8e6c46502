/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's half of sending: READ responses, ATOMIC ACKs, ACKs and NAKs, in the order of
 * their PSNs (IBA 9.7.5.1). ACKs coalesce: only the newest is kept, and it speaks for all before.
 */
#include "engine/mr.h"
#include "engine/qp.h"
#include "wire/aeth.h"

/* Receives that the peer may count on; a shared queue promises nothing (IBA 9.7.7.2). */
static uint8_t credits(const struct urxe_qp *qp)
{
	if (qp->srq || qp->xrcd)
		return AETH_CREDIT_INVALID;
	return aeth_credit_encode(rq_count(&qp->rq));
}

static struct resource *next_pending(struct responder *resp)
{
	struct resource *next = NULL;

	for (uint32_t i = 0; resp->n_pending > 0 && i < resp->n_res; i++) {
		struct resource *res = &resp->res[i];

		if (res->pending && (!next || psn_diff(res->cur_psn, next->cur_psn) < 0))
			next = res;
	}
	return next;
}

static void build_ack(struct urxe_qp *qp, struct urxe_frame *f)
{
	struct responder *resp = &qp->resp;
	struct urxe_pkt pkt = {
		.opcode = qp->service | OP_ACK,
		.dqpn = qp->attr.dest_qp_num,
		.psn = resp->answer_psn,
		.syndrome = resp->answer == ANSWER_ACK ? AETH_ACK | credits(qp) : resp->syndrome,
		.msn = resp->msn,
	};

	resp->answer = ANSWER_NONE;
	frame_begin(qp, f);
	frame_end(f, &pkt);
}

static uint8_t read_opcode(bool first, bool last)
{
	if (first)
		return last ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST;
	return last ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}

/* False: the region is gone or no longer readable. */
static bool build_response(struct urxe_qp *qp, struct resource *res, struct urxe_frame *f)
{
	uint64_t off = (uint64_t)(uint32_t)psn_diff(res->cur_psn, res->first_psn) * qp->mtu;
	bool last = psn_add(res->cur_psn, 1) == psn_add(res->first_psn, res->n_psn);
	struct urxe_pkt pkt = {
		.opcode = qp->service |
			  (res->atomic ? OP_ATOMIC_ACK
				       : read_opcode(res->cur_psn == res->start_psn, last)),
		.dqpn = qp->attr.dest_qp_num,
		.psn = res->cur_psn,
		.syndrome = AETH_ACK | credits(qp),
		.msn = res->msn,
		.orig = res->orig,
	};

	frame_begin(qp, f);
	if (!res->atomic && res->length > 0) {
		uint32_t len = last ? res->length - (uint32_t)off : qp->mtu;
		const struct urxe_mr *mr = res->pd ? mr_by_rkey(qp, res->pd, res->rkey) : NULL;
		uint8_t *p = mr ? mr_at(mr, res->va + off, len, IBV_ACCESS_REMOTE_READ) : NULL;

		p = mr ? mr_payload(mr, p, len, 0) : NULL;

		if (!p)
			return false;
		f->iov[0] = (struct iovec){.iov_base = p, .iov_len = len};
		f->n_iov = 1;
		f->payload_len = len;
	}
	frame_end(f, &pkt);
	res->cur_psn = psn_add(res->cur_psn, 1);
	if (last) {
		res->pending = false;
		res->answered = true;
		qp->resp.n_pending--;
	}
	return true;
}

/* What a response is due for; NULL: the ACK or NAK goes first. */
static struct resource *next_response(struct urxe_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct resource *res = next_pending(resp);

	/* In ERR only the NAK that led there is still owed, and what has to go before it. */
	if (qp->state == IBV_QPS_ERR && resp->answer != ANSWER_NAK)
		return NULL;
	if (res && resp->answer != ANSWER_NONE && psn_diff(resp->answer_psn, res->cur_psn) < 0)
		return NULL; /* the ACK is for what came before */
	return res;
}

bool answer_is_bare(struct urxe_qp *qp)
{
	return !next_response(qp);
}

bool answer_pull(struct urxe_qp *qp, struct urxe_frame *f)
{
	struct responder *resp = &qp->resp;
	struct resource *res = next_response(qp);

	if (!res) {
		if (resp->answer == ANSWER_NONE)
			return false;
		build_ack(qp, f);
		return true;
	}
	if (build_response(qp, res, f))
		return true;
	resp->answer = ANSWER_NAK;
	resp->answer_psn = res->cur_psn;
	resp->syndrome = AETH_NAK | NAK_REM_ACCESS_ERR;
	async_raise(qp->engine, &qp->async, IBV_EVENT_QP_ACCESS_ERR);
	qp_fail(qp);
	build_ack(qp, f);
	return true;
}
