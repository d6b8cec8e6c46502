/* SPDX-License-Identifier: BSD-2-Clause */
/* The window's single rules; window_all.c tries their interplay. */
#include "../unit/unit.h"

#include "xrdma/window.h"

#include <errno.h>

struct pair {
	struct xr_window a, b;
	uint64_t a_done[64], b_done[64];
};

static void start(struct pair *p, uint32_t size, uint32_t control)
{
	*p = (struct pair){0};
	xr_window_init(&p->a, size, control, p->a_done);
	xr_window_init(&p->b, size, control, p->b_done);
}

static int pass(struct xr_window *from, struct xr_window *to, bool windowed)
{
	struct xr_stamp s = xr_window_stamp(from);
	const char *why;

	xr_window_sent(from, windowed);
	return xr_window_receive(to, &s, windowed, &why);
}

static void window_opens_by_consumption(void **state)
{
	struct pair p;

	start(&p, 2, 3);
	assert_int_equal(pass(&p.a, &p.b, true), 1);
	assert_int_equal(pass(&p.a, &p.b, true), 1);
	assert_false(xr_window_open(&p.a));
	xr_window_consume(&p.b, 1); /* not the first: nothing to acknowledge yet */
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_NONE);
	xr_window_consume(&p.b, 0);
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_AT_ONCE);
	assert_int_equal(pass(&p.b, &p.a, false), 1);
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_NONE);
	assert_true(xr_window_open(&p.a));
	assert_int_equal(xr_window_unacked(&p.a), 0);
}

static void when_to_acknowledge(void **state)
{
	struct pair p;

	start(&p, 8, 8);
	for (unsigned i = 0; i < 8; i++)
		pass(&p.a, &p.b, true);
	xr_window_consume(&p.b, 0); /* the peer stands still: at once */
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_AT_ONCE);

	start(&p, 8, 8);
	for (unsigned i = 0; i < 5; i++)
		pass(&p.a, &p.b, true);
	for (unsigned i = 0; i < 3; i++) {
		xr_window_consume(&p.b, (uint16_t)i);
		assert_int_equal(xr_window_ack(&p.b), XR_ACK_LATER);
	}
	xr_window_consume(&p.b, 3); /* half a window */
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_AT_ONCE);
	/* A message of its own carries it. */
	assert_int_equal(pass(&p.b, &p.a, true), 1);
	assert_int_equal(xr_window_ack(&p.b), XR_ACK_NONE);
	assert_int_equal(xr_window_unacked(&p.a), 1);
}

static void control_credits(void **state)
{
	struct pair p;

	start(&p, 64, 8);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(xr_window_ack(&p.b), i < 4 ? XR_ACK_NONE : XR_ACK_AT_ONCE);
		assert_true(xr_window_control_open(&p.a));
		pass(&p.a, &p.b, false);
	}
	assert_false(xr_window_control_open(&p.a)); /* the last is for a report */
	pass(&p.b, &p.a, false);
	assert_true(xr_window_control_open(&p.a));
	start(&p, 64, 3);
	pass(&p.a, &p.b, false);
	pass(&p.a, &p.b, false);
	assert_false(xr_window_control_open(&p.a));
	pass(&p.b, &p.a, true); /* reports both, is no control message */
	assert_true(xr_window_control_open(&p.a));
	/* The last credit carries a report; then there is none, news or not. */
	start(&p, 64, 3);
	pass(&p.a, &p.b, false);
	pass(&p.a, &p.b, false);
	xr_window_sent(&p.b, false); /* under way */
	p.a.ctl_seen++;
	assert_true(xr_window_control_open(&p.a));
	xr_window_sent(&p.a, false);
	p.a.ctl_seen++;
	assert_false(xr_window_control_open(&p.a));
}

static void numbers_wrap(void **state)
{
	struct pair p;

	start(&p, 64, 8);
	for (unsigned i = 0; i < 70000; i++) {
		assert_int_equal(pass(&p.a, &p.b, true), 1);
		xr_window_consume(&p.b, (uint16_t)i);
		assert_int_equal(pass(&p.b, &p.a, i % 2), 1);
		if (i % 2)
			xr_window_consume(&p.a, (uint16_t)(i / 2));
	}
	assert_int_equal(p.a.next, (uint16_t)70000);
	assert_int_equal(xr_window_unacked(&p.a), 0);
}

static void peers_that_lie(void **state)
{
	static const struct {
		const char *what;
		struct xr_stamp stamp;
		bool windowed;
	} lies[] = {
		{"sequence from the future", {.seq = 1}, true},
		{"sequence from the past", {.seq = 65535}, true},
		{"control out of sequence", {.seq = 1}, false},
		{"acknowledges the unsent", {.ack = 3}, true},
		{"takes back an acknowledgement", {.ack = 65535}, true},
		{"reports the unsent", {.ctrl_ack = 2}, true},
		{"takes back a report", {.ctrl_ack = 255}, false},
	};
	const char *why = NULL;
	struct xr_stamp s = {0};
	struct pair p;

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair before;

		start(&p, 4, 3);
		xr_window_sent(&p.a, true);
		xr_window_sent(&p.a, true);
		xr_window_sent(&p.a, false);
		before = p;
		assert_int_equal(xr_window_receive(&p.a, &lies[i].stamp, lies[i].windowed, &why),
				 -EPROTO);
		assert_non_null(why);
		assert_memory_equal(&p.a, &before.a, sizeof(p.a));
	}
	start(&p, 4, 3);
	for (s.seq = 0; s.seq < 4; s.seq++)
		assert_int_equal(xr_window_receive(&p.a, &s, true, &why), 1);
	assert_int_equal(xr_window_receive(&p.a, &s, true, &why), -EPROTO); /* one too many */
	/* Consumed, but the peer cannot know. */
	xr_window_consume(&p.a, 0);
	assert_int_equal(xr_window_receive(&p.a, &s, true, &why), -EPROTO);
	start(&p, 4, 3);
	s.seq = 0;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(xr_window_receive(&p.a, &s, false, &why), 1);
	assert_int_equal(xr_window_receive(&p.a, &s, false, &why), -EPROTO);
}

/* Of five messages the second and fourth are consumed, two more are lost: each is delivered once.
 */
static void resume(void **state)
{
	struct xr_window_state of_a, of_b;
	struct pair p;

	start(&p, 8, 3);
	for (unsigned i = 0; i < 5; i++)
		pass(&p.a, &p.b, true);
	xr_window_sent(&p.a, true);
	xr_window_sent(&p.a, true);
	xr_window_consume(&p.b, 0);
	xr_window_consume(&p.b, 1);
	xr_window_consume(&p.b, 3);
	of_a = xr_window_export(&p.a);
	of_b = xr_window_export(&p.b);
	assert_int_equal(of_a.next, 7);
	assert_int_equal(of_b.consumed, 2);
	assert_int_equal(xr_window_resume(&p.a, &of_b), 0);
	assert_int_equal(xr_window_resume(&p.b, &of_a), 0);
	assert_int_equal(p.a.next, 2);
	for (unsigned i = 2; i < 7; i++)
		assert_int_equal(pass(&p.a, &p.b, true), i != 3);
	for (unsigned i = 2; i < 7; i++) {
		if (i != 3)
			xr_window_consume(&p.b, (uint16_t)i);
	}
	pass(&p.b, &p.a, false);
	assert_int_equal(xr_window_unacked(&p.a), 0);
}

static void windows_that_do_not_belong_together(void **state)
{
	static const struct xr_window_state states[] = {
		{.next = 0, .consumed = 3},     /* more than was sent */
		{.next = 0, .consumed = 65535}, /* less than it said */
		{.next = 65535, .consumed = 0}, /* denies what came */
		{.next = 9, .consumed = 0},     /* more than the window */
	};
	struct pair p;

	for (unsigned i = 0; i < 4; i++) {
		start(&p, 8, 3);
		xr_window_sent(&p.a, true);
		assert_int_equal(xr_window_resume(&p.a, &states[i]), -EPROTO);
	}
	/* Under way when the connection broke: fewer than the window, but not than what is
	 * unconsumed. */
	start(&p, 8, 3);
	for (unsigned i = 0; i < 6; i++)
		pass(&p.b, &p.a, true);
	assert_int_equal(xr_window_resume(&p.a, &(struct xr_window_state){.next = 10}), -EPROTO);
	assert_int_equal(xr_window_resume(&p.a, &(struct xr_window_state){.next = 8}), 0);
}

static void bitmap_sizes(void **state)
{
	assert_int_equal(xr_window_words(1), 1);
	assert_int_equal(xr_window_words(64), 1);
	assert_int_equal(xr_window_words(65), 2);
	assert_int_equal(xr_window_words(XR_WINDOW_MAX), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_opens_by_consumption),
		cmocka_unit_test(when_to_acknowledge),
		cmocka_unit_test(control_credits),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(peers_that_lie),
		cmocka_unit_test(resume),
		cmocka_unit_test(windows_that_do_not_belong_together),
		cmocka_unit_test(bitmap_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
