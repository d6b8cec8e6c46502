/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels and asynchronous events. */
#include "base/clock.h"
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* Add one unit. The counter cannot overflow in practice, and a full one is readable all the same.
 */
static void unit_put(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

/* Take one unit, blocking or not as the program has set its descriptor. */
static int unit_get(int fd)
{
	uint64_t one;

	return read(fd, &one, sizeof(one)) == (ssize_t)sizeof(one) ? 0 : -1;
}

/* Take back a unit whose event was withdrawn, unless a reader has taken it just now. */
static void unit_withdraw(int fd)
{
	uint64_t one;
	struct iovec iov = {.iov_base = &one, .iov_len = sizeof(one)};

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0)
		return;
}

/* ---- completion channels --------------------------------------------------------------------- */

static struct urxe_channel *channel_of(struct ibv_comp_channel *channel)
{
	return container_of(channel, struct urxe_channel, ibv);
}

struct ibv_comp_channel *urxe_verbs_create_comp_channel(struct ibv_context *context)
{
	struct urxe_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ibv.context = context;
	ch->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->ibv.fd < 0) {
		free(ch);
		return NULL;
	}
	pthread_mutex_init(&ch->lock, NULL);
	list_init(&ch->fired);
	return &ch->ibv;
}

int urxe_verbs_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ibv_context *context = channel->context;
	struct urxe_channel *ch = channel_of(channel);
	int refcnt;

	pthread_mutex_lock(&context->mutex);
	refcnt = channel->refcnt;
	pthread_mutex_unlock(&context->mutex);
	if (refcnt)
		return EBUSY;
	close(channel->fd);
	pthread_mutex_destroy(&ch->lock);
	free(ch);
	return 0;
}

void urxe_cq_firing_init(struct urxe_cq_firing *firing)
{
	list_init(&firing->node);
}

static void channel_put(struct urxe_channel *ch, struct vcq *vcq)
{
	pthread_mutex_lock(&ch->lock);
	if (vcq->firing.queued++ == 0)
		list_add_tail(&ch->fired, &vcq->firing.node);
	atomic_fetch_add_explicit(&ch->n_fired, 1, memory_order_relaxed);
	pthread_mutex_unlock(&ch->lock);
	unit_put(ch->ibv.fd);
}

static struct vcq *channel_take(struct urxe_channel *ch)
{
	struct vcq *vcq = NULL;
	struct list *node;

	pthread_mutex_lock(&ch->lock);
	node = list_pop(&ch->fired);
	if (node) {
		vcq = container_of(node, struct vcq, firing.node);
		vcq->firing.delivered++;
		if (--vcq->firing.queued)
			list_add_tail(&ch->fired, node);
		atomic_fetch_sub_explicit(&ch->n_fired, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&ch->lock);
	return vcq;
}

static bool channel_has_event(struct urxe_channel *ch)
{
	return atomic_load_explicit(&ch->n_fired, memory_order_relaxed) != 0;
}

/*
 * Poll for a while before sleeping: an event that comes soon costs no wake-up then. Where that
 * proves useless the while gets shorter, where it helps it grows again.
 */
static void poll_for_event(struct urxe_context *ctx, struct urxe_channel *ch)
{
	unsigned max_us = urxe_driver_spin_us();
	unsigned spin_us = ctx->drive.wait_spin_us;
	uint64_t start = clock_now_ns();
	bool found = false;

	if (spin_us > max_us)
		spin_us = max_us;
	do {
		if (!urxe_context_lock(ctx))
			return;
		urxe_drive_begin(ctx);
		urxe_drive_progress(ctx);
		found = channel_has_event(ch);
		if (found)
			ctx->drive.wait_spin_us = spin_us * 2 < max_us ? spin_us * 2 + 1 : max_us;
		urxe_context_unlock(ctx);
		if (found)
			return;
		sched_yield();
	} while (clock_now_ns() - start < spin_us * NSEC_PER_USEC);
	if (!urxe_context_lock(ctx))
		return;
	ctx->drive.wait_spin_us = spin_us / 2 + 1;
	urxe_drive_begin(ctx);
	urxe_drive_hand_over(ctx);
	urxe_context_unlock(ctx);
}

int urxe_verbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct urxe_context *ctx = urxe_context_of(channel->context);
	struct urxe_channel *ch = channel_of(channel);
	struct vcq *vcq = NULL;

	if (ctx->generation != urxe_fork_generation) {
		errno = EPERM;
		return -1;
	}
	while (!vcq) {
		if (!channel_has_event(ch))
			poll_for_event(ctx, ch);
		if (unit_get(channel->fd))
			return -1;
		vcq = channel_take(ch);
	}
	*cq = ibv_cq_ex_to_cq(&vcq->ibv);
	*cq_context = vcq->ibv.cq_context;
	return 0;
}

void urxe_verbs_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

void urxe_cq_firing_fini(struct vcq *vcq)
{
	struct urxe_channel *ch;
	unsigned withdrawn, delivered;

	if (!vcq->ibv.channel)
		return;
	ch = channel_of(vcq->ibv.channel);
	pthread_mutex_lock(&ch->lock);
	withdrawn = vcq->firing.queued;
	delivered = vcq->firing.delivered;
	vcq->firing.queued = 0;
	list_del(&vcq->firing.node);
	atomic_fetch_sub_explicit(&ch->n_fired, withdrawn, memory_order_relaxed);
	pthread_mutex_unlock(&ch->lock);
	while (withdrawn--)
		unit_withdraw(ch->ibv.fd);

	pthread_mutex_lock(&vcq->ibv.mutex);
	while (vcq->ibv.comp_events_completed != delivered)
		pthread_cond_wait(&vcq->ibv.cond, &vcq->ibv.mutex);
	pthread_mutex_unlock(&vcq->ibv.mutex);
}

/* ---- asynchronous events --------------------------------------------------------------------- */

int urxe_async_queue_init(struct urxe_async_queue *queue)
{
	queue->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (queue->fd < 0)
		return -errno;
	pthread_mutex_init(&queue->lock, NULL);
	list_init(&queue->sources);
	for (int i = 0; i < URXE_PORT_EVENTS; i++)
		urxe_event_source_init(&queue->port[i]);
	return 0;
}

void urxe_async_queue_fini(struct urxe_async_queue *queue)
{
	close(queue->fd);
	pthread_mutex_destroy(&queue->lock);
}

void urxe_event_source_init(struct urxe_event_source *source)
{
	list_init(&source->node);
}

static bool is_about_cq(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR;
}

static bool is_about_srq(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool is_about_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
	       type == IBV_EVENT_GID_CHANGE;
}

static void queue_put(struct urxe_async_queue *queue, struct urxe_event_source *source,
		      enum ibv_event_type type)
{
	uint32_t bit = UINT32_C(1) << type;
	bool news;

	pthread_mutex_lock(&queue->lock);
	news = !(source->pending & bit);
	source->pending |= bit;
	if (is_about_port(type)) /* the last state is the one that counts */
		list_del(&source->node);
	if (!list_linked(&source->node))
		list_add_tail(&queue->sources, &source->node);
	pthread_mutex_unlock(&queue->lock);
	if (news)
		unit_put(queue->fd);
}

void urxe_events_put_port(struct urxe_context *ctx, enum ibv_event_type type)
{
	enum urxe_port_event which = type == IBV_EVENT_PORT_ACTIVE ? URXE_PORT_ACTIVE
				     : type == IBV_EVENT_PORT_ERR  ? URXE_PORT_ERR
								   : URXE_GID_CHANGE;

	queue_put(&ctx->async, &ctx->async.port[which], type);
}

static void async_put(struct urxe_async_queue *queue, const struct urxe_async *event)
{
	struct urxe_event_source *source =
		is_about_cq(event->type)    ? &((struct vcq *)event->user)->events
		: is_about_srq(event->type) ? &((struct vsrq *)event->user)->events
					    : &((struct vqp *)event->user)->events;

	queue_put(queue, source, event->type);
}

static bool async_take(struct urxe_async_queue *queue, struct ibv_async_event *ret_event)
{
	struct urxe_event_source *source;
	struct list *node;
	enum ibv_event_type type;

	pthread_mutex_lock(&queue->lock);
	node = list_pop(&queue->sources);
	if (!node) {
		pthread_mutex_unlock(&queue->lock);
		return false;
	}
	source = container_of(node, struct urxe_event_source, node);
	type = (enum ibv_event_type)__builtin_ctz(source->pending);
	source->pending &= source->pending - 1;
	source->delivered++;
	if (source->pending)
		list_add_tail(&queue->sources, node);
	ret_event->event_type = type;
	if (is_about_port(type))
		ret_event->element.port_num = 1;
	else if (is_about_cq(type))
		ret_event->element.cq =
			ibv_cq_ex_to_cq(&container_of(source, struct vcq, events)->ibv);
	else if (is_about_srq(type))
		ret_event->element.srq = &container_of(source, struct vsrq, events)->ibv;
	else
		ret_event->element.qp = &container_of(source, struct vqp, events)->ibv.qp_base;
	pthread_mutex_unlock(&queue->lock);
	return true;
}

void urxe_event_source_fini(struct urxe_context *ctx, struct urxe_event_source *source,
			    pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acked)
{
	struct urxe_async_queue *queue = &ctx->async;
	unsigned withdrawn, delivered;

	pthread_mutex_lock(&queue->lock);
	withdrawn = (unsigned)__builtin_popcount(source->pending);
	delivered = source->delivered;
	source->pending = 0;
	list_del(&source->node);
	pthread_mutex_unlock(&queue->lock);
	while (withdrawn--)
		unit_withdraw(queue->fd);

	pthread_mutex_lock(mutex);
	while (*acked != delivered)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

int urxe_verbs_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct urxe_context *ctx = urxe_context_of(context);

	if (!urxe_context_lock(ctx)) {
		errno = EPERM;
		return -1;
	}
	urxe_drive_begin(ctx);
	urxe_drive_hand_over(ctx);
	urxe_context_unlock(ctx);
	do {
		if (unit_get(context->async_fd))
			return -1;
	} while (!async_take(&ctx->async, event));
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void urxe_verbs_ack_async_event(struct ibv_async_event *event)
{
	if (is_about_cq(event->event_type)) {
		struct ibv_cq *cq = event->element.cq;

		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
	} else if (is_about_srq(event->event_type)) {
		struct ibv_srq *srq = event->element.srq;

		ack(&srq->mutex, &srq->cond, &srq->events_completed);
	} else {
		struct ibv_qp *qp = event->element.qp;

		ack(&qp->mutex, &qp->cond, &qp->events_completed);
	}
}

void urxe_events_collect(struct urxe_context *ctx)
{
	struct urxe_async event;
	struct urxe_cq *cq;

	if (!urxe_engine_has_events(ctx->engine))
		return;
	while ((cq = urxe_engine_next_notify(ctx->engine))) {
		struct vcq *vcq = urxe_cq_user(cq);

		if (vcq->ibv.channel)
			channel_put(channel_of(vcq->ibv.channel), vcq);
	}
	while (urxe_engine_next_async(ctx->engine, &event))
		async_put(&ctx->async, &event);
}
