/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/qp.h"
#include "engine/mw.h"
#include "engine/xrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool cap_in_limits(const struct urxe_engine *e, const struct urxe_qp_init *init)
{
	const struct ibv_qp_cap *cap = &init->cap;
	uint32_t max_wr = (uint32_t)e->limits.max_qp_wr;
	uint32_t max_sge = (uint32_t)e->limits.max_sge;

	return cap->max_send_wr <= max_wr && cap->max_send_sge <= max_sge &&
	       cap->max_inline_data <= e->max_inline_data &&
	       (init->srq || (cap->max_recv_wr <= max_wr && cap->max_recv_sge <= max_sge));
}

static int alloc_queues(struct urxe_qp *qp, const struct urxe_qp_init *init)
{
	uint32_t recv_sge = init->srq ? init->srq->rq.max_sge : init->cap.max_recv_sge;
	bool own_rq = !init->srq && !type_is_xrc(init->type);

	if (init->type == IBV_QPT_XRC_RECV)
		recv_sge = (uint32_t)qp->engine->limits.max_srq_sge;
	if (sq_init(&qp->sq, init->cap.max_send_wr, init->cap.max_send_sge,
		    init->cap.max_inline_data, init->memory) < 0)
		return -ENOMEM;
	if (rq_init(&qp->rq, own_rq ? init->cap.max_recv_wr : 0, recv_sge, init->memory) < 0)
		goto err_sq;
	qp->resp.wqe = malloc(recv_wqe_size(recv_sge));
	if (!qp->resp.wqe)
		goto err_rq;
	if (qp->reliable && qp->engine->limits.max_qp_rd_atom > 0) {
		qp->resp.res =
			calloc((size_t)qp->engine->limits.max_qp_rd_atom, sizeof(*qp->resp.res));
		if (!qp->resp.res)
			goto err_wqe;
	}
	return 0;

err_wqe:
	free(qp->resp.wqe);
err_rq:
	rq_fini(&qp->rq);
err_sq:
	sq_fini(&qp->sq);
	return -ENOMEM;
}

static void free_queues(struct urxe_qp *qp)
{
	free(qp->resp.res);
	free(qp->resp.wqe);
	rq_fini(&qp->rq);
	sq_fini(&qp->sq);
}

/* What a QP keeps from going; an XRC_RECV's SRQs may. */
static void hold(struct urxe_qp *qp, uint32_t by)
{
	if (qp->xrcd) {
		qp->xrcd->refs += by;
		return;
	}
	qp->pd->refs += by;
	qp->send_cq->refs += by;
	if (qp->recv_cq)
		qp->recv_cq->refs += by;
	if (qp->srq)
		qp->srq->refs += by;
}

static void link_qp(struct urxe_qp *qp)
{
	struct urxe_engine *e = qp->engine;

	list_add_tail(&e->qps, &qp->node);
	e->n_qp++;
	hold(qp, 1);
}

static const struct kind {
	enum ibv_qp_type type;
	uint8_t service;
	bool reliable;
	bool send_cq, recv_cq; /* it needs one */
} kinds[] = {
	{IBV_QPT_RC, URXE_RC, true, true, true},
	{IBV_QPT_UC, URXE_UC, false, true, true},
	{IBV_QPT_UD, URXE_UD, false, true, true},
	{IBV_QPT_XRC_SEND, URXE_XRC, true, true, false},
	{IBV_QPT_XRC_RECV, URXE_XRC, true, false, false},
};

static const struct kind *find_kind(enum ibv_qp_type type)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].type == type)
			return &kinds[i];
	}
	return NULL;
}

int urxe_qp_new(struct urxe_pd *pd, struct urxe_qp_init *init, struct urxe_qp **ret_qp)
{
	struct urxe_engine *e = pd ? pd->engine : init->xrcd->engine;
	const struct kind *kind = find_kind(init->type);
	struct urxe_qp *qp;
	int rc;

	if (!kind)
		return -EOPNOTSUPP;
	if ((kind->send_cq && !init->send_cq) || (kind->recv_cq && !init->recv_cq) ||
	    !kind->send_cq != !pd || !kind->send_cq != !!init->xrcd || !cap_in_limits(e, init))
		return -EINVAL;
	if (e->n_qp >= (uint32_t)e->limits.max_qp)
		return -ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->engine = e;
	qp->pd = pd;
	qp->type = init->type;
	qp->service = kind->service;
	qp->reliable = kind->reliable;
	qp->xrcd = init->xrcd;
	qp->sq_sig_all = init->sq_sig_all;
	qp->block_own_mcast = init->block_own_mcast;
	qp->send_cq = init->send_cq;
	qp->recv_cq = kind->recv_cq ? init->recv_cq : NULL;
	qp->srq = kind->recv_cq ? init->srq : NULL;
	list_init(&qp->ready);
	list_init(&qp->windows);
	timer_init(&qp->timer);
	timer_init(&qp->dcqcn.timer);
	async_init(&qp->async, init->user);
	rc = alloc_queues(qp, init);
	if (rc < 0)
		goto err_qp;
	rc = timerq_reserve(&e->timers, e->n_qp + 1);
	if (!rc)
		rc = timerq_reserve(&e->pace_timers, e->n_qp + 1);
	if (rc < 0)
		goto err_queues;
	rc = qpn_take(e, qp, &qp->qpn);
	if (rc < 0)
		goto err_queues;
	link_qp(qp);
	qp_reset(qp);
	*ret_qp = qp;
	return 0;

err_queues:
	free_queues(qp);
err_qp:
	free(qp);
	return rc;
}

int urxe_qp_free(struct urxe_qp *qp)
{
	struct urxe_engine *e;

	if (!qp)
		return 0;
	if (qp->n_groups)
		return -EBUSY;
	e = qp->engine;
	mw_release_qp(qp);
	cq_purge(qp->send_cq, qp->qpn);
	cq_purge(qp->recv_cq, qp->qpn);
	qpn_give(e, qp->qpn);
	list_del(&qp->ready);
	list_del(&qp->async.node);
	list_del(&qp->node);
	timer_remove(&e->timers, &qp->timer);
	timer_remove(&e->pace_timers, &qp->dcqcn.timer);
	e->n_qp--;
	hold(qp, UINT32_MAX);
	free_queues(qp);
	free(qp);
	return 0;
}

uint32_t urxe_qp_num(const struct urxe_qp *qp)
{
	return qp->qpn;
}

enum ibv_qp_state urxe_qp_state(const struct urxe_qp *qp)
{
	return qp->state;
}

void *urxe_qp_user(const struct urxe_qp *qp)
{
	return qp->async.user;
}

struct urxe_txq *urxe_qp_txq(const struct urxe_qp *qp)
{
	return qp->route.txq;
}

void urxe_qp_query(const struct urxe_qp *qp, struct ibv_qp_attr *ret_attr)
{
	*ret_attr = qp->attr;
	ret_attr->qp_state = qp->state;
	ret_attr->cur_qp_state = qp->state;
	ret_attr->sq_psn = qp->req.next_psn;
	ret_attr->rq_psn = qp->resp.psn;
	ret_attr->sq_draining = qp->state == IBV_QPS_SQD && !qp->req.sq_drained;
	ret_attr->cap = (struct ibv_qp_cap){
		.max_send_wr = qp->sq.depth,
		.max_recv_wr = qp->rq.depth,
		.max_send_sge = qp->sq.max_sge,
		.max_recv_sge = qp->rq.max_sge,
		.max_inline_data = qp->sq.max_inline,
	};
}

static void activate(struct urxe_txq *q)
{
	if (!list_linked(&q->active))
		list_add_tail(&q->engine->active_txqs, &q->active);
}

void qp_ready(struct urxe_qp *qp)
{
	struct urxe_txq *q = qp->route.txq;

	if (qp->type == IBV_QPT_UD && qp->sq.cur != qp->sq.tail)
		q = sq_at(&qp->sq, qp->sq.cur)->ud.txq;
	if (!q || (list_linked(&qp->ready) && !qp->owing))
		return;
	list_del(&qp->ready);
	qp->owing = false;
	qp->turn = false;
	qp->burst = 0;
	list_add_tail(&q->ready, &qp->ready);
	activate(q);
}

void qp_owes_ack(struct urxe_qp *qp)
{
	struct urxe_txq *q = qp->route.txq;

	if (!q || list_linked(&qp->ready))
		return;
	qp->owing = true;
	qp->burst = 0;
	list_add_tail(&q->owing, &qp->ready);
	activate(q);
}

/* Of the opcodes that are posted. */
static const uint8_t wc_opcode[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
};

void qp_retire_send(struct urxe_qp *qp, enum ibv_wc_status status)
{
	struct send_queue *sq = &qp->sq;
	const struct send_wqe *w = sq_at(sq, sq->head++);

	/* Never begun, or not whole: the indices behind the oldest follow it. */
	if ((int32_t)(qp->req.begun - sq->head) < 0)
		qp->req.begun = sq->head;
	if ((int32_t)(sq->cur - sq->head) < 0)
		sq->cur = sq->head;
	if (status == IBV_WC_SUCCESS && wc_opcode[w->opcode] == IBV_WC_SEND)
		count(qp->engine, URXE_CNT_RDMA_SENDS);
	if (status != IBV_WC_SUCCESS || w->signaled) {
		struct ibv_wc wc = {
			.wr_id = w->wr_id,
			.status = status,
			.opcode = wc_opcode[w->opcode],
			.qp_num = qp->qpn,
			.byte_len = status == IBV_WC_SUCCESS ? w->length : 0,
		};

		if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR)
			count(qp->engine, URXE_CNT_SEND_ERR);
		cq_push(qp->send_cq, &wc, false);
	}
}

bool qp_take_recv(struct urxe_qp *qp)
{
	struct recv_queue *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	const struct recv_wqe *wqe = rq_peek(rq);

	if (!wqe)
		return false;
	memcpy(qp->resp.wqe, wqe,
	       offsetof(struct recv_wqe, sge) + wqe->num_sge * sizeof(wqe->sge[0]));
	rq->head++;
	qp->resp.have_wqe = true;
	if (qp->srq)
		srq_check_limit(qp->srq);
	return true;
}

void qp_complete_recv(struct urxe_qp *qp, struct ibv_wc *wc, bool solicited)
{
	wc->wr_id = qp->resp.wqe->wr_id;
	wc->qp_num = qp->qpn;
	if (wc->status != IBV_WC_SUCCESS)
		wc->opcode = IBV_WC_RECV;
	else if (wc->opcode == IBV_WC_RECV)
		count(qp->engine, URXE_CNT_RDMA_RECVS);
	qp->resp.have_wqe = false;
	cq_push(qp->recv_cq, wc, solicited);
}
