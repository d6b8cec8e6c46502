/* SPDX-License-Identifier: BSD-2-Clause */
/* One target, pinged over a channel of a context that others may share. */
#ifndef XR_PING_PINGER_H
#define XR_PING_PINGER_H

#include "base/hist.h"
#include "options.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the time goes. */
enum xr_layer {
	XR_RTT,     /* from call to reply */
	XR_HANDLER, /* in the application of the target */
	XR_QUEUE,   /* in both programs, before and after the wire */
	XR_WIRE,    /* NICs and network, both ways, and until each side looked */
	XR_N_LAYERS,
};

struct xr_times {
	struct hist hist;
	double steps_ns; /* from each to the next, without sign */
	uint64_t last_ns;
};

struct xr_probe {
	uint64_t seq; /* from 1 */
	int status;   /* 0, or why it is lost */
	bool split;   /* else the target does not trace, and ns has the RTT only */
	enum xrdma_transport transport; /* of the reply */
	uint64_t ns[XR_N_LAYERS];
};

struct xr_pinger {
	struct xrdma_context *ctx;
	const char *address;
	struct xr_probing probing;
	/* Each may be NULL. */
	void (*on_connected)(struct xr_pinger *p);
	void (*on_probe)(struct xr_pinger *p, const struct xr_probe *probe);
	void (*on_end)(struct xr_pinger *p); /* once */
	void *arg;

	struct xrdma_channel *ch;
	bool connected, was_connected, stopped, ended;
	int status; /* of a connection that never was: a negative errno value... */
	char why[256];
	uint64_t began_ns, due_ns, last_sent_ns;
	uint64_t sent, answered, lost, in_flight;
	struct xr_times times[XR_N_LAYERS];
	uint64_t tcp_rtt_ns;            /* 0: not known */
	enum xrdma_transport transport; /* when it was last looked at */
	int transport_reason;           /* why not by RDMA */
	int64_t clock_offset_ns;
	uint64_t clock_error_ns; /* 0: not known */
};

const char *xr_transport_name(enum xrdma_transport transport);

/* ctx to arg are the caller's to set before; the rest must be 0. */
void xr_pinger_start(struct xr_pinger *p, uint64_t now);
/* Do what is due; returns when to come again, CLOCK_NEVER: not for the time. */
uint64_t xr_pinger_step(struct xr_pinger *p, uint64_t now);
/* No more probes; ends when those on their way have. */
void xr_pinger_stop(struct xr_pinger *p);

#endif
