/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/flow.h"

#include <assert.h>
#include <stddef.h>

void xr_flow_init(struct xr_flow *f, uint32_t limit, uint32_t quantum, uint32_t signal_every)
{
	*f = (struct xr_flow){.limit = limit, .quantum = quantum, .signal_every = signal_every};
	list_init(&f->circle);
}

void xr_flow_queue_init(struct xr_flow_queue *q, uint32_t size)
{
	*q = (struct xr_flow_queue){.size = size};
	list_init(&q->turn);
}

/*
 * Unsignalled requests hold their slots until a later one completes. So one is signalled in time
 * for the queue not to fill up, and always when the context runs short: else its slots could all be
 * held by queues that have nothing more to post.
 */
static bool must_signal(const struct xr_flow *f, const struct xr_flow_queue *q)
{
	return q->silent >= f->signal_every || q->silent >= q->size / 2 || f->used > f->limit / 2;
}

bool xr_flow_post(struct xr_flow *f, struct xr_flow_queue *q, bool signal)
{
	assert(xr_flow_outstanding(q) < q->size);
	q->head++;
	q->silent++;
	f->used++;
	f->posted++;
	if (q->quantum)
		q->quantum--;
	if (!signal && !must_signal(f, q))
		return false;
	q->silent = 0;
	return true;
}

void xr_flow_unpost(struct xr_flow *f, struct xr_flow_queue *q)
{
	q->head--;
	f->used--;
	q->silent = f->signal_every; /* the one that asked may be this: the next asks */
}

uint32_t xr_flow_retire(struct xr_flow *f, struct xr_flow_queue *q, uint32_t pos)
{
	uint32_t n = pos - q->tail + 1;

	if (n > xr_flow_outstanding(q))
		return 0;
	q->tail += n;
	f->used -= n;
	return n;
}

void xr_flow_wait(struct xr_flow *f, struct xr_flow_queue *q)
{
	if (!list_linked(&q->turn))
		list_add_tail(&f->circle, &q->turn);
}

struct xr_flow_queue *xr_flow_next(struct xr_flow *f)
{
	struct list *node = f->used < f->limit ? list_pop(&f->circle) : NULL;
	struct xr_flow_queue *q;

	if (!node)
		return NULL;
	q = container_of(node, struct xr_flow_queue, turn);
	q->quantum = f->quantum;
	return q;
}

void xr_flow_leave(struct xr_flow *f, struct xr_flow_queue *q)
{
	list_del(&q->turn);
	f->used -= xr_flow_outstanding(q);
	q->tail = q->head;
}
