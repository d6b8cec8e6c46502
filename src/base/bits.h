/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdint.h>

/* The least power of two that is no less; n is 2^31 at most. */
static inline uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

#endif
