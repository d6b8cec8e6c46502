/* SPDX-License-Identifier: BSD-2-Clause */
/* Requirement N5: lkey is never rkey, and a key number is not reissued early, unless asked to be.
 */
#include "engine/key.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct urxe_mr *const mr_a = (struct urxe_mr *)(uintptr_t)0x1000;
static struct urxe_mr *const mr_b = (struct urxe_mr *)(uintptr_t)0x2000;

static void names_one_region_one_way(void **state)
{
	struct key_table t;
	uint32_t lkey, rkey;

	key_table_init(&t, 10, false, 1);
	assert_int_equal(key_take(&t, mr_a, &lkey, &rkey), 0);
	assert_int_not_equal(lkey, rkey);
	assert_ptr_equal(key_find(&t, lkey, false), mr_a);
	assert_ptr_equal(key_find(&t, rkey, true), mr_a);
	assert_null(key_find(&t, lkey, true));
	assert_null(key_find(&t, rkey, false));
	assert_null(key_find(&t, 0, false));
	assert_null(key_find(&t, lkey + 256, false));
	assert_null(key_find(&t, UINT32_MAX, true));
	key_give(&t, lkey);
	assert_null(key_find(&t, lkey, false));
	assert_null(key_find(&t, rkey, true));
	key_table_fini(&t);
}

static void nothing_is_found_in_an_empty_table(void **state)
{
	struct key_table t;

	key_table_init(&t, 10, false, 1);
	assert_null(key_find(&t, 0, false));
	assert_null(key_find(&t, 0x100, true));
	key_table_fini(&t);
}

static void fresh_numbers_rest_long(void **state)
{
	enum { ROUNDS = KEY_REST * 64 };
	uint32_t *seen = calloc(ROUNDS, sizeof(*seen));
	struct key_table t;
	uint32_t lkey, rkey;

	key_table_init(&t, 100000, false, 7);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(key_take(&t, mr_a, &lkey, &rkey), 0);
		seen[i] = lkey;
		key_give(&t, lkey);
	}
	for (int i = 1; i < ROUNDS; i += 997) {
		for (int j = 0; j < i; j++)
			assert_int_not_equal(seen[i], seen[j]);
	}
	free(seen);
	key_table_fini(&t);
}

static void reuse_mode_reissues_at_once(void **state)
{
	struct key_table t;
	uint32_t lkey, rkey, again, rkey2;

	key_table_init(&t, 10, true, 7);
	assert_int_equal(key_take(&t, mr_a, &lkey, &rkey), 0);
	key_give(&t, lkey);
	assert_int_equal(key_take(&t, mr_b, &again, &rkey2), 0);
	assert_int_equal(rkey, rkey2);
	assert_ptr_equal(key_find(&t, rkey, true), mr_b); /* the silent coincidence */
	key_table_fini(&t);
}

static void no_more_than_agreed(void **state)
{
	uint32_t lkeys[10], rkey;
	struct key_table t;

	key_table_init(&t, 10, false, 7);
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < 10; i++)
			assert_int_equal(key_take(&t, mr_a, &lkeys[i], &rkey), 0);
		assert_int_equal(key_take(&t, mr_a, &rkey, &rkey), -ENOMEM);
		for (int i = 0; i < 10; i++)
			key_give(&t, lkeys[i]);
	}
	assert_true(t.n <= 10 + KEY_REST + 1);
	key_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_one_region_one_way),
		cmocka_unit_test(nothing_is_found_in_an_empty_table),
		cmocka_unit_test(fresh_numbers_rest_long),
		cmocka_unit_test(reuse_mode_reissues_at_once),
		cmocka_unit_test(no_more_than_agreed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
