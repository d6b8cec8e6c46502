/* SPDX-License-Identifier: BSD-2-Clause */
/* The client: finds the server, runs the tests, writes the reports. */
#ifndef XR_PERF_CLIENT_H
#define XR_PERF_CLIENT_H

#include "options.h"

/* Returns the exit status. */
int xr_client_run(const struct xr_options *options);

#endif
