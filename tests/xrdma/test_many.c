/* SPDX-License-Identifier: BSD-2-Clause */
/* M16: a thousand channels with receive buffers in common. */
#include "rig.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { N = 1000 };

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Of a hundred, so that what else the machine does meanwhile does not count. */
static uint64_t median(uint64_t took_ns[100])
{
	qsort(took_ns, 100, sizeof(*took_ns), by_value);
	return took_ns[50];
}

static void m16_a_thousand_channels(void **state)
{
	static struct xrdma_channel *chs[N];
	static uint64_t took_ns[N];
	static struct rig_call calls[N];
	const struct rlimit fds = {4096, 4096};
	uint64_t posted, few = 0;
	struct rig r;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
	rig_open(&r, "srq=on srq_max=8192 window=8");
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < N; i++) {
		uint64_t began = clock_now_ns();

		chs[i] = rig_connect(&r);
		took_ns[i] = clock_now_ns() - began;
		if (i == 99)
			few = rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes");
	}
	posted = rig_stat(r.side[RIG_SERVER].ctx, "receives_posted");
	assert_in_range(posted, N * 5, 8192);
	/* Ten times the channels, less than ten times the memory. */
	assert_in_range(rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes"), few, 10 * few);
	/* And each is set up as quickly as the first were. */
	print_message("set-up of a channel: %llu us, then %llu us\n",
		      (unsigned long long)median(took_ns) / 1000,
		      (unsigned long long)median(took_ns + N - 100) / 1000);
	assert_in_range(median(took_ns + N - 100), 0, 4 * median(took_ns));
	for (unsigned k = 0; k < 5; k++) {
		for (unsigned i = 0; i < N; i++) {
			calls[i].ended = false;
			assert_int_equal(xrdma_call(chs[i], rig_msg(chs[i], 60, i), 0, rig_done,
						    &calls[i], NULL),
					 0);
		}
		for (unsigned i = 0; i < N; i++) {
			rig_until(&r, calls[i].ended);
			assert_int_equal(calls[i].status, 0);
			assert_true(rig_is(calls[i].reply, 60, i));
			xrdma_msg_free(calls[i].reply);
		}
	}
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "wc_rnr"), 0);
	/* As many posted as promised, again. */
	rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "receives_posted") == posted);
	for (unsigned i = 0; i < N; i++)
		xrdma_channel_close(chs[i]);
	rig_until(&r, r.side[RIG_CLIENT].n_closed == N && r.side[RIG_SERVER].n_closed == N);
	assert_int_equal(r.side[RIG_CLIENT].status, 0);
	assert_int_equal(r.side[RIG_SERVER].status, 0);
	rig_close(&r);
}

/* More channels than the shared queue has receives for (case M42): some are refused, none stalls.
 */
static void m16_a_shared_queue_too_small(void **state)
{
	enum { CHANNELS = 40 };
	struct xrdma_channel *chs[CHANNELS];
	struct rig_call calls[CHANNELS] = {0};
	unsigned n_echoed = 0;
	struct rig r;

	rig_open_each(&r, "srq=off", "srq=on srq_max=64");
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < CHANNELS; i++) {
		assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, r.address, &rig_handlers,
					       &r.side[RIG_CLIENT], &chs[i]),
				 0);
		assert_int_equal(
			xrdma_call(chs[i], rig_msg(chs[i], 60, i), 0, rig_done, &calls[i], NULL),
			0);
	}
	for (unsigned i = 0; i < CHANNELS; i++) {
		rig_until(&r, calls[i].ended);
		n_echoed += calls[i].status == 0;
		xrdma_msg_free(calls[i].reply);
	}
	rig_until(&r, r.side[RIG_CLIENT].n_closed == CHANNELS - n_echoed);
	assert_in_range(n_echoed, 8, CHANNELS - 1);
	assert_int_equal(r.side[RIG_CLIENT].status, -ENOBUFS);
	assert_in_range(rig_stat(r.side[RIG_SERVER].ctx, "receives_posted"), 0, 64);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "wc_rnr"), 0);
	rig_close(&r);
}

/* Channels that closed leave more receives posted than the others need. */
static void m16_channels_come_after_others_went(void **state)
{
	struct xrdma_channel *chs[3];
	struct rig r;

	rig_open(&r, "srq=on");
	for (unsigned i = 0; i < 3; i++)
		chs[i] = rig_connect(&r);
	xrdma_channel_close(chs[0]);
	xrdma_channel_close(chs[1]);
	rig_until(&r, r.side[RIG_CLIENT].n_closed == 2 && r.side[RIG_SERVER].n_closed == 2);
	chs[0] = rig_connect(&r);
	rig_send(chs[0], 100, 1);
	rig_expect(&r, RIG_SERVER, 100, 1);
	rig_close(&r);
}

/* Receives follow the smaller window, which the client has told before the server posts any. */
static void m9_no_more_receives_than_the_peer_sends(void **state)
{
	struct rig r;

	rig_open_each(&r, "window=4", "window=1024");
	rig_connect(&r);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "receives_posted"),
			 rig_stat(r.side[RIG_CLIENT].ctx, "receives_posted"));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m16_a_thousand_channels),
		cmocka_unit_test(m16_a_shared_queue_too_small),
		cmocka_unit_test(m16_channels_come_after_others_went),
		cmocka_unit_test(m9_no_more_receives_than_the_peer_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
