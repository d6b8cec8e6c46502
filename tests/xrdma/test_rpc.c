/* SPDX-License-Identifier: BSD-2-Clause */
/* M4: requests and replies. */
#include "rig.h"

#include <errno.h>
#include <string.h>

enum { N = 500 };

static void call(struct xrdma_channel *ch, size_t len, uint64_t seed, uint64_t timeout_us,
		 struct rig_call *call, uint64_t *ret_id)
{
	call->ended = false;
	if (xrdma_call(ch, rig_msg(ch, len, seed), timeout_us, rig_done, call, ret_id))
		fail_msg("%s", xrdma_last_error());
}

static void m1_echo(void **state)
{
	struct rig_call c;
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = rig_echo;
	call(rig_connect(&r), 100, 7, 0, &c, NULL);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	assert_true(rig_is(c.reply, 100, 7));
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

static void m4_a_request_before_the_channel_is_open(void **state)
{
	struct xrdma_channel *ch;
	struct rig_call c;
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = rig_echo;
	assert_int_equal(xrdma_connect(r.side[0].ctx, r.address, &rig_handlers, &r.side[0], &ch),
			 0);
	call(ch, 100000, 8, 0, &c, NULL);
	rig_until(&r, c.ended);
	assert_true(rig_is(c.reply, 100000, 8));
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

/* The server answers the last first. */
static void m4_many_in_flight_and_replies_in_any_order(void **state)
{
	static struct rig_call calls[N];
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (unsigned i = 0; i < N; i++)
		call(r.side[RIG_CLIENT].ch, i, i, 0, &calls[i], NULL);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == N);
	for (unsigned i = N; i-- > 0;)
		rig_echo(r.side[RIG_SERVER].ch, r.side[RIG_SERVER].msgs[i], NULL);
	for (unsigned i = 0; i < N; i++) {
		rig_until(&r, calls[i].ended);
		assert_int_equal(calls[i].status, 0);
		assert_true(rig_is(calls[i].reply, i, i));
		xrdma_msg_free(calls[i].reply);
	}
	rig_close(&r);
}

static void m4_deadline(void **state)
{
	struct rig_call late, other;
	uint64_t began;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	began = rig_now_ms();
	call(r.side[RIG_CLIENT].ch, 10, 1, 20000, &late, NULL);
	rig_until(&r, late.ended);
	assert_int_equal(late.status, -ETIMEDOUT);
	assert_string_equal(xrdma_last_error(), "a call had no reply within its deadline");
	assert_null(late.reply);
	assert_in_range(rig_now_ms() - began, 19, 1000);
	/* Its reply comes too late and is dropped, although another call has its place by now. */
	call(r.side[RIG_CLIENT].ch, 10, 2, 0, &other, NULL);
	rig_echo(r.side[RIG_SERVER].ch, r.side[RIG_SERVER].msgs[0], NULL);
	rig_until(&r, rig_stat(r.side[RIG_CLIENT].ctx, "late_replies") == 1);
	assert_false(other.ended);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 2);
	rig_echo(r.side[RIG_SERVER].ch, r.side[RIG_SERVER].msgs[1], NULL);
	rig_until(&r, other.ended);
	assert_true(rig_is(other.reply, 10, 2));
	rig_close(&r);
}

static void m4_cancel(void **state)
{
	struct rig_call c;
	uint64_t id;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	call(r.side[RIG_CLIENT].ch, 1 << 20, 1, 0, &c, &id);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
	assert_int_equal(xrdma_cancel(r.side[RIG_CLIENT].ch, id), 0);
	assert_false(c.ended); /* not inside the call */
	assert_int_equal(xrdma_cancel(r.side[RIG_CLIENT].ch, id), -ENOENT);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, -ECANCELED);
	/* A large reply to nobody is not even read. */
	rig_echo(r.side[RIG_SERVER].ch, r.side[RIG_SERVER].msgs[0], NULL);
	rig_until(&r, rig_stat(r.side[RIG_CLIENT].ctx, "late_replies") == 1);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "large_read"), 0);
	rig_close(&r);
}

static void m4_a_request_freed_without_reply(void **state)
{
	struct rig_call c;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	call(r.side[RIG_CLIENT].ch, 10, 1, 0, &c, NULL);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
	xrdma_msg_free(r.side[RIG_SERVER].msgs[0]);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, -ENOMSG);
	assert_non_null(strstr(xrdma_last_error(), "freed a request without a reply"));
	rig_close(&r);
}

static void m4_more_calls_than_allowed(void **state)
{
	static struct rig_call calls[17];
	struct xrdma_msg *m;
	struct rig r;

	rig_open(&r, "max_calls=16");
	rig_connect(&r);
	for (unsigned i = 0; i < 16; i++)
		call(r.side[RIG_CLIENT].ch, 1, i, 0, &calls[i], NULL);
	m = rig_msg(r.side[RIG_CLIENT].ch, 1, 16);
	assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch, m, 0, rig_done, &calls[16], NULL),
			 -EAGAIN);
	assert_ptr_equal(strstr(xrdma_last_error(), "16 calls"), xrdma_last_error());
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 16);
	rig_echo(r.side[RIG_SERVER].ch, r.side[RIG_SERVER].msgs[9], NULL);
	rig_until(&r, calls[9].ended);
	assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch, m, 0, rig_done, &calls[16], NULL), 0);
	rig_close(&r);
	for (unsigned i = 0; i < 17; i++) /* xrdma_close() ends them all */
		assert_int_equal(calls[i].status, i == 9 ? 0 : -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m1_echo),
		cmocka_unit_test(m4_a_request_before_the_channel_is_open),
		cmocka_unit_test(m4_many_in_flight_and_replies_in_any_order),
		cmocka_unit_test(m4_deadline),
		cmocka_unit_test(m4_cancel),
		cmocka_unit_test(m4_a_request_freed_without_reply),
		cmocka_unit_test(m4_more_calls_than_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
