/* SPDX-License-Identifier: BSD-2-Clause */
/* M11: all that works by RDMA works by TCP. */
#include "mock_rig.h"
#include "xrdma/channel.h"
#include "xrdma/reach.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void calls_in_any_order(void **state)
{
	enum { CALLS = 100 };
	static struct rig_call calls[CALLS];
	struct rig_side *server;
	struct xrdma_channel *ch;
	struct rig r;

	ch = tcp_rig(&r, "max_calls=128");
	server = &r.side[RIG_SERVER];
	memset(calls, 0, sizeof(calls));
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_equal(
			xrdma_call(ch, rig_msg(ch, 100 * i, i), 0, rig_done, &calls[i], NULL), 0);
	rig_until(&r, server->n_msgs == CALLS);
	for (unsigned i = CALLS; i-- > 0;)
		rig_echo(server->ch, server->msgs[i], server);
	for (unsigned i = 0; i < CALLS; i++) {
		rig_until(&r, calls[i].ended);
		assert_int_equal(calls[i].status, 0);
		assert_true(rig_is(calls[i].reply, 100 * i, i));
		xrdma_msg_free(calls[i].reply);
	}
	close_in_order(&r);
}

static void deadlines_and_cancelled_calls(void **state)
{
	struct rig_call late = {0}, cancelled = {0}, refused = {0};
	struct rig_side *server;
	struct xrdma_channel *ch;
	uint64_t id;
	struct rig r;

	ch = tcp_rig(&r, "");
	server = &r.side[RIG_SERVER];
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 10, 1), 2000, rig_done, &late, NULL), 0);
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 10, 2), 0, rig_done, &cancelled, &id), 0);
	assert_int_equal(xrdma_call(ch, rig_msg(ch, 10, 3), 0, rig_done, &refused, NULL), 0);
	rig_until(&r, server->n_msgs == 3);
	assert_int_equal(xrdma_cancel(ch, id), 0);
	rig_until(&r, late.ended && cancelled.ended);
	assert_int_equal(late.status, -ETIMEDOUT);
	assert_int_equal(cancelled.status, -ECANCELED);
	rig_echo(server->ch, server->msgs[0], server);
	rig_echo(server->ch, server->msgs[1], server);
	xrdma_msg_free(server->msgs[2]);
	rig_until(&r, refused.ended);
	assert_int_equal(refused.status, -ENOMSG);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "late_replies"), 2);
	close_in_order(&r);
}

static void messages_of_all_sizes(void **state)
{
	static const size_t lens[] = {0, 1, 64, 65536, 65537, 1 << 20, 16 << 20};
	struct rig r;

	tcp_rig(&r, "small_bytes=65536");
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		rig_send(r.side[i % 2].ch, lens[i], i);
		rig_expect(&r, 1 - i % 2, lens[i], i);
	}
	close_in_order(&r);
}

/* Small messages of one channel do not wait for all of a large one of another, nor of their own. */
static void large_ones_do_not_block_the_way(void **state)
{
	struct xrdma_channel *big, *little;
	struct rig_side *server;
	struct rig r;

	tcp_rig(&r, "");
	big = r.side[RIG_CLIENT].ch;
	little = rig_connect(&r);
	server = &r.side[RIG_SERVER];
	for (unsigned i = 0; i < 4; i++)
		rig_send(big, 32 << 20, i);
	rig_until(&r, rig_stat(server->ctx, "tcp_bytes_received") > 1 << 20);
	rig_send(little, 100, 7);
	rig_until(&r, server->n_msgs == 1);
	assert_true(rig_is(server->msgs[server->n_taken], 100, 7));
	assert_true(rig_stat(server->ctx, "tcp_bytes_received") < 64 << 20);
	xrdma_msg_free(server->msgs[server->n_taken++]);
	for (unsigned i = 0; i < 4; i++)
		rig_expect(&r, RIG_SERVER, 32 << 20, i);
	rig_close(&r);
}

/* A peer that does not look holds up its own sender, and memory stays what it was. */
static void a_peer_that_does_not_look(void **state)
{
	enum { MSGS = 2000 };
	uint64_t memory;
	struct rig r;

	tcp_rig(&r, "window=16 queue_depth=4096");
	memory = rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes");
	r.stalled[RIG_SERVER] = true;
	for (unsigned i = 0; i < MSGS; i++)
		rig_send(r.side[RIG_CLIENT].ch, 100, i);
	rig_poll_for(&r, 50);
	assert_int_equal(xr_window_unacked(&inside(&r, RIG_CLIENT)->win), 16);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 0; i < MSGS; i++)
		rig_expect(&r, RIG_SERVER, 100, i);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes"), memory);
	close_in_order(&r);
}

/* Nor does it hold up others, whatever waits for it: that takes no place at the NIC. */
static void it_does_not_hold_up_others(void **state)
{
	enum { MSGS = 250 /* more than sockets take */ };
	struct rig_side other = {.ctx = NULL};
	struct xrdma_listener *listener;
	struct xrdma_channel *ch;
	char address[32];
	struct rig r;

	tcp_rig(&r, "max_wr=16 small_bytes=65536 window=256");
	other.ctx = rig_context(NULL);
	assert_int_equal(xrdma_listen(other.ctx, "127.0.0.1:0", &rig_handlers, &other, &listener),
			 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", xrdma_listener_port(listener));
	r.stalled[RIG_SERVER] = true;
	for (unsigned i = 0; i < MSGS; i++)
		rig_send(r.side[RIG_CLIENT].ch, 60000, i);
	rig_poll_for(&r, 20);
	assert_true(xr_flow_outstanding(&inside(&r, RIG_CLIENT)->flow) > 16);
	assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, address, &rig_handlers,
				       &r.side[RIG_CLIENT], &ch),
			 0);
	rig_send(ch, 100, 7);
	rig_until(&r, xrdma_poll(other.ctx) >= 0 && other.n_msgs == 1);
	assert_true(rig_is(other.msgs[0], 100, 7));
	xrdma_msg_free(other.msgs[0]);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 0; i < MSGS; i++)
		rig_expect(&r, RIG_SERVER, 60000, i);
	xrdma_close(other.ctx);
	rig_close(&r);
}

static void an_idle_channel_lives_on(void **state)
{
	struct rig r;

	tcp_rig(&r, "keepalive_ms=2");
	rig_until(&r, rig_stat(r.side[0].ctx, "keepalives") >= 5 &&
			      rig_stat(r.side[1].ctx, "keepalives") >= 5);
	assert_int_equal(r.side[0].n_broken, 0);
	close_in_order(&r);
}

/* An event loop sleeps, and is woken by what comes. */
static void it_wakes_who_sleeps(void **state)
{
	struct rig r;

	tcp_rig(&r, "");
	for (unsigned i = 0; i < 50; i++) {
		rig_send(r.side[RIG_CLIENT].ch, 200000 * (i % 2), i);
		for (uint64_t end = rig_now_ms() + rig_patience_ms();
		     r.side[RIG_SERVER].n_msgs == r.side[RIG_SERVER].n_taken;) {
			assert_true(rig_now_ms() < end);
			for (unsigned side = 0; side < RIG_SIDES; side++)
				assert_int_equal(xrdma_run(r.side[side].ctx, 1), 0);
		}
		rig_expect(&r, RIG_SERVER, 200000 * (i % 2), i);
	}
	assert_true(rig_stat(r.side[RIG_SERVER].ctx, "sleeps") > 10);
	close_in_order(&r);
}

/* ---- regions ---- */

enum { SLOT = 65536 * 3, N_SLOTS = 8 };

static struct xrdma_region *exported(struct rig *r, unsigned rights)
{
	return rig_export(r, SLOT, N_SLOTS, rights);
}

static void m11_regions_are_read_and_written(void **state)
{
	static struct rig_call calls[2 * N_SLOTS];
	struct xrdma_remote_region *remote;
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, QUICK);
	ch = rig_connect(&r);
	region = exported(&r, XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE);
	remote = r.side[RIG_CLIENT].remote;
	for (unsigned round = 0; round < 6; round++) {
		memset(calls, 0, sizeof(calls));
		for (unsigned i = 0; i < N_SLOTS; i++) {
			assert_int_equal(xrdma_put(ch, remote, i, 0, rig_msg(ch, SLOT, round + i),
						   rig_done, &calls[i]),
					 0);
		}
		if (round == 1) /* in the middle of them */
			to_tcp(&r);
		if (round == 4)
			to_rdma(&r);
		for (unsigned i = 0; i < N_SLOTS; i++) {
			rig_until(&r, calls[i].ended);
			assert_int_equal(calls[i].status, 0);
			assert_memory_equal(xrdma_msg_data(calls[i].reply),
					    xrdma_region_slot(region, i), SLOT);
			xrdma_msg_free(calls[i].reply);
			assert_int_equal(xrdma_get(ch, remote, i, 0, rig_msg(ch, SLOT, 99),
						   rig_done, &calls[N_SLOTS + i]),
					 0);
		}
		for (unsigned i = 0; i < N_SLOTS; i++) {
			struct rig_call *c = &calls[N_SLOTS + i];

			rig_until(&r, c->ended);
			assert_int_equal(c->status, 0);
			assert_true(rig_is(c->reply, SLOT, round + i));
			xrdma_msg_free(c->reply);
		}
		assert_int_equal(xrdma_send_slot(ch, remote, 3, 100), 0);
		rig_until(&r, r.side[RIG_SERVER].n_msgs);
		assert_int_equal(xrdma_msg_slot(r.side[RIG_SERVER].msgs[0]), 3);
		rig_expect(&r, RIG_SERVER, 100, round + 3);
	}
	close_in_order(&r);
}

static int try_it(struct rig *r, bool write)
{
	struct xrdma_channel *ch = r->side[RIG_CLIENT].ch;
	struct rig_call c = {0};
	unsigned n = r->side[RIG_CLIENT].n_recovered;

	assert_int_equal((write ? xrdma_put : xrdma_get)(ch, r->side[RIG_CLIENT].remote, 0, 0,
							 rig_msg(ch, SLOT, 1), rig_done, &c),
			 0);
	rig_until(r, c.ended);
	xrdma_msg_free(c.reply);
	if (c.status)
		rig_until(r, r->side[RIG_CLIENT].n_recovered == n + 1 && both(r, XRDMA_TCP));
	rig_until(r, !inside(r, 0)->rec.keys_due && !inside(r, 1)->rec.keys_due);
	return c.status;
}

/* What no peer of ours would ask for. */
static void reaches_nothing_but(const struct xrdma_channel *ch, const struct xr_key *good)
{
	const uint64_t bytes = (uint64_t)SLOT * N_SLOTS;
	struct xr_key key = *good;

	assert_non_null(xr_reach(ch, &key, bytes - 1, 1, XRDMA_REMOTE_WRITE));
	assert_null(xr_reach(ch, &key, bytes, 1, XRDMA_REMOTE_WRITE));
	assert_null(xr_reach(ch, &key, UINT64_MAX, 2, XRDMA_REMOTE_WRITE));
	assert_null(xr_reach(ch, &key, 0, UINT32_MAX, XRDMA_REMOTE_WRITE));
	key.epoch--;
	assert_null(xr_reach(ch, &key, 0, 1, XRDMA_REMOTE_WRITE));
}

static void m11_rights_bounds_and_epochs_hold(void **state)
{
	struct xrdma_region *region;
	struct xr_key *key;
	struct rig r;

	tcp_rig(&r, "backoff_min_ms=1");
	exported(&r, XRDMA_REMOTE_READ);
	assert_int_equal(try_it(&r, false), 0);
	assert_int_equal(try_it(&r, true), -EACCES);
	region = exported(&r, XRDMA_REMOTE_WRITE);
	assert_int_equal(try_it(&r, true), 0);
	assert_true(memcmp(xrdma_region_slot(region, 0), xrdma_region_slot(region, 1), SLOT) != 0);
	assert_int_equal(try_it(&r, false), -EACCES);
	key = &r.side[RIG_CLIENT].remote->key;
	assert_int_equal(try_it(&r, true), 0);
	key->addr += (uint64_t)(N_SLOTS - 1) * SLOT + 1; /* the last byte is beyond the end */
	assert_int_equal(try_it(&r, true), -EACCES);
	assert_int_equal(try_it(&r, true), 0); /* with the key of the new epoch */
	reaches_nothing_but(inside(&r, RIG_SERVER), key);
	key->rkey ^= 1;
	assert_int_equal(try_it(&r, true), -EACCES);
	close_in_order(&r);
}

/* K4: freed, it stays within reach until the peer knows; revoked, it is out of reach at once. */
static void keys_that_are_gone(void **state)
{
	struct rig_call c = {0};
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct rig r;

	ch = tcp_rig(&r, "backoff_min_ms=1");
	region = exported(&r, XRDMA_REMOTE_WRITE);
	rig_until(&r, region->uses == 0);
	assert_int_equal(xrdma_region_free(region), 0);
	assert_int_equal(try_it(&r, true), 0); /* the client was not polled since */
	rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "regions_lingering") == 0);
	m = rig_msg(ch, SLOT, 1);
	assert_int_equal(xrdma_put(ch, r.side[RIG_CLIENT].remote, 0, 0, m, rig_done, &c), -ESTALE);
	xrdma_msg_free(m);

	region = exported(&r, XRDMA_REMOTE_WRITE);
	assert_int_equal(xrdma_region_revoke(region, NULL), 0);
	assert_int_equal(region->keys, 1);
	assert_int_equal(try_it(&r, true), -EACCES);
	assert_int_equal(region->keys, 0);
	close_in_order(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_in_any_order),
		cmocka_unit_test(deadlines_and_cancelled_calls),
		cmocka_unit_test(messages_of_all_sizes),
		cmocka_unit_test(large_ones_do_not_block_the_way),
		cmocka_unit_test(a_peer_that_does_not_look),
		cmocka_unit_test(it_does_not_hold_up_others),
		cmocka_unit_test(an_idle_channel_lives_on),
		cmocka_unit_test(it_wakes_who_sleeps),
		cmocka_unit_test(m11_regions_are_read_and_written),
		cmocka_unit_test(m11_rights_bounds_and_epochs_hold),
		cmocka_unit_test(keys_that_are_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
