/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls: what comes after a long silence is found by polling alone, soon, whatever its IP
 * family; and a batch leaves when it is full.
 */
#include "udp_rig.h"

#include "base/log.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	SILENCE = 1000, /* polls */
	SOON = 20,      /* polls that find what came */
};

static void nothing_comes(struct urxe_udp *udp)
{
	struct rig_flow none = {0};

	for (int i = 0; i < SILENCE; i++)
		assert_int_equal(urxe_udp_poll(udp, rig_deliver, &none, 64), 0);
}

/* Without rig_wait(), which lets the endpoint know that something came. */
static void send_and_poll(struct urxe_udp *from, struct urxe_udp *to, int version)
{
	struct urxe_path path = rig_path(from, RIG_A, version);
	struct rig_flow flow = {.path = &path, .n = 1, .len = {64}};
	struct pollfd fd = {urxe_udp_fd(to), POLLIN, 0};

	assert_int_equal(urxe_udp_send(from, rig_pull, &flow, 1, false), 1);
	assert_int_equal(poll(&fd, 1, 2000), 1);
	for (int i = 0; i < SOON && !flow.delivered; i++)
		urxe_udp_poll(to, rig_deliver, &flow, 64);
	assert_int_equal(flow.delivered, 1);
	assert_int_equal(flow.mismatch, 0);
}

/* Each family after silences behind packets of the same one, and of the other. */
static void after_a_silence(void **state)
{
	static const int versions[] = {4, 4, 6, 6, 4, 6};
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *to = rig_open(RIG_B, RIG_BUF, RIG_BUF);

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		nothing_comes(to);
		send_and_poll(from, to, versions[i]);
	}
	urxe_udp_close(from);
	urxe_udp_close(to);
}

/* The silent family costs next to nothing: a poll is one system call. */
static void silence_is_cheap(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *to = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	struct urxe_udp_stats before, after;

	send_and_poll(from, to, 6);
	nothing_comes(to);
	urxe_udp_stats(to, &before);
	nothing_comes(to);
	urxe_udp_stats(to, &after);
	assert_in_range(after.rx_calls - before.rx_calls, SILENCE, SILENCE + SILENCE / 10);
	urxe_udp_close(from);
	urxe_udp_close(to);
}

static uint64_t tx_calls(const struct urxe_udp *udp)
{
	struct urxe_udp_stats stats;

	urxe_udp_stats(udp, &stats);
	return stats.tx_calls;
}

/* With more to come a batch waits until it is full, or until there is no more. */
static void more_to_come(void **state)
{
	struct urxe_udp *udp = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_path path = rig_path(udp, RIG_A, 4), other = rig_path(udp, RIG_A, 6);
	struct rig_flow flow = {.path = &path, .n = 100};

	for (unsigned i = 0; i < flow.n; i++)
		flow.len[i] = i == 66 ? 8 : 512;
	for (unsigned i = 0; i < 63; i++)
		assert_int_equal(urxe_udp_send(udp, rig_pull, &flow, 1, true), 1);
	assert_int_equal(tx_calls(udp), 0);
	assert_true(urxe_udp_unsent(udp));
	assert_false(urxe_udp_blocked(udp));
	urxe_udp_send(udp, rig_pull, &flow, 1, true); /* full */
	assert_int_equal(tx_calls(udp), 1);
	assert_false(urxe_udp_unsent(udp));
	urxe_udp_send(udp, rig_pull, &flow, 2, true);
	urxe_udp_send(udp, rig_pull, &flow, 1, true); /* a shorter one ends it */
	assert_int_equal(tx_calls(udp), 2);
	urxe_udp_send(udp, rig_pull, &flow, 1, true);
	flow.path = &other; /* cannot join, but wait with what was before */
	urxe_udp_send(udp, rig_pull, &flow, 1, true);
	assert_int_equal(tx_calls(udp), 2);
	assert_true(urxe_udp_unsent(udp));
	assert_int_equal(urxe_udp_send(udp, rig_pull, &flow, 0, false), 0);
	assert_int_equal(tx_calls(udp), 4);
	assert_false(urxe_udp_unsent(udp));
	urxe_udp_close(udp);
}

/* Small batches leave with a large one: an answer to a READ, whose first and last packets are
 * longer. */
static void small_ones_beside_a_large_one(void **state)
{
	struct urxe_udp *udp = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_path path = rig_path(udp, RIG_A, 4);
	struct rig_flow flow = {.path = &path, .n = 128};
	struct urxe_udp_stats stats;

	for (unsigned i = 0; i < flow.n; i++)
		flow.len[i] = i % 64 == 0 || i % 64 == 63 ? 1024 : 1020;
	assert_int_equal(urxe_udp_send(udp, rig_pull, &flow, 128, false), 128);
	urxe_udp_stats(udp, &stats);
	/* [first, one], [61], [last, first, one], [61], [last]. */
	assert_int_equal(stats.tx_batches, 5);
	assert_int_equal(stats.tx_calls, 3);
	assert_int_equal(stats.tx_pkts, 128);
	urxe_udp_close(udp);
}

/* The frames of a flow take turns between two paths. */
struct turns {
	struct rig_flow *flow;
	struct urxe_path path[2];
	unsigned got[2];
};

static bool pull_in_turns(void *arg, struct urxe_frame *ret_frame)
{
	struct turns *turns = arg;

	turns->flow->path = &turns->path[turns->flow->pulled & 1];
	return rig_pull(turns->flow, ret_frame);
}

static void deliver_in_turns(void *arg, const struct urxe_rx *rx)
{
	struct turns *turns = arg;

	for (int i = 0; i < 2; i++)
		turns->got[i] +=
			!memcmp(&rx->path->dgid, &turns->path[i].dgid, sizeof(rx->path->dgid));
}

static struct turns *turns_of(unsigned n, struct urxe_path first, struct urxe_path second)
{
	static struct rig_flow flow;
	static struct turns turns;

	flow = (struct rig_flow){.n = n};
	for (unsigned i = 0; i < n; i++)
		flow.len[i] = 100;
	turns = (struct turns){.flow = &flow, .path = {first, second}};
	return &turns;
}

/* Sends all, and waits for so many of each path. */
static void run_turns(struct turns *turns, struct urxe_udp *from, struct urxe_udp *to,
		      unsigned first, unsigned second)
{
	assert_int_equal(urxe_udp_send(from, pull_in_turns, turns, 64, false), turns->flow->n);
	assert_false(urxe_udp_unsent(from));
	while (turns->got[0] + turns->got[1] < first + second) {
		rig_wait(to);
		assert_true(urxe_udp_poll(to, deliver_in_turns, turns, 64) > 0);
	}
	assert_int_equal(turns->got[0], first);
	assert_int_equal(turns->got[1], second);
}

/* Of two families they cannot share a call, whatever their pointers, and arrive at their addresses.
 */
static void paths_in_turns(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *to = rig_open(RIG_B, RIG_BUF, RIG_BUF);

	run_turns(turns_of(20, rig_path(from, RIG_A, 4), rig_path(from, RIG_A, 6)), from, to, 10,
		  10);
	assert_int_equal(tx_calls(from), 20);
	urxe_udp_close(from);
	urxe_udp_close(to);
}

/* Every other batch of one call has no way to go. */
static void errors_in_turns(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *to = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	struct urxe_path good = rig_path(from, RIG_A, 4), bad = good;
	struct urxe_udp_stats stats;

	bad.dgid = rig_gid("192.0.2.1"); /* ENETUNREACH */
	log_set_threshold(LOG_ERROR);
	run_turns(turns_of(12, good, bad), from, to, 6, 0);
	log_set_threshold(LOG_WARN);
	urxe_udp_stats(from, &stats);
	assert_int_equal(stats.tx_errors, 6);
	assert_int_equal(stats.tx_pkts, 6);
	urxe_udp_close(from);
	urxe_udp_close(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_silence), cmocka_unit_test(silence_is_cheap),
		cmocka_unit_test(more_to_come),    cmocka_unit_test(small_ones_beside_a_large_one),
		cmocka_unit_test(paths_in_turns),  cmocka_unit_test(errors_in_turns),
	};

	rig_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
