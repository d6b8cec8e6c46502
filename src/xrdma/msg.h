/* SPDX-License-Identifier: BSD-2-Clause */
/* A message, ours or the peer's, from its allocation to its end. */
#ifndef XR_MSG_H
#define XR_MSG_H

#include "base/list.h"
#include "xrdma/conf.h"
#include "xrdma/keys.h"
#include "xrdma/mem.h"
#include "xrdma/mw.h"
#include "xrdma/proto.h"
#include "xrdma/trace.h"
#include "xrdma/xrdma.h"

#include <stdbool.h>
#include <stdint.h>

enum xr_msg_state {
	XR_M_FREE,
	XR_M_APP,        /* the application's: made by it, or delivered to it */
	XR_M_QUEUED,     /* to be sent */
	XR_M_SENT,       /* until acknowledged and completed */
	XR_M_POSTED,     /* in a receive queue */
	XR_M_ARRIVED,    /* until delivered: payload to be read, or others before it */
	XR_M_DELIVERING, /* in a callback */
	XR_M_RETURNED,   /* given back in that callback */
	XR_M_MOVING,     /* one-sided operation of the application */
};

enum xr_origin {
	XR_FROM_NOWHERE, /* no payload, or in a slot of a region */
	XR_FROM_TX,
	XR_FROM_SMALL, /* the same, with headroom: kept with the message when that is free */
	XR_FROM_RX,
	XR_FROM_CALLER,
};

/* Small payloads have room for their header before them, and are aligned to 64. */
enum { XR_HEADROOM = 64, XR_RX_HEAD = XR_HEADROOM - XR_HDR_BYTES };
_Static_assert(XR_HDR_BYTES + XR_TIMES_BYTES <= XR_HEADROOM, "heads of small messages");

/* A receive buffer, and what of it the NIC may fill. */
static inline uint32_t xr_rx_bytes(const struct xr_conf *conf)
{
	uint32_t stamp = conf->mem_windows == XR_MEM_WINDOWS_TYPE2 ? XR_STAMP_BYTES : 0;

	return XR_HEADROOM + conf->small_bytes + (conf->trace ? XR_TIMES_BYTES : stamp);
}

/*
 * Receives pass through many of these in turn: what each of them needs are the first two cache
 * lines, and no more.
 */
struct xrdma_msg {
	_Alignas(64) struct list
		link;             /* of a queue; of those owed a buffer; of those without memory */
	struct xrdma_channel *ch; /* while it is anybody's but the pool's */
	struct xrdma_context *ctx;
	void *data;
	uint32_t len;
	uint32_t id; /* as in struct xr_head */
	uint16_t seq;
	uint16_t wrs;   /* work requests outstanding that refer to it */
	uint8_t state;  /* enum xr_msg_state */
	uint8_t origin; /* enum xr_origin */
	uint8_t type;   /* enum xr_type */
	bool received;
	bool unacked;  /* sent, and not consumed by the peer yet */
	bool answered; /* REQ received: its reply is on the way */
	bool owes;     /* its place in the receive queue is empty, its sequence not consumed */
	bool complete; /* received, all of it */
	bool small;    /* received, in a buffer of the receive queue */
	bool traced;   /* REQ, RSP: at is of use */
	bool write;    /* one-sided: to the peer */

	_Alignas(64) struct ibv_recv_wr recv; /* of a small receive buffer */
	struct ibv_sge recv_sge;
	struct xrdma_region *region; /* slot's, or exported */
	int slot;                    /* payload lies in this slot, or -1 */
	int status;                  /* ERR_RSP */

	uint32_t lkey, rkey;
	uint32_t tag;     /* REGION */
	uint32_t answers; /* RSP: the key of its request, 0 if that was not large */
	struct xr_mw *mw; /* that shows it to the peer */
	struct xrdma_msg *next_free;
	struct xr_buf buf;
	struct xr_regcache_ref ref; /* XR_FROM_CALLER, once registered */
	unsigned access;            /* with these rights: IBV_ACCESS_* */
	/* fragments of a large payload or one-sided operation */
	uint32_t posted; /* bytes of which READs or WRITEs are posted */
	struct list moving;
	struct xr_key key;
	struct xrdma_remote_region *remote; /* one-sided: to or from it... */
	uint64_t remote_offset;             /* ...there */
	xrdma_done *done;
	void *arg;
	xrdma_released *released; /* XR_FROM_CALLER */
	void *released_arg;
	uint64_t at[XR_AT_ALL];
};

/* A message with nothing in it; NULL: no memory, explained. Steady state: from a free list. */
struct xrdma_msg *xr_msg_get(struct xrdma_context *ctx);
/* One to send that is a header and no payload. -EPIPE: the channel closes. */
int xr_msg_bare(struct xrdma_channel *ch, enum xr_type type, struct xrdma_msg **ret_m);
/* Let go of memory and registration, and of the message. */
void xr_msg_put(struct xrdma_msg *m);
void xr_msg_drop_memory(struct xrdma_msg *m);

/* Memory of a pool for len bytes, at m->data. */
int xr_msg_alloc(struct xrdma_msg *m, enum xr_mem_use use, size_t len);
/* A small receive buffer; NULL: the budget is spent. */
struct xrdma_msg *xr_msg_rx_new(struct xrdma_context *ctx);
/* See to it that the NIC can use the caller's memory so. */
int xr_msg_register(struct xrdma_msg *m, unsigned access);

/* Hand over to the application, and take back. The channel lives until the last is back. */
void xr_msg_to_app(struct xrdma_msg *m);
void xr_msg_from_app(struct xrdma_msg *m, enum xr_msg_state state);
/* The library is done with a message that was sent: frees it if nothing else holds on to it. */
void xr_msg_sent_check(struct xrdma_msg *m);

/* Give up the small buffers of free messages. */
void xr_msgs_cool(struct xrdma_context *ctx);

int xr_msgs_init(struct xrdma_context *ctx);
void xr_msgs_fini(struct xrdma_context *ctx);

#endif
