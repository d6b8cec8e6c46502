/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the UDP link: udp.c opens sockets, udp_tx.c batches and sends, udp_rx.c receives,
 * udp_steer.c has the kernel choose among endpoints. */
#ifndef URXE_LINK_UDP_PRIV_H
#define URXE_LINK_UDP_PRIV_H

#include "link/udp.h"

#include <netinet/in.h>
#include <string.h>

enum udp_family {
	UDP_V4,
	UDP_V6,
	UDP_FAMILIES,
};

enum {
	UDP_SOURCES = 16,   /* source ports */
	UDP_SEGS_MAX = 64,  /* the kernel's UDP_MAX_SEGMENTS was never lower */
	UDP_RX_MAX = 65536, /* GRO never makes a larger datagram */
	/* With Ethernet, IPv6 and UDP headers not above the usual gso_max_size. */
	UDP_BATCH_MAX = 65536 - 14 - 40 - 8,
	UDP_BATCHES = 16,                   /* in one system call */
	UDP_OUTBOX_MIN = UDP_BATCH_MAX / 2, /* bytes that are worth a system call */
	UDP_OUTBOX_SKEW = 32,               /* at most, in front of a batch */
	UDP_NO_PORT = 0,
	UDP_GROUPS_MAX = 64,
};

/* One of our addresses. */
struct udp_addr {
	struct urxe_gid gid;
	uint32_t ifindex; /* of its interface; 0: not known */
};

/* A multicast group that we hear on an interface. */
struct udp_group {
	struct urxe_gid gid;
	uint32_t ifindex;
};

/*
 * A source port, held in each family that we have addresses of. A socket is bound to our address if
 * there is only one beside the loopback's, and takes over what the first path says of traffic class
 * and hop limit: sending is cheaper when they need not be named.
 */
struct udp_source {
	uint16_t port; /* UDP_NO_PORT: not bound yet */
	int fd[UDP_FAMILIES];
	/* What the socket sends with unless a packet says other; 0: the system's. */
	uint8_t tclass[UDP_FAMILIES];
	uint8_t hop_limit[UDP_FAMILIES];
};

/* Consecutive packets of one path and one size, as they go on the wire: the kernel segments them.
 */
struct udp_batch {
	struct urxe_path path;
	struct udp_source *source;
	uint8_t *data;
	uint32_t len;
	uint32_t seg_len; /* of each packet, but perhaps of a shorter last one */
	unsigned n;       /* packets */
};

/*
 * Batches for one system call, as many as make it worth its cost. Packets are copied here before
 * the ICRC is taken: an application may write to memory that a peer reads, and a packet whose
 * payload changed behind its ICRC would be lost each time it is resent.
 */
struct udp_outbox {
	unsigned sent; /* batches */
	unsigned n;    /* batches, the sent ones included; 0: empty */
	uint32_t len;  /* of data */
	struct udp_batch batch[UDP_BATCHES];
	/* Another batch begins only where there are less than UDP_OUTBOX_MIN. */
	_Alignas(16) uint8_t data[UDP_OUTBOX_MIN + UDP_OUTBOX_SKEW + UDP_BATCH_MAX];
};

/* What the kernel told of a datagram that was received. */
struct udp_datagram {
	struct urxe_path path;
	const uint8_t *data;
	size_t len;
	size_t seg_len; /* the packets' in it, but perhaps of a shorter last one */
	bool ce;
};

struct urxe_udp {
	int epoll_fd;
	int rx_fd[UDP_FAMILIES];         /* -1: no address of that family */
	uint32_t rx_drops[UDP_FAMILIES]; /* the sockets' drop counters as last seen */
	unsigned rx_next;                /* the family to look at first */
	enum udp_family rx_last;         /* of the last packet: is never quiet */
	bool rx_idle;                    /* the last poll found nothing */
	uint8_t rx_warm[UDP_FAMILIES];   /* looks until the family counts as quiet */
	uint8_t rx_skipped;              /* looks at a quiet one that were left out */
	unsigned segs_max;               /* 1: the kernel cannot segment */
	int blocked_fd;                  /* waits for EPOLLOUT; -1: none */
	uint32_t warned;                 /* kinds of send errors that were logged */
	unsigned cur; /* the outbox being filled; the other one goes out before it */
	int place;    /* among the endpoints that share the port; -1: not known */
	int told;     /* why it could not be opened before */
	uint16_t port;
	uint32_t rcvbuf_bytes;
	uint32_t sndbuf_bytes;
	uint64_t seed;
	struct urxe_udp_stats *stats;
	struct urxe_udp_stats own_stats;
	struct udp_source source[UDP_SOURCES];
	struct urxe_frame frame;
	struct udp_outbox out[2];
	uint8_t rx_buf[UDP_RX_MAX];
	/* The only address of the family, but the loopback's, when sockets were bound to it. */
	struct udp_addr sole[UDP_FAMILIES];
	bool has_sole[UDP_FAMILIES];
	unsigned n_addrs;
	struct udp_addr *addr;
	unsigned n_groups;
	struct udp_group group[UDP_GROUPS_MAX];
};

static inline enum udp_family udp_gid_family(const struct urxe_gid *gid)
{
	return urxe_gid_is_v4(gid) ? UDP_V4 : UDP_V6;
}

/* Take these addresses for ours. */
int urxe_udp_addrs_read(struct urxe_udp *udp, const struct urxe_gid *gids, unsigned n);

/* Have sockets in each family that we have addresses of. */
int urxe_udp_open_families(struct urxe_udp *udp);

/* Have packets come to whom they are for, and find out our own place. */
void urxe_udp_steer(struct urxe_udp *udp, enum udp_family family);

/* Sent for that, by us or by another endpoint. */
bool urxe_udp_is_probe(const struct udp_datagram *dgram);

/* The zone of a link-local address; others have none. */
static inline uint32_t udp_scope(const struct udp_addr *addr)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)addr->gid.raw)
		       ? addr->ifindex
		       : 0;
}

/* Is it one of our addresses or groups? */
bool urxe_udp_hears(const struct urxe_udp *udp, const struct urxe_gid *gid);

/* Our own record of that address; NULL: not ours. */
const struct udp_addr *urxe_udp_addr(const struct urxe_udp *udp, const struct urxe_gid *gid);

/* The packets of a datagram to one of our addresses: verified, delivered. Returns how many. */
unsigned urxe_udp_rx_datagram(struct urxe_udp *udp, const struct udp_datagram *dgram,
			      urxe_rx_fn *deliver, void *arg);

#endif
