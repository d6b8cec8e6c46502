/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/hello.h"

#include "base/be.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[4] = {'X', 'R', 'D', 'M'};

enum { HEAD_BYTES = 12, FIELDS_V1_BYTES = XR_HELLO_BYTES - HEAD_BYTES };

/* Offsets of version 1. They never change: later versions append. */
enum {
	AT_VERSION_MIN = 4,
	AT_VERSION_MAX = 6,
	AT_LENGTH = 8,
	AT_FLAGS = 12,
	AT_INCARNATION = 16,
	AT_EPOCH = 24,
	AT_QPN = 28,
	AT_PSN = 32,
	AT_GID_TYPE = 36,
	AT_MAX_RD_ATOMIC = 37,
	AT_MAX_DEST_RD = 38,
	AT_RESERVED = 39,
	AT_GID = 40,
	AT_MTU = 56,
	AT_WINDOW = 60,
	AT_CONTROL = 64,
	AT_SMALL_BYTES = 68,
	AT_FRAG_BYTES = 72,
	AT_MAX_MSG = 76,
	AT_MAX_CALLS = 80,
	AT_PROBE_BLOCK = 84,
	AT_PROBE_BYTES = 100,
};

size_t xr_hello_encode(const struct xr_hello *hello, uint8_t out[static XR_HELLO_BYTES])
{
	memcpy(out, magic, sizeof(magic));
	put_be16(out + AT_VERSION_MIN, hello->version_min);
	put_be16(out + AT_VERSION_MAX, hello->version_max);
	put_be32(out + AT_LENGTH, FIELDS_V1_BYTES);
	put_be32(out + AT_FLAGS, hello->flags);
	put_be64(out + AT_INCARNATION, hello->incarnation);
	put_be32(out + AT_EPOCH, hello->epoch);
	put_be32(out + AT_QPN, hello->qpn);
	put_be32(out + AT_PSN, hello->psn);
	out[AT_GID_TYPE] = hello->gid_type;
	out[AT_MAX_RD_ATOMIC] = hello->max_rd_atomic;
	out[AT_MAX_DEST_RD] = hello->max_dest_rd;
	out[AT_RESERVED] = 0;
	memcpy(out + AT_GID, &hello->gid, sizeof(hello->gid));
	put_be32(out + AT_MTU, hello->mtu);
	put_be32(out + AT_WINDOW, hello->window);
	put_be32(out + AT_CONTROL, hello->control);
	put_be32(out + AT_SMALL_BYTES, hello->small_bytes);
	put_be32(out + AT_FRAG_BYTES, hello->frag_bytes);
	put_be32(out + AT_MAX_MSG, hello->max_msg);
	put_be32(out + AT_MAX_CALLS, hello->max_calls);
	memcpy(out + AT_PROBE_BLOCK, hello->probe_block, sizeof(hello->probe_block));
	put_be32(out + AT_PROBE_BYTES, hello->probe_bytes);
	return XR_HELLO_BYTES;
}

int xr_hello_decode(const uint8_t *in, size_t len, struct xr_hello *ret_hello)
{
	if (len < XR_HELLO_BYTES || memcmp(in, magic, sizeof(magic)) != 0)
		return -EPROTO;
	if (get_be32(in + AT_LENGTH) < FIELDS_V1_BYTES ||
	    get_be32(in + AT_LENGTH) != len - HEAD_BYTES)
		return -EPROTO;
	ret_hello->version_min = get_be16(in + AT_VERSION_MIN);
	ret_hello->version_max = get_be16(in + AT_VERSION_MAX);
	ret_hello->flags = get_be32(in + AT_FLAGS);
	ret_hello->incarnation = get_be64(in + AT_INCARNATION);
	ret_hello->epoch = get_be32(in + AT_EPOCH);
	ret_hello->qpn = get_be32(in + AT_QPN) & 0xffffff;
	ret_hello->psn = get_be32(in + AT_PSN) & 0xffffff;
	ret_hello->gid_type = in[AT_GID_TYPE];
	ret_hello->max_rd_atomic = in[AT_MAX_RD_ATOMIC];
	ret_hello->max_dest_rd = in[AT_MAX_DEST_RD];
	memcpy(&ret_hello->gid, in + AT_GID, sizeof(ret_hello->gid));
	ret_hello->mtu = get_be32(in + AT_MTU);
	ret_hello->window = get_be32(in + AT_WINDOW);
	ret_hello->control = get_be32(in + AT_CONTROL);
	ret_hello->small_bytes = get_be32(in + AT_SMALL_BYTES);
	ret_hello->frag_bytes = get_be32(in + AT_FRAG_BYTES);
	ret_hello->max_msg = get_be32(in + AT_MAX_MSG);
	ret_hello->max_calls = get_be32(in + AT_MAX_CALLS);
	memcpy(ret_hello->probe_block, in + AT_PROBE_BLOCK, sizeof(ret_hello->probe_block));
	ret_hello->probe_bytes = get_be32(in + AT_PROBE_BYTES);
	return 0;
}

size_t xr_reject_encode(int status, const char *why, uint8_t out[static XR_REJECT_BYTES])
{
	size_t len = strnlen(why, XR_REJECT_TEXT);

	put_be32(out, (uint32_t)-status);
	memcpy(out + 4, why, len);
	return 4 + len;
}

int xr_reject_decode(const uint8_t *in, size_t len, int *ret_status,
		     char ret_why[static XR_REJECT_TEXT + 1])
{
	enum { MAX_ERRNO = 4095 };
	uint32_t code;

	if (len < 4 || len > XR_REJECT_BYTES)
		return -EPROTO;
	code = get_be32(in);
	*ret_status = code >= 1 && code <= MAX_ERRNO ? -(int)code : -ECONNREFUSED;
	for (size_t i = 4; i < len; i++)
		ret_why[i - 4] = in[i] >= ' ' && in[i] <= '~' ? (char)in[i] : '?';
	ret_why[len - 4] = '\0';
	return 0;
}
