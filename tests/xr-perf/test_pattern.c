/* SPDX-License-Identifier: BSD-2-Clause */
/* What --verify notices. */
#include "../unit/unit.h"
#include "pattern.h"

#include <errno.h>
#include <string.h>

enum { SEED = 7, MESSAGE = 3, MOST = 100 };

static void filled_is_right(void **state)
{
	struct xr_pattern_fault fault;
	uint8_t data[MOST];

	for (size_t len = 0; len <= MOST; len++) {
		xr_pattern_fill(SEED, MESSAGE, data, len);
		assert_int_equal(xr_pattern_check(SEED, MESSAGE, data, len, &fault), 0);
	}
}

/* Each bit of each byte, and nothing outside is touched. */
static void one_bit_is_found(void **state)
{
	struct xr_pattern_fault fault;
	uint8_t data[MOST + 1];

	for (size_t len = 1; len <= MOST; len++) {
		data[len] = 0xa5;
		xr_pattern_fill(SEED, MESSAGE, data, len);
		assert_int_equal(data[len], 0xa5);
		for (size_t bit = 0; bit < 8 * len; bit++) {
			data[bit / 8] ^= (uint8_t)(1U << bit % 8);
			assert_int_equal(xr_pattern_check(SEED, MESSAGE, data, len, &fault),
					 -EILSEQ);
			assert_int_equal(fault.offset, bit / 8);
			assert_int_equal(fault.got, data[bit / 8]);
			data[bit / 8] ^= (uint8_t)(1U << bit % 8);
			assert_int_equal(fault.wanted, data[bit / 8]);
		}
	}
}

static void another_message_is_not_this_one(void **state)
{
	struct xr_pattern_fault fault;
	uint8_t data[MOST], moved[MOST];

	xr_pattern_fill(SEED, MESSAGE, data, MOST);
	assert_int_equal(xr_pattern_check(SEED, MESSAGE + 1, data, MOST, &fault), -EILSEQ);
	assert_int_equal(xr_pattern_check(SEED + 1, MESSAGE, data, MOST, &fault), -EILSEQ);
	assert_int_equal(xr_pattern_check(~(uint64_t)SEED, MESSAGE, data, MOST, &fault), -EILSEQ);
	/* Words that changed places. */
	memcpy(moved, data, MOST);
	memcpy(moved, data + 8, 8);
	memcpy(moved + 8, data, 8);
	assert_int_equal(xr_pattern_check(SEED, MESSAGE, moved, MOST, &fault), -EILSEQ);
	assert_int_equal(fault.offset, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filled_is_right),
		cmocka_unit_test(one_bit_is_found),
		cmocka_unit_test(another_message_is_not_this_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
