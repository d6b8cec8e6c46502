/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules for faults on purpose, and which message they strike. Pure, but for the names of statuses.
 *
 *	filter    = rule { "," rule }
 *	rule      = action { ":" condition }  |  "seed=" NUMBER
 *	action    = "drop" | "delay=" MICROSECONDS | "duplicate" | "corrupt" | "fail=" STATUS
 *	condition = "in" | "out"		direction; both if none is named
 *		  | "ch=" NUMBER		handle of a channel
 *		  | "type=" TYPE { "+" TYPE }	MSG REQ RSP ERR_RSP REGION SLOT GONE ACK BYE, or
 *						PROBE, the READ that proves a path of RDMA, which
 *						can only fail; if none is named, those that the
 *						window numbers: not ACK, BYE, PROBE
 *		  | "p=" FRACTION		probability, 0..1
 *		  | "n=" NUMBER			strikes so often, then no more
 *		  | "after=" NUMBER		lets so many that match pass first
 *
 *	drop:out:type=REQ:p=0.01:n=3,delay=500:in,seed=7
 *
 * Of several rules that match the first that strikes counts. Same seed and same messages: same
 * faults.
 */
#ifndef XR_FILTER_H
#define XR_FILTER_H

#include "base/rng.h"
#include "xrdma/proto.h"

#include <stdbool.h>
#include <stdint.h>

enum xr_fault {
	XR_FAULT_DROP,
	XR_FAULT_DELAY,
	XR_FAULT_DUPLICATE,
	XR_FAULT_CORRUPT,
	XR_FAULT_FAIL,
};

enum xr_direction {
	XR_DIR_IN = 1,
	XR_DIR_OUT = 2,
};

enum { XR_RULES_MAX = 16, XR_FILTER_PROBE = XR_N_TYPES };

struct xr_rule {
	enum xr_fault fault;
	uint32_t argument;   /* DELAY: microseconds; FAIL: enum ibv_wc_status */
	unsigned directions; /* enum xr_direction */
	unsigned types;      /* a bit for each enum xr_type */
	bool one_channel;
	uint32_t channel;
	uint64_t odds; /* of 2^32 */
	uint64_t left; /* strikes */
	uint64_t after;
};

struct xr_filter {
	unsigned n;
	struct xr_rule rules[XR_RULES_MAX];
	struct rng rng;
};

/* An empty text is no rule. -EINVAL, explained; *ret_filter is then untouched. */
int xr_filter_parse(const char *text, struct xr_filter *ret_filter);

int xr_filter_check(const char *text);

/* The rule that strikes a message of this type, or XR_FILTER_PROBE; or NULL. Counts. */
const struct xr_rule *xr_filter_match(struct xr_filter *f, enum xr_direction direction,
				      uint32_t channel, unsigned type);

#endif
