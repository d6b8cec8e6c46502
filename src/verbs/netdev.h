/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces of this network namespace, as far as an RDMA device is made of them. */
#ifndef URXE_VERBS_NETDEV_H
#define URXE_VERBS_NETDEV_H

#include "verbs/device.h"

#include <ifaddrs.h>

struct urxe_netdev {
	char name[IFNAMSIZ];
	int ifindex;
	bool up;
	bool running; /* up, and there is a link */
	bool loopback;
	bool has_mac;
	uint8_t mac[6];
	uint32_t mtu;    /* bytes; 0: unknown */
	unsigned n_gids; /* IPv4 first, then IPv6, then link-local IPv6; what is over is left out */
	struct urxe_gid gids[URXE_MAX_GIDS];
};

/*
 * All interfaces, loopback last, else by index. The caller frees *ret_netdevs. Returns how many or
 * -errno.
 */
int urxe_netdevs_read(struct urxe_netdev **ret_netdevs);

/* The same from getifaddrs()'s list; mtu is not in it. */
int urxe_netdevs_from(const struct ifaddrs *addrs, struct urxe_netdev **ret_netdevs);

/*
 * The largest IB MTU, up to cap_bytes, whose packets fit into netdev_mtu bytes with the largest
 * headers in front of a payload, IPv6's (annex A17). 0: not even 256 fits.
 */
enum ibv_mtu urxe_netdev_ib_mtu(uint32_t netdev_mtu, uint32_t cap_bytes);

#endif
