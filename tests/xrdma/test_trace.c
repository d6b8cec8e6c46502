/* SPDX-License-Identifier: BSD-2-Clause */
/* M14: what a traced call tells, and what is too slow. */
#include "rig.h"

#include "base/clock.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct traced {
	bool ended;
	int status;
	struct xrdma_trace trace;
};

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct traced *t = arg;

	assert_int_equal(status, 0);
	t->status = xrdma_msg_trace(reply, &t->trace);
	t->ended = true;
	xrdma_msg_free(reply);
}

static struct traced call(struct rig *r, size_t len, uint64_t seed)
{
	struct xrdma_channel *ch = r->side[RIG_CLIENT].ch;
	struct traced t = {0};

	assert_int_equal(xrdma_call(ch, rig_msg(ch, len, seed), 0, done, &t, NULL), 0);
	rig_until(r, t.ended);
	return t;
}

static uint64_t sum(const struct xrdma_trace *t)
{
	return t->send_queue_ns + t->wire_ns + t->peer_queue_ns + t->handler_ns +
	       t->receive_queue_ns;
}

static void busy_for_us(unsigned us)
{
	for (uint64_t end = clock_now_ns() + us * NSEC_PER_USEC; clock_now_ns() < end;)
		;
}

static void slow_echo(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side)
{
	busy_for_us(2000);
	rig_echo(ch, msg, side);
}

/* The handler's time is the handler's; both contexts have the same clock, which is found out. */
static void a_call_is_split_into_its_parts(void **state)
{
	static const size_t lens[] = {0, 1, 64, 4064, 4096, 4097, 300000};
	struct rig r;

	rig_open(&r, "trace=on trace_sample=1");
	rig_connect(&r);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		bool slow = i % 2;
		struct traced t;

		r.side[RIG_SERVER].on_msg = slow ? slow_echo : rig_echo;
		t = call(&r, lens[i / 2], i);
		assert_int_equal(t.status, 0);
		assert_int_equal(t.trace.rtt_ns, sum(&t.trace));
		if (slow)
			assert_in_range(t.trace.handler_ns, 1990000, t.trace.rtt_ns);
		assert_true(t.trace.clock_error_ns > 0);
		assert_true((uint64_t)llabs(t.trace.clock_offset_ns) <= t.trace.clock_error_ns);
	}
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "calls_traced"), 2 * ARRAY_SIZE(lens));
	rig_close(&r);
}

/* What waits before it is given to the NIC has not been on the wire. */
static void a_held_message_was_queued(void **state)
{
	static const char *const options[][2] = {
		{"trace=on trace_sample=1 filter=delay=3000:out:type=REQ", "trace=on"},
		{"trace=on trace_sample=1", "trace=on filter=delay=3000:out:type=RSP"},
		{"trace=on trace_sample=1", "trace=on filter=delay=3000:in:type=REQ"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		r.side[RIG_SERVER].on_msg = rig_echo;
		rig_connect(&r);
		for (unsigned k = 0; k < 20; k++) {
			struct traced t = call(&r, 64, k);
			const uint64_t parts[] = {t.trace.send_queue_ns, t.trace.peer_queue_ns,
						  t.trace.wire_ns};

			assert_int_equal(t.status, 0);
			assert_true(parts[i] >= 2990000); /* two clocks */
		}
		rig_close(&r);
	}
}

static void contents_are_the_same_traced_or_not(void **state)
{
	static const char *const options[][2] = {
		{"trace=on trace_sample=1", "trace=on"},
		{"trace=on trace_sample=3", "trace=on guard=on"},
		{"trace=on trace_sample=1", NULL},
		{NULL, "trace=on"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		r.side[RIG_SERVER].on_msg = rig_echo;
		rig_connect(&r);
		for (size_t len = 0; len < 20000; len = len * 2 + 17) {
			struct xrdma_channel *ch = r.side[RIG_CLIENT].ch;
			struct rig_call c = {0};

			assert_int_equal(
				xrdma_call(ch, rig_msg(ch, len, len), 0, rig_done, &c, NULL), 0);
			rig_until(&r, c.ended);
			assert_true(c.reply && rig_is(c.reply, len, len));
			xrdma_msg_free(c.reply);
		}
		rig_close(&r);
	}
}

/* Unless both want it, nothing of it is on the wire, and nobody is told that he was traced. */
static void both_sides_must_want_it(void **state)
{
	static const char *const options[][2] = {{"trace=on trace_sample=1", NULL},
						 {NULL, "trace=on"},
						 {"trace=on trace_sample=0", "trace=on"}};

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		struct rig r;

		rig_open_each(&r, options[i][0], options[i][1]);
		r.side[RIG_SERVER].on_msg = rig_echo;
		rig_connect(&r);
		assert_int_equal(call(&r, 100, 1).status, -ENODATA);
		rig_close(&r);
	}
}

static void one_in_n_is_traced(void **state)
{
	struct rig r;

	rig_open(&r, "trace=on trace_sample=10");
	r.side[RIG_SERVER].on_msg = rig_echo;
	rig_connect(&r);
	for (unsigned i = 1; i <= 100; i++)
		assert_int_equal(call(&r, 10, i).status, i % 10 ? -ENODATA : 0);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "calls_traced"), 10);
	rig_close(&r);
}

static void slow_handlers_and_polls_are_counted(void **state)
{
	static const char *const options[] = {
		"slow_handler_us=20000000 slow_poll_us=20000000",
		"slow_handler_us=1000 slow_poll_us=5000 log=error",
	};

	for (unsigned i = 0; i < 2; i++) {
		struct xrdma_context *server;
		uint64_t polls;
		struct rig r;

		rig_open_each(&r, NULL, options[i]);
		server = r.side[RIG_SERVER].ctx;
		r.side[RIG_SERVER].on_msg = slow_echo;
		rig_connect(&r);
		call(&r, 10, 1);
		assert_true(!!rig_stat(server, "slow_handlers") == i);
		polls = rig_stat(server, "slow_polls");
		busy_for_us(6000);
		rig_poll(&r);
		assert_int_equal(rig_stat(server, "slow_polls") - polls, i);
		rig_close(&r);
	}
}

static void spans_are_written(void **state)
{
	char options[256], pattern[128], dir[] = "/tmp/xr_trace_XXXXXX", line[512];
	unsigned begins = 0, ends = 0, handlers = 0;
	glob_t found;
	struct rig r;

	assert_non_null(mkdtemp(dir));
	snprintf(options, sizeof(options), "trace=on trace_sample=1 trace_file=%s/t", dir);
	snprintf(pattern, sizeof(pattern), "%s/t.%d.*.json", dir, (int)getpid());
	rig_open_each(&r, options, "trace=on");
	r.side[RIG_SERVER].on_msg = slow_echo;
	rig_connect(&r);
	for (unsigned i = 0; i < 5; i++)
		call(&r, 100, i);
	rig_close(&r);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	FILE *in = fopen(found.gl_pathv[0], "r");

	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		begins += strstr(line, "\"ph\":\"b\"") != NULL;
		ends += strstr(line, "\"ph\":\"e\"") != NULL;
		handlers += strstr(line, "\"name\":\"handler\"") != NULL;
	}
	fclose(in);
	assert_string_equal(line, "]\n");
	assert_int_equal(begins, 5 * 8);
	assert_int_equal(ends, begins);
	assert_int_equal(handlers, 5 * 2);
	unlink(found.gl_pathv[0]);
	rmdir(dir);
	globfree(&found);
}

static void a_trace_file_that_cannot_be_is_said(void **state)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;

	assert_int_equal(xrdma_conf_new(&conf), 0);
	assert_int_equal(xrdma_conf_set(conf, "trace_file", "/nowhere/t"), 0);
	assert_int_equal(xrdma_open(conf, &ctx), -ENOENT);
	assert_non_null(strstr(xrdma_last_error(), "trace_file: /nowhere/t."));
	xrdma_conf_free(conf);
}

static void tcp_is_measured_beside(void **state)
{
	uint64_t rtt = 0;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	assert_int_equal(xrdma_channel_tcp_rtt(r.side[RIG_CLIENT].ch, &rtt), 0);
	assert_in_range(rtt, 1000, NSEC_PER_SEC);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_is_split_into_its_parts),
		cmocka_unit_test(a_held_message_was_queued),
		cmocka_unit_test(contents_are_the_same_traced_or_not),
		cmocka_unit_test(both_sides_must_want_it),
		cmocka_unit_test(one_in_n_is_traced),
		cmocka_unit_test(slow_handlers_and_polls_are_counted),
		cmocka_unit_test(spans_are_written),
		cmocka_unit_test(a_trace_file_that_cannot_be_is_said),
		cmocka_unit_test(tcp_is_measured_beside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
