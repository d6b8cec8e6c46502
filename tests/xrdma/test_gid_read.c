/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of GIDs of a real device list, in which one device is on the loopback. */
#include "../unit/unit.h"

#include "xrdma/gid.h"
#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static bool no_open;

struct ibv_context *__real_ibv_open_device(struct ibv_device *device);
struct ibv_context *__wrap_ibv_open_device(struct ibv_device *device);

struct ibv_context *__wrap_ibv_open_device(struct ibv_device *device)
{
	if (!no_open)
		return __real_ibv_open_device(device);
	errno = EACCES;
	return NULL;
}

static struct xr_gid_want want(const char *addr)
{
	struct xr_gid_want w = {.device = "auto", .port = XR_AUTO, .gid = "auto"};

	assert_int_equal(inet_pton(AF_INET6, addr, &w.peer), 1);
	w.local = w.peer;
	return w;
}

static void loopback_is_found_with_its_subnet(void **state)
{
	struct xr_gid_want w = want("::ffff:127.0.0.1");
	struct xr_gid_table t = {0};
	const struct xr_gid *gid;
	char text[1024];

	assert_int_equal(xr_gid_read_all(&t), 0);
	assert_true(t.n_gids > 0);
	assert_int_equal(t.n_notes, 0);
	assert_int_equal(xr_gid_choose(&t, &w, &gid), 0);
	assert_memory_equal(&gid->addr, &w.peer, sizeof(w.peer));
	assert_int_equal(gid->type, XR_GID_ROCE_V2);
	assert_int_equal(gid->prefix_len, 96 + 8);
	assert_true(gid->port_up);
	xr_gid_explain(&t, &w, text, sizeof(text));
	assert_non_null(strstr(text, "127.0.0.1 RoCE v2: chosen: the address the TCP"));
	xr_gid_table_fini(&t);
}

/* M37: a device without its node, or without permission, is skipped with a note. */
static void devices_that_cannot_be_opened_are_noted(void **state)
{
	struct xr_gid_want w = want("::ffff:127.0.0.1");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct xr_gid_table t = {0};
	const struct xr_gid *gid;
	char note[128];

	assert_non_null(list);
	snprintf(note, sizeof(note), "%s: skipped: it cannot be opened: Permission denied",
		 ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
	no_open = true;
	assert_int_equal(xr_gid_read_all(&t), 0);
	no_open = false;
	assert_int_equal(t.n_gids, 0);
	assert_true(t.n_notes > 0);
	assert_int_equal(xr_gid_choose(&t, &w, &gid), -ENODEV);
	assert_non_null(strstr(xrdma_last_error(), note));
	xr_gid_table_fini(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_is_found_with_its_subnet),
		cmocka_unit_test(devices_that_cannot_be_opened_are_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
