/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link: RoCEv2 packets (annex A17) on port 4791 to and from other hosts.
 *
 * Sending: unconnected sockets with DF (Linux then writes Identification 0, and 0, 1, 2... to the
 * segments of one UDP_SEGMENT send, which the ICRC covers), one per source port of the entropy
 * range. Consecutive frames of one path and size are one batch, which the kernel segments; a
 * shorter last one may ride along. Small batches wait for a full one, if there is one soon, to
 * leave with it in one system call. Receiving: one socket per address family with SO_REUSEPORT and
 * UDP_GRO. Where several endpoints share the port, the kernel chooses by QPN: of the block b of
 * 1024 QPNs, packets go to the endpoint at place b % URXE_UDP_PLACES.
 *
 * Threads: one endpoint belongs to one lock domain, held by the caller.
 */
#ifndef URXE_LINK_UDP_H
#define URXE_LINK_UDP_H

#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct urxe_udp;

enum { URXE_UDP_PLACES = 256 };

struct urxe_udp_conf {
	const struct urxe_gid *gids; /* our addresses: packets to others are not ours */
	unsigned n_gids;
	uint16_t port; /* 4791 but in tests */
	/* Asked of the kernel: net.core.rmem_max and wmem_max limit it. 0: the default. */
	uint32_t rcvbuf_bytes;
	uint32_t sndbuf_bytes;
	uint64_t seed; /* of the source ports */
	int told;      /* an error that the log need not say again, or 0 */
};

/*
 * Opens receive sockets for the families among gids. -EADDRINUSE: somebody without SO_REUSEPORT, of
 * another user, or the kernel's rxe has the port: the log says so.
 */
int urxe_udp_open(const struct urxe_udp_conf *conf, struct urxe_udp **ret_udp);
void urxe_udp_close(struct urxe_udp *udp);

/*
 * Where this endpoint was, when it opened, among those that share the port; -1: not known, or
 * beyond the places that QPNs tell apart.
 */
int urxe_udp_place(const struct urxe_udp *udp);

/*
 * Our addresses are others now. Call it in the network namespace in which the endpoint was opened:
 * a new IP family takes new sockets.
 */
int urxe_udp_set_addrs(struct urxe_udp *udp, const struct urxe_gid *gids, unsigned n);

/*
 * Hear a multicast group on an interface, or no longer. -EAFNOSUPPORT: no address of its family;
 * -ENOBUFS, -ENOMEM: too many.
 */
int urxe_udp_join(struct urxe_udp *udp, const struct urxe_gid *gid, uint32_t ifindex);
void urxe_udp_leave(struct urxe_udp *udp, const struct urxe_gid *gid);

/*
 * A source port for a new path between these two QPs: stable, spread, one of those we hold. It may
 * have to be bound first: call it in the network namespace in which the endpoint was opened.
 */
uint16_t urxe_udp_sport(struct urxe_udp *udp, uint32_t qpn, uint32_t dqpn);

/*
 * Pull frames and send them in batches while the sockets take them, at most budget frames. Returns
 * the number pulled. A batch the kernel did not take is kept (a private copy) and sent first next
 * time: urxe_udp_blocked() is true meanwhile and pollout descriptors tell when to go on. With more,
 * what is last is kept too while it can grow: whoever says so calls again soon.
 * urxe_udp_unsent() is true while anything is kept, for whatever reason.
 */
unsigned urxe_udp_send(struct urxe_udp *udp, urxe_pull_fn *pull, void *arg, unsigned budget,
		       bool more);
bool urxe_udp_blocked(const struct urxe_udp *udp);
bool urxe_udp_unsent(const struct urxe_udp *udp);

/*
 * Receive what is there, at most about budget packets; verify ICRCs; deliver. Returns how many were
 * delivered. After a poll that found nothing, a single message is handed up without a look for
 * more. An address family that has been quiet for long while packets were of the other is not
 * looked at each time, until urxe_udp_warm(): for who knows that something came, or does not come
 * again soon.
 */
unsigned urxe_udp_poll(struct urxe_udp *udp, urxe_rx_fn *deliver, void *arg, unsigned budget);
void urxe_udp_warm(struct urxe_udp *udp);

/* An epoll descriptor, readable when packets wait or when a blocked send may go on. */
int urxe_udp_fd(const struct urxe_udp *udp);

/* Whether that is so now. A system call. */
bool urxe_udp_pending(const struct urxe_udp *udp);

struct urxe_udp_stats {
	uint64_t tx_pkts, tx_bytes, tx_batches, tx_calls, tx_blocked, tx_errors;
	uint64_t rx_pkts, rx_bytes, rx_calls;
	uint64_t rx_bad_icrc;
	uint64_t rx_runt;      /* shorter than BTH and ICRC */
	uint64_t rx_foreign;   /* to an address that is not ours */
	uint64_t rx_overflow;  /* the kernel's buffer was full; known at the next packet */
	uint32_t rcvbuf_bytes; /* as granted */
};
void urxe_udp_stats(const struct urxe_udp *udp, struct urxe_udp_stats *ret_stats);

/* From now on keep them there, going on from what is in it; until the endpoint closes. */
void urxe_udp_keep_stats(struct urxe_udp *udp, struct urxe_udp_stats *stats);

#endif
