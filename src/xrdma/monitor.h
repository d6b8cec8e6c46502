/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a context tells about itself to other processes (monitor_page.h). Counters and channels are
 * copied out at leisure, when sockets are looked at and before sleeping, so the data path pays
 * nothing; histograms are in the page.
 */
#ifndef XR_MONITOR_H
#define XR_MONITOR_H

#include "xrdma/hist.h"

struct xrdma_context;
struct xrdma_channel;
struct xr_monitor_page;

enum xr_hist_id {
	XR_HIST_RTT,      /* of traced calls */
	XR_HIST_QUEUE,    /* of which: on both sides, before and after the wire */
	XR_HIST_WIRE,     /* of which: on the way, both ways */
	XR_HIST_HANDLER,  /* of which: in the peer's hands */
	XR_HIST_SERVED,   /* traced requests of peers, in ours */
	XR_HIST_POLL_GAP, /* between polls, if slow_poll_us is set */
	XR_N_HISTS,
};

/* Not being able to is no error: ctx->monitor is NULL then, and it is logged. */
void xr_monitor_open(struct xrdma_context *ctx);
void xr_monitor_close(struct xrdma_context *ctx);
void xr_monitor_publish(struct xrdma_context *ctx);

struct xr_hist *xr_monitor_hist(struct xr_monitor_page *page, enum xr_hist_id id);
/* NULL: the channel has no place in the page. */
struct xr_hist *xr_monitor_channel_rtt(struct xr_monitor_page *page,
				       const struct xrdma_channel *ch);

#endif
