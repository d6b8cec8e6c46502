/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues: of one channel, or shared by many. `promised` is how many receives the windows of
 * peers rely on; a place whose message came is empty until a buffer is posted in it again, and only
 * then its message counts as consumed. What cannot get a buffer (the budget is spent) is owed one.
 */
#ifndef XR_VERBS_RQ_H
#define XR_VERBS_RQ_H

#include "base/list.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct xrdma_context;
struct xrdma_channel;
struct xrdma_msg;

struct xr_rq {
	struct xrdma_context *ctx;
	struct ibv_srq *srq; /* or */
	struct ibv_qp *qp;
	uint64_t id_base;         /* of wr_id: kind and handle */
	struct xrdma_msg **slots; /* what is posted, by the low half of wr_id */
	uint32_t *free_slots;
	uint32_t n_free, capacity;
	uint32_t posted;
	uint32_t promised;
	bool stopped;      /* posts no more */
	struct list debts; /* messages kept by the application */
	struct list owing; /* in the context's list, while there are debts */
};

/*
 * Receives about to be posted, a chain of the messages' own requests. Until they are, ch and seq of
 * a message say what is consumed by it (ch NULL: nothing).
 */
struct xr_rq_batch {
	struct xr_rq *rq;
	struct ibv_recv_wr *first, **end; /* first NULL: none */
};

int xr_rq_init(struct xr_rq *rq, struct xrdma_context *ctx, uint32_t capacity, uint64_t id_base);
/* Nothing is posted any more, or its queue pair is gone. */
void xr_rq_fini(struct xr_rq *rq);

/* Promise n more, and post what that takes. -ENOBUFS: it has not that many places, or no memory. */
int xr_rq_promise(struct xr_rq *rq, uint32_t n);
void xr_rq_withdraw(struct xr_rq *rq, uint32_t n);

/* The message that came in a place; NULL: the place is empty. */
struct xrdma_msg *xr_rq_take(struct xr_rq *rq, uint64_t wr_id);

/*
 * A place is empty: post m in it, or if m is NULL a new buffer. seq of ch is consumed once that is
 * done (ch NULL: none). false: there is no buffer.
 */
bool xr_rq_refill(struct xr_rq *rq, struct xrdma_msg *m, struct xrdma_channel *ch, uint16_t seq);
void xr_rq_flush(struct xrdma_context *ctx);

/* In place of m, which the application keeps, a buffer is owed: paid when there is one. */
void xr_rq_owe(struct xr_rq *rq, struct xrdma_msg *m);
void xr_rq_pay_all(struct xrdma_context *ctx);

#endif
