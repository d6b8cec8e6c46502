/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/rng.h"

/* The published reference implementation's first outputs for seed 1234567. */
static void is_splitmix64(void **state)
{
	static const uint64_t want[] = {
		UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
		UINT64_C(16408922859458223821)};
	struct rng r = {.state = 1234567};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_true(rng_next(&r) == want[i]);
}

static void same_seed_same_sequence(void **state)
{
	struct rng a = {.state = 42}, b = {.state = 42}, c = {.state = 43};

	assert_true(rng_next(&a) == rng_next(&b));
	assert_false(rng_next(&a) == rng_next(&c));
}

static void below_stays_below_and_reaches_all(void **state)
{
	static const uint32_t bounds[] = {1, 2, 3, 7, 256};
	struct rng r = {.state = 7};

	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		int seen[256] = {0};

		for (int n = 0; n < 256 * 40; n++) {
			uint32_t v = rng_below(&r, bounds[i]);

			assert_true(v < bounds[i]);
			seen[v]++;
		}
		for (uint32_t v = 0; v < bounds[i]; v++)
			assert_int_not_equal(seen[v], 0);
	}
	for (int n = 0; n < 1000; n++)
		assert_true(rng_below(&r, UINT32_MAX) < UINT32_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_splitmix64),
		cmocka_unit_test(same_seed_same_sequence),
		cmocka_unit_test(below_stays_below_and_reaches_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
