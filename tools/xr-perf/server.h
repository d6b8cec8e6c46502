/* SPDX-License-Identifier: BSD-2-Clause */
/* The server: answers and checks what clients send, on as many contexts as it has threads. */
#ifndef XR_PERF_SERVER_H
#define XR_PERF_SERVER_H

#include "options.h"

/* Runs until killed, or --once. Returns the exit status. */
int xr_server_run(const struct xr_options *options);

#endif
