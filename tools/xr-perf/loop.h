/* SPDX-License-Identifier: BSD-2-Clause */
/* What makes the contexts of a thread go: polling them in turn, or sleeping on their descriptors.
 */
#ifndef XR_PERF_LOOP_H
#define XR_PERF_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <xrdma/xrdma.h>

struct xr_loop {
	struct xrdma_context **contexts;
	struct pollfd *fds; /* NULL: busy polling */
	unsigned n, size;
	uint32_t idle_turns;
	uint64_t last_pulse, since_ns;
};

/* For up to size contexts. 0 or -ENOMEM. */
int xr_loop_init(struct xr_loop *loop, unsigned size, bool events);
void xr_loop_fini(struct xr_loop *loop);
int xr_loop_add(struct xr_loop *loop, struct xrdma_context *ctx);

/* Handle what is there; with descriptors, wait for it up to timeout_ms. How much there was, or an
 * error of xrdma_poll(). */
int xr_loop_turn(struct xr_loop *loop, int timeout_ms);

/*
 * The same for who waits for messages: pulse counts them. -ETIMEDOUT when none came for
 * patience_ns; the clock is read only while nothing happens.
 */
int xr_loop_wait(struct xr_loop *loop, uint64_t pulse, uint64_t patience_ns);

#endif
