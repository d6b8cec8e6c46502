/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A one-way packet ring in memory that a producer and a consumer share, neither trusting the other.
 *
 * Cells of 128 bytes carry a packet each: a small one inside, a larger one in the bulk area behind
 * the cells, always contiguous. A cell's sequence number says which lap wrote it, so the consumer
 * looks at nothing but its next cell, and no cell is ever cleared. The consumer publishes how far
 * it has come only every so often, and the producer looks only when its own view says full: in the
 * steady state the two exchange the cache lines of the packets and no others.
 *
 * What the other side wrote is loaded once, into private memory, and judged there. Positions are
 * free-running 32-bit counters.
 *
 * Sleep protocol: who is about to sleep stores a new nonzero token in its own line, then looks
 * again for what it waits for; the other side, having changed something, looks at the token and
 * rings once per token. Both sides put a full fence between their store and their load, so that at
 * least one of them sees the other's store; a consumer that makes a heavy one (base/fence.h) says
 * so, and saves the producer its fence in each send.
 */
#ifndef URXE_LINK_RING_H
#define URXE_LINK_RING_H

#include "base/fence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	RING_CELLS = 1024,
	RING_CELL_BYTES = 128,             /* two cache lines */
	RING_INLINE = RING_CELL_BYTES - 8, /* bytes of the largest packet that fits its cell */
	/*
	 * Half of it in flight is what hides the cost of a line's way between cores that are far
	 * apart: 256 KiB give two thirds of the bandwidth, 1 MiB gives no more (bench/ring.c).
	 */
	RING_BULK = 512 << 10,
	RING_ALIGN = 64,
	RING_PACKET_MAX = (16 << 10) + 128, /* bytes, all headers included */
	RING_PUBLISH_CELLS = RING_CELLS / 8,
	RING_PUBLISH_BYTES = RING_BULK / 8,
};

enum ring_flags {
	RING_F_BULK = 1, /* the packet lies at bulk_off */
	RING_F_GRH = 2,  /* it begins with a GRH */
	RING_F_ALL = RING_F_BULK | RING_F_GRH,
};

struct ring_cell {
	_Atomic uint32_t seq;  /* position + 1 when the cell is filled */
	_Atomic uint32_t desc; /* flags << 16 | length in bytes */
	union {
		_Atomic uint32_t bulk_off;
		uint8_t data[RING_INLINE];
	};
};

/* The shared memory itself. Each of the first two lines has one writer. */
struct ring {
	_Alignas(128) _Atomic uint32_t producer_sleeps; /* token; 0: awake */
	_Alignas(128) _Atomic uint32_t consumed;        /* position */
	_Atomic uint32_t consumer_sleeps;
	_Atomic uint32_t consumer_is_heavy; /* its fence is */
	_Alignas(128) struct ring_cell cells[RING_CELLS];
	_Alignas(4096) uint8_t bulk[RING_BULK];
};

_Static_assert(sizeof(struct ring_cell) == RING_CELL_BYTES, "a cell is two cache lines");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics in shared memory must not need a lock");
/* Whoever finds the ring full will be told: a full ring holds more than is left unpublished. */
_Static_assert(RING_BULK - 2 * RING_PACKET_MAX > RING_PUBLISH_BYTES + RING_PACKET_MAX, "bulk");

struct ring_tx {
	struct ring *ring;             /* NULL: not connected */
	bool joined;                   /* heavy fences reach us */
	uint32_t head;                 /* next position to write */
	uint32_t tail;                 /* the consumer's position, as last seen */
	uint32_t bulk_head;            /* free-running, in bytes */
	uint32_t bulk_tail;            /* as head and tail */
	uint32_t token;                /* of our own sleep */
	uint32_t rung;                 /* the consumer's token that we rang for */
	uint32_t pending_desc;         /* of the packet between begin and commit */
	uint32_t bulk_end[RING_CELLS]; /* bulk_head behind each cell's packet */
};

struct ring_rx {
	struct ring *ring;
	uint32_t pos; /* next position to read */
	uint32_t unpublished_cells;
	uint32_t unpublished_bytes;
	uint32_t token;
	uint32_t rung; /* the producer's token that we rang for */
};

struct ring_pkt {
	const uint8_t *data; /* the producer may still write there */
	uint32_t len;
	bool grh;
};

/* A ring in memory of our own; NULL: out of memory. */
struct ring *urxe_ring_new_private(void);

/* A ring in a new memfd, sealed so that it can be passed on: 0 and *ret_fd, *ret_ring, or -errno.
 */
int urxe_ring_new_shared(int *ret_fd, struct ring **ret_ring);

/*
 * Map a ring that another process passed. -EPERM: its seals do not exclude that it shrinks under
 * us; -EINVAL: it is not a memfd of our size, or not of ordinary pages (huge ones can run out at
 * any access); else what mmap says.
 */
int urxe_ring_map(int fd, struct ring **ret_ring);
void urxe_ring_unmap(struct ring *ring); /* NULL is fine */

static inline uint32_t ring_bulk_need(uint32_t len)
{
	return (len + RING_ALIGN - 1) & ~(uint32_t)(RING_ALIGN - 1);
}

/* ---- producer -------------------------------------------------------------------------------- */

void urxe_ring_tx_init(struct ring_tx *tx, struct ring *ring);

static inline bool ring_tx_fits(const struct ring_tx *tx)
{
	uint32_t off = tx->bulk_head % RING_BULK;
	uint32_t skip = off + RING_PACKET_MAX > RING_BULK ? RING_BULK - off : 0;

	return tx->head - tx->tail < RING_CELLS &&
	       tx->bulk_head - tx->bulk_tail + skip + RING_PACKET_MAX <= RING_BULK;
}

/* Take over the consumer's position. -EPROTO: it is nonsense. */
int urxe_ring_tx_refresh(struct ring_tx *tx);

/* Is there room for any one packet? 1, 0, or -EPROTO: the consumer wrote nonsense. */
static inline int ring_tx_room(struct ring_tx *tx)
{
	if (ring_tx_fits(tx))
		return 1;
	int err = urxe_ring_tx_refresh(tx);

	return err ? err : ring_tx_fits(tx);
}

/*
 * Where to put the next packet, of len bytes (at most RING_PACKET_MAX), after ring_tx_room() said
 * 1. Then ring_tx_commit() makes it visible.
 */
static inline uint8_t *ring_tx_begin(struct ring_tx *tx, uint32_t len, bool grh)
{
	struct ring_cell *cell = &tx->ring->cells[tx->head % RING_CELLS];
	uint32_t flags = grh ? RING_F_GRH : 0;

	if (len <= RING_INLINE) {
		tx->pending_desc = flags << 16 | len;
		return cell->data;
	}
	uint32_t off = tx->bulk_head % RING_BULK;

	if (off + len > RING_BULK) { /* never wraps inside a packet */
		tx->bulk_head += RING_BULK - off;
		off = 0;
	}
	tx->bulk_head += ring_bulk_need(len);
	tx->pending_desc = (flags | RING_F_BULK) << 16 | len;
	atomic_store_explicit(&cell->bulk_off, off, memory_order_relaxed);
	return tx->ring->bulk + off;
}

static inline void ring_tx_commit(struct ring_tx *tx)
{
	struct ring_cell *cell = &tx->ring->cells[tx->head % RING_CELLS];

	tx->bulk_end[tx->head % RING_CELLS] = tx->bulk_head;
	tx->head++;
	atomic_store_explicit(&cell->desc, tx->pending_desc, memory_order_relaxed);
	atomic_store_explicit(&cell->seq, tx->head, memory_order_release);
}

/* After commits: must the consumer be woken? True once per its sleep. */
static inline bool ring_tx_must_ring(struct ring_tx *tx)
{
	fence_light(tx->joined &&
		    atomic_load_explicit(&tx->ring->consumer_is_heavy, memory_order_relaxed));
	uint32_t token = atomic_load_explicit(&tx->ring->consumer_sleeps, memory_order_relaxed);

	if (token == 0 || token == tx->rung)
		return false;
	tx->rung = token;
	return true;
}

/* Ask to be woken when there is room; the caller fences and looks again. */
void urxe_ring_tx_sleep(struct ring_tx *tx);
void urxe_ring_tx_awake(struct ring_tx *tx);

/* ---- consumer -------------------------------------------------------------------------------- */

void urxe_ring_rx_init(struct ring_rx *rx, struct ring *ring);

static inline bool ring_rx_ready(const struct ring_rx *rx)
{
	const struct ring_cell *cell = &rx->ring->cells[rx->pos % RING_CELLS];

	/* Both lines of the cell come at the same time then, not one after the other. */
	__builtin_prefetch((const char *)cell + RING_CELL_BYTES / 2);
	return atomic_load_explicit(&cell->seq, memory_order_acquire) == rx->pos + 1;
}

/* Tell the producer how far we are: returns whether it must be woken. */
bool urxe_ring_rx_publish(struct ring_rx *rx);

/* What fence the caller makes before it sleeps. A light one from the beginning. */
void urxe_ring_rx_heavy(struct ring_rx *rx, bool heavy);

/* Ask to be woken at the next packet; the caller fences and looks again. */
void urxe_ring_rx_sleep(struct ring_rx *rx);
void urxe_ring_rx_awake(struct ring_rx *rx);

/* The packet at hand, after ring_rx_ready(). False: the producer wrote nonsense. */
static inline bool ring_rx_peek(const struct ring_rx *rx, struct ring_pkt *ret_pkt)
{
	const struct ring_cell *cell = &rx->ring->cells[rx->pos % RING_CELLS];
	uint32_t desc = atomic_load_explicit(&cell->desc, memory_order_relaxed);
	uint32_t flags = desc >> 16, len = desc & 0xffff, off;

	if (flags & ~(uint32_t)RING_F_ALL)
		return false;
	if (!(flags & RING_F_BULK)) {
		if (len > RING_INLINE)
			return false;
		ret_pkt->data = cell->data;
	} else {
		off = atomic_load_explicit(&cell->bulk_off, memory_order_relaxed);
		if (len > RING_PACKET_MAX || off > RING_BULK - len)
			return false;
		ret_pkt->data = rx->ring->bulk + off;
	}
	ret_pkt->len = len;
	ret_pkt->grh = flags & RING_F_GRH;
	return true;
}

/* The packet peeked at has been used. Returns whether the producer must be woken. */
static inline bool ring_rx_done(struct ring_rx *rx, const struct ring_pkt *pkt)
{
	rx->pos++;
	rx->unpublished_cells++;
	if (pkt->len > RING_INLINE)
		rx->unpublished_bytes += ring_bulk_need(pkt->len);
	if (rx->unpublished_cells < RING_PUBLISH_CELLS &&
	    rx->unpublished_bytes < RING_PUBLISH_BYTES)
		return false;
	return urxe_ring_rx_publish(rx);
}

#endif
