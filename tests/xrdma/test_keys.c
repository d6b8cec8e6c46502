/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "xrdma/keys.h"
#include "xrdma/xrdma.h"

static void k3_block_is_16_bytes_in_network_order(void **state)
{
	const struct xr_key key = {
		.addr = 0x0102030405060708, .rkey = 0x090a0b0c, .epoch = 0x0d0e0f10};
	const uint8_t wire[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	uint8_t out[XR_KEY_BYTES];
	struct xr_key back;

	assert_int_equal(sizeof(wire), XR_KEY_BYTES);
	xr_key_encode(&key, out);
	assert_memory_equal(out, wire, sizeof(wire));
	xr_key_decode(out, &back);
	assert_int_equal(back.addr, key.addr);
	assert_int_equal(back.rkey, key.rkey);
	assert_int_equal(back.epoch, key.epoch);
}

static void k4_key_of_an_earlier_epoch_has_its_own_error(void **state)
{
	const struct xr_key key = {.addr = 4096, .rkey = 7, .epoch = 2};

	assert_int_equal(xr_key_check(&key, 2, 1 << 20), 0);
	/* The same rkey number may be in use again: the epoch tells. */
	assert_int_equal(xr_key_check(&key, 3, 1 << 20), -ESTALE);
	assert_non_null(strstr(xrdma_last_error(), "epoch 2"));
	assert_non_null(strstr(xrdma_last_error(), "in 3"));
	assert_int_equal(xr_key_check(&key, 1, 1 << 20), -ESTALE);
}

static void hostile_keys_are_refused(void **state)
{
	struct xr_key key = {.addr = UINT64_MAX - 4095, .rkey = 7, .epoch = 1};

	assert_int_equal(xr_key_check(&key, 1, 4095), 0);
	assert_int_equal(xr_key_check(&key, 1, 4096), -EPROTO);
	assert_non_null(strstr(xrdma_last_error(), "0xfffffffffffff000"));
	key.epoch = 0;
	assert_int_equal(xr_key_check(&key, 0, 1), -EPROTO);
}

static void epochs_rise_and_are_never_0(void **state)
{
	assert_int_equal(xr_epoch_next(0), 1);
	assert_int_equal(xr_epoch_next(1), 2);
	assert_int_equal(xr_epoch_next(UINT32_MAX - 1), UINT32_MAX);
	assert_int_equal(xr_epoch_next(UINT32_MAX), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k3_block_is_16_bytes_in_network_order),
		cmocka_unit_test(k4_key_of_an_earlier_epoch_has_its_own_error),
		cmocka_unit_test(hostile_keys_are_refused),
		cmocka_unit_test(epochs_rise_and_are_never_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
