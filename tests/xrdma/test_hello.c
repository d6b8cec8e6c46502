/* SPDX-License-Identifier: BSD-2-Clause */
/* HELLO, REJECT, and the frames they travel in. */
#include "../unit/unit.h"

#include "base/be.h"
#include "xrdma/boot.h"
#include "xrdma/boot_frame.h"
#include "xrdma/hello.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <string.h>

static const struct xr_hello example = {
	.version_min = 1,
	.version_max = 2,
	.flags = 0x01020304,
	.incarnation = 0x1122334455667788,
	.epoch = 9,
	.qpn = 0xabcdef,
	.psn = 0x123456,
	.gid_type = XR_GID_ROCE_V2,
	.gid.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.mtu = 1024,
	.max_rd_atomic = 16,
	.max_dest_rd = 15,
	.window = 64,
	.control = 8,
	.small_bytes = 4096,
	.frag_bytes = 65536,
	.max_msg = 1 << 20,
	.max_calls = 1024,
	.probe_block = {0xde, 0xad, [15] = 0xbe},
	.probe_bytes = 64,
};

/* Frozen: these bytes are what version 1 is. */
static const uint8_t
	golden
		[XR_HELLO_BYTES] =
			{
				'X',  'R',  'D', 'M', 0,    1,    0,    2,    0,    0,
				0,    92, /* head */
				1,    2,    3,   4,   0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
				0x77, 0x88, /* flags, incarnation */
				0,    0,    0,   9,   0,    0xab, 0xcd, 0xef, 0,    0x12,
				0x34, 0x56,         /* epoch, qpn, psn */
				2,    16,   15,  0, /* type, READs */
				0,    0,    0,   0,   0,    0,    0,    0,    0,    0,
				0xff, 0xff, 192, 0,   2,    1, /* gid */
				0,    0,    4,   0,   0,    0,    0,    64,   0,    0,
				0,    8,    0,   0,   0x10, 0, /* mtu .. small_bytes */
				0,    1,    0,   0,   0,    0x10, 0,    0,    0,    0,
				4,    0, /* frag_bytes .. max_calls */
				0xde, 0xad, 0,   0,   0,    0,    0,    0,    0,    0,
				0,    0,    0,   0,   0,    0xbe, 0,    0,    0,    64, /* probe */
};

static void hello_has_golden_bytes(void **state)
{
	uint8_t bytes[XR_HELLO_BYTES];

	memset(bytes, 0xee, sizeof(bytes));
	assert_int_equal(xr_hello_encode(&example, bytes), XR_HELLO_BYTES);
	assert_memory_equal(bytes, golden, sizeof(golden));
}

static void hello_round_trips(void **state)
{
	struct xr_hello decoded = {0};

	assert_int_equal(xr_hello_decode(golden, sizeof(golden), &decoded), 0);
	assert_memory_equal(&decoded, &example, sizeof(decoded));
}

static void later_versions_may_append(void **state)
{
	uint8_t longer[XR_HELLO_BYTES + 5] = {0};
	struct xr_hello decoded = {0};

	memcpy(longer, golden, sizeof(golden));
	longer[11] += 5;
	assert_int_equal(xr_hello_decode(longer, sizeof(longer), &decoded), 0);
	assert_memory_equal(&decoded, &example, sizeof(decoded));
}

static void broken_hellos_are_refused(void **state)
{
	struct xr_hello decoded = {.epoch = 77};
	uint8_t bytes[XR_HELLO_BYTES + 1] = {0};

	for (size_t len = 0; len < XR_HELLO_BYTES; len++)
		assert_int_equal(xr_hello_decode(golden, len, &decoded), -EPROTO);
	memcpy(bytes, golden, sizeof(golden));
	assert_int_equal(xr_hello_decode(bytes, sizeof(bytes), &decoded), -EPROTO);
	bytes[11]--; /* shorter than version 1 is */
	assert_int_equal(xr_hello_decode(bytes, XR_HELLO_BYTES, &decoded), -EPROTO);
	memcpy(bytes, golden, sizeof(golden));
	bytes[0] = 'x';
	assert_int_equal(xr_hello_decode(bytes, XR_HELLO_BYTES, &decoded), -EPROTO);
	assert_int_equal(decoded.epoch, 77);
}

static void numbers_of_24_bits_stay_so(void **state)
{
	uint8_t bytes[XR_HELLO_BYTES];
	struct xr_hello decoded;

	memcpy(bytes, golden, sizeof(golden));
	bytes[28] = bytes[32] = 0xff;
	assert_int_equal(xr_hello_decode(bytes, sizeof(bytes), &decoded), 0);
	assert_int_equal(decoded.qpn, 0xabcdef);
	assert_int_equal(decoded.psn, 0x123456);
}

static void rejects_carry_a_reason(void **state)
{
	uint8_t bytes[XR_REJECT_BYTES + 1];
	char why[XR_REJECT_TEXT + 1], long_text[300];
	int status = 0;
	size_t len = xr_reject_encode(-EPROTONOSUPPORT, "too \x1b[31mold\x7f", bytes);

	assert_int_equal(xr_reject_decode(bytes, len, &status, why), 0);
	assert_int_equal(status, -EPROTONOSUPPORT);
	assert_string_equal(why, "too ?[31mold?"); /* terminals are not to be driven by peers */

	memset(long_text, 'l', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	len = xr_reject_encode(-EINVAL, long_text, bytes);
	assert_int_equal(len, XR_REJECT_BYTES);
	assert_int_equal(xr_reject_decode(bytes, len, &status, why), 0);
	assert_int_equal(strlen(why), XR_REJECT_TEXT);
	assert_int_equal(xr_reject_decode(bytes, XR_REJECT_BYTES + 1, &status, why), -EPROTO);
	assert_int_equal(xr_reject_decode(bytes, 3, &status, why), -EPROTO);
}

static void status_of_a_reject_is_always_an_error(void **state)
{
	static const uint32_t codes[] = {0, 1, 4095, 4096, 0x80000000, UINT32_MAX};
	static const int expected[] = {-ECONNREFUSED, -1,           -4095, -ECONNREFUSED,
				       -ECONNREFUSED, -ECONNREFUSED};

	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		char why[XR_REJECT_TEXT + 1];
		uint8_t bytes[4];
		int status = 0;

		put_be32(bytes, codes[i]);
		assert_int_equal(xr_reject_decode(bytes, 4, &status, why), 0);
		assert_int_equal(status, expected[i]);
		assert_string_equal(why, "");
	}
}

static void frames_parse_at_every_length(void **state)
{
	uint8_t bytes[XR_FRAME_HEAD + 3] = {[XR_FRAME_HEAD] = 'a', 'b', 'c'};
	struct xr_frame frame;

	xr_frame_head(XR_BLOCK_BYE, 3, bytes);
	for (size_t len = 0; len < sizeof(bytes); len++) {
		assert_int_equal(xr_frame_parse(bytes, len, &frame), 0);
		assert_int_equal(frame.len, len < XR_FRAME_HEAD ? 0 : 3);
		assert_null(frame.data);
	}
	assert_int_equal(xr_frame_parse(bytes, sizeof(bytes), &frame), 1);
	assert_int_equal(frame.type, XR_BLOCK_BYE);
	assert_ptr_equal(frame.data, bytes + XR_FRAME_HEAD);
}

static void foreign_bytes_are_told_at_once(void **state)
{
	static const struct {
		uint8_t bytes[XR_FRAME_HEAD];
		size_t len;
		int err;
		const char *said;
	} rows[] = {
		{{0x16, 3, 1}, 1, -EPROTO, "speaks TLS and this side plain TCP"},
		{{0x15, 3, 1}, 3, -EPROTO, "speaks TLS and this side plain TCP"},
		{{'G', 'E', 'T'}, 1, -EPROTO, "another service"},
		{{'X', 'Y'}, 2, -EPROTO, "another service"},
		{{'X', 'R', 1, 1}, 8, -EPROTO, "another service"},
		{{'X', 'R', 1, 0, 0, 1, 8, 1}, 8, -EMSGSIZE, "67585 bytes: expected 67584"},
		{{'X', 'R', 1, 0, 0xff, 0xff, 0xff, 0xff}, 8, -EMSGSIZE, "4294967295 bytes"},
		{{'X', 'R', 1, 0, 0, 1, 8, 0}, 8, 0, ""},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct xr_frame frame;

		assert_int_equal(xr_frame_parse(rows[i].bytes, rows[i].len, &frame), rows[i].err);
		assert_non_null(strstr(xrdma_last_error(), rows[i].said));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_has_golden_bytes),
		cmocka_unit_test(hello_round_trips),
		cmocka_unit_test(later_versions_may_append),
		cmocka_unit_test(broken_hellos_are_refused),
		cmocka_unit_test(numbers_of_24_bits_stay_so),
		cmocka_unit_test(rejects_carry_a_reason),
		cmocka_unit_test(status_of_a_reject_is_always_an_error),
		cmocka_unit_test(frames_parse_at_every_length),
		cmocka_unit_test(foreign_bytes_are_told_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
