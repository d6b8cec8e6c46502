/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A doorbell rings while the application, which may have lost its processor to the thread that
 * serves the bell, is inside the context: the thread sleeps until it is out again.
 */
#include "link/shm_priv.h"
#include "rig.h"
#include "verbs/context_priv.h"

#include <sys/eventfd.h>
#include <time.h>

enum { HELD_MS = 100 };

static double processor_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void wait_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int main(void)
{
	struct urxe_context *ctx;
	struct end a, b;
	double began, used;

	pair_open(&a, &b, true);
	ctx = urxe_context_of(a.context);
	wait_ms(10);
	lock_take(&ctx->lock);
	REQUIRE(eventfd_write(ctx->shm->self.fd, 1) == 0);
	began = processor_ms();
	wait_ms(HELD_MS);
	used = processor_ms() - began;
	lock_give(&ctx->lock);
	if (used > 0.4 * HELD_MS) {
		fprintf(stderr, "the thread ran for %.0f of %d ms\n", used, HELD_MS);
		return 1;
	}
	for (int ms = 0; atomic_load(&ctx->drive.shm_event); ms++) { /* not forgotten meanwhile */
		REQUIRE(ms < 5000);
		wait_ms(1);
	}
	pair_close(&a, &b, true);
	return 0;
}
