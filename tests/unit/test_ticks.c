/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ticks.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_ENOUGH_NS = 100000000, APART_NS = 2000 };

/* Through the time before the counter's pace is known, and well beyond; from one processor to
 * another if there are several. */
static void agrees_with_the_kernel_and_never_goes_back(void **state)
{
	uint64_t start = clock_now_ns(), last = 0, before, now, after;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), turn = 0;
	cpu_set_t set;

	do {
		if (++turn % 1000 == 0) {
			CPU_ZERO(&set);
			CPU_SET((int)(turn / 1000 % cpus), &set);
			(void)sched_setaffinity(0, sizeof(set), &set);
		}
		before = clock_now_ns();
		now = ticks_now_ns();
		after = clock_now_ns();
		assert_true(now + APART_NS >= before && now <= after + APART_NS);
		assert_true(now >= last);
		last = now;
	} while (after - start < LONG_ENOUGH_NS);
}

#ifdef __x86_64__
static void a_counter_that_jumps_is_seen(void **state)
{
	const uint64_t second = NSEC_PER_SEC, half = UINT64_C(1) << 31; /* two ticks a nanosecond */
	const struct ticks_anchor from = {.ticks = 10 * second, .ns = 5 * second, .scale = half};
	struct ticks_anchor now = {.ticks = 12 * second, .ns = 6 * second};

	assert_false(ticks_stray(&from, &now));
	now.ns += second / 2000; /* what the kernel's clock may be slewed by */
	assert_false(ticks_stray(&from, &now));
	now.ns += second / 1000;
	assert_true(ticks_stray(&from, &now));
	now = (struct ticks_anchor){.ticks = from.ticks - 1, .ns = 6 * second};
	assert_true(ticks_stray(&from, &now));
	now = (struct ticks_anchor){.ticks = from.ticks + 3 * second, .ns = 6 * second};
	assert_true(ticks_stray(&from, &now));
	/* A moment before it, by a clamp: nothing has passed. */
	now = (struct ticks_anchor){.ticks = from.ticks + 2, .ns = from.ns - 1000};
	assert_false(ticks_stray(&from, &now));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_kernel_and_never_goes_back),
#ifdef __x86_64__
		cmocka_unit_test(a_counter_that_jumps_is_seen),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
