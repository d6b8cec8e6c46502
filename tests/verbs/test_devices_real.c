/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real devices beside ours: what belongs to the real libibverbs, played by fake_ibverbs.c, reaches
 * it. Linked to liburxe.so, then to the fake. Run as "beside", and as "hide" with URXE_REAL=hide.
 */
#include "fake_ibverbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int count(struct ibv_device **list, const char *prefix)
{
	int n = 0;

	for (; *list; list++)
		n += strncmp(ibv_get_device_name(*list), prefix, strlen(prefix)) == 0;
	return n;
}

static void real_devices_come_first(void **state)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	assert_non_null(list);
	assert_ptr_equal(list[0], &fake_device);
	assert_int_equal(count(list, "fake"), 1);
	assert_true(n > 1);
	assert_int_equal(count(list, "urxe"), n - 1);
	assert_int_equal(fake_lists, 1);
	ibv_free_device_list(list);
	assert_int_equal(fake_lists, 0);
}

static void calls_on_real_objects_pass(void **state)
{
	struct ibv_qp qp = {.context = &fake_context};
	struct ibv_async_event event = {.element.qp = &qp, .event_type = IBV_EVENT_COMM_EST};
	union ibv_gid gid = {.raw = {0xff}};

	assert_int_equal(ibv_get_device_guid(&fake_device), FAKE_GUID);
	assert_int_equal(ibv_get_device_index(&fake_device), FAKE_INDEX);
	assert_ptr_equal(ibv_open_device(&fake_device), &fake_context);
	assert_ptr_equal(ibv_alloc_pd(&fake_context), &fake_pd);
	assert_int_equal(ibv_dealloc_pd(&fake_pd), FAKE_RESULT);
	assert_int_equal(ibv_attach_mcast(&qp, &gid, 0), FAKE_RESULT);
	assert_int_equal(ibv_close_device(&fake_context), FAKE_RESULT);
	ibv_ack_async_event(&event);
	assert_int_equal(fake_acks, 1);
	event = (struct ibv_async_event){.element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR};
	ibv_ack_async_event(&event); /* a port number is no object */
	assert_int_equal(fake_acks, 1);
}

static void calls_without_object_pass(void **state)
{
	char buf[16];

	assert_int_equal(ibv_fork_init(), FAKE_RESULT);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
	assert_int_equal(fake_lists, 0);
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), FAKE_NAME);
	assert_int_equal(ibv_read_sysfs_file("/sys", "x", buf, sizeof(buf)), FAKE_RESULT);
	/* The names of ours are prefixes of others. */
	assert_int_equal(
		ibv_read_sysfs_file("/sys/class/infiniband/urxe0x", "board_id", buf, sizeof(buf)),
		FAKE_RESULT);
}

static void names_that_the_real_one_lacks_are_ours(void **state)
{
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "channel adapter");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_port_state_str((enum ibv_port_state)99), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_CQ_ERR), "CQ error");
}

static void hidden_devices_are_not_listed(void **state)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	assert_non_null(list);
	assert_true(n > 0);
	assert_int_equal(count(list, "urxe"), n);
	assert_int_equal(fake_lists, 0);
	ibv_free_device_list(list);
	assert_int_equal(fake_lists, 0);
}

static void without_real_devices_fork_needs_nothing(void **state)
{
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest beside[] = {
		cmocka_unit_test(real_devices_come_first),
		cmocka_unit_test(calls_on_real_objects_pass),
		cmocka_unit_test(calls_without_object_pass),
		cmocka_unit_test(names_that_the_real_one_lacks_are_ours),
	};
	const struct CMUnitTest hide[] = {
		cmocka_unit_test(hidden_devices_are_not_listed),
		cmocka_unit_test(without_real_devices_fork_needs_nothing),
	};

	return argc > 1 && strcmp(argv[1], "hide") == 0
		       ? cmocka_run_group_tests(hide, NULL, NULL)
		       : cmocka_run_group_tests(beside, NULL, NULL);
}
