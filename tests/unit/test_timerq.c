/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rng.h"
#include "base/timerq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 200 };

static void fires_in_order_of_time(void **state)
{
	static const uint64_t due[] = {50, 10, 40, 10, 30};
	static const uint64_t sorted[] = {10, 10, 30, 40, 50};
	struct timerq q = {0};
	struct timer t[5];

	assert_int_equal(timerq_reserve(&q, 5), 0);
	assert_true(timerq_next(&q) == CLOCK_NEVER);
	for (int i = 0; i < 5; i++) {
		timer_init(&t[i]);
		timer_set(&q, &t[i], due[i]);
	}
	for (int i = 0; i < 5; i++) {
		assert_true(timerq_next(&q) == sorted[i]);
		assert_null(timerq_expire(&q, sorted[i] - 1));
		assert_non_null(timerq_expire(&q, sorted[i]));
	}
	assert_null(timerq_expire(&q, UINT64_MAX - 1));
	timerq_fini(&q);
}

static void later_is_lazy_and_earlier_is_not(void **state)
{
	struct timerq q = {0};
	struct timer t;

	assert_int_equal(timerq_reserve(&q, 1), 0);
	timer_init(&t);
	timer_set(&q, &t, 100);
	timer_set(&q, &t, 300);
	assert_true(timerq_next(&q) == 100); /* early, never late */
	assert_null(timerq_expire(&q, 299));
	assert_true(timerq_next(&q) == 300);
	timer_set(&q, &t, 50);
	assert_true(timerq_next(&q) == 50);
	timer_off(&t);
	assert_null(timerq_expire(&q, 1000));
	assert_true(timerq_next(&q) == CLOCK_NEVER);
	timerq_fini(&q);
}

/* Who sleeps until the first deadline is not woken before it. */
static void settles_what_was_moved(void **state)
{
	struct timerq q = {0};
	struct timer t[3];

	assert_int_equal(timerq_reserve(&q, 3), 0);
	assert_true(timerq_settle(&q) == CLOCK_NEVER);
	for (int i = 0; i < 3; i++) {
		timer_init(&t[i]);
		timer_set(&q, &t[i], 10 + (uint64_t)i);
	}
	timer_off(&t[0]);
	timer_set(&q, &t[1], 100);
	assert_true(timerq_settle(&q) == 12);
	timer_set(&q, &t[2], 200);
	assert_true(timerq_settle(&q) == 100);
	assert_ptr_equal(timerq_expire(&q, 100), &t[1]);
	assert_ptr_equal(timerq_expire(&q, 200), &t[2]);
	assert_true(timerq_settle(&q) == CLOCK_NEVER);
	timerq_fini(&q);
}

/* Against the obvious: an array of deadlines. */
static void agrees_with_a_model(void **state)
{
	struct rng rng = {.state = 1};
	struct timerq q = {0};
	struct timer t[N];
	uint64_t model[N];
	uint64_t now = 0, least;

	assert_int_equal(timerq_reserve(&q, N), 0);
	for (int i = 0; i < N; i++) {
		timer_init(&t[i]);
		model[i] = CLOCK_NEVER;
	}
	for (int step = 0; step < 100000; step++) {
		uint32_t i = rng_below(&rng, N);
		struct timer *fired;

		switch (rng_below(&rng, 4)) {
		case 0:
			timer_off(&t[i]);
			model[i] = CLOCK_NEVER;
			break;
		case 1:
			timer_remove(&q, &t[i]);
			model[i] = CLOCK_NEVER;
			break;
		case 2:
			model[i] = now + rng_below(&rng, 1000);
			timer_set(&q, &t[i], model[i]);
			break;
		default:
			now += rng_below(&rng, 50);
			while ((fired = timerq_expire(&q, now))) {
				assert_true(model[fired - t] <= now);
				model[fired - t] = CLOCK_NEVER;
			}
			least = CLOCK_NEVER;
			for (int j = 0; j < N; j++) {
				assert_true(model[j] > now);
				assert_true(timerq_next(&q) <= model[j]);
				least = model[j] < least ? model[j] : least;
			}
			if (rng_below(&rng, 2))
				assert_true(timerq_settle(&q) == least);
		}
	}
	timerq_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fires_in_order_of_time),
		cmocka_unit_test(later_is_lazy_and_earlier_is_not),
		cmocka_unit_test(settles_what_was_moved),
		cmocka_unit_test(agrees_with_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
