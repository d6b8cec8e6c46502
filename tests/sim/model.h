/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The oracle. Every operation has one right outcome; the model applies it to its own copy of the
 * target's memory when the requester learns that it is complete (at_send), and to a second copy
 * when the peer's receive completions tell that it has been executed (at_recv).
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "world.h"

void model_init(struct end *e);
void model_fini(struct end *e);

void model_posted(struct end *e, unsigned op);
/* Returns whether it is one that a CQ armed for solicited events only has to fire for. */
bool model_wc(struct world *w, const struct ibv_wc *wc);

/* When the world has come to rest. */
void model_final(struct world *w);

#endif
