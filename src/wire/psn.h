/* SPDX-License-Identifier: BSD-2-Clause */
/* Packet sequence numbers are 24 bits and compare in a window of 2^23 (IBA 9.7.2). So do MSNs. */
#ifndef URXE_WIRE_PSN_H
#define URXE_WIRE_PSN_H

#include <stdint.h>

#define PSN_MASK UINT32_C(0xffffff)

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* Signed distance from b to a: > 0 when a is later. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
