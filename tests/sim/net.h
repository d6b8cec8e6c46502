/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtual network: pulls frames out of engines, carries copies of them, loses some. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "world.h"

void net_choose(struct world *w);

/* Pull whatever the links have room for. */
void net_pump(struct world *w);

/* Drop what is in flight. */
void net_fini(struct world *w);

#endif
