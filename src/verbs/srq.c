/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>

/* A domain lives in its context: one named by a file is not shared with other processes. */
struct ibv_xrcd *urxe_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct urxe_context *ctx = urxe_context_of(context);
	struct vxrcd *vxrcd;
	int ret = -EPERM;

	if ((attr->comp_mask & both) != both || attr->comp_mask & ~both) {
		errno = EINVAL;
		return NULL;
	}
	vxrcd = calloc(1, sizeof(*vxrcd));
	if (!vxrcd)
		return NULL;
	if (urxe_context_lock(ctx)) {
		ret = urxe_xrcd_new(ctx->engine, &vxrcd->xrcd);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vxrcd);
		errno = -ret;
		return NULL;
	}
	vxrcd->ibv.context = context;
	return &vxrcd->ibv;
}

int urxe_verbs_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct urxe_context *ctx = urxe_context_of(xrcd->context);
	struct vxrcd *vxrcd = container_of(xrcd, struct vxrcd, ibv);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_xrcd_free(vxrcd->xrcd);
	urxe_context_unlock(ctx);
	if (!ret)
		free(vxrcd);
	return -ret;
}

int urxe_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = urxe_srq_num(vsrq_of(srq)->srq);
	return *num ? 0 : EOPNOTSUPP;
}

/* xrcd and cq are NULL for a basic one. */
static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
				  struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vsrq *vsrq = calloc(1, sizeof(*vsrq));
	int ret = -EPERM;

	if (!vsrq)
		return NULL;
	urxe_event_source_init(&vsrq->events);
	if (urxe_context_lock(ctx)) {
		ret = xrcd ? urxe_srq_new_xrc(vpd_of(pd)->pd, &attr->attr,
					      container_of(xrcd, struct vxrcd, ibv)->xrcd,
					      vcq_of(cq)->cq, vsrq, &vsrq->srq)
			   : urxe_srq_new(vpd_of(pd)->pd, &attr->attr, vsrq, &vsrq->srq);
		if (!ret)
			urxe_srq_query(vsrq->srq, &attr->attr); /* the granted sizes */
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vsrq);
		errno = -ret;
		return NULL;
	}
	vsrq->ibv.context = pd->context;
	vsrq->ibv.srq_context = attr->srq_context;
	vsrq->ibv.pd = pd;
	pthread_mutex_init(&vsrq->ibv.mutex, NULL);
	pthread_cond_init(&vsrq->ibv.cond, NULL);
	return &vsrq->ibv;
}

struct ibv_srq *urxe_verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd, attr, NULL, NULL);
}

struct ibv_srq *urxe_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const uint32_t offered = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | of_xrc;
	enum ibv_srq_type type =
		attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	bool xrc = type == IBV_SRQT_XRC;

	if ((attr->comp_mask & ~offered) || (type != IBV_SRQT_BASIC && !xrc)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd->context != context ||
	    (xrc && ((attr->comp_mask & of_xrc) != of_xrc || attr->xrcd->context != context ||
		     attr->cq->context != context))) {
		errno = EINVAL;
		return NULL;
	}
	/* The extended structure begins as the plain one does. */
	return create_srq(attr->pd, (struct ibv_srq_init_attr *)attr, xrc ? attr->xrcd : NULL,
			  xrc ? attr->cq : NULL);
}

int urxe_verbs_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct urxe_context *ctx = urxe_context_of(srq->context);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_srq_modify(vsrq_of(srq)->srq, attr, mask);
	urxe_events_collect(ctx); /* fewer requests than the new limit: the event is due at once */
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct urxe_context *ctx = urxe_context_of(srq->context);

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_srq_query(vsrq_of(srq)->srq, attr);
	urxe_context_unlock(ctx);
	return 0;
}

int urxe_verbs_destroy_srq(struct ibv_srq *srq)
{
	struct urxe_context *ctx = urxe_context_of(srq->context);
	struct vsrq *vsrq = vsrq_of(srq);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_events_collect(ctx);
	ret = urxe_srq_free(vsrq->srq);
	urxe_context_unlock(ctx);
	if (ret)
		return -ret;
	urxe_event_source_fini(ctx, &vsrq->events, &srq->mutex, &srq->cond, &srq->events_completed);
	pthread_cond_destroy(&srq->cond);
	pthread_mutex_destroy(&srq->mutex);
	free(vsrq);
	return 0;
}

int urxe_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr)
{
	struct urxe_context *ctx = urxe_context_of(srq->context);
	const struct ibv_recv_wr *bad = wr;
	int ret = -EPERM;

	if (urxe_context_lock(ctx)) {
		ret = urxe_srq_post(vsrq_of(srq)->srq, wr, &bad);
		urxe_context_unlock(ctx);
	}
	if (ret)
		*bad_wr = (struct ibv_recv_wr *)bad;
	return -ret;
}
