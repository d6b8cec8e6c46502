/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XR_PING_OPTIONS_H
#define XR_PING_OPTIONS_H

#include "common/arguments.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	XR_STATUS_FAILED = 1, /* nobody answered; of a mesh: not all did */
	XR_STATUS_USAGE = 2,
	XR_MAX_HOSTS = 64,
	XR_PROBE_MIN = 8, /* what a probe needs for itself */
	XR_PROBE_MAX = 1 << 20,
};

/* How to probe one target. */
struct xr_probing {
	uint64_t count; /* 0: until interrupted */
	uint64_t interval_ns;
	uint64_t timeout_ns;
	uint32_t size;
};

struct xr_options {
	bool listen, mesh, json, quiet, poll;
	uint32_t port;
	const char *listen_on;
	struct xr_probing probing;
	unsigned n_hosts; /* one to ping, or those of the mesh */
	char hosts[XR_MAX_HOSTS][XR_ADDRESS_BYTES];
	struct xr_confs confs;
};

/* Ends the process if they are wrong. */
void xr_options_parse(int argc, char **argv, struct xr_options *ret_options);

/* A context that traces every call. Complains on standard error. */
int xr_open(const struct xr_options *options, struct xrdma_context **ret_ctx);

#endif
