/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two sides of a broken channel tell each other over the bootstrap connection, and how
 * long to wait before trying. Pure.
 *
 * RESUME, network byte order: u64 incarnation and u64 token of the one spoken to, u32 last epoch,
 * u16 next and u16 consumed of the speaker's window, u32 why it broke (an errno value), u32 flags.
 *
 * KEYS: for each region exported, u32 id and a key block (keys.h) of the new epoch.
 */
#ifndef XR_RESUME_H
#define XR_RESUME_H

#include "xrdma/keys.h"
#include "xrdma/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	XR_RESUME_PLANNED = 1, /* nothing is wrong: RDMA takes over from TCP */
};

enum { XR_RESUME_BYTES = 32, XR_TOKEN_BYTES = 8, XR_KEYS_ENTRY_BYTES = 4 + XR_KEY_BYTES };

struct xr_resume {
	uint64_t incarnation; /* of the context that is spoken to */
	uint64_t token; /* by which it knows the channel; secret, so that nobody else resumes */
	uint32_t epoch; /* the highest that the speaker has seen */
	struct xr_window_state window;
	int status;     /* a negative errno value */
	uint32_t flags; /* XR_RESUME_*; unknown ones are ignored */
};

size_t xr_resume_encode(const struct xr_resume *resume, uint8_t out[static XR_RESUME_BYTES]);
/* 0 or -EPROTO. */
int xr_resume_decode(const uint8_t *in, size_t len, struct xr_resume *ret_resume);

/* Is `epoch` before `than`? Epochs wrap. */
static inline bool xr_epoch_before(uint32_t epoch, uint32_t than)
{
	return (int32_t)(epoch - than) < 0;
}

/*
 * How long to wait before attempt n (from 0): min * 2^n up to max, of that the upper half at
 * random, so that thousands which broke at once do not come back at once.
 */
uint64_t xr_backoff_ns(unsigned n, uint64_t min_ns, uint64_t max_ns, uint64_t random);

#endif
