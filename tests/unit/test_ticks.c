/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ticks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LONG_ENOUGH_NS = 100000000, APART_NS = 2000 };

/* Through the time before the counter's pace is known, and well beyond. */
static void agrees_with_the_kernel_and_never_goes_back(void **state)
{
	uint64_t start = clock_now_ns(), last = 0, before, now, after;

	do {
		before = clock_now_ns();
		now = ticks_now_ns();
		after = clock_now_ns();
		assert_true(now + APART_NS >= before && now <= after + APART_NS);
		assert_true(now >= last);
		last = now;
	} while (after - start < LONG_ENOUGH_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_kernel_and_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
