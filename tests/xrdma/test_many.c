/* SPDX-License-Identifier: BSD-2-Clause */
/* M16: a thousand channels with receive buffers in common. */
#include "rig.h"

#include <sys/resource.h>

enum { N = 1000 };

static void m16_a_thousand_channels(void **state)
{
	static struct xrdma_channel *chs[N];
	static struct rig_call calls[N];
	const struct rlimit fds = {4096, 4096};
	uint64_t posted, few = 0;
	struct rig r;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
	rig_open(&r, "srq=on srq_max=8192 window=8");
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < N; i++) {
		chs[i] = rig_connect(&r);
		if (i == 99)
			few = rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes");
	}
	posted = rig_stat(r.side[RIG_SERVER].ctx, "receives_posted");
	assert_in_range(posted, N * 5, 8192);
	/* Ten times the channels, less than ten times the memory. */
	assert_in_range(rig_stat(r.side[RIG_SERVER].ctx, "memory_bytes"), few, 10 * few);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(m16_a_thousand_channels)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
