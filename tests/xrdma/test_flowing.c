/* SPDX-License-Identifier: BSD-2-Clause */
/* M9, M10: the window and the sharing of the send queue, seen from outside. */
#include "rig.h"
#include "xrdma/channel.h"

#include <errno.h>
#include <string.h>

/* Requests that RNR would show in. */
static void assert_no_rnr(const struct rig *r)
{
	for (unsigned i = 0; i < RIG_SIDES; i++)
		assert_int_equal(rig_stat(r->side[i].ctx, "wc_rnr"), 0);
}

/* The receiver's thread is busy: its window closes, the sender's queue fills, nothing breaks. */
static void m9_slow_receiver(void **state)
{
	struct xrdma_msg *m, *other;
	struct rig r;
	unsigned n;

	rig_open(&r, "queue_depth=100");
	rig_connect(&r);
	r.stalled[RIG_SERVER] = true;
	for (n = 0;; n++) {
		m = rig_msg(r.side[RIG_CLIENT].ch, 64, n);
		if (xrdma_send_msg(r.side[RIG_CLIENT].ch, m))
			break;
	}
	assert_int_equal(n, 64 + 100); /* the window and the queue */
	rig_poll_for(&r, 50);
	assert_int_equal(xrdma_send_msg(r.side[RIG_CLIENT].ch, m), -EAGAIN);
	assert_ptr_equal(strstr(xrdma_last_error(), "100 messages wait"), xrdma_last_error());
	assert_int_equal(xrdma_msg_new(r.side[RIG_CLIENT].ch, SIZE_MAX, &other), -EMSGSIZE);
	assert_non_null(strstr(xrdma_last_error(), "limit of this channel"));
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "msgs_sent"), 64);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 0; i < n; i++)
		rig_expect(&r, RIG_SERVER, 64, i);
	assert_int_equal(xrdma_send_msg(r.side[RIG_CLIENT].ch, m), 0);
	rig_expect(&r, RIG_SERVER, 64, n);
	assert_no_rnr(&r);
	rig_close(&r);
}

/* The application keeps what it gets, until receive memory is spent: the acknowledgement waits. */
static void m9_hoarding_application(void **state)
{
	enum { N = 3000 };
	struct rig r;

	rig_open_each(&r, NULL, "rx_budget_bytes=4M");
	rig_connect(&r);
	for (unsigned i = 0; i < N; i++)
		rig_send(r.side[RIG_CLIENT].ch, 4000, i);
	rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "rx_starved") > 0);
	rig_poll_for(&r, 100);
	assert_in_range(r.side[RIG_SERVER].n_msgs, 500, 1100); /* about 4 MiB of them */
	for (unsigned i = 0; i < N; i++) {
		struct rig_side *s = &r.side[RIG_SERVER];

		rig_until(&r, s->n_msgs > i);
		assert_true(rig_is(s->msgs[i], 4000, i));
		xrdma_msg_free(s->msgs[i]);
	}
	assert_no_rnr(&r);
	rig_close(&r);
}

/* Smallest windows, both full, and nothing that acknowledgements could ride on. */
static void m9_both_windows_full(void **state)
{
	struct rig r;

	rig_open(&r, "window=1 control=4 ack_delay_us=1000000");
	rig_connect(&r);
	for (unsigned i = 0; i < 200; i++) {
		rig_send(r.side[RIG_CLIENT].ch, 10, i);
		rig_send(r.side[RIG_SERVER].ch, 10, i);
	}
	for (unsigned i = 0; i < 200; i++) {
		rig_expect(&r, RIG_SERVER, 10, i);
		rig_expect(&r, RIG_CLIENT, 10, i);
	}
	assert_true(rig_stat(r.side[RIG_CLIENT].ctx, "acks_sent") > 0);
	assert_no_rnr(&r);
	rig_close(&r);
}

/* Exactly the window and one more (case M07), for several windows. */
static void m9_window_to_the_message(void **state)
{
	static const char *const options[] = {"window=1", "window=2", "window=3", "window=64"};
	static const unsigned windows[] = {1, 2, 3, 64};
	struct rig r;

	for (unsigned k = 0; k < 4; k++) {
		rig_open(&r, options[k]);
		rig_connect(&r);
		r.stalled[RIG_SERVER] = true;
		for (unsigned i = 0; i <= windows[k]; i++)
			rig_send(r.side[RIG_CLIENT].ch, 8, i);
		assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "msgs_sent"), windows[k]);
		r.stalled[RIG_SERVER] = false;
		for (unsigned i = 0; i <= windows[k]; i++)
			rig_expect(&r, RIG_SERVER, 8, i);
		assert_no_rnr(&r);
		rig_close(&r);
	}
}

static unsigned in_flight, moved;
static bool go_on;

static void keep_reading(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct xrdma_msg *m;

	in_flight--;
	moved += status == 0;
	xrdma_msg_free(reply);
	if (!go_on || status)
		return;
	assert_int_equal(xrdma_msg_new(ch, 4 << 20, &m), 0);
	assert_int_equal(xrdma_call(ch, m, 0, keep_reading, NULL, NULL), 0);
	in_flight++;
}

/* Answers a small request with its bytes, a large one with none: what costs here is moving it. */
static void answer_quickly(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side)
{
	struct xrdma_msg *reply;

	if (xrdma_msg_len(msg) <= 4096) {
		rig_echo(ch, msg, side);
		return;
	}
	assert_int_equal(xrdma_msg_new(ch, 0, &reply), 0);
	assert_int_equal(xrdma_reply(msg, reply), 0);
}

/* A channel that moves large messages without pause, and one of small calls beside it. */
static void m10_fair_between_channels(void **state)
{
	struct xrdma_channel *big, *small;
	struct rig_call c;
	struct rig r;

	rig_open(&r, "max_wr=32");
	r.side[RIG_SERVER].on_msg = answer_quickly;
	big = rig_connect(&r);
	small = rig_connect(&r);
	go_on = true;
	moved = 0;
	for (in_flight = 0; in_flight < 8; in_flight++)
		assert_int_equal(
			xrdma_call(big, rig_msg(big, 4 << 20, 1), 0, keep_reading, NULL, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		c.ended = false;
		assert_int_equal(xrdma_call(small, rig_msg(small, 64, i), 0, rig_done, &c, NULL),
				 0);
		rig_until(&r, c.ended);
		assert_true(rig_is(c.reply, 64, i));
		xrdma_msg_free(c.reply);
	}
	/* 32 MiB are in flight all the time: behind them each would have seen 8 come and go. */
	assert_in_range(moved, 1, 100);
	go_on = false;
	rig_until(&r, in_flight == 0);
	rig_close(&r);
}

static void free_and_call_again(struct xrdma_channel *ch, int status, struct xrdma_msg *reply,
				void *again)
{
	assert_int_equal(status, 0);
	xrdma_msg_free(reply);
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 10, 1), 0, rig_done, again, NULL), 0);
}

/* A large reply that is freed before the next call needs no acknowledgement but that one: what
 * answers it may lie in the same memory. */
static void m9_a_call_acknowledges_what_was_freed_before(void **state)
{
	struct rig_side *server;
	struct xrdma_msg *request;
	struct rig_call again = {0};
	struct rig r;

	rig_open(&r, "ack_delay_us=1000000");
	rig_connect(&r);
	server = &r.side[RIG_SERVER];
	assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch, rig_msg(r.side[RIG_CLIENT].ch, 10, 0), 0,
				    free_and_call_again, &again, NULL),
			 0);
	rig_until(&r, server->n_msgs == 1);
	request = server->msgs[server->n_taken++];
	assert_int_equal(xrdma_reply(request, rig_msg(server->ch, 1 << 20, 0)), 0);
	assert_int_equal(xr_window_unacked(&server->ch->win), 1);
	rig_until(&r, server->n_msgs == 2);
	assert_int_equal(xr_window_unacked(&server->ch->win), 0);
	request = server->msgs[server->n_taken++];
	assert_int_equal(xrdma_reply(request, rig_msg(server->ch, 10, 0)), 0);
	rig_until(&r, again.ended);
	xrdma_msg_free(again.reply);
	rig_close(&r);
}

/* Four at a time, of the sixteen that may be outstanding here: 17 fragments are five READs. */
static void m10_fragments_due_at_once_are_one_read(void **state)
{
	struct xrdma_context *ctx;
	uint64_t posted;
	struct rig r;

	rig_open(&r, "ack_delay_us=1000000 max_rd_atomic=16");
	rig_connect(&r);
	ctx = r.side[RIG_SERVER].ctx;
	posted = ctx->flow.posted;
	rig_send(r.side[RIG_CLIENT].ch, (1 << 20) + 1, 1);
	rig_expect(&r, RIG_SERVER, (1 << 20) + 1, 1);
	assert_int_equal(rig_stat(ctx, "fragments"), 17);
	assert_int_equal(ctx->flow.posted - posted, 5);
	rig_close(&r);
}

/* More small channels than work requests that may be outstanding, all sending at once. */
static void m10_more_channels_than_work_requests(void **state)
{
	static struct xrdma_channel *chs[40];
	struct rig r;

	rig_open(&r, "max_wr=16");
	for (unsigned i = 0; i < 40; i++)
		chs[i] = rig_connect(&r);
	for (unsigned k = 0; k < 20; k++) {
		for (unsigned i = 0; i < 40; i++)
			rig_send(chs[i], 100, 0);
	}
	for (unsigned i = 0; i < 800; i++) {
		assert_in_range(rig_stat(r.side[RIG_CLIENT].ctx, "sends_posted"), 0, 16);
		rig_expect(&r, RIG_SERVER, 100, 0);
	}
	rig_close(&r);
}

/*
 * All work requests are elsewhere when an acknowledgement is due: it is sent when there is one, and
 * no timer asks for one all the while. Thousands of channels would do little else.
 */
static void m10_an_acknowledgement_waits_for_its_turn(void **state)
{
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	uint32_t limit;
	struct rig r;

	rig_open(&r, "ack_delay_us=1000");
	rig_send(rig_connect(&r), 100, 0);
	rig_expect(&r, RIG_SERVER, 100, 0);
	ctx = r.side[RIG_SERVER].ctx;
	ch = r.side[RIG_SERVER].ch;
	limit = ctx->flow.limit;
	ctx->flow.limit = 0;
	rig_until(&r, ch->ack_overdue);
	rig_poll_for(&r, 5);
	assert_int_equal(ch->ack_timer.timer.due_ns, CLOCK_NEVER);
	assert_int_equal(rig_stat(ctx, "acks_sent"), 0);
	ctx->flow.limit = limit;
	rig_until(&r, rig_stat(ctx, "acks_sent") == 1);
	assert_false(rig_stat(ctx, "breaks"));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m9_slow_receiver),
		cmocka_unit_test(m9_hoarding_application),
		cmocka_unit_test(m9_both_windows_full),
		cmocka_unit_test(m9_window_to_the_message),
		cmocka_unit_test(m9_a_call_acknowledges_what_was_freed_before),
		cmocka_unit_test(m10_fair_between_channels),
		cmocka_unit_test(m10_fragments_due_at_once_are_one_read),
		cmocka_unit_test(m10_more_channels_than_work_requests),
		cmocka_unit_test(m10_an_acknowledgement_waits_for_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
