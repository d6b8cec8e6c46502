/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues: rings of work requests in memory of their own, validated once when posted. */
#ifndef URXE_ENGINE_WQ_H
#define URXE_ENGINE_WQ_H

#include "engine/engine_priv.h"

/* ---- send ------------------------------------------------------------------------------------ */

struct send_wqe {
	uint64_t wr_id;
	uint8_t opcode; /* enum ibv_wr_opcode */
	bool signaled;
	bool solicited;
	bool fence;
	bool is_inline;
	bool needs_recv; /* consumes a receive at the peer: end-to-end credits count it */
	uint32_t num_sge;
	uint32_t length;       /* of the message, in bytes */
	uint32_t first_psn;    /* given when sending begins */
	uint32_t n_psn;        /* 0: executed here, nothing is sent */
	uint32_t recv_ordinal; /* of the messages that need a receive, from 1 */
	uint32_t imm_be;       /* or the rkey to invalidate */
	uint32_t remote_srqn;  /* XRC */
	union {
		struct {
			uint64_t va;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} rc;
		struct {
			struct urxe_path path; /* the AH may go before the request is sent */
			struct urxe_txq *txq;
			uint32_t dqpn;
			uint32_t qkey;
		} ud;
		struct {
			uint64_t addr;
			uint64_t length;
			uint32_t lkey; /* the region's */
			uint32_t rkey; /* to be the window's */
			unsigned access;
		} bind;
	};
	union {
		struct ibv_sge sge[1];  /* num_sge */
		uint8_t inline_data[1]; /* length */
	};
};

struct send_queue {
	const struct urxe_memory *memory; /* NULL: the slots are on the heap */
	uint8_t *slots;
	uint32_t stride; /* bytes */
	uint32_t mask;
	uint32_t depth;
	uint32_t max_sge;
	uint32_t max_inline;
	/* Free-running: head <= cur <= tail. */
	uint32_t head; /* oldest not completed */
	uint32_t cur;  /* next to send, in part or whole */
	uint32_t tail; /* next to post */
};

static inline struct send_wqe *sq_at(const struct send_queue *sq, uint32_t i)
{
	return (struct send_wqe *)(void *)(sq->slots + (size_t)(i & sq->mask) * sq->stride);
}

int sq_init(struct send_queue *sq, uint32_t depth, uint32_t max_sge, uint32_t max_inline,
	    const struct urxe_memory *memory);
void sq_fini(struct send_queue *sq);

/* ---- receive --------------------------------------------------------------------------------- */

struct recv_wqe {
	uint64_t wr_id;
	uint64_t length; /* the sum of its elements */
	uint32_t num_sge;
	struct ibv_sge sge[1]; /* num_sge */
};

struct recv_queue {
	const struct urxe_memory *memory;
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;
	uint32_t depth;
	uint32_t max_sge;
	uint32_t head;
	uint32_t tail;
};

int rq_init(struct recv_queue *rq, uint32_t depth, uint32_t max_sge,
	    const struct urxe_memory *memory);
void rq_fini(struct recv_queue *rq);

static inline uint32_t rq_count(const struct recv_queue *rq)
{
	return rq->tail - rq->head;
}

/* The oldest request, or NULL. */
static inline const struct recv_wqe *rq_peek(const struct recv_queue *rq)
{
	if (rq->head == rq->tail)
		return NULL;
	return (const struct recv_wqe *)(const void *)(rq->slots +
						       (size_t)(rq->head & rq->mask) * rq->stride);
}

/* Post one request: -EINVAL too many elements, -ENOMEM full. */
int rq_post(struct recv_queue *rq, const struct ibv_recv_wr *wr);

struct urxe_srq {
	struct urxe_pd *pd;
	struct urxe_xrcd *xrcd; /* these two only for XRC */
	struct urxe_cq *cq;
	uint32_t num; /* 0: not for XRC */
	struct recv_queue rq;
	uint32_t limit; /* 0: not armed */
	uint32_t refs;  /* QPs */
	struct list node;
	struct async_src async;
};

/* Tell once when fewer requests are left than the armed limit, also if it was so when armed (IBA
 * 10.2.9.2). */
void srq_check_limit(struct urxe_srq *srq);

/* Bytes of a receive request with that many elements. */
size_t recv_wqe_size(uint32_t max_sge);

#endif
