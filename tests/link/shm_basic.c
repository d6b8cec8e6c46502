/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks, peers that come and go, forwarding, budgets, fairness, sleep: one process, no clock. */
#include "base/clock.h"
#include "link/ring.h"
#include "shm_rig.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static struct urxe_shm_stats stats_of(const struct urxe_shm *shm)
{
	struct urxe_shm_stats stats;

	urxe_shm_stats(shm, &stats);
	return stats;
}

static bool readable(const struct urxe_shm *shm)
{
	struct pollfd pfd = {.fd = urxe_shm_fd(shm), .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void test_claims_are_exclusive(void **state)
{
	uint32_t a, b, more;
	struct urxe_shm *x = shm_endpoint(42, &a), *y = shm_endpoint(42, &b);

	assert_int_equal(urxe_shm_claim(x, 1, 0, &more), 0);
	assert_true(a != b && a != more && b != more);
	assert_int_equal(a % 1024, 0);
	assert_in_range(a, 1024, 0xffffff);
	assert_true(urxe_shm_block_exists(x, a + 5));
	assert_true(urxe_shm_block_exists(x, b + 5));
	assert_true(urxe_shm_block_exists(y, more + 1023));
	urxe_shm_close(y);
	assert_false(urxe_shm_block_exists(x, b + 5));
	urxe_shm_close(x);
}

static void test_block_0_belongs_to_nobody(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);

	assert_false(urxe_shm_block_exists(shm, 1));
	urxe_shm_close(shm);
}

static void test_all_blocks_taken(void **state)
{
	struct rlimit old, all = {20000, 20000};
	struct urxe_shm *shm, *late;
	uint32_t base;
	unsigned n = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	if (!shm_isolate() || setrlimit(RLIMIT_NOFILE, &all))
		skip();
	assert_int_equal(urxe_shm_open(12345, &shm), 0);
	while (urxe_shm_claim(shm, 1, 0, &base) == 0) {
		assert_in_range(base, 1024, 0xfffc00);
		n++;
	}
	assert_int_equal(n, 16383);
	assert_int_equal(urxe_shm_open(1, &late), 0);
	assert_int_equal(urxe_shm_claim(late, 1, 0, &base), -ENOSPC);
	urxe_shm_close(shm);
	assert_int_equal(urxe_shm_claim(late, 1, 0, &base), 0);
	urxe_shm_close(late);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void test_out_of_descriptors(void **state)
{
	uint32_t base;
	struct urxe_shm *a = shm_endpoint(1, &base), *b;
	struct rlimit old, none;
	int first;

	assert_int_equal(urxe_shm_open(2, &b), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(shm_send_one(urxe_shm_peer(b, base), 0, 8), 1);
	first = dup(0);
	assert_true(first > 0);
	close(first);
	none = (struct rlimit){(rlim_t)first, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	shm_settle(a); /* ends only if the connection does not stay in the queue */
	assert_int_equal(urxe_shm_claim(a, 1, 0, &(uint32_t){0}), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(shm_drain(a), 0);
	shm_settle(b); /* was refused: connects anew */
	assert_int_equal(shm_send_one(urxe_shm_peer(b, base), NSEC_PER_SEC, 8), 1);
	shm_settle(a);
	assert_int_equal(shm_drain(a), 1);
	urxe_shm_close(a);
	urxe_shm_close(b);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void test_peer_user(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, base);

	assert_null(urxe_shm_peer_user(peer));
	urxe_shm_peer_set_user(peer, &base);
	assert_ptr_equal(urxe_shm_peer(shm, base + 1000), peer);
	assert_ptr_equal(urxe_shm_peer_user(peer), &base);
	urxe_shm_close(shm);
}

static void test_nobody_there(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base), *other;
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, base + 1024); /* the next claim's */

	assert_int_equal(shm_send_one(peer, 0, 8), 1);
	assert_int_equal(stats_of(shm).tx_no_peer, 1);
	assert_int_equal(stats_of(shm).tx_pkts, 0);
	other = shm_endpoint(1, &(uint32_t){0});
	assert_int_equal(shm_send_one(peer, 0, 8), 1); /* too early to try again */
	assert_int_equal(stats_of(shm).tx_no_peer, 2);
	assert_int_equal(shm_send_one(peer, NSEC_PER_MSEC, 8), 1);
	assert_int_equal(stats_of(shm).tx_pkts, 1);
	shm_settle(other);
	assert_int_equal(shm_drain(other), 1);
	urxe_shm_close(other);
	urxe_shm_close(shm);
}

static void test_back_off(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, base + 1024);
	unsigned early = 0, late = 0;
	uint64_t ms;

	/* An owner that hangs up on every connection: each attempt costs one packet sent. */
	for (ms = 0; ms < 1000; ms++) {
		struct urxe_shm *other = shm_endpoint(1, &(uint32_t){0});
		uint64_t before = stats_of(shm).tx_pkts;

		shm_send_one(peer, ms * NSEC_PER_MSEC, 8);
		*(ms < 100 ? &early : &late) += (unsigned)(stats_of(shm).tx_pkts - before);
		urxe_shm_close(other);
		shm_settle(shm);
	}
	assert_in_range(early, 5, 8); /* at 0, 1, 3, 7, 15, 31, 63 ms */
	assert_in_range(late, 8, 10); /* every 100 ms */
	urxe_shm_close(shm);
}

static void test_peer_closes(void **state)
{
	uint32_t base;
	struct urxe_shm *a = shm_endpoint(1, &base), *b = shm_endpoint(2, &(uint32_t){0});
	struct urxe_shm_peer *peer = urxe_shm_peer(b, base);
	unsigned fds = shm_open_fds();

	for (uint64_t i = 1; i <= 5; i++) {
		assert_int_equal(shm_send_one(peer, i * NSEC_PER_SEC, 8), 1);
		assert_int_equal(shm_send_one(peer, i * NSEC_PER_SEC, 8), 1);
		shm_settle(a);
		urxe_shm_close(a);
		assert_true(readable(b));
		assert_true(urxe_shm_service(b));
		a = shm_endpoint(1, &(uint32_t){0});
		assert_int_equal(shm_open_fds(), fds);
	}
	assert_int_equal(stats_of(b).tx_pkts, 10);
	urxe_shm_close(a);
	urxe_shm_close(b);
}

/* ---- data ------------------------------------------------------------------------------------ */

struct last {
	unsigned n;
	uint32_t len;
	bool ce;
	bool has_path;
	struct urxe_path path;
	uint8_t data[64];
};

static void keep_last(void *arg, const struct urxe_rx *rx)
{
	struct last *last = arg;

	last->n++;
	last->len = rx->len;
	last->ce = rx->ce;
	last->has_path = rx->path;
	if (rx->path)
		last->path = *rx->path;
	memcpy(last->data, rx->data, rx->len < 64 ? rx->len : 64);
}

static void test_forward(void **state)
{
	static uint8_t packet[RING_PACKET_MAX];
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, base);
	struct urxe_path path;
	struct urxe_rx rx = {.data = packet, .len = 60, .path = &path};
	struct last last = {0};

	shm_pattern(3, packet, sizeof(packet));
	shm_pattern_path(3, &path);
	path.tclass = 2;
	path.sport = 0xc001;
	for (unsigned ce = 0; ce < 2; ce++) {
		rx.ce = ce;
		urxe_shm_forward(peer, 0, &rx);
		assert_int_equal(urxe_shm_poll(shm, keep_last, &last, 1), 1);
		assert_int_equal(last.len, 60);
		assert_memory_equal(last.data, packet, 60);
		assert_int_equal(last.ce, ce);
		assert_true(last.has_path);
		assert_memory_equal(&last.path.sgid, &path.sgid, 16);
		assert_memory_equal(&last.path.dgid, &path.dgid, 16);
		assert_int_equal(last.path.tclass, ce ? 3 : 2);
		assert_int_equal(last.path.sport, 0);
	}
	rx.len = RING_PACKET_MAX - GRH_LEN;
	urxe_shm_forward(peer, 0, &rx);
	rx.len++;
	urxe_shm_forward(peer, 0, &rx);
	assert_int_equal(stats_of(shm).fwd_dropped, 1);
	assert_int_equal(shm_drain(shm), 1);
	rx.len = 60;
	for (int i = 0; i < 2 * RING_CELLS; i++)
		urxe_shm_forward(peer, 0, &rx);
	assert_in_range(stats_of(shm).fwd_dropped, RING_CELLS, RING_CELLS + RING_CELLS / 4);
	assert_int_equal(shm_drain(shm) + stats_of(shm).fwd_dropped - 1, 2 * RING_CELLS);
	/* What was dropped is not waiting: there is nothing that keeps us from sleeping. */
	assert_true(urxe_shm_arm(shm));
	urxe_shm_disarm(shm);
	urxe_shm_close(shm);
}

static void test_full_ring_holds_back(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, base);
	unsigned n = 0;

	while (shm_send_one(peer, 0, 8))
		n++;
	assert_int_equal(n, RING_CELLS);
	assert_int_equal(shm_drain(shm), RING_CELLS);
	for (n = 0; shm_send_one(peer, 0, URXE_SHM_MTU);)
		n++;
	assert_in_range(n, RING_BULK / RING_PACKET_MAX / 2, RING_BULK / URXE_SHM_MTU);
	assert_int_equal(shm_send_one(peer, 0, 8), 0);
	assert_int_equal(shm_drain(shm), n);
	assert_int_equal(stats_of(shm).tx_no_peer, 0);
	urxe_shm_close(shm);
}

static void test_fairness(void **state)
{
	enum { FLOODERS = 3 };
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base), *from[FLOODERS + 1];
	struct last last = {0};
	unsigned n = 0;

	for (int i = 0; i <= FLOODERS; i++)
		assert_int_equal(urxe_shm_open(9, &from[i]), 0);
	for (int i = 0; i < FLOODERS; i++) {
		while (shm_send_one(urxe_shm_peer(from[i], base), 0, 8))
			n++;
	}
	shm_settle(shm);
	assert_int_equal(shm_send_one(urxe_shm_peer(from[FLOODERS], base), 0, 100), 1);
	shm_settle(shm);
	/* The one packet of 112 bytes is taken long before the floods are over. */
	for (unsigned taken = 0; last.len != 112; taken++) {
		assert_in_range(taken, 0, 100);
		assert_int_equal(urxe_shm_poll(shm, keep_last, &last, 1), 1);
	}
	assert_int_equal(last.n + shm_drain(shm), n + 1);
	for (int i = 0; i <= FLOODERS; i++)
		urxe_shm_close(from[i]);
	urxe_shm_close(shm);
}

/* ---- sleep ----------------------------------------------------------------------------------- */

static void sleep_and_wake(struct urxe_shm *from, struct urxe_shm *to, uint32_t qpn)
{
	struct urxe_shm_peer *peer = urxe_shm_peer(from, qpn);
	uint64_t bells;

	shm_send_one(peer, 0, 8);
	shm_settle(to);
	assert_false(urxe_shm_arm(to)); /* there is something */
	assert_int_equal(shm_drain(to), 1);
	for (int i = 0; i < 3; i++) {
		assert_true(urxe_shm_arm(to));
		assert_true(urxe_shm_arm(to));
		assert_false(readable(to));
		bells = stats_of(from).doorbells;
		shm_send_one(peer, 0, 8);
		shm_send_one(peer, 0, 8);
		assert_int_equal(stats_of(from).doorbells, bells + 1); /* once per sleep */
		assert_true(readable(to));
		shm_settle(to);
		assert_int_equal(shm_drain(to), 2);
	}
	urxe_shm_disarm(to);
	urxe_shm_disarm(to);
	bells = stats_of(from).doorbells;
	shm_send_one(peer, 0, 8);
	assert_int_equal(stats_of(from).doorbells, bells);
	assert_int_equal(shm_drain(to), 1);
}

/* A full ring: whoever waits for room is told once there is, not before. */
static void wait_for_room(struct urxe_shm *from, struct urxe_shm *to, uint32_t qpn, uint32_t len)
{
	struct urxe_shm_peer *peer = urxe_shm_peer(from, qpn);

	while (shm_send_one(peer, 0, len))
		;
	shm_settle(to);
	if (from != to)
		assert_true(urxe_shm_arm(from));
	else
		assert_false(urxe_shm_arm(from));
	assert_false(readable(from));
	shm_drain(to);
	assert_true(readable(from));
	shm_settle(from);
	assert_int_equal(shm_send_one(peer, 0, len), 1);
	urxe_shm_disarm(from);
	shm_drain(to);
}

static void test_sleep_loopback(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);

	sleep_and_wake(shm, shm, base);
	wait_for_room(shm, shm, base, 8);
	wait_for_room(shm, shm, base, URXE_SHM_MTU);
	urxe_shm_close(shm);
}

static void test_sleep_two_endpoints(void **state)
{
	uint32_t base;
	struct urxe_shm *a = shm_endpoint(1, &base), *b = shm_endpoint(1, &(uint32_t){0});

	sleep_and_wake(b, a, base);
	for (uint32_t len = 8; len < URXE_SHM_MTU; len += 500)
		wait_for_room(b, a, base, len);
	urxe_shm_close(a);
	urxe_shm_close(b);
}

static void test_arm_covers_later_rings(void **state)
{
	uint32_t base;
	struct urxe_shm *a = shm_endpoint(1, &base), *b = shm_endpoint(1, &(uint32_t){0});

	assert_true(urxe_shm_arm(a));
	assert_true(urxe_shm_block_exists(b, base));
	assert_true(readable(a));
	assert_true(urxe_shm_service(a));
	shm_settle(a);
	assert_int_equal(shm_send_one(urxe_shm_peer(b, base), 0, 8), 1);
	assert_true(readable(a));
	assert_int_equal(shm_drain(a), 1);
	urxe_shm_close(a);
	urxe_shm_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claims_are_exclusive),
		cmocka_unit_test(test_block_0_belongs_to_nobody),
		cmocka_unit_test(test_out_of_descriptors),
		cmocka_unit_test(test_peer_user),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_back_off),
		cmocka_unit_test(test_peer_closes),
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_full_ring_holds_back),
		cmocka_unit_test(test_fairness),
		cmocka_unit_test(test_sleep_loopback),
		cmocka_unit_test(test_sleep_two_endpoints),
		cmocka_unit_test(test_arm_covers_later_rings),
		cmocka_unit_test(test_all_blocks_taken), /* last: changes the namespace */
	};

	shm_isolate(); /* some tests know which block the next claim gets */
	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
