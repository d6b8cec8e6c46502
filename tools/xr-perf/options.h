/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#ifndef XR_PERF_OPTIONS_H
#define XR_PERF_OPTIONS_H

#include "common/arguments.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xr_test;

enum {
	XR_MAX_SIZES = 32,
	XR_MAX_TESTS = 16,
	XR_STATUS_FAILED = 1, /* exit status: a test failed, or bytes were wrong */
	XR_STATUS_USAGE = 2,
};

enum xr_wait { XR_WAIT_DEFAULT, XR_WAIT_POLL, XR_WAIT_EVENT };
enum xr_direction { XR_DIRECTION_OUT, XR_DIRECTION_IN, XR_DIRECTION_BOTH };

struct xr_options {
	bool serve, once, verify, quiet, progress;
	enum xr_wait wait;
	uint32_t port;
	const char *listen;             /* address of a server, "*": all */
	char address[XR_ADDRESS_BYTES]; /* of a client's server, "host:port" */
	char host[XR_ADDRESS_BYTES];    /* of it */
	size_t sizes[XR_MAX_SIZES];
	unsigned n_sizes; /* 0: as the test likes */
	uint64_t seconds_ns;
	uint64_t iterations;                            /* 0: by time */
	uint32_t in_flight, channels, threads, clients; /* 0: as the test likes */
	enum xr_direction direction;
	uint64_t corrupt;       /* this message (from 1) is damaged on purpose; 0: none */
	const char *json, *svg; /* may be NULL */
	struct xr_confs confs;
	const struct xr_test *tests[XR_MAX_TESTS];
	unsigned n_tests;
};

/* Ends the program on a bad command line, --help and --version. */
void xr_options_parse(int argc, char **argv, struct xr_options *ret_options);

#endif
