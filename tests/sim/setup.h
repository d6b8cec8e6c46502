/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses and builds what a world consists of, and takes it down again. */
#ifndef SIM_SETUP_H
#define SIM_SETUP_H

#include "world.h"

void setup_world(struct world *w);
void setup_teardown(struct world *w);

/* Free the engines and all memory, whatever state the world is in. */
void setup_release(struct world *w);

/* Destroy one end's QP, as an application might at any time. */
void setup_destroy_qp(struct end *e);

#endif
