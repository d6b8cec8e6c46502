/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"
#include "sides.h"

#define SPIN_NS (2 * NSEC_PER_MSEC)

volatile sig_atomic_t xr_stopped;
static struct xrdma_context *to_stop;

static void on_signal(int sig)
{
	xr_stopped = 1;
	xrdma_stop(to_stop);
}

void xr_catch_signals(struct xrdma_context *ctx)
{
	struct sigaction action = {.sa_handler = on_signal};

	to_stop = ctx;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void xr_wait(struct xrdma_context *ctx, uint64_t due_ns, uint64_t last_sent_ns, bool poll)
{
	uint64_t now = clock_now_ns();

	if (poll || now - last_sent_ns < SPIN_NS || (due_ns > now && due_ns - now < NSEC_PER_MSEC))
		(void)xrdma_poll(ctx);
	else if (due_ns == CLOCK_NEVER)
		(void)xrdma_run(ctx, 100);
	else if (due_ns > now)
		(void)xrdma_run(ctx, (int)((due_ns - now) / NSEC_PER_MSEC));
}
