/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said when a channel is resumed, and when it is tried. */
#include "../unit/unit.h"

#include "xrdma/resume.h"

#include <errno.h>
#include <string.h>

static const struct xr_resume example = {
	.incarnation = 0x1122334455667788,
	.token = 0x99aabbccddeeff00,
	.epoch = 0x01020304,
	.window = {.next = 0xfffe, .consumed = 0x0102},
	.status = -ETIMEDOUT,
	.flags = 5,
};

static void resume_has_golden_bytes(void **state)
{
	static const uint8_t golden[XR_RESUME_BYTES] = {
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
		0xcc, 0xdd, 0xee, 0xff, 0x00, 1,    2,    3,    4,    0xff, 0xfe,
		1,    2,    0,    0,    0,    110,  0,    0,    0,    5,
	};
	uint8_t bytes[XR_RESUME_BYTES];
	struct xr_resume back;

	assert_int_equal(xr_resume_encode(&example, bytes), sizeof(golden));
	assert_memory_equal(bytes, golden, sizeof(golden));
	assert_int_equal(xr_resume_decode(bytes, sizeof(bytes), &back), 0);
	assert_memory_equal(&back, &example, sizeof(back));
}

static void what_is_too_short_is_none(void **state)
{
	uint8_t bytes[XR_RESUME_BYTES + 4] = {0};
	struct xr_resume back;

	for (size_t len = 0; len < XR_RESUME_BYTES; len++)
		assert_int_equal(xr_resume_decode(bytes, len, &back), -EPROTO);
	/* Longer is a later version's; a status that is none becomes one. */
	assert_int_equal(xr_resume_decode(bytes, sizeof(bytes), &back), 0);
	assert_int_equal(back.status, -ECONNRESET);
}

static void epochs_wrap(void **state)
{
	assert_true(xr_epoch_before(1, 2));
	assert_false(xr_epoch_before(2, 2));
	assert_false(xr_epoch_before(3, 2));
	assert_true(xr_epoch_before(UINT32_MAX, 1));
}

static void m11_waits_double_up_to_the_longest(void **state)
{
	static const uint64_t full[] = {10, 20, 40, 80, 100, 100};

	for (unsigned n = 0; n < sizeof(full) / sizeof(full[0]); n++) {
		for (uint64_t random = 0; random < 200; random++)
			assert_in_range(xr_backoff_ns(n, 10, 100, random), full[n] / 2, full[n]);
	}
	assert_in_range(xr_backoff_ns(UINT32_MAX, 10, 100, 0), 50, 100);
	/* Not all at the same time. */
	assert_int_not_equal(xr_backoff_ns(5, 10, 100, 1), xr_backoff_ns(5, 10, 100, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resume_has_golden_bytes),
		cmocka_unit_test(what_is_too_short_is_none),
		cmocka_unit_test(epochs_wrap),
		cmocka_unit_test(m11_waits_double_up_to_the_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
