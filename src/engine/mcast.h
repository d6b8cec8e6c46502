/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups (IBA 10.5): which datagram QPs hear what is sent to a GID. */
#ifndef URXE_ENGINE_MCAST_H
#define URXE_ENGINE_MCAST_H

#include "engine/qp.h"

/* What every multicast packet has for its destination QP (IBA 9.6.1.2). */
enum { MCAST_QPN = 0xffffff };

/* A datagram to a group: a copy for each QP that is attached. */
void mcast_rx(struct urxe_engine *e, const struct urxe_pkt *pkt, const struct urxe_rx *rx);

/* Leave all groups. */
void mcast_release_qp(struct urxe_qp *qp);

#endif
