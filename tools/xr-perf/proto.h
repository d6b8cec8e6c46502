/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What client and server of xr-perf say to each other in the payloads of xrdma messages. All
 *numbers are in network byte order. Every message begins with a head of 8 bytes: u8 type, u8
 *version, u16 0, u32 number of the message.
 *
 *	INFO    call, empty. The server's threads, the port of each, its device. The channel that
 *	        asked stays open while the client runs.
 *	START   call: what the DATA that follow on this channel are like. The reply is empty.
 *	DATA    numbered from 0; the rest is the pattern, if the messages are verified. A call if
 *	        START named reply_bytes, else one-way.
 *	FINISH  call, empty. What the server counted since START; comes after all DATA, as the
 *	        channel keeps the order.
 */
#ifndef XR_PERF_PROTO_H
#define XR_PERF_PROTO_H

#include "pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	XR_PERF_VERSION = 1,
	XR_PERF_HEAD_BYTES = 8,
	XR_PERF_BODY_MAX = 256,
	XR_PERF_MAX_THREADS = 64,
};

enum xr_perf_type {
	XR_PERF_INFO = 1,
	XR_PERF_START,
	XR_PERF_DATA,
	XR_PERF_FINISH,
};

struct xr_perf_info {
	uint32_t n_threads;
	uint16_t ports[XR_PERF_MAX_THREADS];
	char device[32];
};

struct xr_perf_start {
	uint64_t seed;
	uint32_t reply_bytes; /* 0: DATA are one-way */
	uint32_t fill;        /* of this many replies, so that their memory is there */
	bool verify;
};

struct xr_perf_report {
	uint64_t messages;
	uint64_t bytes;
	uint64_t wrong; /* messages out of order or with a wrong byte */
	/* of the first wrong one: */
	uint32_t number, number_wanted;
	struct xr_pattern_fault fault; /* if the numbers are equal */
};

/* The number a message says it has, or a type of 0: not a message of xr-perf. */
enum xr_perf_type xr_perf_head(const void *data, size_t len, uint32_t *ret_number);
void xr_perf_put_head(void *data, enum xr_perf_type type, uint32_t number);

/* Bodies, head included: the length put; 0 or -EPROTO. data has room for XR_PERF_BODY_MAX. */
size_t xr_perf_put_info(void *data, const struct xr_perf_info *info);
int xr_perf_get_info(const void *data, size_t len, struct xr_perf_info *ret_info);
size_t xr_perf_put_start(void *data, const struct xr_perf_start *start);
int xr_perf_get_start(const void *data, size_t len, struct xr_perf_start *ret_start);
size_t xr_perf_put_report(void *data, const struct xr_perf_report *report);
int xr_perf_get_report(const void *data, size_t len, struct xr_perf_report *ret_report);

#endif
