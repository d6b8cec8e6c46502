/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of a connected QP: DCQCN (Zhu et al., Congestion Control for Large-Scale RDMA
 * Deployments, SIGCOMM 2015, section 3). A switch with a long queue marks packets; the receiver of
 * marked ones answers with CNPs (RoCEv2 annex A17.9.3); who gets CNPs sends more slowly, then ever
 * faster again until it is at the line's rate and forgets all of it.
 *
 * A QP that was never marked pays for a look at flags. There is no timer but the one that ends the
 * wait for the next packet: what time does to rate and alpha is made up for when next asked.
 */
#ifndef URXE_ENGINE_DCQCN_H
#define URXE_ENGINE_DCQCN_H

#include "base/timerq.h"

#include <stdbool.h>
#include <stdint.h>

struct urxe_qp;
struct urxe_frame;

enum {
	DCQCN_CNP_OWED = 1, /* the peer's packets were marked: tell it */
	DCQCN_LIMITED = 2,  /* CNPs came: send at a rate */
};

struct dcqcn {
	uint8_t flags;
	uint32_t alpha;      /* estimate of congestion, in 1/2^16 */
	uint64_t cnp_due_ns; /* no other CNP before */
	struct timer timer;  /* the next packet may leave */
	uint64_t next_ns;    /* so may it */
	uint64_t rate;       /* bytes per second: now, */
	uint64_t target;     /* and what it is on the way to */
	uint64_t alpha_ns;   /* up to when alpha has decayed */
	uint64_t raise_ns;   /* up to when by_time has counted */
	uint64_t bytes;      /* sent since by_bytes counted */
	uint32_t by_time;    /* raises since the last CNP, by each of the two counters */
	uint32_t by_bytes;
};

/* Forget everything: at the line's rate, owing nothing. */
void dcqcn_reset(struct urxe_qp *qp);

/* A packet of the peer's was marked on its way. */
void dcqcn_marked(struct urxe_qp *qp, uint64_t now);

/* The peer says that ours were. */
void dcqcn_on_cnp(struct urxe_qp *qp, uint64_t now);

/* The CNP that is owed; false: none is. */
bool dcqcn_pull(struct urxe_qp *qp, struct urxe_frame *f);

/* May data leave now? If not, the QP will be ready when it may. */
bool dcqcn_may_send(struct urxe_qp *qp, uint64_t now);

/* It has left. */
void dcqcn_sent(struct urxe_qp *qp, uint64_t now, const struct urxe_frame *f);

/* Is data being held back? */
static inline bool dcqcn_holds(const struct dcqcn *d, uint64_t now)
{
	return d->flags & DCQCN_LIMITED && now < d->next_ns;
}

#endif
