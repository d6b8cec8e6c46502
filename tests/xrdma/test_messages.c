/* SPDX-License-Identifier: BSD-2-Clause */
/* M4, M5, M6: messages one way, of every size, from our memory and from the caller's. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void m4_one_way_in_order(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	/* A large one among them: those behind it wait for it. */
	for (unsigned i = 0; i < 1000; i++)
		rig_send(r.side[RIG_CLIENT].ch, i == 500 ? 3000000 : i, i);
	for (unsigned i = 0; i < 1000; i++)
		rig_expect(&r, RIG_SERVER, i == 500 ? 3000000 : i, i);
	rig_close(&r);
}

static void m5_sizes(void **state)
{
	static const size_t sizes[] = {0,
				       1,
				       63,
				       64,
				       65,
				       4095,
				       4096,
				       4097,
				       65535,
				       65536,
				       65537,
				       1 << 20,
				       (1 << 20) + 1,
				       3 << 20,
				       (8 << 20) + 1,
				       64 << 20};
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		rig_send(r.side[RIG_CLIENT].ch, sizes[i], i);
		rig_expect(&r, RIG_SERVER, sizes[i], i);
		rig_send(r.side[RIG_SERVER].ch, sizes[i], ~i);
		rig_expect(&r, RIG_CLIENT, sizes[i], ~i);
	}
	/* 4,096 bytes still come inside a message; more is read. */
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "large_read"), 9);
	rig_close(&r);
}

/* By default in pieces of 64 KiB. */
static void m5_fragments(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, (1 << 20) + 1, 1);
	rig_expect(&r, RIG_SERVER, (1 << 20) + 1, 1);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "fragments"), 17);
	rig_close(&r);
	rig_open(&r, "frag_bytes=256K");
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, 1 << 20, 1);
	rig_expect(&r, RIG_SERVER, 1 << 20, 1);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "fragments"), 4);
	rig_close(&r);
}

static void m5_large_request_and_large_reply(void **state)
{
	static struct rig_call calls[16];
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < 16; i++) {
		calls[i].ended = false;
		assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch,
					    rig_msg(r.side[RIG_CLIENT].ch, 1000000 + i, i), 0,
					    rig_done, &calls[i], NULL),
				 0);
	}
	for (unsigned i = 0; i < 16; i++) {
		rig_until(&r, calls[i].ended);
		assert_true(rig_is(calls[i].reply, 1000000 + i, i));
		xrdma_msg_free(calls[i].reply);
	}
	rig_close(&r);
}

static void m5_different_small_bytes(void **state)
{
	static const size_t sizes[] = {100, 512, 513, 4096, 5000};
	struct rig r;

	rig_open_each(&r, "small_bytes=512", "small_bytes=4096");
	rig_connect(&r);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		rig_send(r.side[RIG_CLIENT].ch, sizes[i], i);
		rig_expect(&r, RIG_SERVER, sizes[i], i);
		rig_send(r.side[RIG_SERVER].ch, sizes[i], i);
		rig_expect(&r, RIG_CLIENT, sizes[i], i);
	}
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "large_read"), 3);
	rig_close(&r);
}

/* Receive memory for three large messages and forty announced: each waits until one is freed. */
static void m6_receive_budget(void **state)
{
	struct rig r;

	rig_open_each(&r, NULL, "rx_budget_bytes=32M");
	rig_connect(&r);
	for (unsigned i = 0; i < 40; i++)
		rig_send(r.side[RIG_CLIENT].ch, 7 << 20, i);
	for (unsigned i = 0; i < 40; i++)
		rig_expect(&r, RIG_SERVER, 7 << 20, i);
	assert_true(rig_stat(r.side[RIG_SERVER].ctx, "rx_starved") > 0);
	rig_close(&r);
}

/*
 * A request timed out before the server has read it (case M14). The server reads it late: what it
 * gets is that request still, not what the client has sent from new memory since.
 */
static void m5_late_read_finds_its_message(void **state)
{
	struct xrdma_channel *ch;
	struct rig_call c = {0};
	struct rig r;

	rig_open(&r, "tx_budget_bytes=16M");
	ch = rig_connect(&r);
	r.stalled[RIG_SERVER] = true;
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 2 << 20, 1), 5000, rig_done, &c, NULL), 0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, -ETIMEDOUT);
	for (unsigned i = 2; i < 6; i++)
		rig_send(ch, 2 << 20, i);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 1; i < 6; i++)
		rig_expect(&r, RIG_SERVER, 2 << 20, i);
	rig_close(&r);
}

/*
 * Cancelled while its large reply is being read (case M15): the memory is nobody else's before the
 * reads have ended.
 */
static void m5_cancelled_while_being_read(void **state)
{
	enum { LEN = 1 << 20 };
	struct xrdma_channel *ch;
	struct rig r;

	rig_open_each(&r, "rx_budget_bytes=8M", NULL);
	r.side[RIG_SERVER].on_msg = rig_echo;
	ch = rig_connect(&r);
	for (unsigned i = 0; i < 200; i++) {
		struct rig_call gone = {0}, next = {0};
		uint64_t id;

		assert_int_equal(xrdma_call(ch, rig_msg(ch, LEN, i), 0, rig_done, &gone, &id), 0);
		for (unsigned k = 0; k < i % 40; k++) /* another moment each time */
			rig_poll(&r);
		if (xrdma_cancel(ch, id) == -ENOENT)
			assert_int_equal(gone.status, 0);
		assert_int_equal(xrdma_call(ch, rig_msg(ch, LEN, ~i), 0, rig_done, &next, NULL), 0);
		rig_until(&r, gone.ended && next.ended);
		assert_int_equal(next.status, 0);
		assert_true(rig_is(next.reply, LEN, ~i));
		xrdma_msg_free(next.reply);
		xrdma_msg_free(gone.reply);
	}
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "messages_held"), 0);
	rig_close(&r);
}

static void released(void *data, size_t len, void *arg)
{
	assert_int_equal(len, 100000);
	++*(unsigned *)arg;
}

static void m6_callers_own_memory(void **state)
{
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	unsigned n_released = 0;
	uint8_t *own = malloc(100000);
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	memset(own, 0x5a, 100000);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(xrdma_msg_wrap(ch, own, 100000, released, &n_released, &m), 0);
		assert_ptr_equal(xrdma_msg_data(m), own);
		assert_int_equal(xrdma_send_msg(ch, m), 0);
		rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
		assert_memory_equal(xrdma_msg_data(r.side[RIG_SERVER].msgs[0]), own, 100000);
		xrdma_msg_free(r.side[RIG_SERVER].msgs[0]);
		r.side[RIG_SERVER].n_msgs = 0;
		rig_until(&r, n_released == i + 1);
	}
	/* One that is freed needs no word. */
	assert_int_equal(xrdma_msg_wrap(ch, own, 100000, released, &n_released, &m), 0);
	xrdma_msg_free(m);
	assert_int_equal(xrdma_forget(r.side[RIG_CLIENT].ctx, own, 100000), 0);
	assert_int_equal(n_released, 10);
	free(own);
	rig_close(&r);
}

/*
 * A free small message keeps its buffer for the next one, unless the memory is needed: a slab is in
 * use by the channel, the other holds that buffer.
 */
static void m6_small_buffers_stay_warm_while_there_is_memory(void **state)
{
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	const void *data;
	struct rig r;

	rig_open(&r, "tx_budget_bytes=8M trim_ms=3600000");
	ch = rig_connect(&r);
	m = rig_msg(ch, 64, 1);
	data = xrdma_msg_data(m);
	assert_int_equal((uintptr_t)data % 64, 0);
	xrdma_msg_free(m);
	m = rig_msg(ch, 4096, 2);
	assert_ptr_equal(xrdma_msg_data(m), data);
	xrdma_msg_free(m);
	rig_send(ch, 4 << 20, 3);
	rig_expect(&r, RIG_SERVER, 4 << 20, 3);
	rig_send(ch, 64, 4);
	rig_expect(&r, RIG_SERVER, 64, 4);
	rig_close(&r);
}

static void bad_parameters(void **state)
{
	struct xrdma_channel *ch, *other;
	struct xrdma_msg *m, *received;
	struct rig r;

	rig_open(&r, "max_msg=1M");
	assert_int_equal(xrdma_connect(r.side[0].ctx, r.address, NULL, NULL, &ch), -EINVAL);
	assert_int_equal(xrdma_connect(r.side[0].ctx, "nonsense", &rig_handlers, NULL, &ch),
			 -EINVAL);
	assert_int_equal(xrdma_listen(r.side[0].ctx, "nonsense", &rig_handlers, NULL, NULL),
			 -EINVAL);
	ch = rig_connect(&r);
	other = rig_connect(&r);
	assert_int_equal(xrdma_msg_new(ch, (1 << 20) + 1, &m), -EMSGSIZE);
	m = rig_msg(ch, 8, 1);
	assert_int_equal(xrdma_send_msg(other, m), -EINVAL); /* made for another channel */
	assert_int_equal(xrdma_call(ch, m, 0, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(xrdma_cancel(ch, 12345), -ENOENT);
	assert_int_equal(xrdma_send_msg(ch, m), 0);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
	received = r.side[RIG_SERVER].msgs[0];
	m = rig_msg(r.side[RIG_SERVER].ch, 8, 1);
	assert_int_equal(xrdma_send_msg(r.side[RIG_SERVER].ch, received), -EINVAL);
	assert_int_equal(xrdma_reply(received, m), -EINVAL); /* not a request */
	xrdma_msg_free(m);
	xrdma_msg_free(received);
	xrdma_msg_free(NULL);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m4_one_way_in_order),
		cmocka_unit_test(m5_sizes),
		cmocka_unit_test(m5_fragments),
		cmocka_unit_test(m5_late_read_finds_its_message),
		cmocka_unit_test(m5_cancelled_while_being_read),
		cmocka_unit_test(m5_large_request_and_large_reply),
		cmocka_unit_test(m5_different_small_bytes),
		cmocka_unit_test(m6_receive_budget),
		cmocka_unit_test(m6_callers_own_memory),
		cmocka_unit_test(m6_small_buffers_stay_warm_while_there_is_memory),
		cmocka_unit_test(bad_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
