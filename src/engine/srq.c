/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/xrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool attr_in_limits(const struct urxe_engine *e, const struct ibv_srq_attr *attr)
{
	return attr->max_wr > 0 && attr->max_wr <= (uint32_t)e->limits.max_srq_wr &&
	       attr->max_sge <= (uint32_t)e->limits.max_srq_sge && attr->srq_limit <= attr->max_wr;
}

int urxe_srq_new(struct urxe_pd *pd, const struct ibv_srq_attr *attr, void *user,
		 struct urxe_srq **ret_srq)
{
	struct urxe_engine *e = pd->engine;
	struct urxe_srq *srq;

	if (!attr_in_limits(e, attr))
		return -EINVAL;
	if (e->n_srq >= (uint32_t)e->limits.max_srq)
		return -ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	if (rq_init(&srq->rq, attr->max_wr, attr->max_sge, NULL) < 0) {
		free(srq);
		return -ENOMEM;
	}
	srq->pd = pd;
	pd->refs++;
	e->n_srq++;
	list_add_tail(&e->srqs, &srq->node);
	async_init(&srq->async, user);
	*ret_srq = srq;
	return 0;
}

int urxe_srq_free(struct urxe_srq *srq)
{
	if (!srq)
		return 0;
	if (srq->refs)
		return -EBUSY;
	xrc_forget(srq);
	srq->pd->refs--;
	srq->pd->engine->n_srq--;
	list_del(&srq->node);
	list_del(&srq->async.node);
	rq_fini(&srq->rq);
	free(srq);
	return 0;
}

void srq_check_limit(struct urxe_srq *srq)
{
	if (rq_count(&srq->rq) >= srq->limit)
		return;
	srq->limit = 0; /* one shot */
	async_raise(srq->pd->engine, &srq->async, IBV_EVENT_SRQ_LIMIT_REACHED);
}

static int resize(struct urxe_srq *srq, uint32_t max_wr)
{
	struct recv_queue rq;
	const struct recv_wqe *wqe;

	if (max_wr < rq_count(&srq->rq))
		return -EINVAL;
	if (rq_init(&rq, max_wr, srq->rq.max_sge, NULL) < 0)
		return -ENOMEM;
	for (; (wqe = rq_peek(&srq->rq)); srq->rq.head++)
		memcpy(rq.slots + (size_t)(rq.tail++ & rq.mask) * rq.stride, wqe, rq.stride);
	rq_fini(&srq->rq);
	srq->rq = rq;
	return 0;
}

int urxe_srq_modify(struct urxe_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct ibv_srq_attr want = {.max_wr = srq->rq.depth, .max_sge = srq->rq.max_sge};

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR)
		want.max_wr = attr->max_wr;
	if (mask & IBV_SRQ_LIMIT)
		want.srq_limit = attr->srq_limit;
	if (!attr_in_limits(srq->pd->engine, &want))
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		int rc = resize(srq, want.max_wr);

		if (rc < 0)
			return rc;
	}
	if (mask & IBV_SRQ_LIMIT) {
		srq->limit = want.srq_limit;
		srq_check_limit(srq);
	}
	return 0;
}

void urxe_srq_query(const struct urxe_srq *srq, struct ibv_srq_attr *ret_attr)
{
	*ret_attr = (struct ibv_srq_attr){
		.max_wr = srq->rq.depth,
		.max_sge = srq->rq.max_sge,
		.srq_limit = srq->limit,
	};
}

int urxe_srq_post(struct urxe_srq *srq, const struct ibv_recv_wr *wr,
		  const struct ibv_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		int rc = rq_post(&srq->rq, wr);

		if (rc < 0) {
			*bad_wr = wr;
			return rc;
		}
	}
	return 0;
}
