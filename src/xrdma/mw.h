/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (option mem_windows): a large message is shown to the peer by a key of its own, to
 * its bytes alone, instead of by that of the registration it lies in.
 *
 *	sent		bind, then the announcement: in this order in the send queue
 *	read by the peer	type 2: the peer's next message invalidates it (SEND with
 *			invalidate), a reply that of its own request first
 *	acknowledged	what was not is invalidated here; until that is done the buffer
 *			is not used again
 *
 * A message invalidates one window at most, and never one that an earlier message acknowledged:
 * that one is its owner's to invalidate. So the two never meet.
 *
 * By TCP there are none: reach.c minds the bounds. All windows are allocated with the queue pair,
 *and are dead with it. The one that was bound longest ago is bound next, so that its key's number,
 *which has 8 bits to count in, recurs late.
 */
#ifndef XRDMA_MW_H
#define XRDMA_MW_H

#include "base/list.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct xrdma_channel;
struct xrdma_context;
struct xrdma_msg;
struct xr_head;

enum {
	XR_MWS_MAX = 64, /* of a channel: large messages shown at once */
	XR_READ_MAX = 16,
};

struct xr_mw {
	struct list link; /* free, bound or due; of none while it is being invalidated */
	struct ibv_mw *mw;
	struct xrdma_msg *msg; /* NULL: free */
};

/* Ours. */
struct xr_mws {
	struct xr_mw *all; /* NULL: the option is off */
	uint32_t n;
	struct list free, bound;
	struct list due; /* acknowledged: to be invalidated */
};

/* The peer's, that we have read and may invalidate; those that find no room are its owner's to. */
struct xr_mws_read {
	struct {
		uint32_t rkey;
		uint16_t seq; /* of the message */
	} at[XR_READ_MAX];
	uint32_t n;
};

/* 0; -EOPNOTSUPP: the device has none of the type that the configuration names. */
int xr_mw_check_device(const struct xrdma_context *ctx);
/* IBV_ACCESS_* of memory that large messages are in. */
unsigned xr_mw_access(const struct xrdma_context *ctx);

int xr_mws_new(struct xrdma_channel *ch);
void xr_mws_free(struct xrdma_channel *ch);

/* A message that needs a window, and there is none: one that ends brings us here again. */
bool xr_mw_starved(const struct xrdma_channel *ch, const struct xrdma_msg *m);
/* Before its announcement: bind one, if it needs one. -EAGAIN: not now. */
int xr_mw_bind(struct xrdma_channel *ch, struct xrdma_msg *m);
/* It is acknowledged. */
void xr_mw_due(struct xrdma_channel *ch, struct xrdma_msg *m);
/* If there are any: invalidate those that are due; false: there is no room for all. */
bool xr_mw_pump(struct xrdma_channel *ch);
void xr_mw_ended(struct xrdma_channel *ch, struct xrdma_msg *m, int status);
/*
 * Does this receive tell of an invalidation? The kernel's rxe (6.1) says so by the kernel's bit,
 * which is another one here; of a reliable connection nothing else sets that.
 */
static inline bool xr_mw_invalidates(const struct ibv_wc *wc)
{
	return wc->wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK) &&
	       !(wc->wc_flags & IBV_WC_WITH_IMM);
}

/* The peer has invalidated this one. */
void xr_mw_invalidated(struct xrdma_channel *ch, uint32_t rkey);

/* We have read a large message of the peer's. */
void xr_mw_read(struct xrdma_channel *ch, const struct xrdma_msg *m);
/* A message (NULL: an acknowledgement) goes: it may invalidate one; h tells. */
void xr_mw_choose(const struct xrdma_channel *ch, const struct xrdma_msg *m, struct xr_head *h);
/* It went. */
void xr_mw_told(struct xrdma_channel *ch, const struct xr_head *h, uint16_t ack);

#endif
