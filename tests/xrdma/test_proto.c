/* SPDX-License-Identifier: BSD-2-Clause */
#include "../unit/unit.h"

#include "xrdma/proto.h"

#include <errno.h>
#include <string.h>

static const struct xr_bounds bounds = {
	.small_bytes = 100, .max_bytes = 1000000, .epoch = 7, .trace = true};

/* Each type once, with the bytes it must be on the wire. */
static const struct {
	struct xr_head head;
	size_t size; /* with payload */
	const char *bytes;
} golden[] = {
	{{.type = XR_MSG, .len = 5, .ctrl_ack = 9, .epoch = 7},
	 21,
	 "\x01\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x07"},
	{{.type = XR_REQ, .id = 0x01020304, .len = 0, .epoch = 7},
	 16,
	 "\x02\x00\x00\x00\x01\x02\x03\x04\x00\x00\x00\x00\x00\x00\x00\x07"},
	{{.type = XR_RSP,
	  .large = true,
	  .id = 1,
	  .len = 0x10203,
	  .epoch = 7,
	  .key = {0x1122334455667788, 0x99aabbcc, 7}},
	 32,
	 "\x03\x01\x00\x00\x00\x00\x00\x01\x00\x01\x02\x03\x00\x00\x00\x07"
	 "\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\x00\x00\x00\x07"},
	{{.type = XR_ERR_RSP, .id = 2, .epoch = 7, .status = -110},
	 20,
	 "\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x6e"},
	{{.type = XR_REGION,
	  .id = 3,
	  .epoch = 7,
	  .key = {0x1000, 5, 7},
	  .n_slots = 65536,
	  .tag = 0xabcd,
	  .slot_bytes = 1 << 20},
	 48,
	 "\x05\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x07"
	 "\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x05\x00\x00\x00\x07"
	 "\x00\x01\x00\x00\x00\x00\xab\xcd\x00\x00\x00\x00\x00\x10\x00\x00"},
	{{.type = XR_SLOT, .id = 3, .len = 70000, .epoch = 7, .slot = 0xfffe},
	 18,
	 "\x06\x00\x00\x00\x00\x00\x00\x03\x00\x01\x11\x70\x00\x00\x00\x07\xff\xfe"},
	{{.type = XR_ACK, .ctrl_ack = 255, .epoch = 7},
	 16,
	 "\x07\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"},
	{{.type = XR_BYE, .epoch = 7},
	 16,
	 "\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"},
	{{.type = XR_REQ, .id = 1, .len = 3, .epoch = 7, .traced = true, .at = {5, 6}},
	 35,
	 "\x02\x02\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x07"
	 "\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06"},
	{{.type = XR_RSP,
	  .large = true,
	  .id = 1,
	  .len = 0x10203,
	  .epoch = 7,
	  .key = {0x1122334455667788, 0x99aabbcc, 7},
	  .traced = true,
	  .at = {0, 0, 1, 2, 3, 4}},
	 64,
	 "\x03\x03\x00\x00\x00\x00\x00\x01\x00\x01\x02\x03\x00\x00\x00\x07"
	 "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02"
	 "\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04"
	 "\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\x00\x00\x00\x07"},
	{{.type = XR_GONE, .id = 3, .epoch = 7},
	 16,
	 "\x09\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x07"},
};

enum { N_GOLDEN = sizeof(golden) / sizeof(golden[0]) };

static void there_and_back(void **state)
{
	for (unsigned i = 0; i < N_GOLDEN; i++) {
		const struct xr_head *h = &golden[i].head;
		uint8_t p[256] = {0};
		struct xr_head back;
		const char *why;
		size_t n;

		n = xr_head_put(p, h);
		assert_int_equal(n, golden[i].size - (h->type <= XR_RSP && !h->large ? h->len : 0));
		assert_true(n <= XR_MAX_HEAD_BYTES);
		assert_memory_equal(p, golden[i].bytes, n);
		assert_int_equal(xr_head_parse(p, golden[i].size, &bounds, &back, &why), 0);
		assert_null(why);
		assert_int_equal(back.type, h->type);
		assert_int_equal(back.large, h->large);
		assert_int_equal(back.ctrl_ack, h->ctrl_ack);
		assert_int_equal(back.id, h->id);
		assert_int_equal(back.len, h->len);
		assert_int_equal(back.key.addr, h->key.addr);
		assert_int_equal(back.key.rkey, h->key.rkey);
		assert_int_equal(back.status, h->status);
		assert_int_equal(back.n_slots, h->n_slots);
		assert_int_equal(back.tag, h->tag);
		assert_int_equal(back.slot_bytes, h->slot_bytes);
		assert_int_equal(back.slot, h->slot);
		assert_int_equal(back.traced, h->traced);
		if (h->traced)
			assert_memory_equal(back.at, h->at, sizeof(h->at));
		assert_int_equal(xr_type_windowed(h->type), h->type != XR_ACK && h->type != XR_BYE);
		assert_non_null(xr_type_name(h->type));
	}
}

/* Byte `at` of a golden message set to `value` (at 255: the size is value), and what it must give.
 */
static const struct {
	const char *what;
	uint8_t message, at, value;
	int ret;
} bad[] = {
	{"no header", 0, 255, 15, -EPROTO},
	{"nothing at all", 0, 255, 0, -EPROTO},
	{"payload cut", 0, 255, 20, -EPROTO},
	{"payload too much", 0, 255, 22, -EPROTO},
	{"type 0", 0, 0, 0, -EPROTO},
	{"unknown type", 0, 0, XR_N_TYPES, -EPROTO},
	{"absurd type", 0, 0, 255, -EPROTO},
	{"unknown flag", 0, 1, 2, -EPROTO},
	{"large without a key", 0, 1, 1, -EPROTO},
	{"large acknowledgement", 6, 1, 1, -EPROTO},
	{"reserved byte", 0, 3, 1, -EPROTO},
	{"small but long", 0, 11, 200, -EPROTO},
	{"longer than agreed", 0, 8, 1, -EPROTO},
	{"slot longer than agreed", 5, 8, 255, -EPROTO},
	{"another epoch", 0, 15, 8, -ESTALE},
	{"large but short", 2, 9, 0, 0},
	{"key of another epoch", 2, 31, 6, -EPROTO},
	{"error 0", 3, 19, 0, -EPROTO},
	{"error 65646", 3, 17, 1, -EPROTO},
	{"no body", 3, 255, 16, -EPROTO},
	{"too many slots", 4, 35, 1, -EPROTO},
	{"region's key of another epoch", 4, 31, 6, -EPROTO},
	{"region beyond the end", 4, 16, 255, 0},
	{"slots beyond the end", 4, 40, 255, -EPROTO},
};

static void messages_that_cannot_be(void **state)
{
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t size = golden[bad[i].message].size;
		struct xr_head h = {.len = 77};
		const char *why;
		uint8_t p[64] = {0};
		int ret;

		memcpy(p, golden[bad[i].message].bytes, size < 48 && size != 21 ? size : 16);
		if (bad[i].message == 4)
			memcpy(p, golden[4].bytes, 48);
		if (bad[i].at == 255)
			size = bad[i].value;
		else
			p[bad[i].at] = bad[i].value;
		ret = xr_head_parse(p, size, &bounds, &h, &why);
		if (ret != bad[i].ret)
			fail_msg("%s: %d", bad[i].what, ret);
		assert_true(!why == !ret);
		if (ret)
			assert_int_equal(h.len, 77); /* untouched */
	}
}

static void at_the_end_of_the_address_space(void **state)
{
	struct xr_head h = {.type = XR_MSG, .large = true, .len = 256, .epoch = 7};
	uint8_t p[XR_MAX_HEAD_BYTES];
	const char *why;

	h.key = (struct xr_key){UINT64_MAX - 256, 1, 7};
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 32, &bounds, &h, &why), 0);
	h.key.addr++;
	h.key.addr++;
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 32, &bounds, &h, &why), -EPROTO);
	h.len = 100; /* a small payload announced */
	h.key.addr = 0;
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 32, &bounds, &h, &why), -EPROTO);
	h = (struct xr_head){.type = XR_REGION, .epoch = 7, .n_slots = 2, .slot_bytes = 4096};
	h.key = (struct xr_key){UINT64_MAX - 4096, 1, 7};
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 48, &bounds, &h, &why), -EPROTO);
	h.key.addr = 4096;
	h.n_slots = 0;
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 48, &bounds, &h, &why), -EPROTO);
	h.n_slots = 2;
	h.slot_bytes = 0;
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 48, &bounds, &h, &why), -EPROTO);
}

/* As long as it says, and longer than either limit. */
static void payloads_beyond_a_limit(void **state)
{
	const struct xr_bounds narrow = {.small_bytes = 100, .max_bytes = 50, .epoch = 7};
	struct xr_head h = {.type = XR_MSG, .len = 100, .epoch = 7};
	uint8_t p[XR_MAX_HEAD_BYTES + 101];
	const char *why;

	memset(p, 0, sizeof(p));
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 116, &bounds, &h, &why), 0);
	assert_int_equal(xr_head_parse(p, 116, &narrow, &h, &why), -EPROTO);
	h.len = 101;
	xr_head_put(p, &h);
	assert_int_equal(xr_head_parse(p, 117, &bounds, &h, &why), -EPROTO);
}

static void times_come_where_agreed(void **state)
{
	struct xr_bounds none = bounds;
	struct xr_head h = {.type = XR_REQ, .len = 3, .epoch = 7, .traced = true, .at = {1, 2}},
		       back;
	const size_t size = XR_HDR_BYTES + 16 + 3;
	uint8_t p[64] = {0};
	const char *why;

	none.trace = false;
	assert_int_equal(xr_head_extra(&h), 16);
	assert_int_equal(xr_head_put(p, &h), size - 3);
	assert_int_equal(xr_head_parse(p, size, &bounds, &back, &why), 0);
	assert_int_equal(xr_head_parse(p, size, &none, &back, &why), -EPROTO);
	for (size_t n = 0; n < sizeof(p); n++)
		assert_int_equal(xr_head_parse(p, n, &bounds, &back, &why) == 0, n == size);
	p[1] = 0; /* the same bytes without the flag are a payload too long */
	assert_int_equal(xr_head_parse(p, size, &bounds, &back, &why), -EPROTO);
}

/* What invalidates a window has no immediate data: both stand in a stamp. */
static void a_stamp_comes_where_agreed(void **state)
{
	struct xr_bounds none = bounds, with = bounds;
	struct xr_head h = {.type = XR_RSP,
			    .len = 3,
			    .epoch = 7,
			    .stamped = true,
			    .seq = 0x1234,
			    .ack = 0xabcd,
			    .invalidates = 0x01020304},
		       back;
	const size_t size = XR_HDR_BYTES + XR_STAMP_BYTES + 3;
	uint8_t p[64] = {0};
	const char *why;

	with.stamps = true;
	assert_int_equal(xr_head_extra(&h), XR_STAMP_BYTES);
	assert_int_equal(xr_head_put(p, &h), size - 3);
	assert_int_equal(xr_head_parse(p, size, &with, &back, &why), 0);
	assert_int_equal(back.seq, 0x1234);
	assert_int_equal(back.ack, 0xabcd);
	assert_int_equal(back.invalidates, 0x01020304);
	assert_int_equal(xr_head_parse(p, size, &none, &back, &why), -EPROTO);
	for (size_t n = 0; n < sizeof(p); n++)
		assert_int_equal(xr_head_parse(p, n, &with, &back, &why) == 0, n == size);
	p[XR_HDR_BYTES + 15] = 1;
	assert_int_equal(xr_head_parse(p, size, &with, &back, &why), -EPROTO);
	p[XR_HDR_BYTES + 15] = 0;
	p[1] |= 2; /* and times */
	assert_int_equal(xr_head_parse(p, size, &with, &back, &why), -EPROTO);
}

static void immediate(void **state)
{
	assert_int_equal(xr_imm(0x1234, 0xabcd), 0x1234abcd);
	assert_int_equal(xr_imm_seq(0x1234abcd), 0x1234);
	assert_int_equal(xr_imm_ack(0x1234abcd), 0xabcd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(messages_that_cannot_be),
		cmocka_unit_test(at_the_end_of_the_address_space),
		cmocka_unit_test(payloads_beyond_a_limit),
		cmocka_unit_test(times_come_where_agreed),
		cmocka_unit_test(a_stamp_comes_where_agreed),
		cmocka_unit_test(immediate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
