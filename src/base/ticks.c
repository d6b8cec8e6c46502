/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ticks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

_Thread_local struct ticks_anchor ticks_anchor;

#ifdef __x86_64__

enum {
	/* Both clocks are compared anew so often: an error of the scale cannot grow beyond it. */
	GOOD_FOR_NS = 1000000,
	/* A scale measured over this long is right to some millionths. */
	MEASURE_NS = 20000000,
	APART_TICKS = 20000, /* some microseconds */
};

/* The counter runs evenly, on all processors alike, where the kernel keeps its own time by it. */
static bool kernel_trusts_counter(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[8] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return strcmp(name, "tsc\n") == 0;
}

/* Both clocks at one moment: again if something came between. */
static void read_both(uint64_t *ret_ticks, uint64_t *ret_ns)
{
	uint64_t before, after;

	for (int i = 0; i < 4; i++) {
		before = __builtin_ia32_rdtsc();
		*ret_ns = clock_now_ns();
		after = __builtin_ia32_rdtsc();
		if (after - before < APART_TICKS)
			break;
	}
	*ret_ticks = after - (after - before) / 2;
}

static struct {
	uint64_t ticks, ns;     /* ns 0: the counter is not to be used */
	_Atomic uint64_t scale; /* 0: not known yet */
} first;

static void begin(void)
{
	if (kernel_trusts_counter())
		read_both(&first.ticks, &first.ns);
}

static uint64_t measure_scale(uint64_t ticks, uint64_t ns)
{
	unsigned __int128 passed = ns - first.ns;
	uint64_t scale = atomic_load_explicit(&first.scale, memory_order_relaxed);

	if (scale || passed < MEASURE_NS || ticks <= first.ticks)
		return scale;
	scale = (uint64_t)((passed << 32) / (ticks - first.ticks));
	atomic_store_explicit(&first.scale, scale, memory_order_relaxed);
	return scale;
}

uint64_t ticks_resync(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ticks_anchor *a = &ticks_anchor;
	uint64_t said = a->ns + (a->good_for * a->scale >> 32); /* at most */
	uint64_t ticks, ns;

	pthread_once(&once, begin);
	if (!first.ns)
		return clock_now_ns();
	read_both(&ticks, &ns);
	*a = (struct ticks_anchor){
		.ticks = ticks,
		.ns = ns > said ? ns : said,
		.scale = measure_scale(ticks, ns),
	};
	if (a->scale)
		a->good_for = ((uint64_t)GOOD_FOR_NS << 32) / a->scale;
	return a->ns;
}

#else

uint64_t ticks_resync(void)
{
	return clock_now_ns();
}

#endif
