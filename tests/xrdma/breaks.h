/* SPDX-License-Identifier: BSD-2-Clause */
/* What breaks a channel, from inside. */
#ifndef XR_BREAKS_H
#define XR_BREAKS_H

#include "rig.h"

struct xrdma_channel *inside(struct rig *r, unsigned side);

/* What a cable that is pulled does to a queue pair, at once; nothing if there is none to break. */
void break_qp(struct rig *r, unsigned side);

/* A router that forgets the TCP connection, if there is one. */
void cut_tcp(struct rig *r, unsigned side);

#endif
