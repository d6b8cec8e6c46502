/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits of a channel: the smaller offer, clamped; the same on both sides. */
#include "../unit/unit.h"

#include "base/rng.h"
#include "xrdma/negotiate.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <string.h>

static struct xr_hello offer(void)
{
	return (struct xr_hello){
		.version_min = 1,
		.version_max = 1,
		.epoch = 1,
		.mtu = 4096,
		.max_rd_atomic = 16,
		.max_dest_rd = 16,
		.window = 64,
		.control = 8,
		.small_bytes = 4096,
		.frag_bytes = 65536,
		.max_msg = 1 << 30,
		.max_calls = 1024,
	};
}

static struct xr_agreed agree(const struct xr_hello *ours, const struct xr_hello *theirs)
{
	struct xr_agreed agreed;

	assert_int_equal(xr_negotiate(ours, theirs, &agreed), 0);
	return agreed;
}

/* M34: the MTU of one side only is a hang or a length error. */
static void smaller_offer_wins(void **state)
{
	struct xr_hello ours = offer(), theirs = offer();
	struct xr_agreed a;

	theirs.mtu = 1024;
	theirs.window = 16;
	ours.small_bytes = 512;
	theirs.max_msg = 1 << 20;
	ours.epoch = 5;
	a = agree(&ours, &theirs);
	assert_int_equal(a.version, 1);
	assert_int_equal(a.epoch, 5);
	assert_int_equal(a.mtu, 1024);
	assert_int_equal(a.window, 16);
	assert_int_equal(a.control, 8);
	assert_int_equal(a.small_bytes, 512);
	assert_int_equal(a.frag_bytes, 65536);
	assert_int_equal(a.max_msg, 1 << 20);
	assert_int_equal(a.max_calls, 1024);
}

/* M35: READs in flight are bounded by who asks and who answers, each way. */
static void reads_are_bounded_each_way(void **state)
{
	struct xr_hello ours = offer(), theirs = offer();
	struct xr_agreed a;

	ours.max_rd_atomic = 8;
	ours.max_dest_rd = 4;
	theirs.max_rd_atomic = 16;
	theirs.max_dest_rd = 2;
	a = agree(&ours, &theirs);
	assert_int_equal(a.reads_out, 2);
	assert_int_equal(a.reads_in, 4);
	theirs.max_dest_rd = 0; /* degraded, not refused */
	ours.max_rd_atomic = 0;
	a = agree(&ours, &theirs);
	assert_int_equal(a.reads_out, 1);
}

static void absurd_offers_are_clamped(void **state)
{
	struct xr_hello ours = offer(), theirs = offer();
	struct xr_agreed a;

	theirs.mtu = 0;
	theirs.window = 0;
	theirs.control = 1;
	theirs.frag_bytes = 3;
	a = agree(&ours, &theirs);
	assert_int_equal(a.mtu, 256);
	assert_int_equal(a.window, 1);
	assert_int_equal(a.control, 4);
	assert_int_equal(a.frag_bytes, 4096);

	memset(&theirs, 0xff, sizeof(theirs));
	theirs.version_min = 1;
	ours.mtu = 3000; /* not a power of two */
	ours.window = UINT32_MAX;
	a = agree(&ours, &theirs);
	assert_int_equal(a.mtu, 2048);
	assert_int_equal(a.window, 4096);
}

static void versions_must_meet(void **state)
{
	struct xr_hello ours = offer(), theirs = offer();
	struct xr_agreed a = {.version = 77};

	ours.version_max = 3;
	theirs.version_min = 2;
	theirs.version_max = 5;
	assert_int_equal(agree(&ours, &theirs).version, 3);
	theirs.version_min = 4;
	assert_int_equal(xr_negotiate(&ours, &theirs, &a), -EPROTONOSUPPORT);
	assert_string_equal(xrdma_last_error(), "the peer speaks versions 4..5 of the protocol, "
						"this side 1..3: upgrade the older one");
	assert_int_equal(xr_negotiate(&theirs, &ours, &a), -EPROTONOSUPPORT);
	theirs.version_min = 3; /* a range the wrong way round */
	theirs.version_max = 2;
	assert_int_equal(xr_negotiate(&ours, &theirs, &a), -EPROTONOSUPPORT);
	assert_int_equal(a.version, 77);
}

static struct xr_hello random_offer(struct rng *r)
{
	struct xr_hello h = offer();

	h.epoch = rng_below(r, 4);
	h.max_rd_atomic = (uint8_t)rng_next(r);
	h.max_dest_rd = (uint8_t)rng_next(r);
	h.mtu = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.window = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.control = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.small_bytes = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.frag_bytes = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.max_msg = (uint32_t)rng_next(r) >> rng_below(r, 32);
	h.max_calls = (uint32_t)rng_next(r) >> rng_below(r, 32);
	return h;
}

/* Whatever is offered: both sides come to the same, within bounds. */
static void both_sides_agree(void **state)
{
	struct rng r = {.state = 1};

	for (unsigned i = 0; i < 20000; i++) {
		struct xr_hello ours = random_offer(&r), theirs = random_offer(&r);
		struct xr_agreed a = agree(&ours, &theirs), b = agree(&theirs, &ours);

		assert_int_equal(a.reads_out, b.reads_in);
		assert_int_equal(a.reads_in, b.reads_out);
		assert_in_range(a.reads_out, 1, 255);
		assert_true(a.mtu == b.mtu && (a.mtu & (a.mtu - 1)) == 0);
		assert_in_range(a.mtu, 256, 4096);
		assert_in_range(a.window, 1, 4096);
		assert_in_range(a.control, 4, 128);
		assert_true(a.window == b.window && a.control == b.control);
		assert_true(a.small_bytes == b.small_bytes && a.frag_bytes == b.frag_bytes);
		assert_true(a.max_msg == b.max_msg && a.max_calls == b.max_calls);
		assert_true(a.epoch == b.epoch && a.version == b.version);
	}
}

static void every_outcome_is_explained(void **state)
{
	struct xr_hello ours = offer(), theirs = offer();
	char text[XR_AGREED_TEXT];
	struct xr_agreed a;

	theirs.mtu = 1024;
	ours.window = 8;
	theirs.max_calls = 1;
	theirs.epoch = 4;
	a = agree(&ours, &theirs);
	xr_negotiate_explain(&ours, &theirs, &a, text);
	assert_non_null(strstr(text, "version 1: this side speaks 1..1, the peer 1..1\n"));
	assert_non_null(strstr(text, "epoch 4: this side proposes 1, the peer 4: the higher\n"));
	assert_non_null(strstr(text, "mtu 1024 bytes: this side offers 4096, the peer 1024: the "
				     "peer limits\n"));
	assert_non_null(strstr(text, "window 8 messages: this side offers 8, the peer 64: this "
				     "side limits\n"));
	assert_non_null(strstr(text, "max_calls 16 requests: this side offers 1024, the peer 1: "
				     "clamped\n"));
	assert_non_null(strstr(text, "reads_in 16 READs: this side offers 16, the peer 16: both "
				     "alike\n"));

	/* The longest there is fits. */
	memset(&ours, 0xff, sizeof(ours));
	memset(&theirs, 0xff, sizeof(theirs));
	a = agree(&ours, &theirs);
	xr_negotiate_explain(&ours, &theirs, &a, text);
	assert_true(strlen(text) < sizeof(text) - 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(smaller_offer_wins),
		cmocka_unit_test(reads_are_bounded_each_way),
		cmocka_unit_test(absurd_offers_are_clamped),
		cmocka_unit_test(versions_must_meet),
		cmocka_unit_test(both_sides_agree),
		cmocka_unit_test(every_outcome_is_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
