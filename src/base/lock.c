/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

#include <sched.h>
#include <time.h>

enum {
	SPINS = 200, /* longer than the lock is held, if its holder runs */
	YIELDS = 20,
	NAP_NS = 20000, /* for a holder that yielding does not let run: of lower priority */
};

static void pause_once(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

void lock_wait(struct lock *l)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (unsigned i = 0; !lock_try(l); i++) {
		if (i < SPINS)
			pause_once();
		else if (i < SPINS + YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}
