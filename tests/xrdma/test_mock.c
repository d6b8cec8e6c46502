/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * M11: TCP takes over while RDMA does not work, and gives back: every message once and in order.
 */
#include "base/rng.h"
#include "mock_rig.h"
#include "xrdma/channel.h"

#include <errno.h>
#include <stdlib.h>

static void m11_there_and_back(void **state)
{
	int reason = 1;
	struct rig r;

	rig_open(&r, QUICK);
	rig_connect(&r);
	assert_int_equal(xrdma_channel_transport(inside(&r, 0), &reason), XRDMA_RDMA);
	assert_int_equal(reason, 0);
	for (unsigned round = 1; round <= 3; round++) {
		to_tcp(&r);
		assert_int_equal(xrdma_channel_transport(inside(&r, 0), &reason), XRDMA_TCP);
		assert_int_equal(reason, -ETIMEDOUT);
		rig_send(r.side[RIG_CLIENT].ch, 100, round);
		rig_expect(&r, RIG_SERVER, 100, round);
		rig_send(r.side[RIG_SERVER].ch, 1000000, round);
		rig_expect(&r, RIG_CLIENT, 1000000, round);
		rig_until(&r, rig_stat(r.side[RIG_CLIENT].ctx, "mock_probes_failed") >= 2 * round);
		to_rdma(&r);
		for (unsigned i = 0; i < RIG_SIDES; i++) {
			const struct rig_side *side = &r.side[i];

			/* Back to RDMA nothing breaks. */
			assert_int_equal(side->n_broken, round);
			assert_int_equal(side->n_recovered, round);
			assert_int_equal(side->n_mocked, round);
			assert_int_equal(side->n_unmocked, round);
			assert_int_equal(side->why_mocked, -ETIMEDOUT);
			assert_int_equal(rig_stat(side->ctx, "mocks"), round);
			assert_int_equal(rig_stat(side->ctx, "unmocks"), round);
			assert_int_equal(rig_stat(side->ctx, "tcp_channels"), 0);
			assert_true(rig_stat(side->ctx, "tcp_bytes_sent") > 0);
		}
		rig_send(r.side[RIG_CLIENT].ch, 100, round);
		rig_expect(&r, RIG_SERVER, 100, round);
	}
	close_in_order(&r);
}

static void m11_slow_to_change_its_mind(void **state)
{
	uint64_t probes;
	struct rig r;

	rig_open(&r, QUICK "mock_after=4 "
			   "mock_back_after=5");
	rig_connect(&r);
	set_both(&r, "filter", DEAD ":n=3"); /* of the client: each side has a filter of its own */
	break_qp(&r, RIG_CLIENT);
	rig_until(&r, r.side[0].n_recovered == 1 && r.side[1].n_recovered == 1);
	assert_int_equal(transport(&r, RIG_CLIENT), XRDMA_RDMA);
	assert_int_equal(r.side[RIG_CLIENT].n_mocked, 0);
	to_tcp(&r);
	set_both(&r, "filter", "");
	probes = rig_stat(r.side[RIG_CLIENT].ctx, "mock_probes");
	rig_until(&r, both(&r, XRDMA_RDMA));
	assert_in_range(rig_stat(r.side[RIG_CLIENT].ctx, "mock_probes") - probes, 5, 6);
	close_in_order(&r);
}

/* Waits between attempts may be shorter than a peer takes to answer one. */
static void m11_a_peer_that_takes_its_time(void **state)
{
	uint64_t redials;
	struct rig r;

	rig_open(&r, QUICK "backoff_max_ms=4 mock_back_after=3");
	rig_connect(&r);
	to_tcp(&r);
	redials = rig_stat(r.side[RIG_CLIENT].ctx, "redials");
	set_both(&r, "filter", "");
	rig_until(&r, inside(&r, RIG_CLIENT)->mock.good > 0);
	r.stalled[RIG_SERVER] = true;
	rig_until(&r, inside(&r, RIG_CLIENT)->rec.sent);
	rig_poll_for(&r, 100);
	r.stalled[RIG_SERVER] = false;
	rig_until(&r, both(&r, XRDMA_RDMA));
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "redials"), redials);
	close_in_order(&r);
}

/* ---- under load ---- */

enum { ROUNDS = 60 };

/* What happens to the paths meanwhile. */
static void disturb(struct rig *r, struct rng *rng)
{
	switch (rng_below(rng, 6)) {
	case 0:
	case 1:
		set_both(r, "filter", DEAD);
		break_qp(r, rng_below(rng, RIG_SIDES));
		break;
	case 2:
	case 3:
		set_both(r, "filter", "");
		break;
	case 4:
		cut_tcp(r, rng_below(rng, RIG_SIDES));
		break;
	default:
		break_qp(r, rng_below(rng, RIG_SIDES));
	}
}

static void load(const char *options, uint64_t seed)
{
	struct rig_load traffic;
	struct rng rng = {seed};
	struct rig r;

	rig_open(&r, options);
	rig_connect(&r);
	rig_load_begin(&r, &traffic);
	for (unsigned round = 0; round < ROUNDS; round++) {
		rig_load_round(&r, &traffic, rng_below(&rng, 300));
		if (rng_below(&rng, 4) == 0)
			disturb(&r, &rng);
		if (round % 20 == 19) { /* so that each seed goes both ways */
			to_tcp(&r);
			to_rdma(&r);
		}
	}
	rig_until(&r, rig_load_done(&traffic));
	to_rdma(&r);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(r.side[i].n_broken, r.side[i].n_recovered);
		assert_int_equal(r.side[i].n_mocked, r.side[i].n_unmocked);
		assert_true(r.side[i].n_mocked >= ROUNDS / 20);
		assert_int_equal(rig_stat(r.side[i].ctx, "wc_rnr"), 0);
	}
	close_in_order(&r);
}

/* MOCK_SEEDS of the environment: so many. */
static void loads(const char *options)
{
	const char *n = getenv("MOCK_SEEDS");
	unsigned long seeds = n ? strtoul(n, NULL, 10) : 1;

	for (uint64_t seed = 1; seed <= seeds; seed++)
		load(options, seed);
}

static void m11_nothing_is_lost_or_doubled(void **state)
{
	loads(QUICK "backoff_max_ms=4 srq=off");
}

static void nor_with_shared_receives(void **state)
{
	loads(QUICK "backoff_max_ms=4 srq=on window=8");
}

static void nor_with_tls(void **state)
{
	loads(QUICK "backoff_max_ms=4 tls=on tls_psk=000102030405060708090a0b0c0d0e0f");
}

/* ---- set-up ---- */

static void m11_a_set_up_that_rdma_fails_is_done_by_tcp(void **state)
{
	struct rig r;

	rig_open(&r, QUICK "filter=" DEAD);
	rig_connect(&r);
	assert_true(both(&r, XRDMA_TCP));
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(r.side[i].n_connected, 1);
		assert_int_equal(r.side[i].n_broken + r.side[i].n_recovered, 0);
		assert_int_equal(r.side[i].n_mocked, 1);
		assert_int_equal(r.side[i].why_mocked, -ETIMEDOUT);
		assert_int_equal(rig_stat(r.side[i].ctx, "channels_opened"), 1);
	}
	rig_send(r.side[RIG_CLIENT].ch, 100, 1);
	rig_expect(&r, RIG_SERVER, 100, 1);
	to_rdma(&r);
	rig_send(r.side[RIG_SERVER].ch, 5000, 2);
	rig_expect(&r, RIG_CLIENT, 5000, 2);
	close_in_order(&r);
}

static void what_was_sent_before_goes_by_either(void **state)
{
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, QUICK "filter=" DEAD);
	assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, r.address, &rig_handlers,
				       &r.side[RIG_CLIENT], &ch),
			 0);
	for (unsigned i = 0; i < 200; i++)
		rig_send(ch, 5000 * (i % 3), i);
	for (unsigned i = 0; i < 200; i++)
		rig_expect(&r, RIG_SERVER, 5000 * (i % 3), i);
	close_in_order(&r);
}

static void it_may_be_closed_in_the_middle(void **state)
{
	for (unsigned polls = 0; polls < 3000; polls += 997) {
		struct xrdma_channel *ch;
		struct rig r;

		rig_open(&r, QUICK "filter=" DEAD);
		assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, r.address, &rig_handlers,
					       &r.side[RIG_CLIENT], &ch),
				 0);
		for (unsigned i = 0; i < polls; i++)
			rig_poll(&r);
		xrdma_channel_close(ch);
		rig_until(&r, r.side[RIG_CLIENT].n_closed);
		rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "channels") == 0);
		assert_int_equal(r.side[RIG_SERVER].n_closed, r.side[RIG_SERVER].n_connected);
		rig_close(&r);
	}
}

static void m11_by_option_it_is_tcp_at_once(void **state)
{
	static const char *const options[][2] = {
		{"transport=force-tcp", "transport=force-tcp"},
		{"transport=force-tcp mock_probe_ms=1", "mock_probe_ms=1"},
		{"mock_probe_ms=1", "transport=force-tcp mock_probe_ms=1"},
	};

	for (unsigned i = 0; i < 3; i++) {
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		rig_connect(&r);
		assert_true(both(&r, XRDMA_TCP));
		assert_int_equal(r.side[0].why_mocked, 0);
		assert_int_equal(r.side[1].why_mocked, 0);
		rig_send(r.side[RIG_CLIENT].ch, 100, 1);
		rig_expect(&r, RIG_SERVER, 100, 1);
		rig_poll_for(&r, 20);
		assert_true(both(&r, XRDMA_TCP));
		assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "mock_probes"), 0);
		close_in_order(&r);
	}
}

static void m11_by_option_it_is_never_tcp(void **state)
{
	static const char *const options[][2] = {
		{QUICK "recovery_ms=300 transport=force-rdma", QUICK "recovery_ms=300"},
		{QUICK "recovery_ms=300", QUICK "recovery_ms=300 transport=force-rdma"},
	};

	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		rig_connect(&r);
		set_both(&r, "filter", DEAD);
		break_qp(&r, RIG_CLIENT);
		rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
		assert_int_equal(r.side[0].n_mocked + r.side[1].n_mocked, 0);
		assert_int_equal(r.side[RIG_CLIENT].n_broken, 1);
		rig_close(&r);
	}
}

static void options_that_exclude_each_other_are_refused(void **state)
{
	static const char *const options[][2] = {
		{"transport=force-rdma", "transport=force-tcp"},
		{"transport=force-tcp", "transport=force-rdma"},
	};

	for (unsigned i = 0; i < 2; i++) {
		struct xrdma_channel *ch;
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, r.address, &rig_handlers,
					       &r.side[RIG_CLIENT], &ch),
				 0);
		rig_until(&r, r.side[RIG_CLIENT].n_closed);
		assert_int_equal(r.side[RIG_CLIENT].status, -EPROTONOSUPPORT);
		rig_close(&r);
	}
}

/* Device addresses between which no packet goes. */
static void m33_no_path_at_all_is_tcp_at_once(void **state)
{
	struct rig r;

	rig_open_each(&r, "device=auto gid=::1", "device=auto gid=127.0.0.1");
	rig_connect(&r);
	assert_true(both(&r, XRDMA_TCP));
	assert_int_equal(r.side[0].why_mocked, -EHOSTUNREACH);
	assert_int_equal(r.side[1].why_mocked, -EHOSTUNREACH);
	rig_send(r.side[RIG_CLIENT].ch, 100, 1);
	rig_expect(&r, RIG_SERVER, 100, 1);
	close_in_order(&r);
}

/* ---- what may go wrong by TCP ---- */

static void a_connection_that_ends_is_dialed_again(void **state)
{
	struct rig r;

	rig_open(&r, QUICK);
	rig_connect(&r);
	to_tcp(&r);
	for (unsigned n = 2; n < 5; n++) {
		for (unsigned i = 0; i < 100; i++)
			rig_send(r.side[RIG_CLIENT].ch, 3000 * (i % 4), i);
		cut_tcp(&r, n % 2);
		for (unsigned i = 0; i < 100; i++)
			rig_expect(&r, RIG_SERVER, 3000 * (i % 4), i);
		rig_until(&r, r.side[0].n_recovered == n && r.side[1].n_recovered == n);
		assert_true(both(&r, XRDMA_TCP));
	}
	assert_int_equal(r.side[0].n_mocked, 1);
	to_rdma(&r);
	close_in_order(&r);
}

/* Probes are good and what follows is not: messages go by TCP again, and the break is told. */
static void a_false_dawn(void **state)
{
	struct rig_side *client;
	struct rig r;

	rig_open(&r, QUICK "mock_back_after=2");
	rig_connect(&r);
	client = &r.side[RIG_CLIENT];
	to_tcp(&r);
	set_both(&r, "filter", DEAD ":after=2");
	for (unsigned i = 0; i < 50; i++)
		rig_send(client->ch, 5000, i);
	rig_until(&r, client->n_broken == 2);
	for (unsigned i = 0; i < 50; i++)
		rig_expect(&r, RIG_SERVER, 5000, i);
	rig_until(&r, r.side[0].n_recovered == 2 && both(&r, XRDMA_TCP));
	assert_int_equal(client->n_mocked, 1);
	assert_int_equal(client->n_unmocked, 0);
	to_rdma(&r);
	close_in_order(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m11_there_and_back),
		cmocka_unit_test(m11_slow_to_change_its_mind),
		cmocka_unit_test(m11_a_peer_that_takes_its_time),
		cmocka_unit_test(m11_nothing_is_lost_or_doubled),
		cmocka_unit_test(nor_with_shared_receives),
		cmocka_unit_test(nor_with_tls),
		cmocka_unit_test(m11_a_set_up_that_rdma_fails_is_done_by_tcp),
		cmocka_unit_test(what_was_sent_before_goes_by_either),
		cmocka_unit_test(it_may_be_closed_in_the_middle),
		cmocka_unit_test(m11_by_option_it_is_tcp_at_once),
		cmocka_unit_test(m11_by_option_it_is_never_tcp),
		cmocka_unit_test(options_that_exclude_each_other_are_refused),
		cmocka_unit_test(m33_no_path_at_all_is_tcp_at_once),
		cmocka_unit_test(a_connection_that_ends_is_dialed_again),
		cmocka_unit_test(a_false_dawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
