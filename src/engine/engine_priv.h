/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's own world: limits, object tables, what is pending for the driver to fetch. */
#ifndef URXE_ENGINE_ENGINE_PRIV_H
#define URXE_ENGINE_ENGINE_PRIV_H

#include "base/list.h"
#include "base/rng.h"
#include "base/timerq.h"
#include "engine/engine.h"
#include "engine/key.h"

enum { QPN_BLOCKS = 1 << 14, ENGINE_DEFAULT_WINDOW = 128 };

/* The source of asynchronous events in a CQ, SRQ or QP. */
struct async_src {
	struct list node;
	uint32_t pending; /* a bit per enum ibv_event_type */
	void *user;
};

struct qpn_block {
	struct urxe_qp *qp[URXE_QPN_BLOCK];
};

/* QP numbers free to hand out, oldest first: a number rests as long as can be. */
struct qpn_fifo {
	uint32_t *ring;
	uint32_t capacity; /* power of two */
	uint32_t head;
	uint32_t tail;
};

struct urxe_engine {
	struct ibv_device_attr limits;
	uint32_t max_inline_data;
	enum ibv_mtu active_mtu;
	bool ecn;
	struct urxe_path cnp_path; /* of the CNP that was pulled last */
	bool (*copy)(void *to, const void *from, size_t len, bool write);
	uint8_t *staging; /* a packet's payload out of memory on demand; NULL: nobody has any */
	uint64_t now;     /* of the last call that told the time */
	struct rng rng;
	struct key_table keys;
	struct timerq timers;
	struct timerq cq_timers;   /* of event moderation */
	struct timerq pace_timers; /* of QPs that are held back */
	struct list active_txqs;
	bool hold_acks;
	struct list notify; /* CQs that fired */
	struct list async;  /* async_srcs with something pending */
	bool cq_overrun;    /* a CQ overran: settle() sends its QPs to ERR */
	uint64_t *counters;
	uint64_t own_counters[URXE_CNT_MAX];
	uint32_t n_pd, n_cq, n_srq, n_ah, n_qp, n_mw;
	struct list pds, cqs, srqs, ahs, qps, mws, xrcds;
	struct list mcast_groups;
	int n_mcast_groups, n_mcast_members;
	struct urxe_srq **xrc_srqs; /* by number, from 1 */
	uint32_t n_xrc_srqs;
	struct qpn_fifo free_qpns;
	struct qpn_block *blocks[QPN_BLOCKS];
};

struct urxe_pd {
	struct urxe_engine *engine;
	struct list node;
	uint32_t refs;
};

struct urxe_ah {
	struct urxe_pd *pd;
	struct list node;
	struct urxe_route route;
};

/* Rings are powers of two, so that free-running indices need only a mask. */
static inline uint32_t ring_size(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

static inline void count(struct urxe_engine *e, enum urxe_counter c)
{
	e->counters[c]++;
}

static inline struct urxe_qp *engine_find_qp(const struct urxe_engine *e, uint32_t qpn)
{
	const struct qpn_block *block = e->blocks[(qpn / URXE_QPN_BLOCK) & (QPN_BLOCKS - 1)];

	return block ? block->qp[qpn % URXE_QPN_BLOCK] : NULL;
}

void async_init(struct async_src *src, void *user);
void async_raise(struct urxe_engine *e, struct async_src *src, enum ibv_event_type type);

/* Take a QP number; -EAGAIN when there is none. */
int qpn_take(struct urxe_engine *e, struct urxe_qp *qp, uint32_t *ret_qpn);
void qpn_give(struct urxe_engine *e, uint32_t qpn);

void engine_end_overrun(struct urxe_engine *e);

/* At the end of every public call that may complete work: act on what it left pending. */
static inline void engine_settle(struct urxe_engine *e)
{
	if (__builtin_expect(e->cq_overrun, 0))
		engine_end_overrun(e);
}

#endif
