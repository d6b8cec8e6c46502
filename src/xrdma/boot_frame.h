/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame around a block of the bootstrap connection. Pure. */
#ifndef XRDMA_BOOT_FRAME_H
#define XRDMA_BOOT_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { XR_FRAME_HEAD = 8 };

struct xr_frame {
	uint8_t type;
	size_t len;          /* of the block */
	const uint8_t *data; /* NULL while it is not complete */
};

/*
 * The frame at the start of len bytes. 1: complete; 0: more bytes are needed (*ret_frame has what
 * the head says once the head is there; else len 0). -EPROTO, -EMSGSIZE: explained.
 */
int xr_frame_parse(const uint8_t *in, size_t len, struct xr_frame *ret_frame);

/* len is at most XR_BOOT_BLOCK_MAX. */
void xr_frame_head(uint8_t type, size_t len, uint8_t out[static XR_FRAME_HEAD]);

#endif
