/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/rng.h"
#include "wire/psn.h"

static void add_wraps_at_24_bits(void **state)
{
	static const struct {
		uint32_t psn, n, sum;
	} cases[] = {
		{0, 0, 0},
		{0, 1, 1},
		{0xffffff, 1, 0},
		{0xfffffe, 3, 1},
		{0x800000, 0x800000, 0},
		{5, PSN_MASK, 4}, /* adding -1 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(psn_add(cases[i].psn, cases[i].n), cases[i].sum);
}

static void diff_is_signed_in_half_the_circle(void **state)
{
	static const struct {
		uint32_t a, b;
		int32_t diff;
	} cases[] = {
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, 0xffffff, 1},
		{0xffffff, 0, -1},
		{0x7fffff, 0, 0x7fffff},
		{0x800000, 0, -0x800000},
		{0, 0x800001, 0x7fffff},
		{0x000010, 0xfffff0, 0x20},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(psn_diff(cases[i].a, cases[i].b), cases[i].diff);
}

static void diff_undoes_add(void **state)
{
	struct rng r = {.state = 1};

	for (int i = 0; i < 10000; i++) {
		uint32_t psn = rng_below(&r, PSN_MASK + 1);
		uint32_t n = rng_below(&r, 1u << 23);

		assert_int_equal(psn_diff(psn_add(psn, n), psn), n);
		assert_int_equal(psn_diff(psn, psn_add(psn, n)), -(int32_t)n);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_wraps_at_24_bits),
		cmocka_unit_test(diff_is_signed_in_half_the_circle),
		cmocka_unit_test(diff_undoes_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
