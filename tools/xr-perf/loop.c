/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SPINS = 16,       /* polls in an idle turn: what goes on around it costs latency */
	LOOK_EVERY = 256, /* idle turns */
	SLEEP_MS = 100,
};

int xr_loop_init(struct xr_loop *loop, unsigned size, bool events)
{
	*loop = (struct xr_loop){.size = size};
	loop->contexts = calloc(size, sizeof(*loop->contexts));
	loop->fds = events ? calloc(size, sizeof(*loop->fds)) : NULL;
	return loop->contexts && (loop->fds || !events) ? 0 : -ENOMEM;
}

void xr_loop_fini(struct xr_loop *loop)
{
	free(loop->contexts);
	free(loop->fds);
}

int xr_loop_add(struct xr_loop *loop, struct xrdma_context *ctx)
{
	int fd = loop->fds ? xrdma_get_event_fd(ctx) : 0;

	if (fd < 0)
		return fd;
	if (loop->fds)
		loop->fds[loop->n] = (struct pollfd){.fd = fd, .events = POLLIN};
	loop->contexts[loop->n++] = ctx;
	return 0;
}

static int poll_all(struct xr_loop *loop)
{
	int sum = 0, n;

	for (unsigned i = 0; i < loop->n; i++) {
		n = xrdma_poll(loop->contexts[i]);
		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

static int turn_polling(struct xr_loop *loop)
{
	int n = 0;

	for (unsigned i = 0; i < SPINS && n == 0; i++)
		n = poll_all(loop);
	return n;
}

int xr_loop_turn(struct xr_loop *loop, int timeout_ms)
{
	int sum = 0, n;

	if (!loop->fds)
		return turn_polling(loop);
	n = poll(loop->fds, loop->n, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (unsigned i = 0; i < loop->n; i++) {
		n = loop->fds[i].revents ? xrdma_process_event(loop->contexts[i]) : 0;
		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

int xr_loop_wait(struct xr_loop *loop, uint64_t pulse, uint64_t patience_ns)
{
	int n = xr_loop_turn(loop, SLEEP_MS);
	uint64_t now_ns;

	if (n != 0) {
		loop->idle_turns = 0;
		return n;
	}
	if (!loop->fds && ++loop->idle_turns % LOOK_EVERY)
		return 0;
	now_ns = clock_now_ns();
	if (pulse != loop->last_pulse || !loop->since_ns) {
		loop->last_pulse = pulse;
		loop->since_ns = now_ns;
	}
	return now_ns - loop->since_ns > patience_ns ? -ETIMEDOUT : 0;
}
