/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of a bootstrap connection. However a stream is cut, the same frames come out; what decodes
 * as a HELLO encodes to the same bytes and leads to sane limits.
 */
#include "xrdma/boot.h"
#include "xrdma/boot_frame.h"
#include "xrdma/negotiate.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_hello(const uint8_t *data, size_t len)
{
	struct xr_hello ours = {.version_min = 1, .version_max = UINT16_MAX}, theirs = {0},
			again = {0};
	uint8_t bytes[XR_HELLO_BYTES];
	char text[XR_AGREED_TEXT];
	struct xr_agreed a;

	if (xr_hello_decode(data, len, &theirs))
		return;
	assert(len >= XR_HELLO_BYTES);
	xr_hello_encode(&theirs, bytes);
	assert(xr_hello_decode(bytes, sizeof(bytes), &again) == 0);
	assert(memcmp(&theirs, &again, sizeof(again)) == 0);
	if (xr_negotiate(&ours, &theirs, &a))
		return;
	assert(a.mtu >= 256 && a.mtu <= 4096 && a.window >= 1 && a.window <= 4096);
	assert(a.reads_in >= 1 && a.reads_out >= 1);
	xr_negotiate_explain(&ours, &theirs, &a, text);
	assert(strlen(text) < sizeof(text) - 1);
}

static void check_reject(const uint8_t *data, size_t len)
{
	char why[XR_REJECT_TEXT + 1];
	int status = 0;

	if (xr_reject_decode(data, len, &status, why))
		return;
	assert(status < 0 && strlen(why) == len - 4);
	for (const char *c = why; *c != '\0'; c++)
		assert(*c >= ' ' && *c <= '~');
}

/* More bytes never change what fewer have already told. */
static int check_frame(const uint8_t *data, size_t len, struct xr_frame *ret_frame)
{
	int whole = xr_frame_parse(data, len, ret_frame);
	size_t prefixes = len < 2 * XR_FRAME_HEAD ? len : 2 * XR_FRAME_HEAD;

	for (size_t n = 0; n <= prefixes; n++) {
		struct xr_frame part;
		int err = xr_frame_parse(data, n, &part);

		assert(err == 0 || err == whole);
		if (err == 1)
			assert(part.len == ret_frame->len && part.data == ret_frame->data);
	}
	if (whole == 1)
		assert(ret_frame->data + ret_frame->len <= data + len);
	return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xr_frame frame;

	check_hello(data, len);
	check_reject(data, len);
	while (len > 0 && check_frame(data, len, &frame) == 1) {
		check_hello(frame.data, frame.len);
		check_reject(frame.data, frame.len);
		data += XR_FRAME_HEAD + frame.len;
		len -= XR_FRAME_HEAD + frame.len;
	}
	return 0;
}
