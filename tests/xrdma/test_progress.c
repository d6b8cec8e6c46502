/* SPDX-License-Identifier: BSD-2-Clause */
/* M3, K12: what makes a context go, and who may. */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Both sides sleep on their descriptors: nothing is lost, and the deadline still comes. */
static void m3_event_descriptor(void **state)
{
	struct pollfd fds[RIG_SIDES];
	struct rig_call c = {0};
	unsigned n_calls = 0, n_late = 0;
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = rig_echo;
	rig_connect(&r);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		fds[i] = (struct pollfd){.fd = xrdma_get_event_fd(r.side[i].ctx), .events = POLLIN};
		assert_true(fds[i].fd >= 0);
	}
	c.ended = true;
	for (uint64_t end = rig_now_ms() + 20000; n_calls < 300 || !c.ended;) {
		assert_true(rig_now_ms() < end);
		if (c.ended) {
			n_late += c.status == -ETIMEDOUT;
			xrdma_msg_free(c.reply);
			c = (struct rig_call){0};
			/* Each hundredth goes unanswered: the server does not look. */
			r.stalled[RIG_SERVER] = ++n_calls % 100 == 0;
			assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch,
						    rig_msg(r.side[RIG_CLIENT].ch, n_calls * 50, 1),
						    100000, rig_done, &c, NULL),
					 0);
		}
		assert_true(poll(fds, r.stalled[RIG_SERVER] ? 1 : 2, 5000) > 0);
		for (unsigned i = 0; i < RIG_SIDES; i++) {
			if ((fds[i].revents & POLLIN) && !r.stalled[i])
				assert_true(xrdma_process_event(r.side[i].ctx) >= 0);
		}
	}
	assert_true(n_late >= 2);
	rig_close(&r);
}

/* Asleep for good when there is nothing to do. */
static void m3_no_idle_wakeups(void **state)
{
	struct pollfd fd = {.events = POLLIN};
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	rig_poll_for(&r, 20);
	fd.fd = xrdma_get_event_fd(r.side[RIG_CLIENT].ctx);
	for (unsigned i = 0; i < 10 && poll(&fd, 1, 0) > 0; i++)
		xrdma_process_event(r.side[RIG_CLIENT].ctx);
	assert_int_equal(poll(&fd, 1, 200), 0);
	rig_close(&r);
}

static void *serve(void *arg)
{
	xrdma_run(arg, -1);
	return NULL;
}

static void done_stop(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	rig_done(ch, status, reply, arg);
	xrdma_stop(*(struct xrdma_context **)xrdma_channel_user(ch));
}

/* Two threads with a context each: they run, sleep, wake, and stop. */
static void m3_run(void **state)
{
	struct rig_call c;
	pthread_t thread;
	uint64_t began;
	struct rig r;

	rig_open(&r, "idle_us=50");
	r.side[RIG_SERVER].on_msg = rig_echo;
	rig_connect(&r);
	xrdma_channel_set_user(r.side[RIG_CLIENT].ch, &r.side[RIG_CLIENT].ctx);
	pthread_create(&thread, NULL, serve, r.side[RIG_SERVER].ctx);
	for (unsigned i = 0; i < 200; i++) {
		c.ended = false;
		assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch,
					    rig_msg(r.side[RIG_CLIENT].ch, i * 100, i), 0,
					    done_stop, &c, NULL),
				 0);
		assert_int_equal(xrdma_run(r.side[RIG_CLIENT].ctx, 10000), 0);
		assert_true(c.ended);
		assert_true(rig_is(c.reply, i * 100, i));
		xrdma_msg_free(c.reply);
	}
	began = rig_now_ms();
	assert_int_equal(xrdma_run(r.side[RIG_CLIENT].ctx, 100), 0);
	assert_in_range(rig_now_ms() - began, 99, 2000);
	assert_true(rig_stat(r.side[RIG_CLIENT].ctx, "sleeps") > 0);
	xrdma_stop(r.side[RIG_SERVER].ctx);
	pthread_join(thread, NULL);
	rig_close(&r);
}

static void poll_inside(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side)
{
	assert_int_equal(xrdma_poll(side->ctx), -EDEADLK);
	assert_int_equal(xrdma_run(side->ctx, 0), -EDEADLK);
	xrdma_msg_free(msg);
	++*(unsigned *)side->arg;
}

static void not_from_a_callback(void **state)
{
	unsigned n = 0;
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = poll_inside;
	r.side[RIG_SERVER].arg = &n;
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, 1, 1);
	rig_until(&r, n == 1);
	rig_close(&r);
}

/* A handler that takes long: what came meanwhile waits, and the peer's deadline comes true. */
static void block(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side)
{
	usleep(100000);
	rig_echo(ch, msg, side);
}

static void *poll_until_stop(void *arg)
{
	xrdma_run(arg, 3000);
	return NULL;
}

static void m9_the_handler_blocks(void **state)
{
	struct rig_call late = {0}, good = {0};
	struct xrdma_channel *ch;
	pthread_t thread;
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = block;
	ch = rig_connect(&r);
	pthread_create(&thread, NULL, poll_until_stop, r.side[RIG_SERVER].ctx);
	r.stalled[RIG_SERVER] = true;
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 9, 1), 20000, rig_done, &late, NULL), 0);
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 9, 2), 2000000, rig_done, &good, NULL), 0);
	for (unsigned i = 0; i < 500; i++)
		rig_send(ch, 9, i); /* much more than the window */
	rig_until(&r, late.ended && good.ended);
	assert_int_equal(late.status, -ETIMEDOUT);
	assert_int_equal(good.status, 0);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "wc_rnr"), 0);
	xrdma_stop(r.side[RIG_SERVER].ctx);
	pthread_join(thread, NULL);
	rig_close(&r);
}

/* After fork() the context is the parent's alone. */
static void k12_fork(void **state)
{
	struct xrdma_msg *m;
	struct rig r;
	int status;
	pid_t pid;

	rig_open(&r, NULL);
	rig_connect(&r);
	pid = fork();
	if (pid == 0) {
		struct xrdma_channel *ch = r.side[RIG_CLIENT].ch;
		bool good = xrdma_poll(r.side[RIG_CLIENT].ctx) == -EPERM &&
			    xrdma_msg_new(ch, 1, &m) == -EPERM &&
			    xrdma_get_event_fd(r.side[RIG_CLIENT].ctx) == -EPERM &&
			    strstr(xrdma_last_error(), "fork");

		xrdma_channel_close(ch);
		xrdma_close(r.side[RIG_CLIENT].ctx);
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rig_send(r.side[RIG_CLIENT].ch, 1000, 1);
	rig_expect(&r, RIG_SERVER, 1000, 1);
	rig_close(&r);
}

/* A context tells its device by the name that chooses it. */
static void device_by_name(void **state)
{
	struct xrdma_context *any = rig_context(NULL), *same;
	char option[64];

	snprintf(option, sizeof(option), "device=%s", xrdma_device(any));
	assert_string_not_equal(option, "device=");
	same = rig_context(option);
	assert_string_equal(xrdma_device(same), xrdma_device(any));
	xrdma_close(same);
	xrdma_close(any);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_by_name),
		cmocka_unit_test(k12_fork),
		cmocka_unit_test(m3_event_descriptor),
		cmocka_unit_test(m3_no_idle_wakeups),
		cmocka_unit_test(m3_run),
		cmocka_unit_test(not_from_a_callback),
		cmocka_unit_test(m9_the_handler_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
