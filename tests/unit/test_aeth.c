/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/clock.h"
#include "wire/aeth.h"

/* IBA table 45 */
static const uint32_t credits[] = {
	0,    1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
	48,   64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

/* IBA table 46, in units of 10 us */
static const uint64_t rnr_10us[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void credit_values_decode_as_in_table_45(void **state)
{
	assert_int_equal(ARRAY_SIZE(credits), 31);
	for (uint8_t v = 0; v < ARRAY_SIZE(credits); v++)
		assert_int_equal(aeth_credit_decode(v), credits[v]);
}

static void credits_encode_to_the_largest_that_is_not_above(void **state)
{
	uint8_t want = 0;

	for (uint32_t n = 0; n < 70000; n++) {
		while (want < 30 && credits[want + 1] <= n)
			want++;
		assert_int_equal(aeth_credit_encode(n), want);
	}
	assert_int_equal(aeth_credit_encode(UINT32_MAX), 30);
}

static void rnr_timers_are_those_of_table_46(void **state)
{
	for (uint8_t v = 0; v < 32; v++)
		assert_int_equal(aeth_rnr_ns(v), rnr_10us[v] * 10000);
}

static void ack_timeout_doubles_and_0_is_never(void **state)
{
	assert_true(aeth_timeout_ns(0) == CLOCK_NEVER);
	assert_int_equal(aeth_timeout_ns(1), 8192);
	assert_int_equal(aeth_timeout_ns(14), 67108864);
	assert_true(aeth_timeout_ns(31) == UINT64_C(8796093022208));
}

/* A syndrome byte comes from a peer: class bits left in it must not matter. */
static void only_five_bits_count(void **state)
{
	for (unsigned v = 0; v < 256; v++) {
		uint8_t low = v & AETH_VALUE_MASK;

		assert_int_equal(aeth_credit_decode((uint8_t)v), aeth_credit_decode(low));
		assert_int_equal(aeth_rnr_ns((uint8_t)v), aeth_rnr_ns(low));
		assert_true(aeth_timeout_ns((uint8_t)v) == aeth_timeout_ns(low));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(credit_values_decode_as_in_table_45),
		cmocka_unit_test(credits_encode_to_the_largest_that_is_not_above),
		cmocka_unit_test(rnr_timers_are_those_of_table_46),
		cmocka_unit_test(ack_timeout_doubles_and_0_is_never),
		cmocka_unit_test(only_five_bits_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
