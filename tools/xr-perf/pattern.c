/* SPDX-License-Identifier: BSD-2-Clause */
#include "pattern.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* Odd, with its bits well mixed (2^64 over the golden ratio): no two words of a message are equal,
 * and moved blocks show. */
static const uint64_t stride = UINT64_C(0x9e3779b97f4a7c15);

/* Any change of seed or message changes about half of the bits. */
static uint64_t start(uint64_t seed, uint64_t message)
{
	uint64_t x = seed + message * stride;

	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}

void xr_pattern_fill(uint64_t seed, uint64_t message, void *data, size_t len)
{
	uint64_t word = start(seed, message), le;
	unsigned char *p = data;

	for (; len >= sizeof(le); p += sizeof(le), len -= sizeof(le), word += stride) {
		le = htole64(word);
		memcpy(p, &le, sizeof(le));
	}
	le = htole64(word);
	memcpy(p, &le, len);
}

static int locate(const unsigned char *data, uint64_t word, size_t offset, size_t len,
		  struct xr_pattern_fault *ret_fault)
{
	unsigned char wanted[sizeof(word)];

	word = htole64(word);
	memcpy(wanted, &word, sizeof(word));
	for (size_t i = 0; i < len; i++) {
		if (data[offset + i] == wanted[i])
			continue;
		*ret_fault = (struct xr_pattern_fault){offset + i, wanted[i], data[offset + i]};
		return -EILSEQ;
	}
	return 0;
}

int xr_pattern_check(uint64_t seed, uint64_t message, const void *data, size_t len,
		     struct xr_pattern_fault *ret_fault)
{
	uint64_t word = start(seed, message), got;
	const unsigned char *p = data;
	size_t at = 0;

	for (; len - at >= sizeof(word); at += sizeof(word), word += stride) {
		memcpy(&got, p + at, sizeof(got));
		if (got != htole64(word))
			return locate(p, word, at, sizeof(word), ret_fault);
	}
	return locate(p, word, at, len - at, ret_fault);
}
