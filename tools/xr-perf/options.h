/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#ifndef XR_PERF_OPTIONS_H
#define XR_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xrdma/xrdma.h>

struct xr_test;

enum {
	XR_MAX_SIZES = 32,
	XR_MAX_CONFS = 32,
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
	const char *listen; /* address of a server, "*": all */
	char address[300];  /* of a client's server, "host:port" */
	char host[280];     /* of it, bracketed if IPv6 */
	size_t sizes[XR_MAX_SIZES];
	unsigned n_sizes; /* 0: as the test likes */
	uint64_t seconds_ns;
	uint64_t iterations;                            /* 0: by time */
	uint32_t in_flight, channels, threads, clients; /* 0: as the test likes */
	enum xr_direction direction;
	uint64_t corrupt;       /* this message (from 1) is damaged on purpose; 0: none */
	const char *json, *svg; /* may be NULL */
	struct {
		const char *name;
		const char *value;
	} confs[XR_MAX_CONFS];
	unsigned n_confs;
	const struct xr_test *tests[XR_MAX_TESTS];
	unsigned n_tests;
};

/* Ends the program on a bad command line, --help and --version. */
void xr_options_parse(int argc, char **argv, struct xr_options *ret_options);

/* A configuration with -o NAME=VALUE in it. 0 or an error of xrdma_conf_set(). */
int xr_options_conf(const struct xr_options *options, struct xrdma_conf *conf);

/* "64", "4K", "1M", "2G" in bytes; -EINVAL: not such a number; -ERANGE: too large. */
int xr_parse_bytes(const char *text, uint64_t *ret_bytes);

#endif
