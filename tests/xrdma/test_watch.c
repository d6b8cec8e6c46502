/* SPDX-License-Identifier: BSD-2-Clause */
/* Histograms, the agreement of two clocks, and the shares of a round trip: pure. */
#include "../unit/unit.h"

#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/hist.h"
#include "xrdma/peer_clock.h"
#include "xrdma/trace.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void buckets_follow_each_other(void **state)
{
	for (unsigned i = 0; i < XR_HIST_BUCKETS; i++) {
		uint64_t low = hist_low(i, XR_HIST_BITS), next = hist_low(i + 1, XR_HIST_BITS);

		assert_true(next > low);
		assert_int_equal(xr_hist_index(low), i);
		assert_int_equal(xr_hist_index(next - 1), i);
		assert_true(next - low <=
			    (low / XR_HIST_SUB ? low / XR_HIST_SUB : 1)); /* an eighth */
	}
	assert_int_equal(xr_hist_index(UINT64_MAX), XR_HIST_BUCKETS - 1);
}

static void quantiles_are_right_to_an_eighth(void **state)
{
	static struct xr_hist h;
	struct xr_hist_copy c;

	memset(&h, 0, sizeof(h));
	xr_hist_read(&h, &c);
	assert_int_equal(xr_hist_quantile(&c, 0.5), 0);
	for (unsigned i = 1; i <= 10000; i++)
		xr_hist_add(&h, i);
	xr_hist_read(&h, &c);
	assert_int_equal(c.count, 10000);
	assert_int_equal(c.sum, 50005000);
	assert_int_equal(c.max, 10000);
	for (unsigned p = 1; p <= 100; p++) {
		double want = p * 100.0, got = (double)xr_hist_quantile(&c, p / 100.0);

		assert_true(got >= want * 0.87 - 1 && got <= want * 1.13 + 1);
	}
	assert_true(xr_hist_quantile(&c, 1.0) <= 10000);
}

/*
 * Two clocks that run apart, over ways that take anything: the offset is always within the bound
 * that comes with it, which is small once one exchange was quick.
 */
static void offset_is_within_its_error(void **state)
{
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct rng rng = {seed};
		int64_t ahead = (int64_t)rng_next(&rng) >> (seed % 40); /* of anything */
		int ppm = (int)rng_below(&rng, 1000) - 500;
		struct xr_peer_clock c = {0};
		uint64_t now = rng_next(&rng) >> 20, start = now, error = 0;
		int64_t offset;

		for (unsigned i = 0; i < 300; i++) {
			uint64_t out = 1000 + rng_below(&rng, 1000000), in = rng_below(&rng, 5000);
			uint64_t back = 1000 + rng_below(&rng, 1000000), sent, t[2];
			int64_t truth;

			now += rng_below(&rng, 200000000);
			sent = now;
			for (unsigned k = 0; k < 2; k++) {
				now += k ? in : out;
				truth = ahead + (int64_t)(now - start) / 1000000 * ppm;
				t[k] = now + (uint64_t)truth;
			}
			if (t[1] < t[0])
				continue; /* it runs over the end of 64 bits */
			now += back;
			assert_true(xr_peer_clock_add(&c, sent, t[0], t[1], now));
			now += rng_below(&rng, 1000000000);
			truth = ahead + (int64_t)(now - start) / 1000000 * ppm;
			assert_int_equal(xr_peer_clock_offset(&c, now, &offset, &error), 0);
			if (llabs(offset - truth) > (int64_t)error)
				fail_msg("seed %u, %u: off by %lld, bound %llu", seed, i,
					 (long long)(offset - truth), (unsigned long long)error);
		}
		assert_in_range(error, 1, 20000000);
	}
}

static void quick_ways_count(void **state)
{
	struct xr_peer_clock c = {0};
	uint64_t error, now = NSEC_PER_SEC;
	int64_t offset;

	assert_int_equal(xr_peer_clock_offset(&c, now, &offset, &error), -ENODATA);
	/* 5000 ahead; one way slow, the other quick; then both quick; then slow again. */
	xr_peer_clock_add(&c, now, now + 90000 + 5000, now + 90000 + 5000, now + 91000);
	xr_peer_clock_add(&c, now, now + 500 + 5000, now + 600 + 5000, now + 1100);
	xr_peer_clock_add(&c, now, now + 90000 + 5000, now + 90000 + 5000, now + 91000);
	assert_int_equal(xr_peer_clock_offset(&c, now, &offset, &error), 0);
	assert_int_equal(offset, 5000);
	assert_in_range(error, 2500, 2501);
}

static void times_that_cannot_be_are_refused(void **state)
{
	struct xr_peer_clock c = {0};
	uint64_t at[XR_AT_ALL] = {10, 20, 1000, 1005, 1006, 1010, 50, 60}, save;
	struct xrdma_trace t;

	assert_false(xr_peer_clock_add(&c, 100, 10, 20, 99));   /* back before it went */
	assert_false(xr_peer_clock_add(&c, 100, 20, 10, 200));  /* answered before it came */
	assert_false(xr_peer_clock_add(&c, 100, 10, 111, 200)); /* longer there than away */
	assert_false(xr_peer_clock_add(&c, 100, 0, UINT64_MAX, 200));
	assert_false(c.known);
	assert_true(xr_trace_split(at, &t));
	for (unsigned i = 0; i + 1 < XR_AT_ALL; i++) {
		if (i == XR_AT_SENT || i == XR_AT_PEER_SENT)
			continue; /* another clock */
		save = at[i];
		at[i] = at[i + 1] + 1;
		assert_false(xr_trace_split(at, &t));
		at[i] = save;
	}
	at[XR_AT_PEER_SENT] = 1031; /* 31 there of 30 away */
	assert_false(xr_trace_split(at, &t));
}

static void shares_add_up(void **state)
{
	const uint64_t at[XR_AT_ALL] = {100, 107, 9011, 9014, 9034, 9039, 190, 203};
	struct xrdma_trace t;

	assert_true(xr_trace_split(at, &t));
	assert_int_equal(t.rtt_ns, 103);
	assert_int_equal(t.send_queue_ns, 7);
	assert_int_equal(t.wire_ns, 190 - 107 - (9039 - 9011));
	assert_int_equal(t.peer_queue_ns, 3 + 5);
	assert_int_equal(t.handler_ns, 20);
	assert_int_equal(t.receive_queue_ns, 13);
	assert_int_equal(t.rtt_ns, t.send_queue_ns + t.wire_ns + t.peer_queue_ns + t.handler_ns +
					   t.receive_queue_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_follow_each_other),
		cmocka_unit_test(quantiles_are_right_to_an_eighth),
		cmocka_unit_test(offset_is_within_its_error),
		cmocka_unit_test(quick_ways_count),
		cmocka_unit_test(times_that_cannot_be_are_refused),
		cmocka_unit_test(shares_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
