/* SPDX-License-Identifier: BSD-2-Clause */
/* What the command lines of our tools have in common. Functions that take a state end the program
 * on a bad word, explained. */
#ifndef XR_TOOLS_ARGUMENTS_H
#define XR_TOOLS_ARGUMENTS_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>
#include <xrdma/xrdma.h>

enum { XR_MAX_CONFS = 32, XR_ADDRESS_BYTES = 300 };

/* "64", "4K", "1M", "2G"; -EINVAL: not such a number; -ERANGE: too large. */
int xr_parse_bytes(const char *text, uint64_t *ret_bytes);
/* Of that form. what: the option, for the message. */
uint32_t xr_arg_number(struct argp_state *state, const char *what, const char *text, uint32_t min,
		       uint32_t max);
/* "0.25"; min up to a day. In nanoseconds. */
uint64_t xr_arg_seconds(struct argp_state *state, const char *what, const char *text, double min);

/* -o NAME=VALUE, any number of times. */
struct xr_confs {
	unsigned n;
	struct {
		const char *name, *value;
	} of[XR_MAX_CONFS];
};

/* Cuts text in two and keeps it. */
void xr_arg_conf(struct argp_state *state, struct xr_confs *confs, char *text);
/* 0 or an error of xrdma_conf_set(). */
int xr_confs_apply(const struct xr_confs *confs, struct xrdma_conf *conf);

/*
 * "host", "host:port", "[v6]:port" or an IPv6 address alone, cut in two; *ret_port stays as it is
 * where none is named. -EINVAL: not that, or too long.
 */
int xr_address_split(const char *text, char ret_host[static XR_ADDRESS_BYTES], uint32_t *ret_port);
/* With brackets around an IPv6 address that has none. */
void xr_address_join(const char *host, uint32_t port, char ret_text[static XR_ADDRESS_BYTES]);

#endif
