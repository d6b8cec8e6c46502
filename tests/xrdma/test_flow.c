/* SPDX-License-Identifier: BSD-2-Clause */
#include "../unit/unit.h"

#include "xrdma/flow.h"

static void slots_free_by_completion(void **state)
{
	struct xr_flow_queue q;
	struct xr_flow f;

	xr_flow_init(&f, 100, 4, 100);
	xr_flow_queue_init(&q, 8);
	q.head = q.tail = UINT32_MAX - 3; /* positions wrap */
	for (unsigned i = 0; i < 8; i++) {
		assert_true(xr_flow_room(&f, &q, 0));
		/* The queue would fill without a completion. */
		assert_int_equal(xr_flow_post(&f, &q, false), i % 4 == 3);
	}
	assert_false(xr_flow_room(&f, &q, 0));
	assert_int_equal(xr_flow_retire(&f, &q, UINT32_MAX - 4), 0); /* ended before */
	assert_int_equal(xr_flow_retire(&f, &q, 8), 0);              /* not posted */
	assert_int_equal(xr_flow_retire(&f, &q, UINT32_MAX), 4);
	assert_int_equal(xr_flow_outstanding(&q), 4);
	assert_int_equal(f.used, 4);
	assert_true(xr_flow_room(&f, &q, 3));
	assert_false(xr_flow_room(&f, &q, 4));
	assert_int_equal(xr_flow_retire(&f, &q, 3), 4);
	assert_int_equal(f.used, 0);
}

static void one_in_so_many_is_signalled(void **state)
{
	struct xr_flow_queue q;
	struct xr_flow f;

	xr_flow_init(&f, 1000, 4, 16);
	xr_flow_queue_init(&q, 128);
	for (unsigned i = 1; i <= 64; i++)
		assert_int_equal(xr_flow_post(&f, &q, false), i % 16 == 0);
	assert_true(xr_flow_post(&f, &q, true)); /* who asks gets it */
	xr_flow_unpost(&f, &q);                  /* not posted: the next asks in its place */
	assert_int_equal(xr_flow_outstanding(&q), 64);
	assert_true(xr_flow_post(&f, &q, false));
}

/* Queues with one unsignalled request each must not hold all the slots of the context. */
static void a_context_short_of_slots(void **state)
{
	struct xr_flow_queue q[10];
	struct xr_flow f;

	xr_flow_init(&f, 10, 4, 16);
	for (unsigned i = 0; i < 10; i++) {
		xr_flow_queue_init(&q[i], 128);
		assert_true(xr_flow_room(&f, &q[i], 0));
		assert_int_equal(xr_flow_post(&f, &q[i], false), i >= 5);
	}
	assert_false(xr_flow_room(&f, &q[0], 0));
	xr_flow_wait(&f, &q[0]);
	assert_null(xr_flow_next(&f)); /* no room for anybody's turn */
	assert_int_equal(xr_flow_retire(&f, &q[7], 0), 1);
	assert_ptr_equal(xr_flow_next(&f), &q[0]);
	xr_flow_leave(&f, &q[3]); /* gone with what it had posted */
	assert_int_equal(f.used, 8);
}

static void turns(void **state)
{
	struct xr_flow_queue q[3];
	struct xr_flow f;

	xr_flow_init(&f, 100, 2, 16);
	assert_null(xr_flow_next(&f));
	for (unsigned i = 0; i < 3; i++) {
		xr_flow_queue_init(&q[i], 128);
		xr_flow_wait(&f, &q[i]);
		xr_flow_wait(&f, &q[i]); /* has its place already */
	}
	for (unsigned i = 0; i < 7; i++) {
		struct xr_flow_queue *now = xr_flow_next(&f);

		assert_ptr_equal(now, &q[i % 3]);
		assert_int_equal(now->quantum, 2);
		xr_flow_post(&f, now, false);
		xr_flow_post(&f, now, false);
		assert_int_equal(now->quantum, 0);
		xr_flow_post(&f, now, false); /* control messages do not ask */
		xr_flow_wait(&f, now);
	}
	xr_flow_leave(&f, &q[1]);
	assert_ptr_equal(xr_flow_next(&f), &q[2]);
	assert_ptr_equal(xr_flow_next(&f), &q[0]);
	assert_null(xr_flow_next(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_free_by_completion),
		cmocka_unit_test(one_in_so_many_is_signalled),
		cmocka_unit_test(a_context_short_of_slots),
		cmocka_unit_test(turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
