/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_HEX_H
#define TESTS_UNIT_HEX_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes written in hexadecimal, spaces between bytes allowed; returns their number. */
static inline size_t hex_decode(const char *hex, uint8_t *bytes, size_t max)
{
	size_t n = 0;
	int used;

	while (sscanf(hex, " %2hhx%n", &bytes[n], &used) == 1) {
		hex += used;
		n++;
		assert(n < max);
	}
	assert(*hex == '\0');
	return n;
}

#endif
