/* SPDX-License-Identifier: BSD-2-Clause */
/* The links of a context: opened when a QP first needs them; which of them leads where. */
#include "base/log.h"
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/netdev.h"
#include "verbs/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEFAULT_HOP_LIMIT = 64, MIN_WINDOW = 8, ECN_MASK = 3, ECN_ECT0 = 2 };

static const struct urxe_gid zero_gid;

int urxe_context_claim_qpns(struct urxe_context *ctx)
{
	int place = ctx->udp ? urxe_udp_place(ctx->udp) : -1;
	uint32_t base;
	int ret = place < 0 ? urxe_shm_claim(ctx->shm, 1, 0, &base)
			    : urxe_shm_claim(ctx->shm, URXE_UDP_PLACES, (uint32_t)place, &base);

	if (ret)
		return ret;
	return urxe_engine_add_qpns(ctx->engine, base);
}

/*
 * Every address of the namespace, whatever this process's devices are: the port is shared, and what
 * arrives here may be for the owner of another device.
 */
static unsigned local_gids(struct urxe_gid *gids, unsigned max)
{
	struct urxe_netdev *netdevs;
	int n_netdevs = urxe_netdevs_read(&netdevs);
	unsigned n = 0;

	for (int i = 0; i < n_netdevs; i++) {
		for (unsigned j = 0; j < netdevs[i].n_gids && n < max; j++)
			gids[n++] = netdevs[i].gids[j];
	}
	if (n_netdevs >= 0)
		free(netdevs);
	return n;
}

static int open_udp(struct urxe_context *ctx)
{
	const struct urxe_settings *settings = urxe_settings();
	struct urxe_gid gids[URXE_MAX_DEVICES * URXE_MAX_GIDS];
	struct urxe_udp_conf conf = {
		.gids = gids,
		.n_gids = local_gids(gids, URXE_MAX_DEVICES * URXE_MAX_GIDS),
		.port = (uint16_t)settings->udp_port,
		.rcvbuf_bytes = settings->rcvbuf_bytes,
		.sndbuf_bytes = settings->sndbuf_bytes,
		.seed = ctx->seed,
		.told = ctx->udp_errno,
	};

	if (ctx->udp)
		return 0;
	ctx->udp_errno = urxe_udp_open(&conf, &ctx->udp);
	if (ctx->udp_errno)
		return ctx->udp_errno;
	urxe_udp_keep_stats(ctx->udp, &urxe_stat_page(ctx->stat)->udp);
	ctx->udp_errno = urxe_driver_add_udp(ctx);
	if (ctx->udp_errno) {
		urxe_udp_close(ctx->udp);
		ctx->udp = NULL;
	}
	return ctx->udp_errno;
}

/* Where a peer may be that shared memory does not reach. */
static void open_udp_if_remote(struct urxe_context *ctx)
{
	bool remote = urxe_settings()->link == URXE_LINK_UDP;
	struct urxe_gid gid;

	for (unsigned i = 0; i < URXE_MAX_GIDS; i++)
		remote = remote ||
			 (urxe_device_gid(ctx->dev, i, &gid) && !urxe_gid_is_loopback(&gid));
	if (remote && open_udp(ctx))
		log_warn(
			"%s: UDP port %u: %s; peers outside this network namespace cannot reach it",
			ctx->dev->ibv.name, urxe_settings()->udp_port, strerror(-ctx->udp_errno));
}

void urxe_context_readdress(struct urxe_context *ctx)
{
	struct urxe_gid gids[URXE_MAX_DEVICES * URXE_MAX_GIDS];
	unsigned n;
	int ret;

	if (!ctx->udp) {
		ctx->udp_errno = 0;
		if (ctx->shm)
			open_udp_if_remote(ctx);
		return;
	}
	n = local_gids(gids, URXE_MAX_DEVICES * URXE_MAX_GIDS);
	ret = urxe_udp_set_addrs(ctx->udp, gids, n);
	if (ret)
		log_warn("%s: new addresses cannot be used: %s", ctx->dev->ibv.name,
			 strerror(-ret));
}

int urxe_context_open_links(struct urxe_context *ctx)
{
	int ret;

	if (ctx->shm)
		return 0;
	ret = urxe_shm_open(ctx->seed, &ctx->shm);
	if (ret)
		return ret;
	urxe_shm_keep_stats(ctx->shm, &urxe_stat_page(ctx->stat)->shm);
	ret = urxe_driver_join(ctx); /* from now on the endpoint stays */
	if (!ret) {
		open_udp_if_remote(ctx);
		return 0;
	}
	urxe_shm_close(ctx->shm);
	ctx->shm = NULL;
	return ret;
}

/* Ask the kernel's routing: a datagram socket that is connected sends nothing. */
static int probe_route(const struct urxe_gid *sgid, const struct urxe_gid *dgid)
{
	struct sockaddr_in from4 = {.sin_family = AF_INET}, to4 = from4;
	struct sockaddr_in6 from6 = {.sin6_family = AF_INET6}, to6 = from6;
	bool v4 = urxe_gid_is_v4(sgid);
	const void *from = v4 ? (void *)&from4 : &from6, *to = v4 ? (void *)&to4 : &to6;
	socklen_t len = v4 ? sizeof(from4) : sizeof(from6);
	int fd, ret = 0;

	memcpy(&from4.sin_addr, sgid->raw + URXE_GID_V4, sizeof(from4.sin_addr));
	memcpy(&to4.sin_addr, dgid->raw + URXE_GID_V4, sizeof(to4.sin_addr));
	memcpy(&from6.sin6_addr, sgid, sizeof(from6.sin6_addr));
	memcpy(&to6.sin6_addr, dgid, sizeof(to6.sin6_addr));
	to4.sin_port = to6.sin6_port = htons(4791);
	fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, from, len) || connect(fd, to, len))
		ret = -errno;
	close(fd);
	return ret;
}

static struct lane *lane_to(struct urxe_context *ctx, uint32_t qpn)
{
	struct urxe_shm_peer *peer = urxe_shm_peer(ctx->shm, qpn);
	struct lane *lane;

	if (!peer)
		return NULL;
	lane = urxe_shm_peer_user(peer);
	if (lane)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->peer = peer;
	urxe_txq_init(&lane->txq, ctx->engine, lane);
	list_add_tail(&ctx->lanes, &lane->all);
	urxe_shm_peer_set_user(peer, lane);
	return lane;
}

static int check_av(const struct urxe_context *ctx, const struct ibv_ah_attr *av,
		    struct urxe_gid *ret_sgid)
{
	const struct urxe_gid *dgid = (const void *)av->grh.dgid.raw;
	const char *name = ctx->dev->ibv.name;

	if (!av->is_global) {
		log_error("%s: RoCE needs a GID: the address vector has none. Programs with an "
			  "option for a GID index (-g, -x) need it: -g 0",
			  name);
		return -EINVAL;
	}
	if (!urxe_device_gid(ctx->dev, av->grh.sgid_index, ret_sgid)) {
		log_error("%s: there is no GID %u; ibv_devinfo -v lists those that are", name,
			  av->grh.sgid_index);
		return -EINVAL;
	}
	if (memcmp(dgid, &zero_gid, sizeof(zero_gid)) == 0) {
		log_error("%s: the destination GID is all zero", name);
		return -EINVAL;
	}
	if (urxe_gid_is_multicast(dgid) && urxe_gid_is_v4(dgid) != urxe_gid_is_v4(ret_sgid)) {
		log_error("%s: GID %u is not of the multicast group's IP family: choose another "
			  "source GID",
			  name, av->grh.sgid_index);
		return -EINVAL;
	}
	return 0;
}

static int route_local(struct urxe_context *ctx, uint32_t dqpn, struct urxe_route *route)
{
	struct lane *lane;

	if (!dqpn) {
		route->txq = &ctx->ud_local_txq;
		return 0;
	}
	lane = lane_to(ctx, dqpn);
	if (!lane)
		return -ENOMEM;
	route->txq = &lane->txq;
	route->mtu_bytes = URXE_SHM_MTU;
	return 0;
}

/*
 * Nothing but the receiver's socket buffer absorbs a burst, and the peer's is taken to be like
 * ours: a full window fills no more than half of it.
 */
static uint32_t udp_window(struct urxe_context *ctx)
{
	uint32_t mtu = 128u << urxe_device_mtu(ctx->dev);
	struct urxe_udp_stats stats;
	uint32_t fits;

	urxe_udp_stats(ctx->udp, &stats);
	fits = stats.rcvbuf_bytes / (2 * mtu);
	if (fits < MIN_WINDOW)
		fits = MIN_WINDOW;
	return urxe_settings()->window_pkts < fits ? urxe_settings()->window_pkts : fits;
}

static int route_udp(struct urxe_context *ctx, uint32_t qpn, uint32_t dqpn,
		     struct urxe_route *route)
{
	int told = ctx->udp_errno, ret = open_udp(ctx);

	if (ret && ret != told)
		log_error("%s: no UDP port %u: %s", ctx->dev->ibv.name, urxe_settings()->udp_port,
			  strerror(-ret));
	if (ret)
		return ret;
	/* An address handle is not refused: datagrams may get lost. */
	if (dqpn) {
		ret = probe_route(&route->path.sgid, &route->path.dgid);
		if (ret) {
			log_error("%s: the destination GID cannot be reached from this one: %s",
				  ctx->dev->ibv.name, strerror(-ret));
			return ret;
		}
		/* Datagrams are nobody's to slow down. What the program says of ECN stays. */
		if (urxe_settings()->ecn == URXE_ECN_ON && !(route->path.tclass & ECN_MASK))
			route->path.tclass |= ECN_ECT0;
	}
	route->path.sport = urxe_udp_sport(ctx->udp, qpn, dqpn);
	route->txq = &ctx->udp_txq;
	route->window_pkts = udp_window(ctx);
	return 0;
}

int urxe_context_join(struct urxe_context *ctx, const struct urxe_gid *group)
{
	int ret = open_udp(ctx);

	if (!ret)
		ret = urxe_udp_join(ctx->udp, group, (uint32_t)ctx->dev->ifindex);
	if (ret)
		log_error("%s: cannot join the multicast group: %s", ctx->dev->ibv.name,
			  strerror(-ret));
	return ret;
}

int urxe_context_route(struct urxe_context *ctx, const struct ibv_ah_attr *av, uint32_t qpn,
		       uint32_t dqpn, struct urxe_route *ret_route)
{
	struct urxe_route route = {0};
	int ret = check_av(ctx, av, &route.path.sgid);

	if (!ret) /* an address handle may come before the first QP */
		ret = urxe_context_open_links(ctx);
	if (ret)
		return ret;
	memcpy(&route.path.dgid, av->grh.dgid.raw, sizeof(route.path.dgid));
	route.path.flow_label = av->grh.flow_label & 0xfffff;
	route.path.tclass = av->grh.traffic_class;
	/* Programs written for one subnet say 1 or 0; the kernel's stack takes the route's value.
	 */
	route.path.hop_limit = av->grh.hop_limit > 1 ? av->grh.hop_limit : DEFAULT_HOP_LIMIT;
	/* Groups are the kernel's matter: it also brings their packets to the other processes here.
	 */
	if (urxe_settings()->link == URXE_LINK_AUTO && urxe_gid_is_local(&route.path.dgid))
		ret = route_local(ctx, dqpn, &route);
	else
		ret = route_udp(ctx, qpn, dqpn, &route);
	if (ret)
		return ret;
	*ret_route = route;
	return 0;
}
