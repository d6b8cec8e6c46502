/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBA 10.6.7): a key of its own for a part of a region, given and taken by work
 * requests. Type 1 is the PD's and gets a fresh key by each binding; of type 2 (2B) the low eight
 * bits of the key are the consumer's and only the peer of the QP that bound it may use it.
 */
#ifndef URXE_ENGINE_MW_H
#define URXE_ENGINE_MW_H

#include "engine/mr.h"
#include "engine/wq.h"

struct urxe_mw {
	struct urxe_mr view; /* what is shown; its rkey is the newest one given out */
	enum ibv_mw_type type;
	struct urxe_mr *mr; /* bound to it; NULL: not bound */
	struct list node;   /* of all windows */
	struct list by_qp;  /* of those of type 2 that a QP has bound */
};

/* Check what is known when a binding is posted, and write down what is to be done. */
int mw_prepare_bind(const struct urxe_qp *qp, const struct ibv_send_wr *wr, struct send_wqe *w);

/* Execute the request; anything but IBV_WC_SUCCESS has changed nothing. */
enum ibv_wc_status mw_bind(struct urxe_qp *qp, const struct send_wqe *w);
enum ibv_wc_status mw_invalidate_local(struct urxe_qp *qp, uint32_t rkey);

/* May the peer of this QP invalidate that key (IBA 9.4.1.1.3)? And do so. */
bool mw_may_invalidate(const struct urxe_qp *qp, uint32_t rkey);
void mw_invalidate(struct urxe_engine *e, uint32_t rkey);

/* The QP goes: no window of its remains bound. */
void mw_release_qp(struct urxe_qp *qp);

#endif
