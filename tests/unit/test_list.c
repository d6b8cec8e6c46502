/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/list.h"

struct item {
	int value;
	struct list node;
};

static struct item items[4];
static struct list head;

static int setup(void **state)
{
	list_init(&head);
	for (int i = 0; i < 4; i++) {
		items[i].value = i;
		list_init(&items[i].node);
	}
	return 0;
}

/* The values on the list as decimal digits, first to last; checks the back links on the way. */
static int digits(void)
{
	int n = 0;

	list_for_each (pos, &head) {
		assert_ptr_equal(pos->next->prev, pos);
		n = n * 10 + container_of(pos, struct item, node)->value + 1;
	}
	return n;
}

static void starts_empty_and_unlinked(void **state)
{
	assert_true(list_empty(&head));
	assert_false(list_linked(&items[0].node));
	assert_null(list_pop(&head));
	assert_int_equal(digits(), 0);
}

static void keeps_order_of_addition(void **state)
{
	for (int i = 0; i < 4; i++)
		list_add_tail(&head, &items[i].node);
	assert_false(list_empty(&head));
	assert_true(list_linked(&items[3].node));
	assert_int_equal(digits(), 1234);
	for (int i = 0; i < 4; i++)
		assert_ptr_equal(list_pop(&head), &items[i].node);
	assert_true(list_empty(&head));
	assert_false(list_linked(&items[0].node));
}

static void unlinks_first_middle_last_and_unlinked(void **state)
{
	for (int i = 0; i < 4; i++)
		list_add_tail(&head, &items[i].node);
	list_del(&items[1].node);
	assert_int_equal(digits(), 134);
	list_del(&items[1].node);
	assert_int_equal(digits(), 134);
	list_del(&items[0].node);
	assert_int_equal(digits(), 34);
	list_del(&items[3].node);
	assert_int_equal(digits(), 3);
	list_add_tail(&head, &items[0].node);
	assert_int_equal(digits(), 31);
}

static void safe_walk_survives_unlinking(void **state)
{
	for (int i = 0; i < 4; i++)
		list_add_tail(&head, &items[i].node);
	list_for_each_safe (pos, &head) {
		if (container_of(pos, struct item, node)->value % 2)
			list_del(pos);
	}
	assert_int_equal(digits(), 13);
	list_for_each_safe (pos, &head)
		list_del(pos);
	assert_true(list_empty(&head));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(starts_empty_and_unlinked, setup),
		cmocka_unit_test_setup(keeps_order_of_addition, setup),
		cmocka_unit_test_setup(unlinks_first_middle_last_and_unlinked, setup),
		cmocka_unit_test_setup(safe_walk_survives_unlinking, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
