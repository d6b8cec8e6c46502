/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_priv.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/in6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Source ports: RoCEv2 keeps flow entropy in the dynamic range (annex A17.4). */
#define SPORT_MIN   0xc000
#define SPORT_COUNT 0x4000
#define SPORT_TRIES 64

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct sockopt {
	int level;
	int name;
	int value;
	bool optional; /* works without, only slower or with less to see */
};

static const struct sockopt rx_opts[UDP_FAMILIES][10] = {
	[UDP_V4] =
		{
			{SOL_SOCKET, SO_REUSEPORT, 1, false},
			{SOL_SOCKET, SO_RXQ_OVFL, 1, true},
			{IPPROTO_IP, IP_PKTINFO, 1, false},
			{IPPROTO_IP, IP_RECVTOS, 1, true},
			{IPPROTO_IP, IP_RECVTTL, 1, true},
			{IPPROTO_IP, IP_MULTICAST_ALL, 0, true}, /* only of our own groups */
			{SOL_UDP, UDP_GRO, 1, true},
		},
	[UDP_V6] =
		{
			{IPPROTO_IPV6, IPV6_V6ONLY, 1, false},
			{SOL_SOCKET, SO_REUSEPORT, 1, false},
			{SOL_SOCKET, SO_RXQ_OVFL, 1, true},
			{IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, false},
			{IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
			{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true},
			{IPPROTO_IPV6, IPV6_FLOWINFO, 1, true},
			{IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, true},
			{SOL_UDP, UDP_GRO, 1, true},
			/* NICs and the kernel's rxe send no UDP checksum, the ICRC covers more. */
			{SOL_UDP, UDP_NO_CHECK6_RX, 1, true},
		},
};

static const struct sockopt tx_opts[UDP_FAMILIES][2] = {
	[UDP_V4] = {{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, false}},
	[UDP_V6] = {{IPPROTO_IPV6, IPV6_V6ONLY, 1, false},
		    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, false}},
};

static int set_opts(int fd, const struct sockopt *opts, size_t n)
{
	for (size_t i = 0; i < n && opts[i].level | opts[i].name; i++)
		if (setsockopt(fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int)) &&
		    !opts[i].optional)
			return -errno;
	return 0;
}

static int bind_to(int fd, enum udp_family family, const struct udp_addr *addr, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (addr) {
		memcpy(&v4.sin_addr, addr->gid.raw + 12, sizeof(v4.sin_addr));
		memcpy(&v6.sin6_addr, addr->gid.raw, sizeof(v6.sin6_addr));
		v6.sin6_scope_id = udp_scope(addr);
	}
	return family == UDP_V4 ? bind(fd, (const void *)&v4, sizeof(v4))
				: bind(fd, (const void *)&v6, sizeof(v6));
}

/* A socket of the family, bound to the address (NULL: any) and port; or -errno. */
static int open_socket(enum udp_family family, const struct udp_addr *addr, uint16_t port,
		       const struct sockopt *opts, size_t n)
{
	int fd, ret;

	fd = socket(family == UDP_V4 ? AF_INET : AF_INET6,
		    SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	ret = set_opts(fd, opts, n);
	if (ret)
		goto err_close;
	if (!bind_to(fd, family, addr, port))
		return fd;
	ret = -errno;
err_close:
	close(fd);
	return ret;
}

static void close_fds(int fd[UDP_FAMILIES])
{
	for (int f = 0; f < UDP_FAMILIES; f++) {
		if (fd[f] >= 0)
			close(fd[f]);
		fd[f] = -1;
	}
}

/* What arrives at a source port is nobody's: let the kernel drop it. */
static int drop_all(int fd)
{
	struct sock_filter ret_0 = {BPF_RET | BPF_K, 0, 0, 0};
	const struct sock_fprog prog = {1, &ret_0};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? -errno : 0;
}

/* The port in one more family. */
static int source_add(struct urxe_udp *udp, struct udp_source *src, enum udp_family f,
		      uint16_t port)
{
	int ret = open_socket(f, udp->has_sole[f] ? &udp->sole[f] : NULL, port, tx_opts[f],
			      ARRAY_LEN(tx_opts[f]));

	if (ret < 0)
		return ret;
	src->fd[f] = ret;
	if (udp->sndbuf_bytes) /* granted what net.core.wmem_max allows */
		setsockopt(src->fd[f], SOL_SOCKET, SO_SNDBUF, &udp->sndbuf_bytes,
			   sizeof(udp->sndbuf_bytes));
	return drop_all(src->fd[f]);
}

static int source_bind(struct urxe_udp *udp, struct udp_source *src, uint16_t port)
{
	for (enum udp_family f = 0; f < UDP_FAMILIES; f++) {
		int ret = udp->rx_fd[f] < 0 ? 0 : source_add(udp, src, f, port);

		if (ret) {
			close_fds(src->fd);
			return ret;
		}
	}
	src->port = port;
	return 0;
}

/* Bind a free source port; the search begins where the seed says. */
static int source_open(struct urxe_udp *udp, unsigned slot)
{
	struct rng rng = {udp->seed + slot};
	int ret = -EADDRINUSE;

	for (int i = 0; i < SPORT_TRIES && ret == -EADDRINUSE; i++)
		ret = source_bind(udp, &udp->source[slot],
				  (uint16_t)(SPORT_MIN + rng_below(&rng, SPORT_COUNT)));
	return ret;
}

uint16_t urxe_udp_sport(struct urxe_udp *udp, uint32_t qpn, uint32_t dqpn)
{
	struct rng hash = {udp->seed ^ (uint64_t)qpn << 32 ^ dqpn};
	unsigned slot = rng_below(&hash, UDP_SOURCES);

	/* Short of descriptors or ports, slot 0, open from the beginning, serves all. */
	if (udp->source[slot].port == UDP_NO_PORT && source_open(udp, slot))
		slot = 0;
	return udp->source[slot].port;
}

static void log_bind_error(uint16_t port, int err)
{
	if (err == -EADDRINUSE)
		log_error("UDP port %u is taken: by the kernel's rxe (see 'rdma link'), or by a "
			  "program of another user or one that does not share it (see 'ss -ulpn "
			  "sport = :%u'); stop it, or use another network namespace",
			  port, port);
	else
		log_error("cannot receive on UDP port %u: %s", port, strerror(-err));
}

static void set_rcvbuf(struct urxe_udp *udp, int fd, uint32_t bytes)
{
	uint32_t granted = 0;
	socklen_t len = sizeof(granted);

	if (bytes)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &len);
	granted /= 2; /* the kernel doubles what it grants, for its own overhead */
	udp->stats->rcvbuf_bytes = granted;
	if (granted < bytes)
		log_info("a UDP receive buffer has %u of the %u bytes asked for: sysctl "
			 "net.core.rmem_max=%u",
			 granted, bytes, bytes);
}

static int open_receive(struct urxe_udp *udp, enum udp_family f)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd;

	fd = open_socket(f, NULL, udp->port, rx_opts[f], ARRAY_LEN(rx_opts[f]));
	if (fd < 0) {
		if (fd != udp->told)
			log_bind_error(udp->port, fd);
		return fd;
	}
	udp->rx_fd[f] = fd;
	set_rcvbuf(udp, fd, udp->rcvbuf_bytes);
	urxe_udp_steer(udp, f);
	return epoll_ctl(udp->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Hold the source ports that are in use in this family too; where one is taken, do without. */
static void extend_sources(struct urxe_udp *udp, enum udp_family f)
{
	for (unsigned i = 0; i < UDP_SOURCES; i++) {
		struct udp_source *src = &udp->source[i];

		if (src->port != UDP_NO_PORT && source_add(udp, src, f, src->port))
			log_info("UDP port %u is taken: paths with it are without one IP family",
				 src->port);
	}
}

int urxe_udp_open_families(struct urxe_udp *udp)
{
	for (unsigned i = 0; i < udp->n_addrs; i++) {
		enum udp_family f = udp_gid_family(&udp->addr[i].gid);
		int ret;

		if (udp->rx_fd[f] >= 0)
			continue;
		ret = open_receive(udp, f);
		if (ret)
			return ret;
		extend_sources(udp, f);
	}
	return 0;
}

/* Sockets are bound to our address where there is only one of the family. */
static void find_sole_addrs(struct urxe_udp *udp)
{
	unsigned n[UDP_FAMILIES] = {0};

	for (unsigned i = 0; i < udp->n_addrs; i++) {
		enum udp_family f = udp_gid_family(&udp->addr[i].gid);

		if (urxe_gid_is_loopback(&udp->addr[i].gid))
			continue;
		udp->sole[f] = udp->addr[i];
		udp->has_sole[f] = n[f]++ == 0;
	}
}

/* Linux 4.18 and later segment; others would send a batch as one huge packet. */
static bool can_segment(const struct udp_source *src)
{
	const int off = 0;
	int fd = src->fd[UDP_V4] >= 0 ? src->fd[UDP_V4] : src->fd[UDP_V6];

	return !setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof(off));
}

static int open_all(struct urxe_udp *udp, const struct urxe_udp_conf *conf)
{
	int ret;

	udp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (udp->epoll_fd < 0)
		return -errno;
	ret = urxe_udp_addrs_read(udp, conf->gids, conf->n_gids);
	find_sole_addrs(udp);
	if (!ret)
		ret = urxe_udp_open_families(udp);
	if (ret)
		return ret;
	ret = source_open(udp, 0);
	if (ret) {
		log_error("no UDP source port from %u to %u could be bound: %s", SPORT_MIN,
			  SPORT_MIN + SPORT_COUNT - 1, strerror(-ret));
		return ret;
	}
	udp->segs_max = can_segment(&udp->source[0]) ? UDP_SEGS_MAX : 1;
	return 0;
}

int urxe_udp_open(const struct urxe_udp_conf *conf, struct urxe_udp **ret_udp)
{
	struct urxe_udp *udp;
	int ret;

	if (!conf->n_gids)
		return -EINVAL;
	udp = calloc(1, sizeof(*udp));
	if (!udp)
		return -ENOMEM;
	udp->stats = &udp->own_stats;
	udp->epoll_fd = -1;
	udp->blocked_fd = -1;
	udp->place = -1;
	udp->port = conf->port;
	udp->rcvbuf_bytes = conf->rcvbuf_bytes;
	udp->sndbuf_bytes = conf->sndbuf_bytes;
	udp->seed = conf->seed;
	udp->told = conf->told;
	urxe_udp_warm(udp);
	for (int f = 0; f < UDP_FAMILIES; f++) {
		udp->rx_fd[f] = -1;
		for (int i = 0; i < UDP_SOURCES; i++)
			udp->source[i].fd[f] = -1;
	}
	ret = open_all(udp, conf);
	if (ret) {
		urxe_udp_close(udp);
		return ret;
	}
	*ret_udp = udp;
	return 0;
}

void urxe_udp_close(struct urxe_udp *udp)
{
	if (!udp)
		return;
	for (int i = 0; i < UDP_SOURCES; i++)
		close_fds(udp->source[i].fd);
	close_fds(udp->rx_fd);
	if (udp->epoll_fd >= 0)
		close(udp->epoll_fd);
	free(udp->addr);
	free(udp);
}

int urxe_udp_fd(const struct urxe_udp *udp)
{
	return udp->epoll_fd;
}

int urxe_udp_place(const struct urxe_udp *udp)
{
	return udp->place;
}

bool urxe_udp_pending(const struct urxe_udp *udp)
{
	struct pollfd fd = {.fd = udp->epoll_fd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

void urxe_udp_stats(const struct urxe_udp *udp, struct urxe_udp_stats *ret_stats)
{
	*ret_stats = *udp->stats;
}

void urxe_udp_keep_stats(struct urxe_udp *udp, struct urxe_udp_stats *stats)
{
	stats->rcvbuf_bytes = udp->stats->rcvbuf_bytes;
	udp->stats = stats;
}
