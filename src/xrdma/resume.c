/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/resume.h"

#include "base/be.h"

#include <errno.h>

enum {
	AT_INCARNATION = 0,
	AT_TOKEN = 8,
	AT_EPOCH = 16,
	AT_NEXT = 20,
	AT_CONSUMED = 22,
	AT_STATUS = 24,
	AT_FLAGS = 28,
	MAX_ERRNO = 4095,
};

size_t xr_resume_encode(const struct xr_resume *resume, uint8_t out[static XR_RESUME_BYTES])
{
	put_be64(out + AT_INCARNATION, resume->incarnation);
	put_be64(out + AT_TOKEN, resume->token);
	put_be32(out + AT_EPOCH, resume->epoch);
	put_be16(out + AT_NEXT, resume->window.next);
	put_be16(out + AT_CONSUMED, resume->window.consumed);
	put_be32(out + AT_STATUS, (uint32_t)-resume->status);
	put_be32(out + AT_FLAGS, resume->flags);
	return XR_RESUME_BYTES;
}

int xr_resume_decode(const uint8_t *in, size_t len, struct xr_resume *ret_resume)
{
	uint32_t status;

	if (len < XR_RESUME_BYTES) /* later versions append */
		return -EPROTO;
	status = get_be32(in + AT_STATUS);
	*ret_resume = (struct xr_resume){
		.incarnation = get_be64(in + AT_INCARNATION),
		.token = get_be64(in + AT_TOKEN),
		.epoch = get_be32(in + AT_EPOCH),
		.window = {.next = get_be16(in + AT_NEXT), .consumed = get_be16(in + AT_CONSUMED)},
		.status = status >= 1 && status <= MAX_ERRNO ? -(int)status : -ECONNRESET,
		.flags = get_be32(in + AT_FLAGS),
	};
	return 0;
}

uint64_t xr_backoff_ns(unsigned n, uint64_t min_ns, uint64_t max_ns, uint64_t random)
{
	uint64_t wait = min_ns;

	while (n-- && wait < max_ns)
		wait *= 2;
	if (wait > max_ns)
		wait = max_ns;
	return wait - random % (wait / 2 + 1);
}
