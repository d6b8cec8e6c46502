/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ticks.h"

#include <pthread.h>
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
	APART_TICKS = 4000, /* a microsecond or two */
	STRAY_NS = 20000,
	STRAY_PART = 1024,
};

/* The kernel keeps its own time by the counter: it runs evenly, on all processors alike. A guest's
 * clocks are the counter in their host's scale; moved to another host, it jumps. */
static bool kernel_trusts_counter(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	static const char *const by_counter[] = {"tsc\n", "kvm-clock\n",
						 "hyperv_clocksource_tsc_page\n"};
	char name[32] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	for (size_t i = 0; i < sizeof(by_counter) / sizeof(by_counter[0]); i++)
		if (strcmp(name, by_counter[i]) == 0)
			return true;
	return false;
}

/* Both clocks at one moment: again if something came between. */
static struct ticks_anchor read_both(void)
{
	uint64_t before, after, ns;

	for (int i = 0; i < 4; i++) {
		before = __builtin_ia32_rdtsc();
		ns = clock_now_ns();
		after = __builtin_ia32_rdtsc();
		if (after - before < APART_TICKS)
			break;
	}
	return (struct ticks_anchor){.ticks = after - (after - before) / 2, .ns = ns};
}

static bool trusted;

static void ask_kernel(void)
{
	trusted = kernel_trusts_counter();
}

static uint64_t scaled(uint64_t ticks, uint64_t scale)
{
	return (uint64_t)((unsigned __int128)ticks * scale >> 32);
}

bool ticks_stray(const struct ticks_anchor *from, const struct ticks_anchor *now)
{
	uint64_t passed = now->ns > from->ns ? now->ns - from->ns : 0, by_counter;

	if (now->ticks < from->ticks)
		return true;
	by_counter = scaled(now->ticks - from->ticks, from->scale);
	return (by_counter > passed ? by_counter - passed : passed - by_counter) >
	       STRAY_NS + passed / STRAY_PART;
}

/* What the scale is measured from. */
static _Thread_local struct ticks_anchor first __attribute__((tls_model("initial-exec")));

/* Nothing is shared: what one thread measures while the counter jumps is its own. */
uint64_t ticks_resync(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ticks_anchor *a = &ticks_anchor, now;
	uint64_t said = a->ns + scaled(a->good_for, a->scale); /* at most */

	pthread_once(&once, ask_kernel);
	if (!trusted)
		return clock_now_ns();
	now = read_both();
	if (!first.ns || now.ticks <= first.ticks || (a->scale && ticks_stray(a, &now)))
		first = now;
	else if (a->scale)
		now.scale = a->scale;
	else if (now.ns - first.ns >= MEASURE_NS)
		now.scale = (uint64_t)(((unsigned __int128)(now.ns - first.ns) << 32) /
				       (now.ticks - first.ticks));
	if (now.scale)
		now.good_for = ((uint64_t)GOOD_FOR_NS << 32) / now.scale;
	if (now.ns < said)
		now.ns = said;
	*a = now;
	return a->ns;
}

#else

uint64_t ticks_resync(void)
{
	return clock_now_ns();
}

#endif
