/* SPDX-License-Identifier: BSD-2-Clause */
/* Payloads that are known beforehand: each byte follows from the seed, the message and its place.
 */
#ifndef XR_PERF_PATTERN_H
#define XR_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

void xr_pattern_fill(uint64_t seed, uint64_t message, void *data, size_t len);

struct xr_pattern_fault {
	size_t offset; /* of the first wrong byte */
	uint8_t wanted, got;
};

/* 0, or -EILSEQ and where. */
int xr_pattern_check(uint64_t seed, uint64_t message, const void *data, size_t len,
		     struct xr_pattern_fault *ret_fault);

#endif
