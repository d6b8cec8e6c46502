/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces to devices: order, GIDs, MTU. The devices of real interfaces: test_devices.py. */
#include "verbs/netdev.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A list as getifaddrs() gives it. */
struct rig {
	struct ifaddrs v[64];
	struct sockaddr_storage addr[64];
	unsigned n;
};

static struct ifaddrs *add(struct rig *rig, const char *name, unsigned flags)
{
	struct ifaddrs *ifa = &rig->v[rig->n];

	assert_true(rig->n < 64);
	memset(ifa, 0, sizeof(*ifa));
	memset(&rig->addr[rig->n], 0, sizeof(rig->addr[0]));
	ifa->ifa_name = (char *)name;
	ifa->ifa_flags = flags;
	ifa->ifa_addr = (struct sockaddr *)&rig->addr[rig->n];
	if (rig->n > 0)
		rig->v[rig->n - 1].ifa_next = ifa;
	rig->n++;
	return ifa;
}

static void add_link(struct rig *rig, const char *name, unsigned flags, int ifindex, int hatype)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET,
				 .sll_ifindex = ifindex,
				 .sll_hatype = (unsigned short)hatype,
				 .sll_halen = 6,
				 .sll_addr = {2, 0, 0, 0, 0, (unsigned char)ifindex}};

	memcpy(add(rig, name, flags)->ifa_addr, &ll, sizeof(ll));
}

static void add_ip(struct rig *rig, const char *name, unsigned flags, const char *text)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct ifaddrs *ifa = add(rig, name, flags);

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		memcpy(ifa->ifa_addr, &in, sizeof(in));
	else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		memcpy(ifa->ifa_addr, &in6, sizeof(in6));
	else
		fail();
}

static struct urxe_gid gid_of(const char *ipv6)
{
	struct urxe_gid gid;

	assert_int_equal(inet_pton(AF_INET6, ipv6, gid.raw), 1);
	return gid;
}

static void assert_gid(const struct urxe_gid *gid, const char *ipv6)
{
	struct urxe_gid expected = gid_of(ipv6);

	assert_memory_equal(gid, &expected, sizeof(*gid));
}

static void loopback_is_last_else_by_index(void **state)
{
	struct rig rig = {.n = 0};
	struct urxe_netdev *netdev;

	add_link(&rig, "lo", IFF_UP | IFF_LOOPBACK, 1, ARPHRD_LOOPBACK);
	add_link(&rig, "wlan0", 0, 7, ARPHRD_ETHER);
	add_link(&rig, "eth0", IFF_UP, 2, ARPHRD_ETHER);
	assert_int_equal(urxe_netdevs_from(rig.v, &netdev), 3);
	assert_string_equal(netdev[0].name, "eth0");
	assert_int_equal(netdev[0].ifindex, 2);
	assert_true(netdev[0].up && netdev[0].has_mac && !netdev[0].loopback);
	assert_int_equal(netdev[0].mac[5], 2);
	assert_string_equal(netdev[1].name, "wlan0");
	assert_false(netdev[1].up);
	assert_string_equal(netdev[2].name, "lo");
	assert_true(netdev[2].loopback && !netdev[2].has_mac);
	free(netdev);
}

static void gids_are_ipv4_global_link_local(void **state)
{
	struct rig rig = {.n = 0};
	struct urxe_netdev *netdev;

	add_link(&rig, "eth0", IFF_UP, 2, ARPHRD_ETHER);
	add_ip(&rig, "eth0", IFF_UP, "fe80::1");
	add_ip(&rig, "eth0", IFF_UP, "fd00::2");
	add_ip(&rig, "eth0", IFF_UP, "192.0.2.2");
	add_ip(&rig, "eth0", IFF_UP, "2001:db8::3");
	add_ip(&rig, "eth0:label", IFF_UP, "192.0.2.9");
	assert_int_equal(urxe_netdevs_from(rig.v, &netdev), 1);
	assert_int_equal(netdev[0].n_gids, 5);
	assert_gid(&netdev[0].gids[0], "::ffff:192.0.2.2");
	assert_gid(&netdev[0].gids[1], "::ffff:192.0.2.9");
	assert_gid(&netdev[0].gids[2], "fd00::2");
	assert_gid(&netdev[0].gids[3], "2001:db8::3");
	assert_gid(&netdev[0].gids[4], "fe80::1");
	free(netdev);
}

static void too_many_addresses_lose_the_least_useful(void **state)
{
	struct rig rig = {.n = 0};
	struct urxe_netdev *netdev;
	char text[32];

	for (int i = 0; i < URXE_MAX_GIDS; i++) {
		snprintf(text, sizeof(text), "fe80::%x", i + 1);
		add_ip(&rig, "eth0", IFF_UP, text);
	}
	for (int i = 0; i < URXE_MAX_GIDS - 1; i++) {
		snprintf(text, sizeof(text), "192.0.2.%d", i + 1);
		add_ip(&rig, "eth0", IFF_UP, text);
	}
	add_ip(&rig, "eth0", IFF_UP, "fe80::ffff");
	assert_int_equal(urxe_netdevs_from(rig.v, &netdev), 1);
	assert_int_equal(netdev[0].n_gids, URXE_MAX_GIDS);
	assert_gid(&netdev[0].gids[0], "::ffff:192.0.2.1");
	assert_gid(&netdev[0].gids[URXE_MAX_GIDS - 2], "::ffff:192.0.2.15");
	assert_gid(&netdev[0].gids[URXE_MAX_GIDS - 1], "fe80::1");
	free(netdev);
}

static void odd_lists_do_no_harm(void **state)
{
	struct rig rig = {.n = 0};
	struct urxe_netdev *netdev;

	assert_int_equal(urxe_netdevs_from(NULL, &netdev), 0);
	free(netdev);
	add(&rig, "tun0", IFF_UP)->ifa_addr = NULL;
	add(&rig, "", IFF_UP);
	add(&rig, "a-name-longer-than-sixteen", IFF_UP);
	add(&rig, "can0", IFF_UP)->ifa_addr->sa_family = AF_CAN;
	assert_int_equal(urxe_netdevs_from(rig.v, &netdev), 2);
	assert_int_equal(netdev[0].n_gids + netdev[1].n_gids, 0);
	free(netdev);
}

static void ib_mtu_leaves_room_for_headers(void **state)
{
	static const struct {
		uint32_t netdev, cap;
		enum ibv_mtu mtu;
	} cases[] = {
		{1500, 4096, IBV_MTU_1024},
		{9000, 4096, IBV_MTU_4096},
		{65536, 4096, IBV_MTU_4096},
		{9000, 2048, IBV_MTU_2048},
		{1500, 256, IBV_MTU_256},
		{4184, 4096, IBV_MTU_4096},
		{4183, 4096, IBV_MTU_2048},
		{344, 4096, IBV_MTU_256},
		{343, 4096, 0},
		{0, 4096, 0},
		{UINT32_MAX, 4096, IBV_MTU_4096},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(urxe_netdev_ib_mtu(cases[i].netdev, cases[i].cap), cases[i].mtu);
}

static void local_gids_are_those_of_the_namespace(void **state)
{
	struct urxe_gid loopback = gid_of("::ffff:127.1.2.3"),
			other = gid_of("::ffff:203.0.113.77");
	struct urxe_gid unset = gid_of("::"), foreign = gid_of("2001:db8::77");
	struct urxe_netdev *netdev;
	int n = urxe_netdevs_read(&netdev);

	assert_true(urxe_gid_is_local(&loopback));
	assert_false(urxe_gid_is_local(&other));
	assert_false(urxe_gid_is_local(&foreign));
	assert_false(urxe_gid_is_local(&unset));
	assert_true(n > 0); /* every namespace has lo */
	for (int i = 0; i < n; i++) {
		for (unsigned g = 0; g < netdev[i].n_gids; g++)
			assert_true(urxe_gid_is_local(&netdev[i].gids[g]));
	}
	assert_true(netdev[n - 1].loopback);
	assert_true(netdev[n - 1].mtu > 0);
	free(netdev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_is_last_else_by_index),
		cmocka_unit_test(gids_are_ipv4_global_link_local),
		cmocka_unit_test(too_many_addresses_lose_the_least_useful),
		cmocka_unit_test(odd_lists_do_no_harm),
		cmocka_unit_test(ib_mtu_leaves_room_for_headers),
		cmocka_unit_test(local_gids_are_those_of_the_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
