/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N_THREADS = 4, ROUNDS = 100000 };

static struct lock lock;
static unsigned counter;

static void *add_up(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2 || !lock_try(&lock))
			lock_take(&lock);
		counter++;
		lock_give(&lock);
	}
	return NULL;
}

static void one_thread_at_a_time(void **state)
{
	pthread_t threads[N_THREADS];

	lock_init(&lock);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_up, NULL), 0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counter, N_THREADS * ROUNDS);
}

static void trying_does_not_wait(void **state)
{
	lock_init(&lock);
	assert_true(lock_try(&lock));
	assert_false(lock_try(&lock));
	lock_give(&lock);
	assert_true(lock_try(&lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_at_a_time),
		cmocka_unit_test(trying_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
