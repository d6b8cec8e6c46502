/* SPDX-License-Identifier: BSD-2-Clause */
/* Which GID is chosen from which table, and how that is explained (cases M32, M33, M37). */
#include "../unit/unit.h"

#include "xrdma/gid.h"
#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct in6_addr addr(const char *text)
{
	char mapped[64];
	struct in6_addr a;

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, &a), 1);
	return a;
}

static void add(struct xr_gid_table *t, const char *device, uint32_t index, enum xr_gid_type type,
		const char *text, uint8_t prefix_len)
{
	struct xr_gid gid = {
		.port = 1,
		.index = index,
		.type = type,
		.addr = addr(text),
		.prefix_len = prefix_len,
		.port_up = true,
	};

	snprintf(gid.device, sizeof(gid.device), "%s", device);
	assert_int_equal(xr_gid_table_add(t, &gid), 0);
}

static struct xr_gid_want want(const char *peer)
{
	return (struct xr_gid_want){
		.device = "auto",
		.port = XR_AUTO,
		.gid = "auto",
		.peer = peer ? addr(peer) : in6addr_any,
	};
}

/* The index chosen, or a negative errno value. */
static int choose(const struct xr_gid_table *t, const struct xr_gid_want *w)
{
	const struct xr_gid *gid;
	int err = xr_gid_choose(t, w, &gid);

	return err ? err : (int)gid->index;
}

static struct xr_gid_table usual_table(void)
{
	struct xr_gid_table t = {0};

	add(&t, "mlx5_0", 0, XR_GID_ROCE_V1, "fe80::1", 64);
	add(&t, "mlx5_0", 1, XR_GID_ROCE_V2, "fe80::1", 64);
	add(&t, "mlx5_0", 2, XR_GID_ROCE_V1, "192.0.2.1", 120);
	add(&t, "mlx5_0", 3, XR_GID_ROCE_V2, "192.0.2.1", 120);
	return t;
}

static void version_2_and_global(void **state)
{
	struct xr_gid_table t = usual_table();
	struct xr_gid_want nobody = want(NULL), near = want("192.0.2.9"), far = want("10.0.0.1");

	assert_int_equal(choose(&t, &nobody), 3);
	assert_int_equal(choose(&t, &near), 3);
	assert_int_equal(choose(&t, &far), 3);
	xr_gid_table_fini(&t);
}

static void only_a_unique_local_address(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want v4 = want("10.0.0.1"), v6 = want("fd00::9");

	add(&t, "a", 0, XR_GID_ROCE_V2, "fe80::2", 64);
	add(&t, "a", 5, XR_GID_ROCE_V2, "fd00::2", 64);
	assert_int_equal(choose(&t, &v6), 5);
	assert_int_equal(choose(&t, &v4), 5);
	xr_gid_table_fini(&t);
}

static void subnet_of_the_peer_first(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want w = want("10.1.130.7");

	add(&t, "a", 0, XR_GID_ROCE_V2, "10.0.0.1", 96 + 16);
	add(&t, "a", 1, XR_GID_ROCE_V2, "10.1.0.1", 96 + 17); /* 10.1.0..127 */
	add(&t, "b", 2, XR_GID_ROCE_V2, "10.1.128.1", 96 + 17);
	add(&t, "b", 3, XR_GID_ROCE_V2, "10.1.130.1", 0); /* not known */
	add(&t, "b", 4, XR_GID_ROCE_V2, "10.1.130.1", 200);
	assert_int_equal(choose(&t, &w), 2);
	w.peer = addr("10.0.77.1");
	assert_int_equal(choose(&t, &w), 0);
	w.peer = addr("192.0.2.1");
	assert_int_equal(choose(&t, &w), 0);
	w.peer = addr("2001:db8::1");
	assert_int_equal(choose(&t, &w), 0); /* of the other version, but all there is */
	xr_gid_table_fini(&t);
}

static void address_of_the_tcp_connection_before_all(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want w = want("10.0.0.9");

	add(&t, "a", 0, XR_GID_ROCE_V2, "10.0.0.1", 120);
	add(&t, "b", 1, XR_GID_ROCE_V2, "10.0.0.2", 120);
	assert_int_equal(choose(&t, &w), 0);
	w.local = addr("10.0.0.2");
	assert_int_equal(choose(&t, &w), 1);
	w.local = addr("10.0.0.3");
	assert_int_equal(choose(&t, &w), 0);
	xr_gid_table_fini(&t);
}

static void loopback_for_this_host_only(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want nobody = want(NULL), itself = want("127.0.0.1"), v6 = want("::1"),
			   other = want("10.0.0.1");

	add(&t, "lo", 0, XR_GID_ROCE_V2, "127.0.0.1", 104);
	add(&t, "lo", 1, XR_GID_ROCE_V2, "::1", 128);
	assert_int_equal(choose(&t, &nobody), 0);
	assert_int_equal(choose(&t, &itself), 0);
	assert_int_equal(choose(&t, &v6), 1);
	assert_int_equal(choose(&t, &other), -ENODEV);
	assert_non_null(strstr(xrdma_last_error(), "loopback: the peer is another host"));
	add(&t, "eth", 2, XR_GID_ROCE_V2, "192.0.2.1", 120);
	assert_int_equal(choose(&t, &nobody), 2);
	assert_int_equal(choose(&t, &other), 2);
	itself.local = addr("127.0.0.1");
	assert_int_equal(choose(&t, &itself), 0);
	xr_gid_table_fini(&t);
}

static void empty_slots_and_ports_down(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want w = want(NULL);

	add(&t, "a", 0, XR_GID_ROCE_V2, "::", 0);
	add(&t, "a", 1, XR_GID_ROCE_V2, "192.0.2.1", 0);
	add(&t, "a", 2, XR_GID_ROCE_V2, "192.0.2.2", 0);
	add(&t, "a", 3, XR_GID_IB, "2001:db8::1", 0);
	add(&t, "a", 4, XR_GID_ROCE_V2, "169.254.1.1", 0);
	add(&t, "a", 5, XR_GID_ROCE_V2, "169.1.1.1", 0);
	t.gids[1].port_up = false;
	assert_int_equal(choose(&t, &w), 2);
	t.gids[2].port_up = false;
	assert_int_equal(choose(&t, &w), 5);
	t.gids[5].port_up = false;
	assert_int_equal(choose(&t, &w), -ENODEV);
	xr_gid_table_fini(&t);
}

static void options_override(void **state)
{
	struct xr_gid_table t = usual_table();
	struct xr_gid_want w = want("192.0.2.9");

	add(&t, "mlx5_1", 7, XR_GID_ROCE_V2, "198.51.100.1", 120);
	w.gid = "1"; /* link-local, since it is asked for */
	assert_int_equal(choose(&t, &w), 1);
	w.gid = "198.51.100.1";
	assert_int_equal(choose(&t, &w), 7);
	w.gid = "fe80::1";
	assert_int_equal(choose(&t, &w), 0);
	w.gid = "::ffff:192.0.2.1";
	assert_int_equal(choose(&t, &w), 2);
	w.gid = "nonsense";
	assert_int_equal(choose(&t, &w), -ENODEV);
	w.gid = "auto";
	w.device = "mlx5_1";
	assert_int_equal(choose(&t, &w), 7);
	w.port = 2;
	assert_int_equal(choose(&t, &w), -ENODEV);
	assert_non_null(strstr(xrdma_last_error(), "another port is asked for"));
	w.port = 1;
	assert_int_equal(choose(&t, &w), 7);
	w.device = "mlx5_9";
	assert_int_equal(choose(&t, &w), -ENODEV);
	assert_non_null(strstr(xrdma_last_error(), "device = mlx5_9"));
	xr_gid_table_fini(&t);
}

/* Each 32 bits of an address count: as set, as mapped, and as the same as another. */
static void addresses_are_compared_whole(void **state)
{
	static const char *const near[] = {"2001:db8:3::4", "2001:db9::3:0:0:4",
					   "2001:db8:1:2:9::4", "2001:db8:1:2::9:0:4",
					   "2001:db8:1:2::5"};
	static const char *const odd[] = {
		"1::", "0:0:1::", "0:0:0:0:1::", "::9", "::1:ffff:0:0", "0:0:1::ffff:0:0"};
	struct xr_gid_want w = want("2001:db8:1:2::4");

	for (unsigned i = 0; i < ARRAY_SIZE(near); i++) {
		struct xr_gid_table t = {0};

		add(&t, "a", 0, XR_GID_ROCE_V2, "2001:db8:1:2::7", 64);
		add(&t, "b", 1, XR_GID_ROCE_V2, near[i], 0);
		add(&t, "c", 2, XR_GID_ROCE_V2, "2001:db8:1:2::4", 0);
		w.local = addr("2001:db8:1:2::4");
		w.gid = "auto";
		assert_int_equal(choose(&t, &w), 2);
		w.local = addr(near[i]);
		assert_int_equal(choose(&t, &w), 1);
		w.gid = near[i];
		assert_int_equal(choose(&t, &w), 1);
		xr_gid_table_fini(&t);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(odd); i++) {
		struct in6_addr a = addr(odd[i]), v4 = addr("192.0.2.1"), v6 = addr("fd00::1");
		struct xr_gid_table t = {0};
		struct xr_gid_want nobody = want(NULL), peer = want(odd[i]);

		add(&t, "a", 0, XR_GID_ROCE_V2, odd[i], 0);
		peer.local = a;
		assert_int_equal(choose(&t, &nobody), 0);
		assert_int_equal(choose(&t, &peer), 0);
		assert_int_equal(xr_gid_reachable(XR_GID_ROCE_V2, &a, XR_GID_ROCE_V2, &v6), 0);
		assert_int_equal(xr_gid_reachable(XR_GID_ROCE_V2, &a, XR_GID_ROCE_V2, &v4),
				 -EHOSTUNREACH);
		assert_int_equal(xr_gid_reachable(XR_GID_ROCE_V2, &v4, XR_GID_ROCE_V2, &a),
				 -EHOSTUNREACH);
		xr_gid_table_fini(&t);
	}
}

static void each_candidate_is_explained(void **state)
{
	struct xr_gid_table t = usual_table();
	struct xr_gid_want w = want("192.0.2.9");
	char text[2048], small[100];
	size_t len;

	add(&t, "mlx5_1", 0, XR_GID_ROCE_V2, "198.51.100.1", 120);
	add(&t, "mlx5_2", 0, (enum xr_gid_type)9, "198.51.100.2", 120);
	assert_int_equal(xr_gid_table_note(&t, "mlx5_3", -ENOENT), 0);
	len = xr_gid_explain(&t, &w, text, sizeof(text));
	assert_int_equal(len, strlen(text));
	assert_string_equal(
		text,
		"mlx5_0 port 1 gid 0 fe80::1 RoCE v1: refused: RoCE v1: not IP, cannot be routed\n"
		"mlx5_0 port 1 gid 1 fe80::1 RoCE v2: refused: link-local: valid on one link only\n"
		"mlx5_0 port 1 gid 2 192.0.2.1 RoCE v1: refused: RoCE v1: not IP, cannot be "
		"routed\n"
		"mlx5_0 port 1 gid 3 192.0.2.1 RoCE v2: chosen: in the subnet of the peer\n"
		"mlx5_1 port 1 gid 0 198.51.100.1 RoCE v2: not needed: RoCE v2, global, not in the "
		"subnet of the peer\n"
		"mlx5_2 port 1 gid 0 198.51.100.2 of unknown type: refused: InfiniBand: this "
		"library speaks RoCE v2\n"
		"mlx5_3: skipped: it cannot be opened: No such file or directory\n");
	assert_int_equal(xr_gid_explain(&t, &w, small, sizeof(small)), len);
	assert_int_equal(strlen(small), sizeof(small) - 1);
	assert_memory_equal(small, text, sizeof(small) - 1);
	xr_gid_table_fini(&t);
}

static void no_device_at_all(void **state)
{
	struct xr_gid_table t = {0};
	struct xr_gid_want w = want(NULL);

	assert_int_equal(choose(&t, &w), -ENODEV);
	assert_string_equal(
		xrdma_last_error(),
		"no RDMA device and GID will do (device = auto, gid = auto, port = auto); "
		"candidates:\nthere is no RDMA device: no card, nor a network interface that is up "
		"and has an address (`ip address`)");
	w.port = 9;
	assert_int_equal(xr_gid_table_note(&t, "mlx5_0", -EMFILE), 0);
	assert_int_equal(choose(&t, &w), -ENODEV);
	assert_non_null(strstr(xrdma_last_error(), "port = 9)"));
	assert_non_null(strstr(xrdma_last_error(),
			       "mlx5_0: skipped: it cannot be opened: Too many open files: raise "
			       "the limit of open files (`ulimit -n`, RLIMIT_NOFILE)"));
	xr_gid_table_fini(&t);
}

static void tables_grow(void **state)
{
	struct xr_gid_table t = {0};

	for (uint32_t i = 0; i < 1000; i++) {
		add(&t, "a", i, XR_GID_ROCE_V2, "192.0.2.1", 0);
		assert_int_equal(xr_gid_table_note(&t, "b", -1), 0);
	}
	assert_int_equal(t.n_gids, 1000);
	assert_int_equal(t.gids[999].index, 999);
	assert_int_equal(t.n_notes, 1000);
	xr_gid_table_fini(&t);
	assert_int_equal(t.n_gids, 0);
}

static void unreachable_pairs_are_found_in_the_handshake(void **state)
{
	static const struct {
		enum xr_gid_type our_type, their_type;
		const char *ours, *theirs;
		const char *said; /* NULL: reachable */
	} rows[] = {
		{XR_GID_ROCE_V2, XR_GID_ROCE_V2, "192.0.2.1", "198.51.100.1", NULL},
		{XR_GID_ROCE_V2, XR_GID_ROCE_V2, "127.0.0.1", "127.0.0.1", NULL},
		{XR_GID_ROCE_V2, XR_GID_ROCE_V2, "2001:db8::1", "fd00::1", NULL},
		{XR_GID_ROCE_V1, XR_GID_ROCE_V2, "192.0.2.1", "192.0.2.2", "the types differ"},
		{XR_GID_ROCE_V2, (enum xr_gid_type)200, "192.0.2.1", "192.0.2.2",
		 "(of unknown type): the types differ"},
		{XR_GID_ROCE_V2, XR_GID_ROCE_V2, "192.0.2.1", "fd00::1", "one is IPv4"},
		{XR_GID_ROCE_V2, XR_GID_ROCE_V2, "192.0.2.1", "127.0.0.1", "one is a loopback"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct in6_addr ours = addr(rows[i].ours), theirs = addr(rows[i].theirs);
		int err = xr_gid_reachable(rows[i].our_type, &ours, rows[i].their_type, &theirs);

		assert_int_equal(err, rows[i].said ? -EHOSTUNREACH : 0);
		if (rows[i].said)
			assert_non_null(strstr(xrdma_last_error(), rows[i].said));
	}
}

/* Memory that runs out. */
static unsigned fail_after = UINT32_MAX;

void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	if (fail_after == 0)
		return NULL;
	fail_after--;
	return __real_reallocarray(p, n, size);
}

static void no_memory_leaves_the_table_whole(void **state)
{
	struct xr_gid_table t = usual_table();
	struct xr_gid gid = t.gids[0];

	fail_after = 1;
	for (unsigned i = 4; i < 16; i++)
		assert_int_equal(xr_gid_table_add(&t, &gid), 0);
	assert_int_equal(xr_gid_table_add(&t, &gid), -ENOMEM);
	assert_int_equal(xr_gid_table_note(&t, "b", -1), -ENOMEM);
	assert_int_equal(t.n_gids, 16);
	assert_int_equal(t.n_notes, 0);
	fail_after = UINT32_MAX;
	xr_gid_table_fini(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_2_and_global),
		cmocka_unit_test(only_a_unique_local_address),
		cmocka_unit_test(subnet_of_the_peer_first),
		cmocka_unit_test(address_of_the_tcp_connection_before_all),
		cmocka_unit_test(loopback_for_this_host_only),
		cmocka_unit_test(empty_slots_and_ports_down),
		cmocka_unit_test(options_override),
		cmocka_unit_test(addresses_are_compared_whole),
		cmocka_unit_test(each_candidate_is_explained),
		cmocka_unit_test(no_device_at_all),
		cmocka_unit_test(tables_grow),
		cmocka_unit_test(unreachable_pairs_are_found_in_the_handshake),
		cmocka_unit_test(no_memory_leaves_the_table_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
