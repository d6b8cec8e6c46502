/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: a work request is validated and copied once; what follows works on the copy. */
#include "engine/mcast.h"
#include "engine/mr.h"
#include "engine/mw.h"
#include "engine/qp.h"

#include <errno.h>

enum { WORD_BYTES = 8 };

/* What a work request's opcode means. */
struct wr_op {
	bool rc, uc, ud; /* where it may be posted (IBA table 84) */
	bool needs_recv; /* consumes a receive at the peer */
	bool remote;     /* names remote memory */
	bool atomic;
	bool reads;  /* data comes back */
	bool local;  /* about keys here: nothing is sent */
	bool word;   /* exactly eight bytes, inline in any QP */
	bool no_xrc; /* has no opcode there */
};

static const struct wr_op wr_ops[] = {
	[IBV_WR_SEND] = {.rc = true, .uc = true, .ud = true, .needs_recv = true},
	[IBV_WR_SEND_WITH_IMM] = {.rc = true, .uc = true, .ud = true, .needs_recv = true},
	[IBV_WR_RDMA_WRITE] = {.rc = true, .uc = true, .remote = true},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {.rc = true, .uc = true, .needs_recv = true, .remote = true},
	[IBV_WR_RDMA_READ] = {.rc = true, .remote = true, .reads = true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {.rc = true, .atomic = true, .reads = true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.rc = true, .atomic = true, .reads = true},
	[IBV_WR_LOCAL_INV] = {.rc = true, .uc = true, .local = true},
	[IBV_WR_BIND_MW] = {.rc = true, .uc = true, .local = true},
	[IBV_WR_SEND_WITH_INV] = {.rc = true, .needs_recv = true},
	[IBV_WR_ATOMIC_WRITE] = {.rc = true, .remote = true, .word = true, .no_xrc = true},
};

static const struct wr_op *find_op(const struct urxe_qp *qp, enum ibv_wr_opcode opcode)
{
	const struct wr_op *op;

	if ((unsigned)opcode >= sizeof(wr_ops) / sizeof(wr_ops[0]))
		return NULL;
	op = &wr_ops[opcode];
	switch (qp->type) {
	case IBV_QPT_RC:
		return op->rc ? op : NULL;
	case IBV_QPT_XRC_SEND:
		return op->rc && !op->no_xrc ? op : NULL;
	case IBV_QPT_UC:
		return op->uc ? op : NULL;
	case IBV_QPT_XRC_RECV:
		return NULL;
	default:
		return op->ud ? op : NULL;
	}
}

static int check_length(const struct urxe_qp *qp, const struct wr_op *op,
			const struct ibv_send_wr *wr, uint32_t *ret_length)
{
	uint64_t length = 0;

	if (op->local) {
		*ret_length = 0;
		return wr->num_sge ? -EINVAL : 0;
	}
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (op->atomic) {
		if (wr->num_sge != 1 || length < 8)
			return -EINVAL;
		length = 8;
	}
	if (op->word && (length != WORD_BYTES || wr->wr.rdma.remote_addr % WORD_BYTES))
		return -EINVAL;
	if (qp->type == IBV_QPT_UD ? length > qp->mtu : length > MAX_MSG_BYTES)
		return -EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (op->reads)
			return -EINVAL;
		if (length > qp->sq.max_inline && !op->word)
			return -ENOMEM;
	}
	*ret_length = (uint32_t)length;
	return 0;
}

static void copy_data(struct send_wqe *w, const struct ibv_send_wr *wr)
{
	uint8_t *dst = w->inline_data;

	w->is_inline = wr->send_flags & IBV_SEND_INLINE;
	if (!w->is_inline) {
		w->num_sge = (uint32_t)wr->num_sge;
		for (uint32_t i = 0; i < w->num_sge; i++)
			w->sge[i] = wr->sg_list[i];
		/* An ATOMIC's element may be longer than what comes back. */
		if (w->num_sge == 1)
			w->sge[0].length = w->length;
		return;
	}
	/* The caller may change its buffer when the post returns; keys are not looked at. */
	w->num_sge = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length == 0)
			continue;
		memcpy(dst, (const void *)(uintptr_t)sge->addr, sge->length);
		dst += sge->length;
	}
}

static int copy_address(struct urxe_qp *qp, const struct wr_op *op, struct send_wqe *w,
			const struct ibv_send_wr *wr, urxe_resolve_ah_fn *resolve)
{
	const struct urxe_ah *ah;

	if (qp->type == IBV_QPT_UD) {
		ah = wr->wr.ud.ah && resolve ? resolve(wr->wr.ud.ah) : NULL;
		if (!ah || ah->pd != qp->pd)
			return -EINVAL;
		w->ud.path = ah->route.path;
		w->ud.txq = ah->route.txq;
		w->ud.dqpn = urxe_gid_is_multicast(&w->ud.path.dgid)
				     ? MCAST_QPN
				     : wr->wr.ud.remote_qpn & PSN_MASK;
		w->ud.qkey = wr->wr.ud.remote_qkey;
	} else if (op->remote) {
		w->rc.va = wr->wr.rdma.remote_addr;
		w->rc.rkey = wr->wr.rdma.rkey;
	} else if (op->atomic) {
		w->rc.va = wr->wr.atomic.remote_addr;
		w->rc.rkey = wr->wr.atomic.rkey;
		w->rc.compare_add = wr->wr.atomic.compare_add;
		w->rc.swap = wr->wr.atomic.swap;
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		return mw_prepare_bind(qp, wr, w);
	}
	return 0;
}

static int post_one(struct urxe_qp *qp, const struct ibv_send_wr *wr, urxe_resolve_ah_fn *resolve)
{
	struct send_queue *sq = &qp->sq;
	const struct wr_op *op = find_op(qp, wr->opcode);
	struct send_wqe *w = sq_at(sq, sq->tail);
	uint32_t length;
	int rc;

	if (!op || wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->max_sge)
		return -EINVAL;
	if ((op->reads || op->word) && qp->attr.max_rd_atomic == 0)
		return -EINVAL;
	rc = check_length(qp, op, wr, &length);
	if (rc < 0)
		return rc;
	if (sq->tail - sq->head >= sq->depth)
		return -ENOMEM;
	rc = copy_address(qp, op, w, wr, resolve);
	if (rc < 0)
		return rc;
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->signaled = qp->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	w->solicited = wr->send_flags & IBV_SEND_SOLICITED && op->needs_recv;
	w->fence = wr->send_flags & IBV_SEND_FENCE;
	w->needs_recv = op->needs_recv;
	w->length = length;
	w->imm_be = wr->imm_data;
	w->remote_srqn = wr->qp_type.xrc.remote_srqn;
	copy_data(w, wr);
	sq->tail++;
	return 0;
}

/* In ERR a request is taken and flushed (IBA 10.8.3.2); in SQD it waits. */
static bool may_post_send(const struct urxe_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE ||
	       qp->state == IBV_QPS_ERR;
}

static void flush_posted(struct urxe_qp *qp)
{
	while ((qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE) && qp->sq.head != qp->sq.tail)
		qp_retire_send(qp, IBV_WC_WR_FLUSH_ERR);
}

static void begin_posted(struct urxe_qp *qp, uint64_t now, bool was_empty)
{
	if (qp->sq.head != qp->sq.tail) {
		if (was_empty)
			requester_restart_timer(qp, now);
		qp_ready(qp);
	}
	engine_settle(qp->engine);
}

int urxe_qp_post_send(struct urxe_qp *qp, uint64_t now, const struct ibv_send_wr *wr,
		      const struct ibv_send_wr **bad_wr, urxe_resolve_ah_fn *resolve)
{
	bool was_empty = qp->sq.head == qp->sq.tail;
	int rc = 0;

	qp->engine->now = now;
	for (; wr; wr = wr->next) {
		rc = may_post_send(qp) ? post_one(qp, wr, resolve) : -EINVAL;
		if (rc < 0) {
			*bad_wr = wr;
			break;
		}
		flush_posted(qp);
	}
	begin_posted(qp, now, was_empty);
	return rc;
}

int urxe_qp_post_batch(struct urxe_qp *qp, uint64_t now, const struct ibv_send_wr *wr,
		       urxe_resolve_ah_fn *resolve)
{
	bool was_empty = qp->sq.head == qp->sq.tail;
	uint32_t tail = qp->sq.tail;

	if (!may_post_send(qp))
		return -EINVAL;
	qp->engine->now = now;
	for (; wr; wr = wr->next) {
		int rc = post_one(qp, wr, resolve);

		if (rc < 0) {
			qp->sq.tail = tail;
			return rc;
		}
	}
	flush_posted(qp);
	begin_posted(qp, now, was_empty);
	return 0;
}

int urxe_qp_post_recv(struct urxe_qp *qp, const struct ibv_recv_wr *wr,
		      const struct ibv_recv_wr **bad_wr)
{
	int rc = 0;

	for (; wr; wr = wr->next) {
		if (qp->srq || type_is_xrc(qp->type) || qp->state == IBV_QPS_RESET)
			rc = -EINVAL;
		else
			rc = rq_post(&qp->rq, wr);
		if (rc < 0) {
			*bad_wr = wr;
			break;
		}
	}
	if (qp->state == IBV_QPS_ERR)
		qp_flush_recv(qp);
	engine_settle(qp->engine);
	return rc;
}
