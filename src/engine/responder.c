/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of RC and UC (IBA 9.7.4, 9.8.3): a request packet is checked in the order of the
 * specification; the first verdict that is not OK wins, and one table says what it leads to.
 */
#include "engine/mr.h"
#include "engine/mw.h"
#include "engine/qp.h"
#include "engine/xrc.h"
#include "wire/aeth.h"

#include <string.h>

enum verdict {
	OK,
	DUPLICATE,    /* seen before: answer again */
	OUT_OF_SEQ,   /* something is missing before it */
	DROP,         /* UC: what does not fit is dropped */
	BAD_SEQUENCE, /* opcode not possible here (IBA 9.7.4.1.2) */
	BAD_OPCODE,   /* not for this QP (IBA 9.7.4.1.3) */
	NO_RECV,      /* receiver not ready (IBA 9.7.4.1.4) */
	NO_RESOURCE,  /* more READs and ATOMICs than agreed */
	BAD_LENGTH,   /* (IBA 9.7.4.1.6) */
	RECV_TOO_SMALL,
	RECV_ACCESS,   /* the receive's own keys do not hold */
	REMOTE_ACCESS, /* (IBA 9.7.4.1.5) */
	MISALIGNED,    /* ATOMIC */
};

/* What an error leads to at an RC responder (IBA table 58, classes A-J). */
struct fault {
	uint8_t syndrome;
	bool fatal;                   /* QP to ERR */
	enum ibv_wc_status wc_status; /* of the receive in use, if there is one */
	enum ibv_event_type async;    /* IBV_EVENT_QP_FATAL means none */
};

static const struct fault faults[] = {
	[BAD_SEQUENCE] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_REM_INV_REQ_ERR,
			  IBV_EVENT_QP_REQ_ERR},
	[BAD_OPCODE] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_REM_INV_REQ_ERR,
			IBV_EVENT_QP_REQ_ERR},
	[NO_RESOURCE] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_REM_INV_REQ_ERR,
			 IBV_EVENT_QP_REQ_ERR},
	[BAD_LENGTH] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_REM_INV_REQ_ERR,
			IBV_EVENT_QP_REQ_ERR},
	[MISALIGNED] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_REM_INV_REQ_ERR,
			IBV_EVENT_QP_REQ_ERR},
	[RECV_TOO_SMALL] = {AETH_NAK | NAK_INVALID_REQ, true, IBV_WC_LOC_LEN_ERR,
			    IBV_EVENT_QP_FATAL},
	[RECV_ACCESS] = {AETH_NAK | NAK_REM_OP_ERR, true, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL},
	[REMOTE_ACCESS] = {AETH_NAK | NAK_REM_ACCESS_ERR, true, IBV_WC_LOC_ACCESS_ERR,
			   IBV_EVENT_QP_ACCESS_ERR},
};

static enum verdict check_psn(struct urxe_qp *qp, const struct urxe_pkt *pkt)
{
	struct responder *resp = &qp->resp;
	int32_t diff = psn_diff(pkt->psn, resp->psn);

	if (diff == 0) {
		resp->nak_sent = false;
		return OK;
	}
	if (qp->reliable)
		return diff < 0 ? DUPLICATE : OUT_OF_SEQ;
	/* UC: a lost packet costs its message; the next one starts afresh (IBA 9.8.3.1). */
	resp->psn = pkt->psn;
	return urxe_opcodes[pkt->opcode].first ? OK : DROP;
}

/* XRC: a message goes to the SRQ that its first packet names (IBA A14.5.3). */
static enum verdict check_srq(struct urxe_qp *qp, const struct urxe_opcode *op,
			      const struct urxe_pkt *pkt)
{
	if (!qp->xrcd || !op->first || qp->resp.kind != KIND_NONE || xrc_adopt(qp, pkt->srqn))
		return OK;
	return BAD_OPCODE;
}

static enum verdict check_sequence(struct urxe_qp *qp, const struct urxe_opcode *op)
{
	enum urxe_kind kind = qp->resp.kind;

	if (op->first ? kind == KIND_NONE : kind == op->kind)
		return OK;
	if (qp->reliable)
		return BAD_SEQUENCE;
	qp->resp.kind = KIND_NONE;
	return op->first ? OK : DROP;
}

static unsigned right_of(enum urxe_kind kind)
{
	switch (kind) {
	case KIND_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case KIND_READ:
		return IBV_ACCESS_REMOTE_READ;
	case KIND_ATOMIC:
		return IBV_ACCESS_REMOTE_ATOMIC;
	case KIND_ATOMIC_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	default:
		return 0;
	}
}

static enum verdict check_opcode(struct urxe_qp *qp, const struct urxe_opcode *op)
{
	unsigned right = right_of(op->kind);

	if ((qp->attr.qp_access_flags & right) != right)
		return qp->reliable ? BAD_OPCODE : DROP;
	return OK;
}

/* It is answered with something, which is kept. */
static bool needs_resource(const struct urxe_opcode *op)
{
	return op->kind == KIND_READ || op->kind == KIND_ATOMIC || op->kind == KIND_ATOMIC_WRITE;
}

static bool needs_recv(const struct urxe_opcode *op)
{
	return op->kind == KIND_SEND || (op->kind == KIND_WRITE && op->immdt);
}

static enum verdict check_resources(struct urxe_qp *qp, const struct urxe_opcode *op)
{
	struct responder *resp = &qp->resp;

	if (needs_resource(op)) {
		const struct resource *res = &resp->res[resp->next_res];

		return resp->n_res == 0 || (res->pending && !res->answered) ? NO_RESOURCE : OK;
	}
	if (needs_recv(op) && !resp->have_wqe && !qp_take_recv(qp))
		return qp->reliable ? NO_RECV : DROP;
	return OK;
}

static uint32_t received_before(const struct urxe_qp *qp, const struct urxe_opcode *op)
{
	return op->first ? 0 : qp->resp.received;
}

static enum verdict check_length(struct urxe_qp *qp, const struct urxe_opcode *op,
				 const struct urxe_pkt *pkt)
{
	uint64_t total = (uint64_t)received_before(qp, op) + pkt->payload_len;
	bool ok = true;

	if (op->kind == KIND_SEND || op->kind == KIND_WRITE) {
		ok = op->last ? pkt->payload_len <= qp->mtu && (op->first || pkt->payload_len > 0)
			      : pkt->payload_len == qp->mtu;
		if (op->kind == KIND_WRITE) {
			uint32_t length = op->first ? pkt->dma_len : qp->resp.length;

			ok = ok && length <= MAX_MSG_BYTES &&
			     (op->last ? total == length : total < length);
		}
	} else if (op->kind == KIND_READ) {
		ok = pkt->dma_len <= MAX_MSG_BYTES;
	} else if (op->kind == KIND_ATOMIC_WRITE) {
		ok = pkt->dma_len == 8 && pkt->payload_len == 8;
	}
	if (!ok)
		return qp->reliable ? BAD_LENGTH : DROP;
	if (op->kind == KIND_SEND && total > qp->resp.wqe->length)
		return RECV_TOO_SMALL;
	return OK;
}

/* What a peer asked for cannot be touched. */
static enum verdict no_memory(const struct urxe_qp *qp)
{
	return qp->reliable ? REMOTE_ACCESS : DROP;
}

static enum verdict check_access(struct urxe_qp *qp, const struct urxe_opcode *op,
				 const struct urxe_pkt *pkt)
{
	const struct responder *resp = &qp->resp;
	enum verdict refused = no_memory(qp);
	uint32_t len = op->kind == KIND_ATOMIC ? 8 : pkt->dma_len;

	if (op->kind == KIND_SEND) /* the receive's elements are looked at when they are filled */
		return op->ieth && !mw_may_invalidate(qp, pkt->inv_rkey) ? REMOTE_ACCESS : OK;
	if (!op->first) /* the rest of a WRITE: the region may be gone by now */
		return pkt->payload_len == 0 ||
				       mr_remote(qp, qp->pd, resp->rkey, resp->va + resp->received,
						 pkt->payload_len, IBV_ACCESS_REMOTE_WRITE)
			       ? OK
			       : refused;
	if ((op->kind == KIND_ATOMIC || op->kind == KIND_ATOMIC_WRITE) && pkt->va % 8 != 0)
		return MISALIGNED;
	/* A request for no bytes touches no memory: key and address are not looked at (C9-88). */
	if (len > 0 && !mr_remote(qp, qp->pd, pkt->rkey, pkt->va, len, right_of(op->kind)))
		return refused;
	return OK;
}

static void complete_recv(struct urxe_qp *qp, const struct urxe_opcode *op,
			  const struct urxe_pkt *pkt)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = op->kind == KIND_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
		.byte_len = qp->resp.received,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (op->immdt) {
		wc.imm_data = pkt->imm_be;
		wc.wc_flags = IBV_WC_WITH_IMM;
	} else if (op->ieth) {
		wc.invalidated_rkey = pkt->inv_rkey;
		wc.wc_flags = IBV_WC_WITH_INV;
	}
	qp_complete_recv(qp, &wc, pkt->se);
}

/* Write where the peer's key says; access has been checked. False: the memory is gone. */
static bool write_remote(struct urxe_qp *qp, uint32_t rkey, uint64_t va, const void *data,
			 uint32_t len)
{
	const struct urxe_mr *mr = mr_by_rkey(qp, qp->pd, rkey);

	return mr_write(mr, mr_at(mr, va, len, IBV_ACCESS_REMOTE_WRITE), data, len);
}

static enum verdict execute_message(struct urxe_qp *qp, const struct urxe_opcode *op,
				    const struct urxe_pkt *pkt)
{
	struct responder *resp = &qp->resp;

	if (op->first) {
		resp->received = 0;
		resp->va = pkt->va;
		resp->rkey = pkt->rkey;
		resp->length = pkt->dma_len;
	}
	if (op->kind == KIND_SEND) {
		if (mr_scatter(qp->pd, resp->wqe->sge, resp->wqe->num_sge, resp->received,
			       pkt->payload, pkt->payload_len) < 0)
			return RECV_ACCESS;
	} else if (pkt->payload_len > 0 && !write_remote(qp, resp->rkey, resp->va + resp->received,
							 pkt->payload, pkt->payload_len)) {
		return no_memory(qp);
	}
	resp->received += pkt->payload_len;
	resp->kind = op->last ? KIND_NONE : op->kind;
	resp->psn = psn_add(resp->psn, 1);
	if (!op->last)
		return OK;
	resp->msn = psn_add(resp->msn, 1);
	if (op->ieth)
		mw_invalidate(qp->engine, pkt->inv_rkey);
	if (needs_recv(op))
		complete_recv(qp, op, pkt);
	return OK;
}

/* Keep what answers this request, and answer. */
static struct resource *take_resource(struct urxe_qp *qp, const struct urxe_pkt *pkt, bool atomic)
{
	struct responder *resp = &qp->resp;
	struct resource *res = &resp->res[resp->next_res];

	resp->next_res = (resp->next_res + 1) % resp->n_res;
	/* A peer that asks for more has its answer: a repeat on its way to it is not missed. */
	if (res->pending)
		resp->n_pending--;
	*res = (struct resource){
		.valid = true,
		.pending = true,
		.atomic = atomic,
		.first_psn = pkt->psn,
		.n_psn = atomic ? 1 : psns_of(qp, pkt->dma_len),
		.start_psn = pkt->psn,
		.cur_psn = pkt->psn,
		.va = pkt->va,
		.pd = qp->pd,
		.rkey = pkt->rkey,
		.length = atomic ? 8 : pkt->dma_len,
	};
	resp->n_pending++;
	resp->psn = psn_add(resp->psn, res->n_psn);
	resp->msn = psn_add(resp->msn, 1);
	res->msn = resp->msn;
	return res;
}

static bool is_fetch_add(const struct urxe_pkt *pkt)
{
	return (pkt->opcode & OP_MASK) == OP_FETCH_ADD;
}

static uint64_t atomic_in_place(uint64_t *mem, const struct urxe_pkt *pkt)
{
	uint64_t old = pkt->compare;

	if (is_fetch_add(pkt))
		return __atomic_fetch_add(mem, pkt->swap_add, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(mem, &old, pkt->swap_add, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return old;
}

/* Atomic among what this NIC does, which is all that it promises (IBV_ATOMIC_HCA). */
static bool atomic_by_copy(const struct urxe_engine *e, uint8_t *mem, const struct urxe_pkt *pkt,
			   uint64_t *ret_old)
{
	uint64_t old, new;

	if (!e->copy(&old, mem, sizeof(old), false))
		return false;
	if (is_fetch_add(pkt))
		new = old + pkt->swap_add;
	else
		new = old == pkt->compare ? pkt->swap_add : old;
	*ret_old = old;
	return e->copy(mem, &new, sizeof(new), true);
}

static enum verdict execute_atomic(struct urxe_qp *qp, const struct urxe_pkt *pkt)
{
	const struct urxe_mr *mr = mr_by_rkey(qp, qp->pd, pkt->rkey);
	uint8_t *mem = mr_at(mr, pkt->va, 8, IBV_ACCESS_REMOTE_ATOMIC);
	uint64_t old;

	if (!mr_may_go(mr))
		old = atomic_in_place((uint64_t *)(void *)mem, pkt);
	else if (!atomic_by_copy(qp->engine, mem, pkt, &old))
		return no_memory(qp);
	take_resource(qp, pkt, true)->orig = old;
	return OK;
}

/* One store of all eight bytes; the answer is a READ response without any. */
static enum verdict execute_atomic_write(struct urxe_qp *qp, const struct urxe_pkt *pkt)
{
	const struct urxe_mr *mr = mr_by_rkey(qp, qp->pd, pkt->rkey);
	uint8_t *mem = mr_at(mr, pkt->va, 8, IBV_ACCESS_REMOTE_WRITE);
	uint64_t value;

	memcpy(&value, pkt->payload, sizeof(value));
	if (!mr_may_go(mr))
		__atomic_store_n((uint64_t *)(void *)mem, value, __ATOMIC_SEQ_CST);
	else if (!qp->engine->copy(mem, &value, sizeof(value), true))
		return no_memory(qp);
	take_resource(qp, pkt, false)->length = 0;
	return OK;
}

/* Not OK: memory on demand has gone, since that is found only by using it. */
static enum verdict execute(struct urxe_qp *qp, const struct urxe_opcode *op,
			    const struct urxe_pkt *pkt)
{
	switch (op->kind) {
	case KIND_READ:
		take_resource(qp, pkt, false);
		return OK;
	case KIND_ATOMIC:
		return execute_atomic(qp, pkt);
	case KIND_ATOMIC_WRITE:
		return execute_atomic_write(qp, pkt);
	default:
		return execute_message(qp, op, pkt);
	}
}

static void answer(struct urxe_qp *qp, enum answer what, uint32_t psn, uint8_t syndrome)
{
	struct responder *resp = &qp->resp;

	if (resp->answer == ANSWER_ACK)
		count(qp->engine, URXE_CNT_ACK_DEFERRED);
	resp->answer = what;
	resp->answer_psn = psn;
	resp->syndrome = syndrome;
	if (what == ANSWER_ACK)
		qp_owes_ack(qp);
	else
		qp_ready(qp);
}

/* Find the kept READ that the PSN is part of, or the ATOMIC that it is. */
static struct resource *find_resource(struct responder *resp, uint32_t psn)
{
	for (uint32_t i = 0; i < resp->n_res; i++) {
		struct resource *res = &resp->res[i];

		if (res->valid && psn_diff(psn, res->first_psn) >= 0 &&
		    psn_diff(psn, psn_add(res->first_psn, res->n_psn)) < 0)
			return res;
	}
	return NULL;
}

/* A repeated READ is executed again as it now asks, within what it asked before (IBA 9.7.5.1.2). */
static bool repeat_read(struct urxe_qp *qp, const struct urxe_pkt *pkt, struct resource *res)
{
	uint32_t skipped = (uint32_t)psn_diff(pkt->psn, res->first_psn);
	uint32_t n_psn = psns_of(qp, pkt->dma_len);

	if (res->atomic || n_psn > res->n_psn - skipped || pkt->dma_len > MAX_MSG_BYTES)
		return false;
	/* The entry stands for its tail from here on: that it answers one request stays true. */
	res->first_psn = pkt->psn;
	res->n_psn = n_psn;
	res->va = pkt->va;
	res->rkey = pkt->rkey;
	res->length = pkt->dma_len;
	return true;
}

static bool may_repeat(struct urxe_qp *qp, const struct urxe_opcode *op, const struct urxe_pkt *pkt,
		       struct resource *res)
{
	switch (op->kind) {
	case KIND_ATOMIC:
		return res->atomic;
	case KIND_ATOMIC_WRITE:
		return !res->atomic && res->length == 0;
	default:
		return repeat_read(qp, pkt, res);
	}
}

static void repeat(struct urxe_qp *qp, const struct urxe_opcode *op, const struct urxe_pkt *pkt)
{
	struct responder *resp = &qp->resp;
	struct resource *res;

	count(qp->engine, URXE_CNT_DUPLICATE_REQUEST);
	if (op->kind == KIND_SEND || op->kind == KIND_WRITE) {
		/*
		 * Only where it is asked for, as with what is new: whoever repeats cannot know what
		 * has arrived. Linux's rxe stops in the middle if two ACKs of a message's end come
		 * while it repeats the message. A NAK or RNR in waiting says the same and more.
		 */
		if (pkt->ack_req && (resp->answer == ANSWER_NONE || resp->answer == ANSWER_ACK))
			answer(qp, ANSWER_ACK, psn_add(resp->psn, PSN_MASK), 0);
		return;
	}
	res = find_resource(resp, pkt->psn);
	if (!res || !may_repeat(qp, op, pkt, res))
		return;
	if (!res->pending)
		resp->n_pending++;
	res->pending = true;
	res->start_psn = pkt->psn;
	res->cur_psn = pkt->psn;
	qp_ready(qp);
}

static void fault(struct urxe_qp *qp, enum verdict verdict, const struct urxe_pkt *pkt)
{
	const struct fault *f = &faults[verdict];
	struct ibv_wc wc = {.status = f->wc_status};

	if (qp->reliable)
		answer(qp, ANSWER_NAK, pkt->psn, f->syndrome);
	if (qp->resp.have_wqe)
		qp_complete_recv(qp, &wc, true);
	if (f->async != IBV_EVENT_QP_FATAL)
		async_raise(qp->engine, &qp->async, f->async);
	qp_fail(qp);
}

/* The negative verdicts that do not end the QP. */
static void refuse(struct urxe_qp *qp, enum verdict verdict, const struct urxe_opcode *op,
		   const struct urxe_pkt *pkt)
{
	struct responder *resp = &qp->resp;

	switch (verdict) {
	case DUPLICATE:
		repeat(qp, op, pkt);
		break;
	case OUT_OF_SEQ:
		count(qp->engine, URXE_CNT_OUT_OF_SEQ_REQUEST);
		if (!resp->nak_sent)
			answer(qp, ANSWER_NAK, resp->psn, AETH_NAK | NAK_PSN_SEQ_ERR);
		resp->nak_sent = true;
		break;
	case NO_RECV:
		count(qp->engine, URXE_CNT_SEND_RNR_ERR);
		resp->nak_sent = true;
		answer(qp, ANSWER_RNR, pkt->psn, AETH_RNR | qp->attr.min_rnr_timer);
		break;
	case DROP:
		count(qp->engine, URXE_CNT_RX_DROPPED);
		resp->kind = KIND_NONE;
		resp->psn = psn_add(pkt->psn, 1);
		break;
	default:
		fault(qp, verdict, pkt);
		break;
	}
}

static enum verdict check(struct urxe_qp *qp, const struct urxe_opcode *op,
			  const struct urxe_pkt *pkt)
{
	enum verdict v;

	if ((v = check_psn(qp, pkt)) != OK || (v = check_srq(qp, op, pkt)) != OK ||
	    (v = check_sequence(qp, op)) != OK || (v = check_opcode(qp, op)) != OK ||
	    (v = check_resources(qp, op)) != OK || (v = check_length(qp, op, pkt)) != OK)
		return v;
	return check_access(qp, op, pkt);
}

void responder_rx(struct urxe_qp *qp, const struct urxe_pkt *pkt)
{
	const struct urxe_opcode *op = &urxe_opcodes[pkt->opcode];
	enum verdict verdict = check(qp, op, pkt);

	if (verdict == OK)
		verdict = execute(qp, op, pkt);
	if (verdict != OK) {
		refuse(qp, verdict, op, pkt);
		return;
	}
	if (!qp->reliable)
		return;
	if (needs_resource(op))
		qp_ready(qp);
	else if (pkt->ack_req)
		answer(qp, ANSWER_ACK, pkt->psn, 0);
}
