/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XR_PING_SIDES_H
#define XR_PING_SIDES_H

#include "options.h"

#include <signal.h>

/* Each runs until it is done, and returns the status to exit with. */
int xr_listen_run(const struct xr_options *options);
int xr_ping_run(const struct xr_options *options);
int xr_mesh_run(const struct xr_options *options);

/* SIGINT and SIGTERM: xr_stopped is set, and xrdma_run(ctx) returns. */
extern volatile sig_atomic_t xr_stopped;
void xr_catch_signals(struct xrdma_context *ctx);

/*
 * Wait in the context until due_ns, a message or a signal; polling while something is awaited that
 * was sent less than a moment ago, since waking up would cost more than it takes.
 */
void xr_wait(struct xrdma_context *ctx, uint64_t due_ns, uint64_t last_sent_ns, bool poll);

#endif
