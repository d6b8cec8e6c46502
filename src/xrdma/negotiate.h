/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limits of a channel from what both sides offer: the smaller of the two, clamped to what makes
 * sense. Never an error, but for versions that do not meet. Pure and symmetric: both sides compute
 * the same, with in and out exchanged.
 */
#ifndef XRDMA_NEGOTIATE_H
#define XRDMA_NEGOTIATE_H

#include "xrdma/hello.h"

enum { XR_AGREED_TEXT = 2048 };

struct xr_agreed {
	uint16_t version;
	uint32_t epoch;    /* the higher one */
	uint32_t mtu;      /* bytes: a power of two, 256..4096 */
	uint8_t reads_out; /* max_rd_atomic of our queue pair, from 1 */
	uint8_t reads_in;  /* max_dest_rd_atomic of our queue pair, from 1 */
	uint32_t window;
	uint32_t control;
	uint32_t small_bytes;
	uint32_t frag_bytes;
	uint32_t max_msg;
	uint32_t max_calls;
};

/* 0; -EPROTONOSUPPORT with an explanation naming both ranges. */
int xr_negotiate(const struct xr_hello *ours, const struct xr_hello *theirs,
		 struct xr_agreed *ret_agreed);

/* One line per outcome: the value, what each side offered, who limits. */
void xr_negotiate_explain(const struct xr_hello *ours, const struct xr_hello *theirs,
			  const struct xr_agreed *agreed, char text[static XR_AGREED_TEXT]);

#endif
