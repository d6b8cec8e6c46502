/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connection (IBA annex A14): a message names the shared receive queue that it is
 * for. While an XRC_RECV executes it, queue, PD and CQ of the QP are those of that SRQ.
 */
#ifndef URXE_ENGINE_XRC_H
#define URXE_ENGINE_XRC_H

#include "engine/qp.h"

struct urxe_xrcd {
	struct urxe_engine *engine;
	uint32_t refs; /* SRQs and QPs */
	struct list node;
};

/* A request begins: take on the SRQ that it names. False: there is none in the QP's domain. */
bool xrc_adopt(struct urxe_qp *qp, uint32_t srqn);

/* The SRQ goes: no QP may keep it, nor answer from its domain's memory. */
void xrc_forget(struct urxe_srq *srq);

#endif
