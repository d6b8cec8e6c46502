/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * K4, K5, K6: channels that break and become whole again: every message once and in order, every
 * call ended once, every region under a new key, and nothing left behind.
 */
#include "breaks.h"
#include "test_tls_certs.h"

#include "base/rng.h"
#include "xrdma/channel.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool recovered(const struct rig *r, unsigned n)
{
	return r->side[0].n_recovered == n && r->side[1].n_recovered == n;
}

static void an_idle_channel_is_told_of_it_once(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	break_qp(&r, RIG_CLIENT);
	rig_until(&r, recovered(&r, 1));
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(r.side[i].n_broken, 1);
		assert_int_equal(r.side[i].n_connected, 1);
		assert_int_equal(inside(&r, i)->bounds.epoch, 2);
		assert_int_equal(xrdma_channel_epoch(r.side[i].ch), 2);
		assert_int_equal(rig_stat(r.side[i].ctx, "recoveries"), 1);
	}
	rig_send(r.side[RIG_CLIENT].ch, 100, 1);
	rig_expect(&r, RIG_SERVER, 100, 1);
	rig_send(r.side[RIG_SERVER].ch, 1000000, 2);
	rig_expect(&r, RIG_CLIENT, 1000000, 2);
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
	assert_int_equal(r.side[0].status, 0);
	assert_int_equal(r.side[1].status, 0);
	rig_close(&r);
}

/* ---- under load ---- */

enum { ROUNDS = 200 };

enum how { BY_QP, BY_TCP, BY_BOTH, N_HOWS };

static void break_somehow(struct rig *r, struct rng *rng)
{
	unsigned side = rng_below(rng, RIG_SIDES);
	enum how how = rng_below(rng, N_HOWS);

	if (how != BY_TCP)
		break_qp(r, side);
	if (how != BY_QP)
		cut_tcp(r, side);
}

static void load(const char *options, uint64_t seed)
{
	struct rig_load traffic;
	uint64_t breaks;
	struct rng rng = {seed};
	struct rig r;

	rig_open(&r, options);
	rig_connect(&r);
	rig_load_begin(&r, &traffic);
	for (unsigned round = 0; round < ROUNDS; round++) {
		rig_load_round(&r, &traffic, rng_below(&rng, 100));
		if (rng_below(&rng, 4) == 0)
			break_somehow(&r, &rng);
	}
	rig_until(&r, rig_load_done(&traffic));
	rig_until(&r, !xr_recovering(inside(&r, 0)) && !xr_recovering(inside(&r, 1)));
	breaks = rig_stat(r.side[0].ctx, "breaks");
	assert_in_range(breaks, 5, ROUNDS);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(r.side[i].n_broken, r.side[i].n_recovered);
		assert_int_equal(rig_stat(r.side[i].ctx, "protocol_errors"), 0);
		assert_int_equal(rig_stat(r.side[i].ctx, "wc_rnr"), 0);
		assert_true(rig_stat(r.side[i].ctx, "resent") > 0);
	}
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
	assert_int_equal(r.side[0].status, 0);
	assert_int_equal(rig_stat(r.side[0].ctx, "sends_posted"), 0);
	rig_close(&r);
}

static void m23_nothing_is_lost_or_doubled(void **state)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		load("srq=off backoff_min_ms=1 backoff_max_ms=4", seed);
}

static void m23_nor_with_shared_receives(void **state)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		load("srq=on window=8 backoff_min_ms=1 backoff_max_ms=4", seed);
}

/* ---- regions ---- */

enum { SLOT = 65536, N_SLOTS = 64 };

static struct xrdma_region *exported(struct rig *r)
{
	return rig_export(r, SLOT, N_SLOTS, XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE);
}

static void puts_under_way_are_done_again(void **state)
{
	static struct rig_call calls[N_SLOTS];
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct rng rng = {7};
	struct rig r;

	rig_open(&r, "backoff_min_ms=1 backoff_max_ms=4");
	ch = rig_connect(&r);
	region = exported(&r);
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < N_SLOTS; i++) {
			calls[i].ended = false;
			assert_int_equal(xrdma_put(ch, r.side[RIG_CLIENT].remote, i, 0,
						   rig_msg(ch, SLOT, round + i), rig_done,
						   &calls[i]),
					 0);
			if (i == N_SLOTS / 2)
				break_somehow(&r, &rng);
		}
		for (unsigned i = 0; i < N_SLOTS; i++) {
			rig_until(&r, calls[i].ended);
			assert_int_equal(calls[i].status, 0);
			assert_memory_equal(xrdma_msg_data(calls[i].reply),
					    xrdma_region_slot(region, i), SLOT);
			xrdma_msg_free(calls[i].reply);
		}
	}
	assert_in_range(rig_stat(r.side[RIG_CLIENT].ctx, "recoveries"), 15, 60);
	rig_close(&r);
}

static void each_epoch_has_keys_of_its_own(void **state)
{
	struct xr_key before, after;
	struct xrdma_channel *ch;
	struct rig_call c = {0};
	struct xrdma_region *region, *gone;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	gone = exported(&r);
	region = exported(&r);
	before = r.side[RIG_CLIENT].remote->key;
	rig_poll_for(&r, 20);
	break_qp(&r, RIG_SERVER);
	rig_until(&r, r.side[RIG_CLIENT].n_broken);
	assert_int_equal(xrdma_region_free(gone), 0);
	/* While it is broken: waits, and gets the new key. */
	assert_int_equal(
		xrdma_put(ch, r.side[RIG_CLIENT].remote, 3, 0, rig_msg(ch, 100, 1), rig_done, &c),
		0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	assert_memory_equal(xrdma_msg_data(c.reply), xrdma_region_slot(region, 3), 100);
	xrdma_msg_free(c.reply);
	after = r.side[RIG_CLIENT].remote->key;
	assert_int_equal(after.epoch, before.epoch + 1);
	assert_int_not_equal(after.rkey, before.rkey);
	/* The region that was freed meanwhile has none. */
	assert_int_equal(
		xrdma_put(ch, xr_remote_find(ch, 0), 0, 0, rig_msg(ch, 100, 1), rig_done, &c),
		-ESTALE);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "stale_epochs"), 1);
	/* Who uses the old key all the same is refused, though it names the same memory. */
	c = (struct rig_call){0};
	r.side[RIG_CLIENT].remote->key.rkey = before.rkey;
	assert_int_equal(
		xrdma_put(ch, r.side[RIG_CLIENT].remote, 3, 0, rig_msg(ch, 100, 9), rig_done, &c),
		0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, -EACCES);
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

/*
 * K4, on a NIC that issues a freed key number again at once: the key of a region that is gone has
 * become that of another. Its epoch gives it away; without epochs the write lands in the other.
 */
static void k4_the_silent_coincidence(void **state)
{
	static const char untouched[100];
	struct xrdma_region_attr attr;
	struct xrdma_region *foreign, *gone;
	struct xrdma_remote_region *stale;
	struct xrdma_channel *ch;
	struct rig_call c = {0};
	struct xrdma_msg *m;
	uint32_t number;
	struct rig r;

	if (!getenv("URXE_KEYS")) {
		print_message("key numbers are not issued again: xr_recover_reused_keys does it\n");
		skip();
	}
	rig_open(&r, NULL);
	ch = rig_connect(&r);
	gone = exported(&r);
	stale = r.side[RIG_CLIENT].remote;
	number = stale->key.rkey;
	attr = gone->attr;
	rig_poll_for(&r, 20);
	break_qp(&r, RIG_SERVER);
	r.stalled[RIG_CLIENT] = true;
	rig_until(&r, r.side[RIG_SERVER].n_broken);
	assert_int_equal(xrdma_region_free(gone), 0);
	/* Its memory comes where the other's was. */
	assert_int_equal(xrdma_region_new(r.side[RIG_SERVER].ctx, &attr, &foreign), 0);
	assert_int_equal(xrdma_region_export(foreign, inside(&r, RIG_SERVER), 2), 0);
	r.stalled[RIG_CLIENT] = false;
	rig_until(&r, r.side[RIG_CLIENT].remote != stale && recovered(&r, 1));
	rig_until(&r, !ch->rec.keys_due);
	assert_int_equal(r.side[RIG_CLIENT].remote->key.rkey, number);
	assert_true(r.side[RIG_CLIENT].remote->key.addr == stale->key.addr);

	m = rig_msg(ch, 100, 1);
	assert_int_equal(xrdma_put(ch, stale, 0, 0, m, rig_done, &c), -ESTALE);
	assert_memory_equal(xrdma_region_slot(foreign, 0), untouched, sizeof(untouched));

	stale->key.epoch = ch->bounds.epoch; /* as if there were no epochs */
	assert_int_equal(xrdma_put(ch, stale, 0, 0, m, rig_done, &c), 0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	assert_memory_not_equal(xrdma_region_slot(foreign, 0), untouched, sizeof(untouched));
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

/* ---- ends ---- */

static void it_is_given_up_in_time(void **state)
{
	struct rig_call c = {0};
	struct rig r;

	rig_open(&r, "recovery_ms=300");
	rig_connect(&r);
	assert_int_equal(xrdma_call(r.side[RIG_CLIENT].ch, rig_msg(r.side[RIG_CLIENT].ch, 10, 1), 0,
				    rig_done, &c, NULL),
			 0);
	r.stalled[RIG_SERVER] = true; /* alive, and does not answer */
	break_qp(&r, RIG_CLIENT);
	rig_until(&r, r.side[RIG_CLIENT].n_closed);
	assert_int_equal(r.side[RIG_CLIENT].n_broken, 1);
	assert_int_equal(r.side[RIG_CLIENT].status, r.side[RIG_CLIENT].why_broken);
	assert_true(c.ended);
	r.stalled[RIG_SERVER] = false;
	rig_until(&r, r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_SERVER].status, -ECONNRESET);
	rig_close(&r);
}

static void without_recovery_a_break_is_the_end(void **state)
{
	struct rig r;

	rig_open(&r, "recovery_ms=0");
	rig_connect(&r);
	break_qp(&r, RIG_CLIENT);
	rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
	assert_int_equal(r.side[0].n_broken + r.side[1].n_broken, 0);
	assert_int_equal(r.side[RIG_SERVER].status, -ECONNRESET);
	rig_close(&r);
}

static void what_is_closed_while_broken_closes_in_order(void **state)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (unsigned i = 0; i < 100; i++)
		rig_send(r.side[RIG_CLIENT].ch, 5000, i);
	break_qp(&r, RIG_CLIENT);
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	for (unsigned i = 0; i < 100; i++)
		rig_expect(&r, RIG_SERVER, 5000, i);
	rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
	assert_int_equal(r.side[0].status, 0);
	assert_int_equal(r.side[1].status, 0);
	rig_close(&r);
}

static void m13_a_restarted_client_is_taken_at_once(void **state)
{
	struct xrdma_context *dead;
	struct rig_side *server;
	uint64_t started;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	server = &r.side[RIG_SERVER];
	/* It dies: its connection ends without a word. */
	cut_tcp(&r, RIG_CLIENT);
	r.stalled[RIG_CLIENT] = true;
	rig_until(&r, server->n_broken);
	started = rig_now_ms();
	xr_boot_close(inside(&r, RIG_CLIENT)->boot);
	inside(&r, RIG_CLIENT)->boot = NULL;
	r.stalled[RIG_CLIENT] = false;
	dead = r.side[RIG_CLIENT].ctx;
	r.side[RIG_CLIENT] = (struct rig_side){.ctx = rig_context(NULL)};
	rig_connect(&r);
	rig_until(&r, server->n_closed);
	assert_int_equal(server->status, -ECONNRESET);
	assert_in_range(rig_now_ms() - started, 0, 1500); /* not after the wait for an orphan */
	rig_send(r.side[RIG_CLIENT].ch, 100, 1);
	rig_expect(&r, RIG_SERVER, 100, 1);
	rig_close(&r);
	xrdma_close(dead);
}

/* It does not come back: not for ever. */
static void an_orphan_waits_a_little(void **state)
{
	struct rig_side *server;
	uint64_t started;
	struct rig r;

	rig_open(&r, "backoff_max_ms=10");
	rig_connect(&r);
	server = &r.side[RIG_SERVER];
	r.stalled[RIG_CLIENT] = true;
	cut_tcp(&r, RIG_CLIENT);
	rig_until(&r, server->n_broken);
	started = rig_now_ms();
	rig_until(&r, server->n_closed);
	assert_int_equal(server->status, -ECONNRESET);
	assert_in_range(rig_now_ms() - started, 1000, 6000);
	rig_close(&r);
}

static void a_restarted_server_does_not_know_the_channel(void **state)
{
	struct rig_call c = {0};
	struct xrdma_context *dead;
	struct rig_side *client;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	client = &r.side[RIG_CLIENT];
	assert_int_equal(xrdma_call(client->ch, rig_msg(client->ch, 10, 1), 0, rig_done, &c, NULL),
			 0);
	/* The new one listens where the old one did. */
	xrdma_listener_close(r.listener);
	r.stalled[RIG_SERVER] = true;
	dead = r.side[RIG_SERVER].ctx;
	r.side[RIG_SERVER] = (struct rig_side){.ctx = rig_context(NULL)};
	assert_int_equal(xrdma_listen(r.side[RIG_SERVER].ctx, r.address, &rig_handlers,
				      &r.side[RIG_SERVER], &r.listener),
			 0);
	cut_tcp(&r, RIG_CLIENT);
	r.stalled[RIG_SERVER] = false;
	rig_until(&r, client->n_closed);
	assert_int_equal(client->status, -ECONNRESET);
	assert_int_equal(c.status, -ECONNRESET);
	rig_close(&r);
	xrdma_close(dead);
}

/* ---- late completions ---- */

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

static int poll_nothing(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return 0;
}

/* A queue pair that does not come to an end in time goes, and what it was reading comes again. */
static void reads_that_do_not_end(void **state)
{
	struct ibv_context_ops *ops;
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, "srq=off");
	ch = rig_connect(&r);
	ops = &r.side[RIG_CLIENT].ctx->verbs->ops;
	poll_cq = ops->poll_cq;
	r.stalled[RIG_CLIENT] = true;
	rig_send(r.side[RIG_SERVER].ch, 1000000, 1);
	r.stalled[RIG_SERVER] = true;
	while (ch->fragments == 0)
		assert_true(xrdma_poll(r.side[RIG_CLIENT].ctx) >= 0);
	ops->poll_cq = poll_nothing;
	xr_channel_break(ch, -EIO, "a test");
	ch->drained = true;
	r.stalled[RIG_CLIENT] = r.stalled[RIG_SERVER] = false;
	rig_until(&r, r.side[RIG_CLIENT].n_broken);
	ops->poll_cq = poll_cq;
	rig_expect(&r, RIG_CLIENT, 1000000, 1);
	rig_until(&r, recovered(&r, 1));
	rig_close(&r);
}

static uint64_t late_wr_id;

/* Some devices still tell, after a queue pair was destroyed, how its receives ended. */
static int poll_late(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (!late_wr_id)
		return poll_cq(cq, n, wc);
	*wc = (struct ibv_wc){.wr_id = late_wr_id, .status = IBV_WC_WR_FLUSH_ERR};
	late_wr_id = 0;
	return 1;
}

static void a_receive_of_before_ends_late(void **state)
{
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	uint64_t wr_id;
	struct rig r;

	rig_open(&r, "srq=off");
	ch = rig_connect(&r);
	ctx = r.side[RIG_CLIENT].ctx;
	poll_cq = ctx->verbs->ops.poll_cq;
	ctx->verbs->ops.poll_cq = poll_late;
	wr_id = ch->own_rq.id_base;
	break_qp(&r, RIG_CLIENT);
	ch->drained = true; /* it is not waited for */
	rig_until(&r, r.side[RIG_CLIENT].n_broken);
	for (unsigned i = 0; i < 2; i++) {
		late_wr_id = wr_id; /* without a queue pair, then with the next one */
		rig_until(&r, !late_wr_id);
		assert_true(rig_stat(ctx, "stale_completions") > i);
		rig_until(&r, recovered(&r, 1));
	}
	assert_int_equal(rig_stat(ctx, "breaks"), 1);
	rig_send(r.side[RIG_SERVER].ch, 100, 1);
	rig_expect(&r, RIG_CLIENT, 100, 1);
	rig_close(&r);
}

/* ---- TLS ---- */

/* K11: those that dial again skip the certificates, all of them, though it was cut off that broke
 * them; a server that is new knows no ticket, and that is no error. */
static void k11_who_dials_again_resumes_tls(void **state)
{
	enum { CHANNELS = 5 };
	struct xrdma_channel *channels[CHANNELS];
	uint64_t before, resumed;
	struct certs certs;
	char options[512];
	struct rig r;

	if (system("openssl version >/dev/null 2>&1")) {
		print_message("openssl makes the certificates, and is not installed\n");
		skip();
	}
	certs_make(&certs);
	snprintf(options, sizeof(options),
		 "tls=on tls_cert=%s tls_key=%s tls_ca=%s backoff_min_ms=1 backoff_max_ms=4",
		 certs.cert, certs.key, certs.ca);
	rig_open(&r, options);
	for (unsigned i = 0; i < CHANNELS; i++)
		channels[i] = rig_connect(&r);
	before = rig_stat(r.side[RIG_CLIENT].ctx, "tls_handshakes");
	resumed = rig_stat(r.side[RIG_CLIENT].ctx, "tls_resumed");
	assert_int_equal(before, CHANNELS);
	for (unsigned i = 0; i < CHANNELS; i++)
		(void)shutdown(xr_boot_fd(channels[i]->boot), SHUT_RDWR);
	rig_until(&r, recovered(&r, CHANNELS));
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(rig_stat(r.side[i].ctx, "tls_handshakes"), 2 * CHANNELS);
		assert_int_equal(rig_stat(r.side[i].ctx, "tls_resumed"), resumed + CHANNELS);
	}
	rig_send(channels[0], 100000, 1);
	rig_expect(&r, RIG_SERVER, 100000, 1);
	rig_close(&r);
	certs_remove(&certs);
}

/* ---- silence ---- */

static void m8_a_silent_peer_is_asked_and_need_not_look(void **state)
{
	struct rig r;

	rig_open(&r, "keepalive_ms=5");
	rig_connect(&r);
	r.stalled[RIG_SERVER] = true; /* its program is busy; its NIC answers */
	rig_until(&r, rig_stat(r.side[RIG_CLIENT].ctx, "keepalives") >= 5);
	assert_int_equal(r.side[RIG_CLIENT].n_broken, 0);
	rig_until(&r, rig_stat(r.side[RIG_CLIENT].ctx, "sends_posted") == 0);
	rig_close(&r);
}

static void m22_a_dead_peer_is_found_on_an_idle_channel(void **state)
{
	uint64_t started;
	struct rig r;

	/* 6 resends of 4 ms, doubling up to four times that. */
	rig_open(&r, "keepalive_ms=20 timeout=10");
	rig_connect(&r);
	rig_poll_for(&r, 30);
	started = rig_now_ms();
	r.stalled[RIG_SERVER] = true;
	break_qp(&r, RIG_SERVER); /* and its TCP connection says nothing */
	rig_until(&r, r.side[RIG_CLIENT].n_broken);
	assert_int_equal(r.side[RIG_CLIENT].why_broken, -ETIMEDOUT);
	assert_in_range(rig_now_ms() - started, 10, 1500);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "wc_silent"), 1);
	r.stalled[RIG_SERVER] = false;
	rig_until(&r, recovered(&r, 1));
	rig_close(&r);
}

/* Each would wake this process, the peer's NIC and this process again. */
static void silent_peers_are_asked_at_common_moments(void **state)
{
	enum { N = 5, SILENCE_NS = 800000000, MOMENT_NS = SILENCE_NS / 8 };
	struct rig r;

	rig_open(&r, "keepalive_ms=800");
	for (unsigned i = 0; i < N; i++) {
		const struct xrdma_channel *ch;
		uint64_t due;

		rig_poll_for(&r, 2 * i);
		ch = rig_connect(&r);
		due = ch->alive_timer.timer.due_ns;
		assert_int_equal(due % MOMENT_NS, 0);
		assert_in_range(due, ch->heard_at, ch->heard_at + SILENCE_NS);
	}
	rig_close(&r);
}

static void keepalive_can_be_off(void **state)
{
	struct rig r;

	rig_open(&r, "keepalive_ms=0");
	rig_connect(&r);
	rig_poll_for(&r, 50);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "keepalives"), 0);
	rig_close(&r);
}

/* ---- queue pairs kept ---- */

static void m25_lives(const char *options, unsigned breaks, uint64_t reused_at_least,
		      uint64_t cached_at_most)
{
	struct rig r;

	rig_open(&r, options);
	for (unsigned i = 0; i < 20; i++) {
		struct xrdma_channel *ch = rig_connect(&r);

		rig_send(ch, 5000, i);
		if (i < breaks)
			break_qp(&r, RIG_CLIENT);
		rig_expect(&r, RIG_SERVER, 5000, i);
		xrdma_channel_close(ch);
		rig_until(&r, r.side[0].n_closed == i + 1 && r.side[1].n_closed == i + 1);
		assert_int_equal(r.side[0].status, 0);
	}
	assert_true(rig_stat(r.side[0].ctx, "qps_reused") >= reused_at_least);
	assert_in_range(rig_stat(r.side[0].ctx, "qps_cached"), 0, cached_at_most);
	assert_int_equal(rig_stat(r.side[0].ctx, "qps"), 0);
	rig_close(&r);
}

static void m25_queue_pairs_serve_again(void **state)
{
	m25_lives("srq=off qp_cache=0", 10, 0, 0);
	m25_lives("srq=off qp_cache=1", 10, 19, 1);
	m25_lives("srq=on qp_cache=8", 10, 19, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_channel_is_told_of_it_once),
		cmocka_unit_test(m23_nothing_is_lost_or_doubled),
		cmocka_unit_test(m23_nor_with_shared_receives),
		cmocka_unit_test(puts_under_way_are_done_again),
		cmocka_unit_test(each_epoch_has_keys_of_its_own),
		cmocka_unit_test(k4_the_silent_coincidence),
		cmocka_unit_test(it_is_given_up_in_time),
		cmocka_unit_test(without_recovery_a_break_is_the_end),
		cmocka_unit_test(what_is_closed_while_broken_closes_in_order),
		cmocka_unit_test(m13_a_restarted_client_is_taken_at_once),
		cmocka_unit_test(an_orphan_waits_a_little),
		cmocka_unit_test(a_restarted_server_does_not_know_the_channel),
		cmocka_unit_test(reads_that_do_not_end),
		cmocka_unit_test(a_receive_of_before_ends_late),
		cmocka_unit_test(k11_who_dials_again_resumes_tls),
		cmocka_unit_test(m8_a_silent_peer_is_asked_and_need_not_look),
		cmocka_unit_test(m22_a_dead_peer_is_found_on_an_idle_channel),
		cmocka_unit_test(silent_peers_are_asked_at_common_moments),
		cmocka_unit_test(keepalive_can_be_off),
		cmocka_unit_test(m25_queue_pairs_serve_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
