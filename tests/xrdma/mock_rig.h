/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rig whose RDMA dies and lives again: as rules of the filter say, at the READ that proves its
 * path.
 */
#ifndef XR_MOCK_RIG_H
#define XR_MOCK_RIG_H

#include "breaks.h"

#define QUICK "backoff_min_ms=1 backoff_max_ms=1000 mock_probe_ms=2 mock_after=2 "
#define DEAD  "fail=RETRY_EXC:type=PROBE"

void set_both(struct rig *r, const char *name, const char *value);
enum xrdma_transport transport(struct rig *r, unsigned side);
/* Open at both sides, and carried so. */
bool both(struct rig *r, enum xrdma_transport t);
/* RDMA dies, and TCP takes over. */
void to_tcp(struct rig *r);
void to_rdma(struct rig *r);
/* Contexts by TCP from the start, and a channel of theirs. */
struct xrdma_channel *tcp_rig(struct rig *r, const char *options);
/* And nothing is left behind. */
void close_in_order(struct rig *r);

#endif
