/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URXE_ENGINE_CQ_H
#define URXE_ENGINE_CQ_H

#include "engine/engine_priv.h"

enum cq_armed {
	CQ_DISARMED,
	CQ_ARMED_SOLICITED,
	CQ_ARMED_ANY,
};

struct urxe_cq {
	struct urxe_engine *engine;
	struct urxe_cqe *ring;
	uint32_t mask;
	uint32_t capacity; /* as granted: not above the ring's size */
	uint32_t head;
	uint32_t tail;
	enum cq_armed armed;
	/* Moderation: below 2, none. */
	uint32_t mod_count;
	uint32_t mod_held; /* completions that did not fire it yet */
	uint64_t mod_period_ns;
	struct timer timer;
	bool overrun;
	uint32_t refs; /* QPs */
	struct list node;
	struct list notify;
	struct async_src async;
};

/* Add a completion; a failed or solicited one also fires a CQ armed for those. */
void cq_push(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited);

/* Report an armed queue now. */
void cq_fire(struct urxe_cq *cq);

/* Forget the completions of a QP that goes to RESET (IBA 10.3.1.1). NULL: XRC has no such CQ. */
void cq_purge(struct urxe_cq *cq, uint32_t qpn);

#endif
