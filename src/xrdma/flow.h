/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may post to a send queue, and how much. Pure.
 *
 * A context has at most `limit` work requests outstanding (so that its completion queue cannot
 * overrun); a queue has its own size. Positions of a queue count from 0 and are retired in order,
 * several by one completion: most requests are not signalled. A slot is free when its completion
 * was polled, whatever the peer said meanwhile.
 *
 * Who has something to post and finds no room waits in a circle. A turn is `quantum` requests.
 */
#ifndef XR_FLOW_H
#define XR_FLOW_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct xr_flow {
	uint32_t limit;
	uint32_t used;
	uint32_t quantum;
	uint32_t signal_every;
	uint64_t posted; /* in all */
	struct list circle;
};

/* One send queue. */
struct xr_flow_queue {
	struct list turn; /* in the circle */
	uint32_t size;
	uint32_t head;    /* the next to be posted */
	uint32_t tail;    /* all before it have ended */
	uint32_t silent;  /* posted since the last that asked for a completion */
	uint32_t quantum; /* left of this turn */
};

void xr_flow_init(struct xr_flow *f, uint32_t limit, uint32_t quantum, uint32_t signal_every);
void xr_flow_queue_init(struct xr_flow_queue *q, uint32_t size);

static inline uint32_t xr_flow_outstanding(const struct xr_flow_queue *q)
{
	return q->head - q->tail;
}

/* Room for one more, leaving `spare` places of the queue free. */
static inline bool xr_flow_room(const struct xr_flow *f, const struct xr_flow_queue *q,
				uint32_t spare)
{
	return f->used < f->limit && xr_flow_outstanding(q) + spare < q->size;
}

/*
 * Account for a request about to be posted, for which the queue has a place. signal: the caller
 * wants a completion. Returns whether it must ask for one; the request's position is q->head - 1.
 */
bool xr_flow_post(struct xr_flow *f, struct xr_flow_queue *q, bool signal);

/* The one just accounted for was not posted. */
void xr_flow_unpost(struct xr_flow *f, struct xr_flow_queue *q);

/*
 * The request at pos has ended, and so have those before it. Returns how many that were: 0 if pos
 * is not outstanding. The first of them is the old q->tail.
 */
uint32_t xr_flow_retire(struct xr_flow *f, struct xr_flow_queue *q, uint32_t pos);

/* The queue has something to post: takes its place at the end of the circle, if it has none. */
void xr_flow_wait(struct xr_flow *f, struct xr_flow_queue *q);
/* The one whose turn it is, out of the circle and with a new quantum; NULL: no one, or no room. */
struct xr_flow_queue *xr_flow_next(struct xr_flow *f);
/* Leave the circle, and let go of all that is outstanding: the queue is no more. */
void xr_flow_leave(struct xr_flow *f, struct xr_flow_queue *q);

#endif
