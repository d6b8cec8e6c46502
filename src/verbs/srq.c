/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_srq *urxe_verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vsrq *vsrq = calloc(1, sizeof(*vsrq));
	int ret = -EPERM;

	if (!vsrq)
		return NULL;
	urxe_event_source_init(&vsrq->events);
	if (urxe_context_lock(ctx)) {
		ret = urxe_srq_new(vpd_of(pd)->pd, &attr->attr, vsrq, &vsrq->srq);
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

struct ibv_srq *urxe_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t offered = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	if ((attr->comp_mask & ~offered) ||
	    ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}
	/* The extended structure begins as the plain one does. */
	return urxe_verbs_create_srq(attr->pd, (struct ibv_srq_init_attr *)attr);
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
