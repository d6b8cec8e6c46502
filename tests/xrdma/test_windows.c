/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * K8: memory windows: each large message is shown to the peer by a key of its own, to its bytes
 * alone, that is dead when it was read. The peer that tries more is a reader with our own code,
 * which is made to ask for other bytes, or later.
 */
#include "breaks.h"

#include "base/rng.h"
#include "xrdma/channel.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 20000, KEPT = 1024 };

/* What the server was shown. */
struct shown {
	struct xr_key keys[KEPT];
	unsigned n;
	bool keep; /* the next request, unanswered */
	struct xrdma_msg *kept;
};

/* READ whatever a key may or may not allow. */
static void read_raw(struct xrdma_channel *ch, const struct xr_key *key, int64_t from,
		     uint32_t bytes, struct rig_call *c)
{
	/* Must outlive the call; never of a recovered channel. */
	static struct xrdma_remote_region all;

	all = (struct xrdma_remote_region){.ch = ch, .n_slots = 1, .slot_bytes = UINT32_MAX};
	all.key = *key;
	all.key.addr += (uint64_t)from;
	assert_int_equal(xrdma_get(ch, &all, 0, 0, rig_msg(ch, bytes, 0), rig_done, c), 0);
}

static void on_request(struct xrdma_channel *ch, struct xrdma_msg *m, struct rig_side *side)
{
	struct shown *s = side->arg;

	if (s->n < KEPT)
		s->keys[s->n++] = m->key;
	if (s->keep)
		s->kept = m;
	else
		rig_echo(ch, m, side);
}

static void open_with(struct rig *r, struct shown *s, const char *client, const char *server)
{
	memset(s, 0, sizeof(*s));
	rig_open_each(r, client, server);
	rig_connect(r);
	r->side[RIG_SERVER].on_msg = on_request;
	r->side[RIG_SERVER].arg = s;
}

static void call(struct rig *r, size_t len, uint64_t seed)
{
	struct xrdma_channel *ch = r->side[RIG_CLIENT].ch;
	struct rig_call c = {0};

	if (xrdma_call(ch, rig_msg(ch, len, seed), 0, rig_done, &c, NULL))
		fail_msg("%s", xrdma_last_error());
	rig_until(r, c.ended);
	assert_int_equal(c.status, 0);
	assert_true(rig_is(c.reply, len, seed));
	xrdma_msg_free(c.reply);
}

static uint64_t client_stat(const struct rig *r, const char *name)
{
	return rig_stat(r->side[RIG_CLIENT].ctx, name);
}

static int by_rkey(const void *a, const void *b)
{
	uint32_t x = ((const struct xr_key *)a)->rkey, y = ((const struct xr_key *)b)->rkey;

	return x < y ? -1 : x > y;
}

static void each_request_has_a_key_of_its_own(const char *options)
{
	struct shown s;
	struct rig r;

	open_with(&r, &s, options, NULL);
	for (unsigned i = 0; i < 300; i++)
		call(&r, LEN, i);
	assert_int_equal(s.n, 300);
	qsort(s.keys, s.n, sizeof(s.keys[0]), by_rkey);
	for (unsigned i = 1; i < s.n; i++)
		assert_int_not_equal(s.keys[i].rkey, s.keys[i - 1].rkey);
	assert_int_equal(client_stat(&r, "windows_bound"), 300);
	rig_until(&r, client_stat(&r, "windows_ended") + client_stat(&r, "windows_ended_by_peer") ==
			      300);
	/* Small ones are not shown at all. */
	call(&r, 100, 1);
	assert_int_equal(client_stat(&r, "windows_bound"), 300);
	rig_close(&r);
}

static void k8_each_request_has_a_key_of_its_own(void **state)
{
	each_request_has_a_key_of_its_own("mem_windows=type1");
	each_request_has_a_key_of_its_own("mem_windows=type2");
}

/* What the request does not say is out of reach, though it lies in the same registration. */
static void reaches(const char *option, int64_t from, uint32_t bytes, int status)
{
	struct rig_call c = {0}, read = {0};
	struct xrdma_channel *ch;
	struct shown s;
	struct rig r;

	/* No acknowledgement comes in between. */
	open_with(&r, &s, option, "ack_delay_us=1000000");
	ch = r.side[RIG_CLIENT].ch;
	s.keep = true;
	assert_int_equal(xrdma_call(ch, rig_msg(ch, LEN, 5), 0, rig_done, &c, NULL), 0);
	rig_until(&r, s.kept);
	s.keep = false;
	read_raw(inside(&r, RIG_SERVER), &s.keys[0], from, bytes, &read);
	rig_until(&r, read.ended);
	if (read.status != status)
		fail_msg("%s: %u bytes at %d: %d", option, bytes, (int)from, read.status);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "wc_access"), status ? 1 : 0);
	if (status == 0 && from == 0)
		assert_true(rig_is(read.reply, LEN, 5));
	xrdma_msg_free(read.reply);
	rig_echo(inside(&r, RIG_SERVER), s.kept, &r.side[RIG_SERVER]);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

/* The kernel's (6.1) checks the bounds of the registration in place of those of the window, and not
 * whose queue pair it is that invalidates one. */
static bool on_rxe(void)
{
	const char *device = getenv("XRDMA_DEVICE");

	return device && strncmp(device, "rxe", 3) == 0;
}

static void k8_only_its_bytes_are_reached(void **state)
{
	static const char *const on[] = {"mem_windows=type1", "mem_windows=type2"};

	for (unsigned i = 0; i < 2; i++) {
		reaches(on[i], 0, LEN, 0);
		if (on_rxe())
			continue;
		reaches(on[i], 0, LEN + 1, -EACCES);
		reaches(on[i], -1, LEN, -EACCES);
		reaches(on[i], LEN, 1, -EACCES);
	}
	/* Without windows the key is that of all that is sent. */
	reaches("mem_windows=off", 0, LEN, 0);
	reaches("mem_windows=off", LEN, 1, 0);
}

static void reads_late(const char *options, const char *counter)
{
	struct rig_call c = {0};
	uint64_t ended;
	struct shown s;
	struct rig r;

	open_with(&r, &s, options, NULL);
	call(&r, LEN, 1);
	ended = client_stat(&r, counter);
	rig_until(&r, client_stat(&r, counter) == 1);
	/* By the reply itself, or soon after. */
	assert_int_equal(ended, strcmp(counter, "windows_ended_by_peer") == 0);
	read_raw(inside(&r, RIG_SERVER), &s.keys[0], 0, LEN, &c);
	rig_until(&r, c.ended && r.side[RIG_SERVER].n_recovered);
	assert_int_equal(c.status, -EACCES);
	assert_int_equal(r.side[RIG_SERVER].why_broken, -EACCES);
	xrdma_msg_free(c.reply);
	call(&r, LEN, 2);
	rig_close(&r);
}

static void k8_after_the_reply_it_is_dead(void **state)
{
	reads_late("mem_windows=type1", "windows_ended");
	reads_late("mem_windows=type2", "windows_ended_by_peer");
}

/* The key of the window that has just become free, when the reply is here. */
static void note_key(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	assert_int_equal(status, 0);
	*(uint32_t *)arg = container_of(ch->mws.free.prev, struct xr_mw, link)->mw->rkey;
	xrdma_msg_free(reply);
}

/* Three requests are there; the last is answered first. */
static void k8_a_reply_ends_its_own_request(void **state)
{
	struct rig_side *server;
	struct xrdma_channel *ch;
	uint32_t ended[3] = {0};
	uint32_t key;
	struct rig r;

	rig_open(&r, "mem_windows=type2 ack_delay_us=1000000");
	ch = rig_connect(&r);
	server = &r.side[RIG_SERVER];
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(xrdma_call(ch, rig_msg(ch, LEN, i), 0, note_key, &ended[i], NULL),
				 0);
	rig_until(&r, server->n_msgs == 3);
	key = server->msgs[2]->key.rkey;
	for (unsigned i = 3; i--;)
		assert_int_equal(xrdma_reply(server->msgs[i], rig_msg(server->ch, 10, i)), 0);
	rig_until(&r, ended[0] && ended[1] && ended[2]);
	assert_int_equal(ended[2], key);
	/* It has acknowledged all three, and left the others to their owner. */
	assert_int_equal(client_stat(&r, "windows_ended_by_peer"), 1);
	rig_until(&r, client_stat(&r, "windows_ended") == 2);
	rig_close(&r);
}

/* More large messages than there are windows: the rest waits. */
static void k8_as_many_as_are_shown_at_once(void **state)
{
	enum { MANY = 150 };
	struct rig r;

	rig_open(&r, "mem_windows=type2 window=200");
	rig_connect(&r);
	r.stalled[RIG_SERVER] = true;
	for (unsigned i = 0; i < MANY; i++)
		rig_send(r.side[RIG_CLIENT].ch, 5000, i);
	rig_poll_for(&r, 20);
	assert_int_equal(client_stat(&r, "windows_bound"), XR_MWS_MAX);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 0; i < MANY; i++)
		rig_expect(&r, RIG_SERVER, 5000, i);
	rig_until(&r, client_stat(&r, "windows_ended") + client_stat(&r, "windows_ended_by_peer") ==
			      MANY);
	rig_close(&r);
}

/* The NIC refuses it; the channel of who tries breaks. */
static void k8_nobody_ends_what_is_not_shown_to_him(void **state)
{
	struct xr_mws_read *read;
	struct xrdma_channel *other;
	struct rig r;

	if (on_rxe()) {
		print_message("the kernel's rxe does not refuse it: xr_windows on urxe shows it\n");
		skip();
	}
	rig_open(&r, "mem_windows=type2");
	other = rig_connect(&r);
	rig_connect(&r);
	r.stalled[RIG_SERVER] = true;
	rig_send(other, LEN, 1); /* bound, and announced */
	read = &inside(&r, RIG_SERVER)->mws_read;
	read->n = 1;
	read->at[0].rkey = other->mws.all[0].mw->rkey;
	read->at[0].seq = 1000;
	r.stalled[RIG_SERVER] = false;
	rig_send(inside(&r, RIG_SERVER), 100, 2);
	rig_until(&r, r.side[RIG_SERVER].n_recovered && r.side[RIG_CLIENT].n_recovered);
	assert_int_equal(r.side[RIG_SERVER].why_broken, -EACCES);
	rig_expect(&r, RIG_CLIENT, 100, 2);
	rig_expect(&r, RIG_SERVER, LEN, 1);
	rig_close(&r);
}

/* A message that says another key than the NIC has invalidated. */
static void k8_the_key_must_be_the_right_one(void **state)
{
	struct xrdma_channel *ch;
	struct shown s;
	struct rig r;

	open_with(&r, &s, "mem_windows=type2", NULL);
	ch = inside(&r, RIG_CLIENT);
	call(&r, LEN, 1);
	xr_mw_invalidated(ch, s.keys[0].rkey); /* as if it came again */
	rig_until(&r, r.side[RIG_CLIENT].n_closed && r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_CLIENT].status, -EPROTO);
	assert_int_equal(client_stat(&r, "protocol_errors"), 1);
	rig_close(&r);
}

/* ---- under load, with breaks ---- */

static void load(const char *options, const char *filter)
{
	static const size_t sizes[] = {100, 5000, 100000, 4097, 300000};
	enum { CALLS = 40, ROUNDS = 25 };
	struct rng rng = {42};
	struct rig_call calls[CALLS];
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, options);
	ch = rig_connect(&r);
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < RIG_SIDES; i++)
		assert_int_equal(xrdma_set(r.side[i].ctx, "filter", filter), 0);
	for (unsigned round = 0; round < ROUNDS / rig_slower() + 1; round++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

		memset(calls, 0, sizeof(calls));
		for (unsigned i = 0; i < CALLS; i++)
			assert_int_equal(xrdma_call(ch, rig_msg(ch, sizes[i % 5], i), 0, rig_done,
						    &calls[i], NULL),
					 0);
		for (unsigned n = rng_below(&rng, 60); n; n--)
			rig_poll(&r);
		if (ch->state == XR_CH_OPEN)
			ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE);
		for (unsigned i = 0; i < CALLS; i++) {
			rig_until(&r, calls[i].ended);
			assert_int_equal(calls[i].status, 0);
			assert_true(rig_is(calls[i].reply, sizes[i % 5], i));
			xrdma_msg_free(calls[i].reply);
		}
	}
	assert_true(client_stat(&r, "recoveries") > 0);
	assert_int_equal(client_stat(&r, "protocol_errors"), 0);
	xrdma_channel_close(ch);
	rig_until(&r, r.side[0].n_closed && r.side[1].n_closed);
	assert_int_equal(r.side[0].status, 0);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_int_equal(rig_stat(r.side[i].ctx, "sends_posted"), 0);
		assert_int_equal(rig_stat(r.side[i].ctx, "messages_held"), 0);
	}
	rig_close(&r);
}

static void k8_breaks_under_load(void **state)
{
	load("mem_windows=type1 backoff_min_ms=1 backoff_max_ms=4", "");
	load("mem_windows=type2 backoff_min_ms=1 backoff_max_ms=4", "");
	load("mem_windows=type2 srq=on backoff_min_ms=1 backoff_max_ms=4", "");
	load("mem_windows=type2 trace=on trace_sample=2 backoff_min_ms=1 backoff_max_ms=4", "");
}

static void k8_faults_under_load(void **state)
{
	load("mem_windows=type2 backoff_min_ms=1 backoff_max_ms=4",
	     "fail=RETRY_EXC:out:p=0.002,delay=50:in:p=0.1");
}

/* ---- devices ---- */

static uint64_t caps_gone;
static bool none_left;

int __real_ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr);
int __wrap_ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr);
int __wrap_ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int ret = __real_ibv_query_device(verbs, attr);

	attr->device_cap_flags &= ~(unsigned)caps_gone;
	if (none_left)
		attr->max_mw = 0;
	return ret;
}

static void refused(const char *type, const char *why)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;

	assert_int_equal(xrdma_conf_new(&conf), 0);
	assert_int_equal(xrdma_conf_set(conf, "mem_windows", type), 0);
	assert_int_equal(xrdma_open(conf, &ctx), -EOPNOTSUPP);
	assert_non_null(strstr(xrdma_last_error(), why));
	xrdma_conf_free(conf);
}

static void a_device_without(void **state)
{
	struct shown s;
	struct rig r;

	none_left = true;
	refused("type1", "no memory windows of type 1: set mem_windows = off");
	refused("type2", "no memory windows of type 2");
	none_left = false;
	caps_gone = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
		    IBV_DEVICE_MEM_MGT_EXTENSIONS;
	refused("type2", "or type1");
	/* The peer's device cannot: who shows ends it. */
	rig_open_each(&r, NULL, NULL);
	xrdma_close(r.side[RIG_CLIENT].ctx);
	caps_gone = 0;
	r.side[RIG_CLIENT].ctx = rig_context("mem_windows=type2");
	rig_connect(&r);
	memset(&s, 0, sizeof(s));
	r.side[RIG_SERVER].on_msg = on_request;
	r.side[RIG_SERVER].arg = &s;
	call(&r, LEN, 1);
	rig_until(&r, client_stat(&r, "windows_ended") == 1);
	assert_int_equal(client_stat(&r, "windows_ended_by_peer"), 0);
	rig_close(&r);
}

static unsigned mws_left;
static struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);

static struct ibv_mw *alloc_few(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (mws_left) {
		mws_left--;
		return alloc_mw(pd, type);
	}
	errno = ENOMEM;
	return NULL;
}

static void run_out_of_them(struct rig *r, const char *options)
{
	struct xrdma_channel *ch;

	rig_open(r, options);
	alloc_mw = r->side[RIG_CLIENT].ctx->verbs->ops.alloc_mw;
	r->side[RIG_CLIENT].ctx->verbs->ops.alloc_mw = alloc_few;
	mws_left = 8 + 7;
	rig_connect(r);
	assert_int_equal(xrdma_connect(r->side[0].ctx, r->address, &rig_handlers, &r->side[0], &ch),
			 0);
}

static void a_device_that_runs_out_of_them(void **state)
{
	struct rig r;

	run_out_of_them(&r, "mem_windows=type2 window=8");
	rig_until(&r, r.side[RIG_CLIENT].n_mocked); /* the other is as it was */
	assert_int_equal(r.side[RIG_CLIENT].n_connected, 2);
	assert_int_equal(r.side[RIG_CLIENT].why_mocked, -ENOMEM);
	rig_send(r.side[RIG_CLIENT].ch, LEN, 3);
	rig_expect(&r, RIG_SERVER, LEN, 3);
	rig_close(&r);

	run_out_of_them(&r, "mem_windows=type2 window=8 transport=force-rdma");
	rig_until(&r, r.side[RIG_CLIENT].n_closed);
	assert_int_equal(r.side[RIG_CLIENT].status, -ENOMEM);
	rig_send(r.side[RIG_SERVER].ch, LEN, 3); /* the other is as it was */
	rig_expect(&r, RIG_CLIENT, LEN, 3);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k8_each_request_has_a_key_of_its_own),
		cmocka_unit_test(k8_only_its_bytes_are_reached),
		cmocka_unit_test(k8_after_the_reply_it_is_dead),
		cmocka_unit_test(k8_a_reply_ends_its_own_request),
		cmocka_unit_test(k8_as_many_as_are_shown_at_once),
		cmocka_unit_test(k8_nobody_ends_what_is_not_shown_to_him),
		cmocka_unit_test(k8_the_key_must_be_the_right_one),
		cmocka_unit_test(k8_breaks_under_load),
		cmocka_unit_test(k8_faults_under_load),
		cmocka_unit_test(a_device_without),
		cmocka_unit_test(a_device_that_runs_out_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
