/* SPDX-License-Identifier: BSD-2-Clause */
/* What client and server of xr-perf say: there and back, and what is not theirs. */
#include "../unit/unit.h"
#include "proto.h"

#include <errno.h>
#include <string.h>

static void head(void **state)
{
	uint8_t data[XR_PERF_HEAD_BYTES];
	uint32_t number = 0;

	for (int type = XR_PERF_INFO; type <= XR_PERF_FINISH; type++) {
		xr_perf_put_head(data, (enum xr_perf_type)type, 0x12345678);
		assert_int_equal(xr_perf_head(data, sizeof(data), &number), type);
		assert_int_equal(number, 0x12345678);
		assert_int_equal(xr_perf_head(data, sizeof(data) - 1, &number), 0);
		for (unsigned i = 0; i < 4; i++) {
			data[i] ^= 0x80;
			assert_int_equal(xr_perf_head(data, sizeof(data), &number), 0);
			data[i] ^= 0x80;
		}
	}
}

static void info(void **state)
{
	struct xr_perf_info in = {.n_threads = 3, .ports = {1, 65535, 7480}, .device = "mlx5_0"};
	struct xr_perf_info out;
	uint8_t data[XR_PERF_BODY_MAX];
	size_t len = xr_perf_put_info(data, &in);

	assert_int_equal(xr_perf_get_info(data, len, &out), 0);
	assert_memory_equal(&out, &in, sizeof(in));
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(xr_perf_get_info(data, cut, &out), -EPROTO);
	in.n_threads = XR_PERF_MAX_THREADS;
	assert_true(xr_perf_put_info(data, &in) <= XR_PERF_BODY_MAX);
	data[11] = XR_PERF_MAX_THREADS + 1;
	assert_int_equal(xr_perf_get_info(data, sizeof(data), &out), -EPROTO);
	data[11] = 0;
	assert_int_equal(xr_perf_get_info(data, len - 6, &out), -EPROTO);
}

/* A name goes to a terminal: what is no name ends it. */
static void info_of_a_liar(void **state)
{
	struct xr_perf_info in = {.n_threads = 1, .device = "urxe\033[2J"}, out;
	uint8_t data[XR_PERF_BODY_MAX];
	size_t len;

	len = xr_perf_put_info(data, &in);
	assert_int_equal(xr_perf_get_info(data, len, &out), 0);
	assert_string_equal(out.device, "urxe");
	memset(in.device, 'x', sizeof(in.device));
	len = xr_perf_put_info(data, &in);
	assert_int_equal(xr_perf_get_info(data, len, &out), 0);
	assert_int_equal(strlen(out.device), sizeof(out.device) - 1);
}

static void start(void **state)
{
	struct xr_perf_start in = {.seed = UINT64_C(0x0123456789abcdef),
				   .reply_bytes = 1 << 20,
				   .fill = 9,
				   .verify = true};
	struct xr_perf_start out;
	uint8_t data[XR_PERF_BODY_MAX];
	size_t len = xr_perf_put_start(data, &in);

	assert_int_equal(xr_perf_get_start(data, len, &out), 0);
	assert_int_equal(out.seed, in.seed);
	assert_int_equal(out.reply_bytes, in.reply_bytes);
	assert_int_equal(out.fill, in.fill);
	assert_true(out.verify);
	assert_int_equal(xr_perf_get_start(data, len - 1, &out), -EPROTO);
	assert_int_equal(xr_perf_get_start(data, len + 1, &out), -EPROTO);
	in.reply_bytes = XR_PERF_HEAD_BYTES - 1; /* a reply without room for its head */
	len = xr_perf_put_start(data, &in);
	assert_int_equal(xr_perf_get_start(data, len, &out), -EPROTO);
}

static void report(void **state)
{
	struct xr_perf_report in = {.messages = UINT64_C(1) << 40,
				    .bytes = UINT64_C(1) << 50,
				    .wrong = 2,
				    .number = 3,
				    .number_wanted = 4,
				    .fault = {.offset = 5, .wanted = 6, .got = 7}};
	struct xr_perf_report out;
	uint8_t data[XR_PERF_BODY_MAX];
	size_t len = xr_perf_put_report(data, &in);

	assert_int_equal(xr_perf_get_report(data, len, &out), 0);
	assert_int_equal(out.messages, in.messages);
	assert_int_equal(out.bytes, in.bytes);
	assert_int_equal(out.wrong, 2);
	assert_int_equal(out.number, 3);
	assert_int_equal(out.number_wanted, 4);
	assert_int_equal(out.fault.offset, 5);
	assert_int_equal(out.fault.wanted, 6);
	assert_int_equal(out.fault.got, 7);
	assert_int_equal(xr_perf_get_report(data, len - 1, &out), -EPROTO);
	xr_perf_put_head(data, XR_PERF_START, 0);
	assert_int_equal(xr_perf_get_report(data, len, &out), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(head),  cmocka_unit_test(info),   cmocka_unit_test(info_of_a_liar),
		cmocka_unit_test(start), cmocka_unit_test(report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
