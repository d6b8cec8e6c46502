/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues. */
#include "base/clock.h"
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>

static void hold_channel(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += by;
	pthread_mutex_unlock(&channel->context->mutex);
}

/* Returns NULL and sets errno, as its callers do. */
static struct vcq *new_cq(struct ibv_context *context, int cqe, void *cq_context,
			  struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	struct urxe_context *ctx = urxe_context_of(context);
	struct vcq *vcq;
	int ret = -EPERM;

	if (cqe <= 0 || comp_vector >= (uint32_t)context->num_comp_vectors ||
	    (channel && channel->context != context)) {
		errno = EINVAL;
		return NULL;
	}
	vcq = calloc(1, sizeof(*vcq));
	if (!vcq)
		return NULL;
	urxe_event_source_init(&vcq->events);
	urxe_cq_firing_init(&vcq->firing);
	if (urxe_context_lock(ctx)) {
		ret = urxe_cq_new(ctx->engine, (unsigned)cqe, vcq, &vcq->cq);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vcq);
		errno = -ret;
		return NULL;
	}
	vcq->ibv.context = context;
	vcq->ibv.channel = channel;
	vcq->ibv.cq_context = cq_context;
	vcq->ibv.cqe = (int)urxe_cq_capacity(vcq->cq);
	pthread_mutex_init(&vcq->ibv.mutex, NULL);
	pthread_cond_init(&vcq->ibv.cond, NULL);
	pthread_mutex_init(&vcq->poll_lock, NULL);
	hold_channel(channel, 1);
	return vcq;
}

struct ibv_cq *urxe_verbs_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	struct vcq *vcq = new_cq(context, cqe, cq_context, channel, (uint32_t)comp_vector);

	return vcq ? ibv_cq_ex_to_cq(&vcq->ibv) : NULL;
}

struct ibv_cq_ex *urxe_verbs_create_cq_ex(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t offered = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct vcq *vcq;

	if ((attr->wc_flags & ~offered) || (attr->comp_mask & ~known) ||
	    (flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->cqe > INT32_MAX ||
	    (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && !attr->parent_domain)) {
		errno = EINVAL;
		return NULL;
	}
	vcq = new_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	if (!vcq)
		return NULL;
	vcq->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	urxe_cq_fill_ex(vcq, attr->wc_flags);
	return &vcq->ibv;
}

int urxe_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct urxe_context *ctx = urxe_context_of(cq->context);
	int ret;

	/* The fields are of 16 bits, as the limits are. */
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_cq_moderate(vcq_of(cq)->cq, attr->moderate.cq_count,
			       attr->moderate.cq_period * NSEC_PER_USEC);
	urxe_events_collect(ctx);
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct urxe_context *ctx = urxe_context_of(cq->context);
	struct vcq *vcq = vcq_of(cq);
	int ret;

	if (cqe <= 0)
		return EINVAL;
	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_cq_resize(vcq->cq, (unsigned)cqe);
	if (!ret)
		cq->cqe = (int)urxe_cq_capacity(vcq->cq);
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_destroy_cq(struct ibv_cq *cq)
{
	struct urxe_context *ctx = urxe_context_of(cq->context);
	struct vcq *vcq = vcq_of(cq);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_events_collect(ctx); /* nothing about this queue stays behind in the engine */
	ret = urxe_cq_free(vcq->cq);
	urxe_context_unlock(ctx);
	if (ret)
		return -ret;
	urxe_cq_firing_fini(vcq);
	urxe_event_source_fini(ctx, &vcq->events, &cq->mutex, &cq->cond,
			       &cq->async_events_completed);
	hold_channel(cq->channel, -1);
	pthread_mutex_destroy(&vcq->poll_lock);
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&cq->mutex);
	free(vcq);
	return 0;
}

int urxe_cq_take(struct vcq *vcq, int n, struct ibv_wc *wc)
{
	struct urxe_context *ctx = urxe_context_of(vcq->ibv.context);
	int got;

	if (!urxe_context_lock(ctx))
		return -EPERM;
	got = urxe_cq_poll(vcq->cq, n, wc);
	if (!got) {
		urxe_drive_poll(ctx);
		got = urxe_cq_poll(vcq->cq, n, wc);
	}
	urxe_context_unlock(ctx);
	return got;
}

int urxe_cq_take_one(struct vcq *vcq)
{
	struct urxe_context *ctx = urxe_context_of(vcq->ibv.context);
	const struct urxe_cqe *cqe;
	int ret = 0;

	if (!urxe_context_lock(ctx))
		return -EPERM;
	cqe = urxe_cq_peek(vcq->cq);
	if (!cqe) {
		urxe_drive_poll(ctx);
		cqe = urxe_cq_peek(vcq->cq);
	}
	if (cqe) {
		vcq->completion_ns = cqe->ts_ns;
		vcq->wc = cqe->wc;
		urxe_cq_pop(vcq->cq);
		ret = 1;
	} else {
		ret = urxe_cq_poll(vcq->cq, 1, &vcq->wc); /* none, or the queue has overrun */
	}
	urxe_context_unlock(ctx);
	return ret;
}

int urxe_verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return urxe_cq_take(vcq_of(cq), num_entries, wc);
}

int urxe_verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct urxe_context *ctx = urxe_context_of(cq->context);

	if (!urxe_context_lock(ctx))
		return EPERM;
	urxe_cq_arm(vcq_of(cq)->cq, solicited_only);
	/* Who arms is about to sleep; what has come in meanwhile fires the notification already. */
	urxe_drive_begin(ctx);
	urxe_drive_hand_over(ctx);
	urxe_context_unlock(ctx);
	return 0;
}
