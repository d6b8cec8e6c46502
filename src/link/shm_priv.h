/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the shared-memory link know of each other: data path and rendezvous. */
#ifndef URXE_LINK_SHM_PRIV_H
#define URXE_LINK_SHM_PRIV_H

#include "base/clock.h"
#include "base/list.h"
#include "link/ring.h"
#include "link/shm.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SHM_BLOCKS = 1 << 14, /* of 2^10 QP numbers each */
	SHM_BLOCK_SHIFT = 10,
	SHM_CONNS_MAX = 1024,    /* incoming: bounds descriptors and mappings that others cost us */
	SHM_STRANGERS_MAX = 256, /* of them, of other users: they cannot lock our own out */
	SHM_MUTE_MAX = 64,       /* of them, without a hello yet: the oldest makes room */
};

#define SHM_BACKOFF_MIN_NS NSEC_PER_MSEC
#define SHM_BACKOFF_MAX_NS (100 * NSEC_PER_MSEC)

_Static_assert(GRH_LEN + URXE_HDR_MAX + URXE_SHM_MTU + 3 <= RING_PACKET_MAX, "MTU");

/* A descriptor that the endpoint's epoll watches: the first member of what it belongs to. */
struct shm_source {
	enum shm_source_kind {
		SHM_SELF,
		SHM_LISTENER,
		SHM_PEER,
		SHM_CONN,
	} kind;
	int fd; /* -1: none */
};

/* A block of QP numbers of ours. */
struct shm_listener {
	struct shm_source src;
	uint32_t block;
	struct list link;
};

/* An outgoing connection, or the wish for one. */
struct urxe_shm_peer {
	struct shm_source src; /* no descriptor while tx.ring is set: it is a ring to ourselves */
	struct urxe_shm *shm;
	uint32_t block;
	void *user;
	uint64_t retry_ns; /* no attempt to connect before */
	uint64_t backoff_ns;
	struct list full; /* on shm->full while its ring holds us up */
	struct ring_tx tx;
};

/* An incoming connection: first mute, then with a place in shm->in[]. */
struct shm_conn {
	struct shm_source src; /* no descriptor: a ring from ourselves, or the peer is gone */
	bool stranger;         /* of another user */
	bool leaving;          /* the peer is gone: drain what it left, up to drain_end */
	uint32_t drain_end;
	unsigned place;
	struct urxe_shm_peer *self; /* the other end of a ring from ourselves */
	struct list mute;
};

/* What polling touches of an incoming connection: kept dense. */
struct shm_in {
	struct ring_rx rx;
	struct shm_conn *conn;
};

struct urxe_shm {
	struct shm_source self; /* an eventfd: the doorbell of rings to ourselves */
	int epoll_fd;
	int spare_fd; /* given up for a moment to refuse connections when descriptors run out */
	bool armed;
	bool heavy;     /* our fences before sleeping are */
	uint64_t awake; /* packets taken since we slept last */
	/* So many of them make a heavy fence cheaper than light ones; UINT64_MAX: not to be had. */
	uint64_t heavy_worth;
	unsigned n_in;
	unsigned next; /* place in in[] where polling goes on */
	unsigned n_leaving;
	unsigned n_mute;
	unsigned n_strangers;
	uint32_t last_claim;
	struct list mute; /* oldest first */
	struct list full;
	struct list listeners;
	struct urxe_shm_stats *stats;
	struct urxe_shm_stats own_stats;
	struct shm_in in[SHM_CONNS_MAX];
	struct urxe_shm_peer *peers[SHM_BLOCKS];
};

/* ---- shm_dial.c: outgoing connections -------------------------------------------------------- */

/* The name of a block's socket; returns the address length. */
struct sockaddr_un;
unsigned urxe_shm_block_name(uint32_t block, struct sockaddr_un *ret_name);

/* Connect at once: 0; -ECONNREFUSED: no owner; -EAGAIN: the owner is busy; or what failed. */
int urxe_shm_dial(struct urxe_shm_peer *peer);

/* Connect if enough time has passed since the last attempt. Returns whether there is a ring now. */
bool urxe_shm_dial_when_due(struct urxe_shm_peer *peer, uint64_t now);

void urxe_shm_hang_up(struct urxe_shm_peer *peer);

/* ---- shm_conn.c: incoming connections, events ------------------------------------------------ */

int urxe_shm_watch(struct urxe_shm *shm, struct shm_source *src);

/*
 * Stop watching and close. Explicitly, for the sake of forked children: their copies of the
 * descriptor would keep it in the epoll set, and the connection up.
 */
void urxe_shm_unwatch(struct urxe_shm *shm, struct shm_source *src);

/* Take the ring of a peer that is this endpoint. */
int urxe_shm_conn_open_self(struct urxe_shm_peer *peer, struct ring *ring);
void urxe_shm_conn_free(struct urxe_shm *shm, struct shm_conn *conn);

/* Free those whose peer is gone and whose ring is drained. */
void urxe_shm_reap(struct urxe_shm *shm);

/* Wake the other end of a connection; fd -1: it is we. */
void urxe_shm_ring_bell(struct urxe_shm *shm, int fd);

/* ---- the greeting ---------------------------------------------------------------------------- */

/* The first message of a connection; the ring's memfd comes with it. Both ends must agree on all.
 */
struct shm_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t cells;
	uint32_t cell_bytes;
	uint32_t bulk_bytes;
	uint32_t packet_max;
};

#define SHM_HELLO                                                                                  \
	((struct shm_hello){                                                                       \
		.magic = 0x75727865, /* "urxe" */                                                  \
		.version = 1,                                                                      \
		.cells = RING_CELLS,                                                               \
		.cell_bytes = RING_CELL_BYTES,                                                     \
		.bulk_bytes = RING_BULK,                                                           \
		.packet_max = RING_PACKET_MAX,                                                     \
	})

#endif
