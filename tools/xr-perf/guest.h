/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's side of a client's channel. */
#ifndef XR_PERF_GUEST_H
#define XR_PERF_GUEST_H

#include "options.h"
#include "proto.h"

#include <xrdma/xrdma.h>

struct xr_service {
	const struct xr_options *options;
	const struct xr_perf_info *info;
	struct xrdma_context *ctx;
	struct xrdma_listener *listener;
};

/* Their argument is the struct xr_service. */
extern const struct xrdma_handlers xr_guest_handlers;

/* All services end soon. */
void xr_server_stop(void);

#endif
