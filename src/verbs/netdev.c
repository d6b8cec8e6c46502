/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/netdev.h"

#include "base/log.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* False for families that are not IP. */
static bool gid_from_sockaddr(const struct sockaddr *sa, struct urxe_gid *ret_gid)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	switch (sa->sa_family) {
	case AF_INET:
		memcpy(&in, sa, sizeof(in));
		urxe_gid_from_v4(ret_gid, &in.sin_addr);
		return true;
	case AF_INET6:
		memcpy(&in6, sa, sizeof(in6));
		memcpy(ret_gid->raw, &in6.sin6_addr, sizeof(in6.sin6_addr));
		return true;
	default:
		return false;
	}
}

static unsigned gid_rank(const struct urxe_gid *gid)
{
	if (urxe_gid_is_v4(gid))
		return 0;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? 2 : 1;
}

/* Programs take the first GID that looks like an address: keep them in order of usefulness. */
static void add_gid(struct urxe_netdev *netdev, const struct urxe_gid *gid)
{
	unsigned at = netdev->n_gids, last;

	while (at > 0 && gid_rank(&netdev->gids[at - 1]) > gid_rank(gid))
		at--;
	if (netdev->n_gids == URXE_MAX_GIDS)
		log_info("%s: more than %d addresses: the last are left out", netdev->name,
			 URXE_MAX_GIDS);
	else
		netdev->n_gids++;
	last = netdev->n_gids - 1;
	if (at > last)
		return;
	memmove(&netdev->gids[at + 1], &netdev->gids[at], (last - at) * sizeof(*gid));
	netdev->gids[at] = *gid;
}

struct netdev_list {
	struct urxe_netdev *v;
	unsigned n;
};

static struct urxe_netdev *find_or_add(struct netdev_list *list, const char *label)
{
	size_t len = strcspn(label, ":"); /* "eth0:1" is a label of an address of eth0 */
	struct urxe_netdev *grown, *netdev;

	if (len == 0 || len >= IFNAMSIZ)
		return NULL;
	for (unsigned i = 0; i < list->n; i++) {
		if (strncmp(list->v[i].name, label, len) == 0 && list->v[i].name[len] == '\0')
			return &list->v[i];
	}
	grown = realloc(list->v, (list->n + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	list->v = grown;
	netdev = &list->v[list->n++];
	memset(netdev, 0, sizeof(*netdev));
	memcpy(netdev->name, label, len);
	return netdev;
}

static void take_link(struct urxe_netdev *netdev, const struct sockaddr *sa)
{
	struct sockaddr_ll ll;

	memcpy(&ll, sa, sizeof(ll));
	netdev->ifindex = ll.sll_ifindex;
	netdev->has_mac = ll.sll_hatype == ARPHRD_ETHER && ll.sll_halen == sizeof(netdev->mac);
	if (netdev->has_mac)
		memcpy(netdev->mac, ll.sll_addr, sizeof(netdev->mac));
}

static int compare_netdevs(const void *a, const void *b)
{
	const struct urxe_netdev *x = a, *y = b;

	if (x->loopback != y->loopback)
		return x->loopback ? 1 : -1;
	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

int urxe_netdevs_from(const struct ifaddrs *addrs, struct urxe_netdev **ret_netdevs)
{
	struct netdev_list list = {NULL, 0};
	struct urxe_gid gid;

	for (const struct ifaddrs *ifa = addrs; ifa; ifa = ifa->ifa_next) {
		struct urxe_netdev *netdev = find_or_add(&list, ifa->ifa_name);

		if (!netdev)
			continue;
		netdev->up |= (ifa->ifa_flags & IFF_UP) != 0;
		netdev->running |= netdev->up && ifa->ifa_flags & IFF_RUNNING;
		netdev->loopback |= (ifa->ifa_flags & IFF_LOOPBACK) != 0;
		if (!ifa->ifa_addr)
			continue;
		if (ifa->ifa_addr->sa_family == AF_PACKET)
			take_link(netdev, ifa->ifa_addr);
		else if (gid_from_sockaddr(ifa->ifa_addr, &gid))
			add_gid(netdev, &gid);
	}
	for (unsigned i = 0; i < list.n; i++) {
		/* Sandboxes exist that list no link addresses. */
		if (list.v[i].ifindex == 0)
			list.v[i].ifindex = (int)if_nametoindex(list.v[i].name);
	}
	if (list.n > 0)
		qsort(list.v, list.n, sizeof(*list.v), compare_netdevs);
	*ret_netdevs = list.v;
	return (int)list.n;
}

static void read_mtus(struct urxe_netdev *netdevs, int n)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	for (int i = 0; i < n; i++) {
		struct ifreq req = {.ifr_mtu = 0};

		memcpy(req.ifr_name, netdevs[i].name, IFNAMSIZ);
		if (ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
			netdevs[i].mtu = (uint32_t)req.ifr_mtu;
	}
	close(fd);
}

int urxe_netdevs_read(struct urxe_netdev **ret_netdevs)
{
	struct ifaddrs *addrs;
	int n;

	if (getifaddrs(&addrs))
		return -errno;
	n = urxe_netdevs_from(addrs, ret_netdevs);
	freeifaddrs(addrs);
	read_mtus(*ret_netdevs, n);
	return n;
}

enum ibv_mtu urxe_netdev_ib_mtu(uint32_t netdev_mtu, uint32_t cap_bytes)
{
	/* IPv6, UDP, BTH, XRCETH, RETH, ImmDt; ICRC */
	const uint32_t overhead = 40 + 8 + 12 + 4 + 16 + 4 + 4;
	enum ibv_mtu mtu = 0;

	for (enum ibv_mtu m = IBV_MTU_256; m <= IBV_MTU_4096; m++) {
		uint32_t bytes = UINT32_C(128) << m;

		if (bytes <= cap_bytes && bytes + overhead <= netdev_mtu)
			mtu = m;
	}
	return mtu;
}

/* ---- every address of the namespace, for urxe_gid_is_local() ----------------------------------
 */

static struct {
	pthread_mutex_t lock;
	struct urxe_gid *gids;
	unsigned n;
} local = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool local_has(const struct urxe_gid *gid)
{
	for (unsigned i = 0; i < local.n; i++) {
		if (memcmp(&local.gids[i], gid, sizeof(*gid)) == 0)
			return true;
	}
	return false;
}

static void local_refresh(void)
{
	struct ifaddrs *addrs;
	struct urxe_gid *gids, *grown;
	unsigned n = 0;

	if (getifaddrs(&addrs))
		return;
	gids = NULL;
	for (const struct ifaddrs *ifa = addrs; ifa; ifa = ifa->ifa_next) {
		struct urxe_gid gid;

		if (!ifa->ifa_addr || !gid_from_sockaddr(ifa->ifa_addr, &gid))
			continue;
		grown = realloc(gids, (n + 1) * sizeof(*gids));
		if (!grown)
			break;
		gids = grown;
		gids[n++] = gid;
	}
	freeifaddrs(addrs);
	free(local.gids);
	local.gids = gids;
	local.n = n;
}

void urxe_gids_forget(void)
{
	pthread_mutex_lock(&local.lock);
	local.n = 0;
	pthread_mutex_unlock(&local.lock);
}

bool urxe_gid_is_local(const struct urxe_gid *gid)
{
	bool is_local;

	if (urxe_gid_is_v4(gid) && gid->raw[12] == IN_LOOPBACKNET)
		return true;
	pthread_mutex_lock(&local.lock);
	is_local = local_has(gid);
	if (!is_local) {
		local_refresh();
		is_local = local_has(gid);
	}
	pthread_mutex_unlock(&local.lock);
	return is_local;
}
