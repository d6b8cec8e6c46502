/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP states: which transitions there are and which attributes each requires and allows (IBA 10.3,
 * table 91), and what entering a state does.
 */
#include "engine/mr.h"
#include "engine/mw.h"
#include "engine/qp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { N_STATES = IBV_QPS_ERR + 1 };

enum service {
	SVC_RC,
	SVC_UC,
	SVC_UD,
	SVC_XRC_SEND,
	SVC_XRC_RECV,
	N_SERVICES,
};

struct transition {
	bool valid;
	int required[N_SERVICES];
	int optional[N_SERVICES];
};

#define PKEY   IBV_QP_PKEY_INDEX
#define PORT   IBV_QP_PORT
#define QKEY   IBV_QP_QKEY
#define ACCESS IBV_QP_ACCESS_FLAGS
#define MIG    IBV_QP_PATH_MIG_STATE
#define RTR_UC (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RC (RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_RC                                                                                     \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define SQD_RC                                                                                     \
	(PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                 \
	 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | ACCESS | PKEY |                     \
	 IBV_QP_MIN_RNR_TIMER | MIG)
#define INIT_CONNECTED (PKEY | PORT | ACCESS)
#define INIT                                                                                       \
	{                                                                                          \
		[SVC_RC] = INIT_CONNECTED, [SVC_UC] = INIT_CONNECTED,                              \
		[SVC_UD] = PKEY | PORT | QKEY, [SVC_XRC_SEND] = INIT_CONNECTED,                    \
		[SVC_XRC_RECV] = INIT_CONNECTED,                                                   \
	}
#define IN_RTS                                                                                     \
	{                                                                                          \
		[SVC_RC] = ACCESS | IBV_QP_MIN_RNR_TIMER | MIG, [SVC_UC] = ACCESS | MIG,           \
		[SVC_UD] = QKEY, [SVC_XRC_SEND] = ACCESS | MIG,                                    \
		[SVC_XRC_RECV] = ACCESS | IBV_QP_MIN_RNR_TIMER | MIG,                              \
	}
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY

/* Every state may go to RESET and ERR; those two are not in the table. */
static const struct transition transitions[N_STATES][N_STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {.valid = true, .required = INIT},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {.valid = true, .optional = INIT},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {.valid = true,
				       .required = {[SVC_RC] = RTR_RC,
						    [SVC_UC] = RTR_UC,
						    [SVC_XRC_SEND] = RTR_UC,
						    [SVC_XRC_RECV] = RTR_RC},
				       .optional = {[SVC_RC] = ACCESS | PKEY,
						    [SVC_UC] = ACCESS | PKEY,
						    [SVC_UD] = PKEY | QKEY,
						    [SVC_XRC_SEND] = ACCESS | PKEY,
						    [SVC_XRC_RECV] = ACCESS | PKEY}},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {.valid = true,
				      .required =
					      {[SVC_RC] = RTS_RC,
					       [SVC_UC] = IBV_QP_SQ_PSN,
					       [SVC_UD] = IBV_QP_SQ_PSN,
					       [SVC_XRC_SEND] = RTS_RC,
					       [SVC_XRC_RECV] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT},
				      .optional = IN_RTS},
	[IBV_QPS_RTS][IBV_QPS_RTS] = {.valid = true, .optional = IN_RTS},
	[IBV_QPS_RTS][IBV_QPS_SQD] = {.valid = true,
				      .optional = {NOTIFY, NOTIFY, NOTIFY, NOTIFY, NOTIFY}},
	[IBV_QPS_SQD][IBV_QPS_RTS] = {.valid = true, .optional = IN_RTS},
	[IBV_QPS_SQD][IBV_QPS_SQD] =
		{.valid = true,
		 .optional = {[SVC_RC] = SQD_RC,
			      [SVC_UC] = IBV_QP_AV | ACCESS | PKEY | MIG,
			      [SVC_UD] = PKEY | QKEY,
			      [SVC_XRC_SEND] = SQD_RC,
			      [SVC_XRC_RECV] = SQD_RC}},
	[IBV_QPS_SQE][IBV_QPS_RTS] = {.valid = true,
				      .optional = {[SVC_UC] = ACCESS, [SVC_UD] = QKEY}},
};

static enum service service_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return SVC_RC;
	case IBV_QPT_UC:
		return SVC_UC;
	case IBV_QPT_XRC_SEND:
		return SVC_XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return SVC_XRC_RECV;
	default:
		return SVC_UD;
	}
}

static bool transition_allowed(const struct urxe_qp *qp, enum ibv_qp_state to, int mask)
{
	const struct transition *t = &transitions[qp->state][to];
	enum service svc = service_of(qp->type);

	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == 0;
	return t->valid && (mask & t->required[svc]) == t->required[svc] &&
	       (mask & ~(t->required[svc] | t->optional[svc])) == 0;
}

static bool mtu_ok(const struct urxe_qp *qp, enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= qp->engine->active_mtu;
}

static bool values_ok(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct urxe_route *route)
{
	const struct ibv_device_attr *lim = &qp->engine->limits;

	if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index != 0)
		return false;
	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return false;
	if (mask & IBV_QP_PATH_MTU && !mtu_ok(qp, attr->path_mtu))
		return false;
	if (mask & IBV_QP_AV && (!route || !route->txq))
		return false;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > lim->max_qp_init_rd_atom)
		return false;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > lim->max_qp_rd_atom)
		return false;
	if (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return false;
	if (mask & IBV_QP_TIMEOUT && attr->timeout > 31)
		return false;
	if (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7)
		return false;
	if (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7)
		return false;
	return !(mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED);
}

static void set_responder_depth(struct urxe_qp *qp, uint8_t depth)
{
	struct responder *resp = &qp->resp;

	qp->attr.max_dest_rd_atomic = depth;
	if (depth == resp->n_res) /* what is kept for repeats stays valid */
		return;
	memset(resp->res, 0, (size_t)qp->engine->limits.max_qp_rd_atom * sizeof(*resp->res));
	resp->n_res = depth;
	resp->next_res = 0;
	resp->n_pending = 0;
}

static void set_route(struct urxe_qp *qp, const struct ibv_qp_attr *attr,
		      const struct urxe_route *route)
{
	assert(route->mtu_bytes <= MR_NULL_BYTES);
	list_del(&qp->ready);
	qp->route = *route;
	qp->attr.ah_attr = attr->ah_attr;
	qp->req.max_window = route->window_pkts ? route->window_pkts : ENGINE_DEFAULT_WINDOW;
	qp->req.window = qp->req.max_window;
}

static void set_start_psn(struct urxe_qp *qp, uint32_t psn)
{
	struct requester *req = &qp->req;

	psn &= PSN_MASK;
	req->psn = psn;
	req->una = psn;
	req->high = psn;
	req->next_psn = psn;
}

#define SET_IF(flag, field)                                                                        \
	do {                                                                                       \
		if (mask & (flag))                                                                 \
			qp->attr.field = attr->field;                                              \
	} while (0)

static void set_values(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask,
		       const struct urxe_route *route)
{
	SET_IF(IBV_QP_PKEY_INDEX, pkey_index);
	SET_IF(IBV_QP_PORT, port_num);
	SET_IF(IBV_QP_QKEY, qkey);
	SET_IF(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	SET_IF(IBV_QP_PATH_MTU, path_mtu);
	SET_IF(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	SET_IF(IBV_QP_TIMEOUT, timeout);
	SET_IF(IBV_QP_RETRY_CNT, retry_cnt);
	SET_IF(IBV_QP_RNR_RETRY, rnr_retry);
	SET_IF(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	SET_IF(IBV_QP_PATH_MIG_STATE, path_mig_state);
	SET_IF(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	if (mask & IBV_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num & PSN_MASK;
	if (mask & IBV_QP_RQ_PSN)
		qp->resp.psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		set_start_psn(qp, attr->sq_psn);
	if (mask & IBV_QP_AV)
		set_route(qp, attr, route);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		set_responder_depth(qp, attr->max_dest_rd_atomic);
	qp->mtu = 128u << (qp->type == IBV_QPT_UD ? qp->engine->active_mtu : qp->attr.path_mtu);
	if (qp->route.mtu_bytes)
		qp->mtu = qp->route.mtu_bytes;
	qp->req.retries_left = qp->attr.retry_cnt;
	qp->req.rnr_retries_left = qp->attr.rnr_retry;
}

void qp_reset(struct urxe_qp *qp)
{
	struct responder *resp = &qp->resp;

	list_del(&qp->ready);
	timer_off(&qp->timer);
	mw_release_qp(qp);
	cq_purge(qp->send_cq, qp->qpn);
	cq_purge(qp->recv_cq, qp->qpn);
	qp->state = IBV_QPS_RESET;
	qp->sq.head = qp->sq.cur = qp->sq.tail = 0;
	qp->rq.head = qp->rq.tail = 0;
	qp->attr =
		(struct ibv_qp_attr){.path_mtu = IBV_MTU_256, .path_mig_state = IBV_MIG_MIGRATED};
	qp->route = (struct urxe_route){0};
	qp->comm_est = false;
	qp->req = (struct requester){.window = ENGINE_DEFAULT_WINDOW,
				     .max_window = ENGINE_DEFAULT_WINDOW,
				     .ack_mask = ACK_MASK};
	dcqcn_reset(qp);
	*resp = (struct responder){.res = resp->res, .wqe = resp->wqe};
}

void qp_flush_recv(struct urxe_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR};

	if (qp->resp.have_wqe)
		qp_complete_recv(qp, &wc, true);
	while (!qp->srq && qp_take_recv(qp))
		qp_complete_recv(qp, &wc, true);
}

void qp_fail_sends(struct urxe_qp *qp)
{
	qp->state = IBV_QPS_SQE;
	while (qp->sq.head != qp->sq.tail)
		qp_retire_send(qp, IBV_WC_WR_FLUSH_ERR);
	qp->req.next_psn = qp->req.psn; /* what was begun and not sent whole never will be */
}

void qp_fail(struct urxe_qp *qp)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	qp->state = IBV_QPS_ERR;
	timer_off(&qp->timer);
	qp->req.rnr_wait = false;
	while (qp->sq.head != qp->sq.tail)
		qp_retire_send(qp, IBV_WC_WR_FLUSH_ERR);
	qp_flush_recv(qp);
	if (qp->srq)
		async_raise(qp->engine, &qp->async, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void qp_report_drained(struct urxe_qp *qp)
{
	struct requester *req = &qp->req;

	if (req->sq_drained || req->una != req->psn || qp->sq.cur != req->begun)
		return;
	req->sq_drained = true;
	if (qp->attr.en_sqd_async_notify)
		async_raise(qp->engine, &qp->async, IBV_EVENT_SQ_DRAINED);
}

static void enter(struct urxe_qp *qp, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
		qp_reset(qp);
		break;
	case IBV_QPS_ERR:
		qp->resp.answer = ANSWER_NONE;
		qp_fail(qp);
		qp->state = IBV_QPS_ERR; /* from RESET: nothing to flush */
		break;
	case IBV_QPS_SQD:
		if (qp->state != IBV_QPS_SQD)
			qp->req.sq_drained = false;
		qp->state = to;
		qp_report_drained(qp);
		break;
	default:
		qp->state = to;
		break;
	}
}

int urxe_qp_modify(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask,
		   const struct urxe_route *route, uint64_t now)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;

	qp->engine->now = now;
	if ((unsigned)to >= N_STATES)
		return -EINVAL;
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state)
		return -EINVAL;
	if (!transition_allowed(qp, to, mask) || !values_ok(qp, attr, mask, route))
		return -EINVAL;
	if (to != IBV_QPS_RESET && to != IBV_QPS_ERR)
		set_values(qp, attr, mask, route);
	enter(qp, to);
	if (to == IBV_QPS_RTS && qp->sq.head != qp->sq.tail)
		requester_restart_timer(qp, now);
	if (to >= IBV_QPS_RTR && to <= IBV_QPS_SQE)
		qp_ready(qp);
	engine_settle(qp->engine);
	return 0;
}
