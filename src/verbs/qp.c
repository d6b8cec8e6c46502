/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs. */
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Which queues a QP must have is the engine's matter; these must be of its context. */
static bool same_context(const struct ibv_context *context, const struct ibv_qp_init_attr *attr)
{
	return (!attr->send_cq || attr->send_cq->context == context) &&
	       (!attr->recv_cq || attr->recv_cq->context == context) &&
	       (!attr->srq || attr->srq->context == context);
}

static int engine_qp_new(struct urxe_context *ctx, struct urxe_pd *pd, struct urxe_qp_init *init,
			 struct urxe_qp **ret_qp)
{
	int ret = urxe_context_open_links(ctx);

	if (ret)
		return ret;
	ret = urxe_qp_new(pd, init, ret_qp);
	if (ret != -EAGAIN)
		return ret;
	ret = urxe_context_claim_qpns(ctx);
	if (ret)
		return ret;
	return urxe_qp_new(pd, init, ret_qp);
}

static void fill_ibv_qp(struct vqp *vqp, struct ibv_context *context, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = &vqp->ibv.qp_base;

	qp->context = context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_num = urxe_qp_num(vqp->qp);
	qp->handle = qp->qp_num;
	qp->state = IBV_QPS_RESET;
	qp->qp_type = attr->qp_type;
	pthread_mutex_init(&qp->mutex, NULL);
	pthread_cond_init(&qp->cond, NULL);
}

/* Of an XRC_RECV the domain is given instead of the PD. */
static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_pd *pd,
				struct ibv_xrcd *xrcd, struct ibv_qp_init_attr *attr,
				bool block_own_mcast)
{
	struct urxe_context *ctx = urxe_context_of(context);
	struct urxe_qp_init init = {
		.type = attr->qp_type, .cap = attr->cap, .sq_sig_all = attr->sq_sig_all};
	struct vqp *vqp;
	int ret = -EPERM;

	if (!same_context(context, attr)) {
		errno = EINVAL;
		return NULL;
	}
	vqp = calloc(1, sizeof(*vqp));
	if (!vqp)
		return NULL;
	urxe_event_source_init(&vqp->events);
	init.send_cq = attr->send_cq ? vcq_of(attr->send_cq)->cq : NULL;
	init.recv_cq = attr->recv_cq ? vcq_of(attr->recv_cq)->cq : NULL;
	init.srq = attr->srq ? vsrq_of(attr->srq)->srq : NULL;
	init.memory = pd ? vpd_of(pd)->memory : NULL;
	init.xrcd = xrcd ? container_of(xrcd, struct vxrcd, ibv)->xrcd : NULL;
	init.block_own_mcast = block_own_mcast;
	init.user = vqp;
	if (urxe_context_lock(ctx)) {
		ret = engine_qp_new(ctx, pd ? vpd_of(pd)->pd : NULL, &init, &vqp->qp);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vqp);
		errno = -ret;
		return NULL;
	}
	attr->cap = vqp->cap = init.cap;
	vqp->sq_sig_all = init.sq_sig_all;
	fill_ibv_qp(vqp, context, pd, attr);
	return &vqp->ibv.qp_base;
}

struct ibv_qp *urxe_verbs_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return create_qp(pd->context, pd, NULL, attr, false);
}

struct ibv_qp *urxe_verbs_create_qp_ex(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t offered = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				 IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_XRCD;
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
			     IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
			     IBV_QP_EX_WITH_ATOMIC_WRITE;
	const uint32_t create_flags =
		attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
	bool ex = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool target = attr->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp *qp;
	int ret;

	if ((attr->comp_mask & ~offered) ||
	    (create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) ||
	    (ex && (attr->send_ops_flags & ~ops))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (target ? !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || attr->xrcd->context != context
		   : !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd->context != context) {
		errno = EINVAL;
		return NULL;
	}
	/* The extended structure begins as the plain one does. */
	qp = create_qp(context, target ? NULL : attr->pd, target ? attr->xrcd : NULL,
		       (struct ibv_qp_init_attr *)attr, create_flags);
	if (!qp || !ex)
		return qp;
	ret = urxe_qp_batch_new(vqp_of(qp));
	if (ret) {
		urxe_verbs_destroy_qp(qp);
		errno = -ret;
		return NULL;
	}
	return qp;
}

/*
 * Of XRC one QP only asks and the other only answers. Programs give both the attributes of an RC
 * QP, as kernels let them, which leave out what has no meaning.
 */
static int meaningful(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

int urxe_verbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	struct vqp *vqp = vqp_of(qp);
	uint32_t dqpn = vqp->dqpn;
	struct urxe_route route;
	int ret = 0;

	mask = meaningful(qp->qp_type, mask);
	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_drive_begin(ctx);
	if (mask & IBV_QP_AV) {
		if (mask & IBV_QP_DEST_QPN)
			dqpn = attr->dest_qp_num & 0xffffff;
		ret = dqpn ? urxe_context_route(ctx, &attr->ah_attr, qp->qp_num, dqpn, &route)
			   : -EINVAL;
	}
	if (!ret)
		ret = urxe_qp_modify(vqp->qp, attr, mask, mask & IBV_QP_AV ? &route : NULL,
				     urxe_drive_now(ctx));
	if (!ret) {
		if (mask & IBV_QP_AV) {
			vqp->ah_attr = attr->ah_attr;
			vqp->dqpn = dqpn;
		}
		urxe_drive_send(ctx);
		urxe_events_collect(ctx); /* flushed requests complete, and may be waited for */
		urxe_drive_settle(ctx);
	}
	qp->state = urxe_qp_state(vqp->qp);
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	struct vqp *vqp = vqp_of(qp);

	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_qp_query(vqp->qp, attr);
	attr->ah_attr = vqp->ah_attr;
	attr->cap = vqp->cap;
	qp->state = attr->qp_state;
	urxe_context_unlock(ctx);
	init_attr->qp_context = qp->qp_context;
	init_attr->send_cq = qp->send_cq;
	init_attr->recv_cq = qp->recv_cq;
	init_attr->srq = qp->srq;
	init_attr->cap = vqp->cap;
	init_attr->qp_type = qp->qp_type;
	init_attr->sq_sig_all = vqp->sq_sig_all;
	return 0;
}

int urxe_verbs_destroy_qp(struct ibv_qp *qp)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	struct vqp *vqp = vqp_of(qp);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_drive_finish(ctx);
	ret = urxe_qp_free(vqp->qp);
	urxe_context_unlock(ctx);
	if (ret)
		return -ret;
	urxe_event_source_fini(ctx, &vqp->events, &qp->mutex, &qp->cond, &qp->events_completed);
	urxe_qp_batch_free(vqp);
	pthread_cond_destroy(&qp->cond);
	pthread_mutex_destroy(&qp->mutex);
	free(vqp);
	return 0;
}

static struct urxe_ah *resolve_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct vah, ibv)->ah;
}

/* After a failure too: of requests before the one that failed. */
static void after_post(struct urxe_context *ctx, const struct urxe_qp *qp)
{
	urxe_drive_posted(ctx, qp);
	urxe_events_collect(ctx);
	urxe_drive_settle(ctx);
}

int urxe_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	const struct ibv_send_wr *bad = wr;
	int ret = -EPERM;

	if (urxe_context_lock(ctx)) {
		urxe_drive_begin(ctx);
		ret = urxe_qp_post_send(vqp_of(qp)->qp, urxe_drive_now(ctx), wr, &bad, resolve_ah);
		after_post(ctx, vqp_of(qp)->qp);
		urxe_context_unlock(ctx);
	}
	if (ret)
		*bad_wr = (struct ibv_send_wr *)bad;
	return -ret;
}

int urxe_qp_post_all(struct vqp *vqp, const struct ibv_send_wr *wr)
{
	struct urxe_context *ctx = urxe_context_of(vqp->ibv.qp_base.context);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_drive_begin(ctx);
	ret = urxe_qp_post_batch(vqp->qp, urxe_drive_now(ctx), wr, resolve_ah);
	after_post(ctx, vqp->qp);
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	const struct ibv_recv_wr *bad = wr;
	int ret = -EPERM;

	if (urxe_context_lock(ctx)) {
		ret = urxe_qp_post_recv(vqp_of(qp)->qp, wr, &bad);
		urxe_events_collect(ctx); /* in an error state they complete at once */
		urxe_context_unlock(ctx);
	}
	if (ret)
		*bad_wr = (struct ibv_recv_wr *)bad;
	return -ret;
}
