/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context's figures in shared memory: what its process writes (monitor.c) and others read
 * (monitor_read.c).
 *
 * The page is a sealed memfd called XR_PAGE_NAME: it has no name in a file system, so nothing stays
 * when the process goes, however it goes; and the same user's programs open it as /proc/PID/fd/N
 * without the process doing anything for it. It describes itself, in this order:
 *
 *	struct xr_page_head
 *	struct xr_page_name[n_counters + n_hists]
 *	u64 counter[n_counters]			under head.seq
 *	struct xr_hist[n_hists]
 *	struct xr_page_slot[n_slots]		one a channel, each under its own seq
 *
 * seq is odd while its owner writes. There is one writer. Native byte order.
 */
#ifndef XR_MONITOR_PAGE_H
#define XR_MONITOR_PAGE_H

#include "xrdma/hist.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define XR_PAGE_NAME  "xrdma-monitor"
#define XR_PAGE_MAGIC UINT64_C(0x58524d4f4e504147) /* "XRMONPAG" */

enum {
	XR_PAGE_VERSION = 1,
	XR_PAGE_NAME_BYTES = 32,
	XR_PAGE_TEXT_BYTES = 64,
	XR_PAGE_MAX_NAMES = 1024,
	XR_PAGE_MAX_SLOTS = 1 << 20,
};

enum xr_page_kind {
	XR_KIND_COUNTER, /* only rises */
	XR_KIND_GAUGE,
	XR_KIND_HIST, /* of nanoseconds */
};

struct xr_page_head {
	uint64_t magic;
	uint32_t version;
	uint32_t n_counters, n_hists, n_slots;
	uint64_t bytes;   /* of the whole */
	uint32_t pid;     /* as the process sees itself */
	uint32_t context; /* number within the process */
	uint64_t incarnation;
	uint64_t opened_ns; /* CLOCK_REALTIME */
	char program[XR_PAGE_TEXT_BYTES];
	char device[XR_PAGE_TEXT_BYTES];
	_Atomic uint64_t seq;
	_Atomic uint64_t updated_ns; /* CLOCK_MONOTONIC */
};

struct xr_page_name {
	char text[XR_PAGE_NAME_BYTES]; /* [a-z0-9_] */
	uint64_t kind;                 /* enum xr_page_kind */
};

/* Of a channel. All of u64, to be copied by words. */
struct xr_page_channel {
	uint64_t used; /* 0: there is none here */
	uint64_t handle;
	uint64_t dialed;
	uint64_t epoch;
	uint64_t window, unacked; /* messages: allowed, and not consumed by the peer yet */
	uint64_t queued;          /* messages that wait for the window */
	uint64_t posted;          /* work requests at the NIC */
	uint64_t held;            /* messages in the application's hands */
	uint64_t msgs_sent, bytes_sent, msgs_received, bytes_received, calls;
	uint64_t clock_offset_ns, clock_error_ns; /* the peer's clock; error 0: not known */
	char state[16];
	char peer[XR_PAGE_TEXT_BYTES];
};

struct xr_page_slot {
	_Atomic uint64_t seq;
	struct xr_page_channel channel;
	struct xr_hist rtt;
};

_Static_assert(sizeof(struct xr_page_head) % 8 == 0 && sizeof(struct xr_page_channel) % 8 == 0,
	       "copied by words");

/* Where the parts are. Counts within their bounds: nothing overflows. */
struct xr_page_layout {
	size_t names, counters, hists, slots, bytes;
};

static inline struct xr_page_layout xr_page_layout(uint32_t n_counters, uint32_t n_hists,
						   uint32_t n_slots)
{
	struct xr_page_layout l = {.names = sizeof(struct xr_page_head)};

	l.counters = l.names + (n_counters + n_hists) * sizeof(struct xr_page_name);
	l.hists = l.counters + n_counters * sizeof(uint64_t);
	l.slots = l.hists + n_hists * sizeof(struct xr_hist);
	l.bytes = l.slots + n_slots * sizeof(struct xr_page_slot);
	return l;
}

/* The writer's: replace words under a seq. */
static inline void xr_page_write(_Atomic uint64_t *seq, void *to, const void *from, size_t bytes)
{
	_Atomic uint64_t *out = to;
	const uint64_t *in = from;
	uint64_t before = xr_relaxed(seq);

	xr_set_relaxed(seq, before + 1);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < bytes / sizeof(*in); i++)
		xr_set_relaxed(&out[i], in[i]);
	atomic_store_explicit(seq, before + 2, memory_order_release);
}

#endif
