/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the time of a call goes. A request that is traced (one in trace_sample, if both sides have
 * the option trace) and its reply carry times of this path:
 *
 *	CALLED  SENT  ->  PEER_RECEIVED  PEER_DELIVERED  PEER_REPLIED  PEER_SENT  ->  RECEIVED
 *DELIVERED
 *
 * each of the clock (monotonic, ns) of where it happens. Everything else pays one look at a flag.
 */
#ifndef XR_TRACE_H
#define XR_TRACE_H

#include "xrdma/peer_clock.h"
#include "xrdma/proto.h"

#include <stdbool.h>
#include <stdint.h>

struct xrdma_context;
struct xrdma_channel;
struct xrdma_msg;
struct xrdma_trace;
struct xr_call;

/* The first XR_AT_WIRE of these cross the wire (proto.h). */
enum xr_at {
	XR_AT_CALLED,
	XR_AT_SENT,
	XR_AT_PEER_RECEIVED,
	XR_AT_PEER_DELIVERED,
	XR_AT_PEER_REPLIED,
	XR_AT_PEER_SENT,
	XR_AT_RECEIVED,
	XR_AT_DELIVERED,
	XR_AT_ALL,
};

/* Shares of a round trip, which they add up to. False: there are no such times, the peer lies. */
bool xr_trace_split(const uint64_t at[static XR_AT_ALL], struct xrdma_trace *ret_trace);

/* What happens to a request, or a reply, in this order. */
void xr_trace_called(struct xrdma_channel *ch, struct xrdma_msg *request); /* decides */
void xr_trace_sent(struct xrdma_channel *ch, struct xrdma_msg *m, struct xr_head *h);
void xr_trace_received(struct xrdma_msg *m, const struct xr_head *h);
void xr_trace_delivered(struct xrdma_msg *request);
void xr_trace_replied(struct xrdma_channel *ch, const struct xrdma_msg *request,
		      struct xrdma_msg *reply);
void xr_trace_done(struct xr_call *call, struct xrdma_msg *reply);

/* A handler ran since began_ns; a poll came so long after the one before. */
void xr_trace_handler(struct xrdma_channel *ch, uint64_t began_ns);
void xr_trace_poll(struct xrdma_context *ctx, uint64_t before_ns);

#endif
