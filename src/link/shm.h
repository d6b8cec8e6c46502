/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared-memory link: packets between the engines of one network namespace.
 *
 * Rendezvous is by abstract unix sockets, one name per block of QP numbers: the kernel makes a
 * claim atomic, scopes it to the network namespace as it does IP addresses, and releases it when
 * the process dies. No files, nothing stale.
 *
 * A connection is one way: whoever sends to a block connects to its owner's socket and passes a
 * sealed memfd with one ring in it. The answer travels on a ring of the answerer's own. Nothing
 * that the other side wrote is trusted: indices, lengths and offsets are validated on private
 * copies, the memfd's seals and size are verified before it is mapped.
 *
 * A ring has cells of 128 bytes, each with a sequence number, headers and a small payload, and a
 * bulk area for larger payloads. A polling receiver takes a small packet with the transfer of its
 * cell alone. The doorbell is a byte on the connection's socket (never blocks, needs no more
 * descriptors); it is rung only when the receiver has said that it sleeps.
 *
 * Threads: one endpoint belongs to one lock domain, held by the caller. Polling functions make no
 * system call in the steady state. Callbacks (pull, deliver) must not call the endpoint they are
 * called for. A forked child must not use or close its parent's endpoint; it keeps the parent's
 * claims alive until it ends or executes a program.
 */
#ifndef URXE_LINK_SHM_H
#define URXE_LINK_SHM_H

#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct urxe_shm;
struct urxe_shm_peer;

/* The largest payload of one packet on this link: the MTU of QPs whose peer is in this namespace.
 */
enum { URXE_SHM_MTU = 16384 };

/* seed: where the search for a free block begins. */
int urxe_shm_open(uint64_t seed, struct urxe_shm **ret_shm);
void urxe_shm_close(struct urxe_shm *shm);

/*
 * Claim a block of 1024 QP numbers for this endpoint; *ret_base is its first number. Rather one
 * that leaves this remainder (1 and 0: any). -ENOSPC: all 2^14 blocks of the namespace are taken.
 * Block 0 is never given out (QPNs 0 and 1 are special).
 */
int urxe_shm_claim(struct urxe_shm *shm, uint32_t divisor, uint32_t remainder, uint32_t *ret_base);

/*
 * Is somebody in this namespace (this endpoint too) the owner of the QPN's block? To find out is to
 * connect: a few system calls, unless there is a connection.
 */
bool urxe_shm_block_exists(struct urxe_shm *shm, uint32_t qpn);

/*
 * The way to the owner of this QPN's block, made on first use and kept until the endpoint closes;
 * also for a block that nobody owns yet, or that dies: sending then drops, and tries to connect
 * again with back-off. A peer that is this endpoint itself is a ring in private memory: the same
 * code, no descriptor. NULL: out of memory.
 */
struct urxe_shm_peer *urxe_shm_peer(struct urxe_shm *shm, uint32_t qpn);

/* For the owner's use; 0 initially. */
void urxe_shm_peer_set_user(struct urxe_shm_peer *peer, void *user);
void *urxe_shm_peer_user(const struct urxe_shm_peer *peer);

/*
 * Pull frames and write them to the peer's ring while there is room, at most budget. Returns the
 * number pulled. Without a connection, frames are pulled and dropped. A frame with grh set, or any
 * frame sent by urxe_shm_forward(), carries its path along as a GRH.
 */
unsigned urxe_shm_send(struct urxe_shm_peer *peer, uint64_t now, urxe_pull_fn *pull, void *arg,
		       unsigned budget);

/*
 * Pass on a packet that arrived elsewhere (UDP) for this peer, with its path and CE mark; the
 * path's source port is lost. Dropped when there is no room.
 */
void urxe_shm_forward(struct urxe_shm_peer *peer, uint64_t now, const struct urxe_rx *rx);

/* Take packets from all incoming rings, fairly, at most budget. Returns how many. */
unsigned urxe_shm_poll(struct urxe_shm *shm, urxe_rx_fn *deliver, void *arg, unsigned budget);

/* Anything to take now? Cheap: reads shared memory only. */
bool urxe_shm_pending(const struct urxe_shm *shm);

/*
 * Sleep protocol. arm: tell all senders to ring, and all receivers whose full ring holds us up to
 * ring when there is room; returns false if something came in meanwhile (then do not sleep). Each
 * sender rings at most once per arm, so arm before every sleep, armed already or not; rings that
 * connect later are covered. disarm: senders need not ring any more. Both are cheap.
 */
bool urxe_shm_arm(struct urxe_shm *shm);
void urxe_shm_disarm(struct urxe_shm *shm);

/*
 * An epoll descriptor, readable when a doorbell rang, a peer connects or a peer is gone;
 * urxe_shm_service() then handles one such event, in bounded time, and returns false if there was
 * none. Who polls without sleeping must still look at the descriptor now and then, or new peers
 * wait for ever.
 */
int urxe_shm_fd(const struct urxe_shm *shm);
bool urxe_shm_service(struct urxe_shm *shm);

struct urxe_shm_stats {
	uint64_t tx_pkts, tx_bytes, rx_pkts, rx_bytes;
	uint64_t tx_no_peer;   /* dropped: nobody owns the block */
	uint64_t tx_full;      /* times a ring was found full */
	uint64_t fwd_dropped;  /* forwards dropped: the ring was full, or the packet too large */
	uint64_t doorbells;    /* system calls made to wake somebody */
	uint64_t rx_malformed; /* a peer wrote nonsense: its connection was dropped */
};
void urxe_shm_stats(const struct urxe_shm *shm, struct urxe_shm_stats *ret_stats);

/* From now on keep them there, going on from what is in it; until the endpoint closes. */
void urxe_shm_keep_stats(struct urxe_shm *shm, struct urxe_shm_stats *stats);

#endif
