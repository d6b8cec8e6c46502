/* SPDX-License-Identifier: BSD-2-Clause */
/* M4, M16: ends of channels: every operation ends once, nothing is left behind. */
#include "rig.h"

#include "deaf.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void what_was_accepted_is_sent_first(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (unsigned i = 0; i < 300; i++)
		rig_send(r.side[RIG_CLIENT].ch, i == 299 ? 5000000 : 100, i);
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	xrdma_channel_close(r.side[RIG_CLIENT].ch); /* idempotent */
	for (unsigned i = 0; i < 300; i++)
		rig_expect(&r, RIG_SERVER, i == 299 ? 5000000 : 100, i);
	rig_until(&r, r.side[RIG_CLIENT].n_closed && r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_CLIENT].status, 0);
	assert_int_equal(r.side[RIG_SERVER].status, 0);
	rig_close(&r);
}

static void m40_both_at_once(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	for (unsigned i = 0; i < 50; i++) {
		rig_connect(&r);
		xrdma_channel_close(r.side[RIG_CLIENT].ch);
		xrdma_channel_close(r.side[RIG_SERVER].ch);
		rig_until(&r, r.side[RIG_CLIENT].n_closed == i + 1 &&
				      r.side[RIG_SERVER].n_closed == i + 1);
		assert_int_equal(r.side[RIG_CLIENT].status, 0);
		assert_int_equal(r.side[RIG_SERVER].status, 0);
	}
	rig_close(&r);
}

static void m38_pending_calls_end_once(void **state)
{
	static struct rig_call calls[100];
	struct xrdma_msg *m;
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	for (unsigned i = 0; i < 100; i++) {
		calls[i].ended = false;
		assert_int_equal(xrdma_call(ch, rig_msg(ch, 2000 * i, i), 600000000, rig_done,
					    &calls[i], NULL),
				 0);
	}
	xrdma_channel_close(ch);
	assert_int_equal(xrdma_msg_new(ch, 10, &m), -EPIPE);
	rig_until(&r, r.side[RIG_CLIENT].n_closed);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(calls[i].ended);
		assert_int_equal(calls[i].status, -ECANCELED);
	}
	/* The server holds the requests still: they may be given back after the end. */
	rig_until(&r, r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_SERVER].n_msgs, 100);
	for (unsigned i = 0; i < 100; i++)
		xrdma_msg_free(r.side[RIG_SERVER].msgs[i]);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "messages_held"), 0);
	rig_close(&r);
}

static void the_context_closes_under_load(void **state)
{
	static struct rig_call calls[64];
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	for (unsigned i = 0; i < 64; i++) {
		calls[i].ended = false;
		assert_int_equal(xrdma_call(ch, rig_msg(ch, 50000 * (i % 4), i), 0, rig_done,
					    &calls[i], NULL),
				 0);
	}
	xrdma_close(r.side[RIG_CLIENT].ctx);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(calls[i].status, -ECANCELED);
	assert_int_equal(r.side[RIG_CLIENT].n_closed, 1);
	r.stalled[RIG_CLIENT] = true;
	rig_until(&r, r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_SERVER].status, -ECONNRESET);
	xrdma_close(r.side[RIG_SERVER].ctx);
}

/* A peer's process dies: its TCP connection tells. */
static void the_peer_is_killed(void **state)
{
	struct rig_side *client;
	int port[2], status, n;
	struct rig_call c = {0};
	struct rig r = {0};
	pid_t pid;

	assert_int_equal(pipe(port), 0);
	pid = fork();
	if (pid == 0) {
		rig_open(&r, NULL);
		n = xrdma_listener_port(r.listener);
		if (write(port[1], &n, sizeof(n)) != sizeof(n))
			_exit(1);
		for (;;)
			rig_poll(&r);
	}
	assert_int_equal(read(port[0], &n, sizeof(n)), sizeof(n));
	client = &r.side[RIG_CLIENT];
	client->ctx = rig_context(NULL);
	r.stalled[RIG_SERVER] = true;
	snprintf(r.address, sizeof(r.address), "127.0.0.1:%d", n);
	assert_int_equal(xrdma_connect(client->ctx, r.address, &rig_handlers, client, &client->ch),
			 0);
	assert_int_equal(xrdma_call(client->ch, rig_msg(client->ch, 10, 1), 0, rig_done, &c, NULL),
			 0);
	rig_until(&r, client->n_connected);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	rig_until(&r, client->n_closed);
	assert_int_equal(client->status, -ECONNRESET);
	assert_int_equal(c.status, -ECONNRESET);
	xrdma_close(client->ctx);
	close(port[0]);
	close(port[1]);
}

static void nobody_listens(void **state)
{
	struct rig r;
	int deaf;

	rig_open(&r, NULL);
	deaf = deaf_port(r.address, sizeof(r.address));
	for (unsigned i = 0; i < 100; i++) { /* case M19 */
		struct xrdma_channel *ch;

		assert_int_equal(
			xrdma_connect(r.side[0].ctx, r.address, &rig_handlers, &r.side[0], &ch), 0);
		rig_until(&r, r.side[RIG_CLIENT].n_closed == i + 1);
		assert_int_equal(r.side[RIG_CLIENT].status, -ECONNREFUSED);
	}
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "qps"), 0);
	close(deaf);
	rig_close(&r);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

struct figures {
	uint64_t mrs, qps, receives, sends, held, channels;
	unsigned fds;
	size_t heap;
};

static struct figures take_figures(const struct xrdma_context *ctx)
{
	return (struct figures){
		.mrs = rig_stat(ctx, "memory_regions"),
		.qps = rig_stat(ctx, "qps"),
		.receives = rig_stat(ctx, "receives_posted"),
		.sends = rig_stat(ctx, "sends_posted"),
		.held = rig_stat(ctx, "messages_held"),
		.channels = rig_stat(ctx, "channels"),
		.fds = count_fds(),
		.heap = mallinfo2().uordblks,
	};
}

/* Open, use, close in one way or the other. */
static void one_life(struct rig *r, unsigned i)
{
	struct xrdma_channel *ch = rig_connect(r);
	unsigned n = r->side[RIG_CLIENT].n_closed, k = r->side[RIG_SERVER].n_closed;
	static struct rig_call c;

	c.ended = false;
	assert_int_equal(
		xrdma_call(ch, rig_msg(ch, i % 3 ? 100 : 100000, i), 0, rig_done, &c, NULL), 0);
	if (i % 2) { /* under load */
		rig_until(r, c.ended);
		xrdma_msg_free(c.reply);
	}
	xrdma_channel_close(i % 4 < 2 ? ch : r->side[RIG_SERVER].ch);
	rig_until(r,
		  r->side[RIG_CLIENT].n_closed == n + 1 && r->side[RIG_SERVER].n_closed == k + 1);
	assert_true(c.ended);
	if (i % 2 == 0)
		xrdma_msg_free(c.reply);
}

static void flat(const char *options)
{
	unsigned lives = 1000 / rig_slower();
	struct figures before[RIG_SIDES], after;
	struct rig r;

	rig_open(&r, options);
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < lives / 10; i++)
		one_life(&r, i);
	for (unsigned i = 0; i < RIG_SIDES; i++)
		before[i] = take_figures(r.side[i].ctx);
	for (unsigned i = 0; i < lives; i++)
		one_life(&r, i);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		after = take_figures(r.side[i].ctx);
		assert_int_equal(after.mrs, before[i].mrs);
		assert_int_equal(after.qps, 0);
		assert_int_equal(after.receives, before[i].receives);
		assert_int_equal(after.sends, 0);
		assert_int_equal(after.held, 0);
		assert_int_equal(after.channels, 0);
		assert_int_equal(after.fds, before[i].fds);
		assert_in_range(after.heap, 0, before[i].heap + 65536);
		assert_int_equal(rig_stat(r.side[i].ctx, "stale_completions"), 0);
	}
	rig_close(&r);
}

static void m18_a_thousand_lives(void **state)
{
	flat("srq=off trim_ms=3600000");
}

static void m18_a_thousand_lives_in_a_shared_queue(void **state)
{
	flat("srq=on trim_ms=3600000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peer_is_killed),
		cmocka_unit_test(what_was_accepted_is_sent_first),
		cmocka_unit_test(m40_both_at_once),
		cmocka_unit_test(m38_pending_calls_end_once),
		cmocka_unit_test(the_context_closes_under_load),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(m18_a_thousand_lives),
		cmocka_unit_test(m18_a_thousand_lives_in_a_shared_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
