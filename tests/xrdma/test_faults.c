/* SPDX-License-Identifier: BSD-2-Clause */
/* M12: faults on purpose, and that what follows is what follows of real ones. */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void filter(struct rig *r, unsigned side, const char *text)
{
	if (xrdma_set(r->side[side].ctx, "filter", text))
		fail_msg("%s", xrdma_last_error());
}

static uint64_t stat_of(struct rig *r, unsigned side, const char *name)
{
	return rig_stat(r->side[side].ctx, name);
}

/* Both sides have closed; with which status, to whom the fault happened. */
static void expect_closed(struct rig *r, unsigned side, int status)
{
	rig_until(r, r->side[RIG_CLIENT].n_closed && r->side[RIG_SERVER].n_closed);
	assert_int_equal(r->side[side].status, status);
	assert_int_not_equal(r->side[!side].status, 0);
}

/* The transport loses nothing while it lives: a hole in the window is a broken channel. */
static void a_lost_message_is_a_hole(void **state)
{
	static const char *const options[] = {"filter=drop:out:type=MSG:after=3:n=1", NULL};

	for (unsigned in = 0; in < 2; in++) {
		struct rig r;

		rig_open_each(&r, options[in], in ? "filter=drop:in:type=MSG:after=3:n=1" : NULL);
		rig_connect(&r);
		for (unsigned i = 0; i < 6; i++)
			rig_send(r.side[RIG_CLIENT].ch, 100, i);
		for (unsigned i = 0; i < 3; i++)
			rig_expect(&r, RIG_SERVER, 100, i);
		expect_closed(&r, RIG_SERVER, -EPROTO);
		assert_int_equal(r.side[RIG_SERVER].n_msgs, 0); /* nothing after the hole */
		assert_int_equal(stat_of(&r, in, "faults"), 1);
		assert_int_equal(stat_of(&r, RIG_SERVER, "protocol_errors"), 1);
		rig_close(&r);
	}
}

static void a_lost_reply_is_a_timeout(void **state)
{
	struct rig_call call = {0};
	struct rig r;

	rig_open_each(&r, NULL, "filter=drop:out:type=RSP:n=1");
	r.side[RIG_SERVER].on_msg = rig_echo;
	rig_connect(&r);
	assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch, rig_msg(r.side[RIG_CLIENT].ch, 10, 1),
				    20000, rig_done, &call, NULL),
			 0);
	rig_until(&r, call.ended);
	assert_true(call.status == -ETIMEDOUT || call.status == -EPROTO);
	rig_close(&r);
}

static void what_is_doubled_comes_once(void **state)
{
	for (unsigned in = 0; in < 2; in++) {
		struct rig r;

		rig_open_each(&r, in ? NULL : "filter=duplicate:out:after=1:n=1",
			      in ? "filter=duplicate:in:after=1:n=1" : NULL);
		rig_connect(&r);
		rig_send(r.side[RIG_CLIENT].ch, 3000, 1);
		rig_send(r.side[RIG_CLIENT].ch, 3000, 2);
		rig_until(&r, r.side[RIG_SERVER].n_closed);
		rig_expect(&r, RIG_SERVER, 3000, 1);
		rig_expect(&r, RIG_SERVER, 3000, 2);
		assert_int_equal(r.side[RIG_SERVER].n_msgs, 0);
		assert_int_equal(r.side[RIG_SERVER].status, -EPROTO);
		rig_close(&r);
	}
}

static void a_corrupted_header_is_found(void **state)
{
	unsigned stale = 0, wrong = 0;

	for (unsigned seed = 1; seed <= 12; seed++) {
		char text[64];
		struct rig r;

		snprintf(text, sizeof(text), "filter=corrupt:n=1,seed=%u", seed);
		rig_open_each(&r, seed % 2 ? text : NULL, seed % 2 ? NULL : text);
		rig_connect(&r);
		rig_send(r.side[RIG_CLIENT].ch, 500, 1);
		rig_until(&r, r.side[RIG_SERVER].n_closed);
		assert_int_equal(r.side[RIG_SERVER].n_msgs, 0);
		stale += r.side[RIG_SERVER].status == -ESTALE;
		wrong += r.side[RIG_SERVER].status == -EPROTO;
		rig_close(&r);
	}
	assert_int_equal(stale + wrong, 12);
	assert_true(stale && wrong);
}

static void a_completion_fails_with_the_status(void **state)
{
	static const struct {
		const char *status, *counter;
		int error;
	} rows[] = {
		{"RETRY_EXC", "wc_silent", -ETIMEDOUT}, {"RNR_RETRY_EXC", "wc_rnr", -ENOBUFS},
		{"REM_ACCESS", "wc_access", -EACCES},   {"WR_FLUSH", "wc_flushed", -ECONNRESET},
		{"REM_OP", "wc_other", -EIO},
	};

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		unsigned row = i / 2;
		bool in = i % 2;
		char text[64];
		struct rig r;

		snprintf(text, sizeof(text), "filter=fail=%s:%s:after=1:n=1", rows[row].status,
			 in ? "in" : "out");
		rig_open_each(&r, in ? NULL : text, in ? text : NULL);
		rig_connect(&r);
		rig_send(r.side[RIG_CLIENT].ch, 100, 1);
		rig_send(r.side[RIG_CLIENT].ch, 100, 2);
		rig_until(&r, r.side[in].n_recovered);
		assert_int_equal(r.side[in].why_broken, rows[row].error);
		rig_expect(&r, RIG_SERVER, 100, 1);
		rig_expect(&r, RIG_SERVER, 100, 2);
		assert_true(stat_of(&r, in, rows[row].counter) > 0);
		rig_close(&r);
	}
}

/* Later, but all, and in order; with calls, large messages and acknowledgements between. */
static void delays_keep_the_order(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		const char *text = i ? "filter=delay=2000:in:p=0.2,seed=5"
				     : "filter=delay=2000:out:p=0.2,seed=5";
		uint64_t start;
		struct rig r;

		rig_open(&r, text);
		rig_connect(&r);
		start = rig_now_ms();
		for (unsigned k = 0; k < 100; k++)
			rig_send(r.side[RIG_CLIENT].ch, k % 10 == 9 ? 100000 : 100 * k, k);
		for (unsigned k = 0; k < 100; k++)
			rig_expect(&r, RIG_SERVER, k % 10 == 9 ? 100000 : 100 * k, k);
		assert_true(rig_now_ms() - start >= 2);
		assert_true(stat_of(&r, i, "faults") > 0);
		xrdma_channel_close(r.side[RIG_CLIENT].ch);
		rig_until(&r, r.side[RIG_CLIENT].n_closed && r.side[RIG_SERVER].n_closed);
		assert_int_equal(r.side[RIG_SERVER].status, 0);
		rig_close(&r);
	}
}

static void a_delay_wakes_who_sleeps(void **state)
{
	struct rig r;

	rig_open_each(&r, "filter=delay=3000:out:n=1", NULL);
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, 10, 1);
	r.stalled[RIG_CLIENT] = true; /* and sleeps instead, for longer than the delay */
	assert_int_equal(xrdma_run(r.side[RIG_CLIENT].ctx, 50), 0);
	rig_expect(&r, RIG_SERVER, 10, 1);
	rig_close(&r);
}

static void rules_change_while_it_runs(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, 10, 1);
	rig_expect(&r, RIG_SERVER, 10, 1);
	filter(&r, RIG_SERVER, "delay=60000000:in");
	rig_send(r.side[RIG_CLIENT].ch, 10, 2);
	rig_send(r.side[RIG_CLIENT].ch, 10, 3);
	rig_poll_for(&r, 20);
	assert_int_equal(r.side[RIG_SERVER].n_msgs, 0);
	/* What waits for a rule that is gone still waits its time: a closing channel drops it. */
	assert_int_equal(xrdma_set(r.side[RIG_SERVER].ctx, "filter", "lose"), -EINVAL);
	filter(&r, RIG_SERVER, "");
	rig_poll_for(&r, 5);
	xrdma_channel_close(r.side[RIG_SERVER].ch);
	rig_close(&r);
	assert_int_equal(r.side[RIG_SERVER].n_closed, 1);
}

/* A wrong rule is told where it is written, not when a context opens. */
static void wrong_rules_are_told_at_once(void **state)
{
	struct xrdma_conf *conf;

	assert_int_equal(xrdma_conf_new(&conf), 0);
	assert_int_equal(xrdma_conf_set(conf, "filter", "drop:p=2"), -EINVAL);
	assert_non_null(strstr(xrdma_last_error(), "p=2: expected a probability"));
	xrdma_conf_free(conf);
}

static void shared_receives_too(void **state)
{
	struct rig r;

	rig_open(&r, "srq=on filter=delay=500:in:p=0.3");
	rig_connect(&r);
	for (unsigned i = 0; i < 50; i++)
		rig_send(r.side[RIG_CLIENT].ch, 100, i);
	for (unsigned i = 0; i < 50; i++)
		rig_expect(&r, RIG_SERVER, 100, i);
	filter(&r, RIG_SERVER, "fail=RETRY_EXC:out:n=1");
	rig_send(r.side[RIG_SERVER].ch, 100, 1);
	rig_expect(&r, RIG_CLIENT, 100, 1);
	assert_int_equal(r.side[RIG_SERVER].why_broken, -ETIMEDOUT);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_message_is_a_hole),
		cmocka_unit_test(a_lost_reply_is_a_timeout),
		cmocka_unit_test(what_is_doubled_comes_once),
		cmocka_unit_test(a_corrupted_header_is_found),
		cmocka_unit_test(a_completion_fails_with_the_status),
		cmocka_unit_test(delays_keep_the_order),
		cmocka_unit_test(a_delay_wakes_who_sleeps),
		cmocka_unit_test(rules_change_while_it_runs),
		cmocka_unit_test(wrong_rules_are_told_at_once),
		cmocka_unit_test(shared_receives_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
