/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of the UDP link, and addresses that change, between two network namespaces. */
#include "udp_rig.h"

#include <errno.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t ifindex(enum rig_host host)
{
	rig_enter(host);
	return if_nametoindex("v0");
}

static bool last_was_looped;

static void deliver(void *arg, const struct urxe_rx *rx)
{
	last_was_looped = rx->looped;
	rig_deliver(arg, rx);
}

static struct urxe_path path;
static struct rig_flow flow;

/* Twenty packets from A: a batch of equal ones, and one that is longer. */
static void send_to(struct urxe_udp *a, const char *to)
{
	path = rig_path(a, RIG_A, to[0] == 'f' ? 6 : 4);
	path.dgid = rig_gid(to);
	flow = (struct rig_flow){.path = &path, .n = 20};
	for (unsigned i = 0; i < flow.n; i++)
		flow.len[i] = 500 + i / 19;
	assert_int_equal(urxe_udp_send(a, rig_pull, &flow, flow.n, false), flow.n);
}

static void expect_all(struct urxe_udp *udp, bool looped)
{
	flow.delivered = 0;
	while (flow.delivered < flow.n) {
		rig_wait(udp);
		while (urxe_udp_poll(udp, deliver, &flow, 64))
			;
	}
	assert_int_equal(flow.mismatch, 0);
	assert_int_equal(last_was_looped, looped);
	assert_false(urxe_udp_pending(udp));
}

static void run_group(const char *group)
{
	struct urxe_udp *a = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *b = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	struct urxe_gid gid = rig_gid(group);

	assert_int_equal(urxe_udp_join(b, &gid, ifindex(RIG_B)), 0);
	send_to(a, group);
	expect_all(b, false);
	assert_false(urxe_udp_pending(a)); /* the sender is not a member */
	assert_int_equal(urxe_udp_join(a, &gid, ifindex(RIG_A)), 0);
	send_to(a, group);
	expect_all(a, true);
	expect_all(b, false);
	urxe_udp_leave(b, &gid);
	send_to(a, group);
	expect_all(a, true);
	assert_false(urxe_udp_pending(b));
	urxe_udp_close(a);
	urxe_udp_close(b);
}

static void test_ipv4(void **state)
{
	run_group("239.4.7.1");
}

static void test_ipv6(void **state)
{
	run_group("ff0e::4791");
}

/* An address that was not there when the endpoint was opened, and one that has gone. */
static void test_other_addresses(void **state)
{
	struct urxe_udp *a = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *b = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	const struct urxe_gid now[] = {rig_gid("10.9.0.77")};
	struct urxe_udp_stats stats;

	rig_enter(RIG_B);
	rig_sh("ip addr add 10.9.0.77/24 dev v0");
	send_to(a, "10.9.0.77");
	rig_wait(b);
	assert_int_equal(urxe_udp_poll(b, deliver, NULL, 64), 0);
	urxe_udp_stats(b, &stats);
	assert_true(stats.rx_foreign > 0);
	while (urxe_udp_poll(b, deliver, NULL, 64))
		;
	assert_int_equal(urxe_udp_set_addrs(b, now, 1), 0);
	send_to(a, "10.9.0.77");
	expect_all(b, false);
	send_to(a, "10.9.0.2");
	rig_wait(b);
	assert_int_equal(urxe_udp_poll(b, deliver, NULL, 64), 0);
	rig_enter(RIG_B);
	rig_sh("ip addr del 10.9.0.77/24 dev v0");
	urxe_udp_close(a);
	urxe_udp_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_other_addresses),
	};

	rig_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
