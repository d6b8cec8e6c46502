/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses are ours, and which groups we hear. */
#include "link/udp_priv.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/socket.h>

static bool is_gid(const struct sockaddr *sa, const struct urxe_gid *gid)
{
	const struct sockaddr_in *sin = (const void *)sa;
	const struct sockaddr_in6 *sin6 = (const void *)sa;
	struct urxe_gid mapped;

	if (!sa)
		return false;
	if (sa->sa_family == AF_INET6)
		return memcmp(&sin6->sin6_addr, gid->raw, sizeof(gid->raw)) == 0;
	if (sa->sa_family != AF_INET)
		return false;
	urxe_gid_from_v4(&mapped, &sin->sin_addr);
	return memcmp(&mapped, gid, sizeof(mapped)) == 0;
}

/* 0: not known. */
static uint32_t ifindex_of(const struct ifaddrs *ifaddrs, const struct urxe_gid *gid)
{
	for (const struct ifaddrs *ifa = ifaddrs; ifa; ifa = ifa->ifa_next) {
		if (is_gid(ifa->ifa_addr, gid))
			return if_nametoindex(ifa->ifa_name);
	}
	return 0;
}

int urxe_udp_addrs_read(struct urxe_udp *udp, const struct urxe_gid *gids, unsigned n)
{
	struct udp_addr *addr = calloc(n ? n : 1, sizeof(*addr));
	struct ifaddrs *ifaddrs;

	if (!addr)
		return -ENOMEM;
	if (getifaddrs(&ifaddrs)) {
		free(addr);
		return -errno;
	}
	for (unsigned i = 0; i < n; i++)
		addr[i] =
			(struct udp_addr){.gid = gids[i], .ifindex = ifindex_of(ifaddrs, &gids[i])};
	freeifaddrs(ifaddrs);
	free(udp->addr);
	udp->addr = addr;
	udp->n_addrs = n;
	return 0;
}

int urxe_udp_set_addrs(struct urxe_udp *udp, const struct urxe_gid *gids, unsigned n)
{
	int ret = urxe_udp_addrs_read(udp, gids, n);

	if (ret)
		return ret;
	/* The kernel's choice of a source address may be another one now. */
	memset(udp->has_sole, 0, sizeof(udp->has_sole));
	return urxe_udp_open_families(udp);
}

const struct udp_addr *urxe_udp_addr(const struct urxe_udp *udp, const struct urxe_gid *gid)
{
	for (unsigned i = 0; i < udp->n_addrs; i++)
		if (!memcmp(&udp->addr[i].gid, gid, sizeof(*gid)))
			return &udp->addr[i];
	return NULL;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct udp_group *find_group(const struct urxe_udp *udp, const struct urxe_gid *gid)
{
	for (unsigned i = 0; i < udp->n_groups; i++)
		if (!memcmp(&udp->group[i].gid, gid, sizeof(*gid)))
			return (struct udp_group *)&udp->group[i];
	return NULL;
}

bool urxe_udp_hears(const struct urxe_udp *udp, const struct urxe_gid *gid)
{
	return urxe_udp_addr(udp, gid) || find_group(udp, gid);
}

static int membership(const struct urxe_udp *udp, const struct udp_group *g, bool join)
{
	enum udp_family f = udp_gid_family(&g->gid);
	struct ip_mreqn v4 = {.imr_ifindex = (int)g->ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = g->ifindex};
	int ret;

	if (udp->rx_fd[f] < 0)
		return -EAFNOSUPPORT;
	memcpy(&v4.imr_multiaddr, g->gid.raw + 12, sizeof(v4.imr_multiaddr));
	memcpy(&v6.ipv6mr_multiaddr, g->gid.raw, sizeof(v6.ipv6mr_multiaddr));
	if (f == UDP_V4)
		ret = setsockopt(udp->rx_fd[f], IPPROTO_IP,
				 join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &v4, sizeof(v4));
	else
		ret = setsockopt(udp->rx_fd[f], IPPROTO_IPV6,
				 join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6, sizeof(v6));
	return ret ? -errno : 0;
}

int urxe_udp_join(struct urxe_udp *udp, const struct urxe_gid *gid, uint32_t ifindex)
{
	struct udp_group *g = &udp->group[udp->n_groups];
	int ret;

	if (udp->n_groups == UDP_GROUPS_MAX)
		return -ENOMEM;
	*g = (struct udp_group){.gid = *gid, .ifindex = ifindex};
	ret = membership(udp, g, true);
	if (!ret)
		udp->n_groups++;
	return ret;
}

void urxe_udp_leave(struct urxe_udp *udp, const struct urxe_gid *gid)
{
	struct udp_group *g = find_group(udp, gid);

	if (!g)
		return;
	membership(udp, g, false);
	*g = udp->group[--udp->n_groups];
}
