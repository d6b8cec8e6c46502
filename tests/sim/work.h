/* SPDX-License-Identifier: BSD-2-Clause */
/* The random workload: which operations an end does, and when it posts them. */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "world.h"

/* Fill e->ops. */
void work_choose(struct end *e);

static inline bool op_sends(const struct op *op)
{
	return op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
	       op->opcode == IBV_WR_SEND_WITH_INV;
}

static inline bool op_receives(const struct op *op)
{
	return op_sends(op) || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool op_is_local(const struct op *op)
{
	return op->opcode == IBV_WR_BIND_MW || op->opcode == IBV_WR_LOCAL_INV;
}

static inline bool op_writes(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool op_is_atomic(const struct op *op)
{
	return op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool op_has_imm(const struct op *op)
{
	return op->opcode == IBV_WR_SEND_WITH_IMM || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Bytes [off, off + len) of what op sends. */
void work_payload(const struct end *e, const struct op *op, uint8_t *ret_bytes);

/* Operation op, about a window, is complete; or the peer's SEND has invalidated a key. */
void work_window_done(struct end *e, const struct op *op);
void work_window_shut(struct end *e, uint32_t key);

/* Put the next post of sends or receives on the event queue, unless it is there. */
void work_schedule_sends(struct end *e);
void work_schedule_recvs(struct inbox *in);

/* wr_ids tell what they belong to. */
#define WR_RECV (UINT64_C(1) << 63)
enum { OWNER_SRQ = 0x1000, OWNER_XSRQ = 0x2000 };

/* Of an SRQ's receives, and whose they are. */
static inline unsigned work_srq_owner(const struct inbox *in)
{
	const struct node *n = in->node;

	if (in == &n->srq_inbox)
		return OWNER_SRQ + n->id;
	return OWNER_XSRQ + N_XSRQS * n->id + (unsigned)(in - n->xrc_inbox);
}

static inline struct inbox *work_srq_inbox(struct world *w, unsigned owner)
{
	if (owner < OWNER_XSRQ)
		return &w->node[owner - OWNER_SRQ].srq_inbox;
	owner -= OWNER_XSRQ;
	return &w->node[owner / N_XSRQS].xrc_inbox[owner % N_XSRQS];
}

static inline uint64_t work_wr_id(uint64_t kind, unsigned owner, unsigned index)
{
	return kind | (uint64_t)owner << 32 | index;
}

#endif
