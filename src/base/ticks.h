/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The monotonic clock for the data path, read from the processor's time-stamp counter: a third of
 * what clock_gettime() costs. Agrees with clock_now_ns() within a microsecond and never goes back
 * within a thread. Where the kernel does not trust the counter, it is clock_now_ns(); where the
 * counter jumps (a virtual machine that moves), they differ for a millisecond at most.
 */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* What was last known of both clocks, and for how many ticks that is good enough. */
struct ticks_anchor {
	uint64_t ticks, ns;
	uint64_t good_for; /* 0: nothing is known yet */
	uint64_t scale;    /* nanoseconds per tick, times 2^32 */
};

extern _Thread_local struct ticks_anchor ticks_anchor __attribute__((tls_model("initial-exec")));

/* The slow half: ask the kernel, and put the anchor there. */
uint64_t ticks_resync(void);

#ifdef __x86_64__
/* Whether the counter went another way than the kernel's clock between two anchors: it is then to
 * be measured again. The first one's scale is known. */
bool ticks_stray(const struct ticks_anchor *from, const struct ticks_anchor *now);

static inline uint64_t ticks_now_ns(void)
{
	const struct ticks_anchor *a = &ticks_anchor;
	uint64_t passed = __builtin_ia32_rdtsc() - a->ticks;

	return passed < a->good_for ? a->ns + (passed * a->scale >> 32) : ticks_resync();
}
#else
static inline uint64_t ticks_now_ns(void)
{
	return clock_now_ns();
}
#endif

#endif
