/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/boot_frame.h"

#include "base/be.h"
#include "xrdma/boot.h"
#include "xrdma/error.h"

#include <errno.h>

enum {
	MAGIC = 'X' << 8 | 'R',
	AT_TYPE = 2,
	AT_ZERO = 3,
	AT_LENGTH = 4,
	TLS_ALERT = 0x15, /* first byte of TLS records (RFC 8446, 5.1) */
	TLS_HANDSHAKE = 0x16,
};

static int foreign(uint8_t first)
{
	if (first == TLS_ALERT || first == TLS_HANDSHAKE)
		return xr_error(-EPROTO, "the peer speaks TLS and this side plain TCP: set the "
					 "option tls alike on both sides");
	return xr_error(-EPROTO, "the peer does not speak the protocol of xrdma: is the address "
				 "that of another service?");
}

int xr_frame_parse(const uint8_t *in, size_t len, struct xr_frame *ret_frame)
{
	uint32_t block;

	*ret_frame = (struct xr_frame){.data = NULL};
	if (len == 0)
		return 0;
	/* What is foreign is told from its first byte: it may not send as many as a head has. */
	if (in[0] != MAGIC >> 8 || (len > 1 && in[1] != (MAGIC & 0xff)))
		return foreign(in[0]);
	if (len < XR_FRAME_HEAD)
		return 0;
	if (in[AT_ZERO] != 0)
		return foreign(in[0]);
	block = get_be32(in + AT_LENGTH);
	if (block > XR_BOOT_BLOCK_MAX)
		return xr_error(-EMSGSIZE,
				"the peer announced a block of %u bytes: expected %u "
				"at most",
				block, XR_BOOT_BLOCK_MAX);
	ret_frame->type = in[AT_TYPE];
	ret_frame->len = block;
	if (len - XR_FRAME_HEAD < block)
		return 0;
	ret_frame->data = in + XR_FRAME_HEAD;
	return 1;
}

void xr_frame_head(uint8_t type, size_t len, uint8_t out[static XR_FRAME_HEAD])
{
	put_be16(out, MAGIC);
	out[AT_TYPE] = type;
	out[AT_ZERO] = 0;
	put_be32(out + AT_LENGTH, (uint32_t)len);
}
