/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/aeth.h"

#include "base/clock.h"

#define RNR_UNIT_NS  UINT64_C(10000)
#define RNR_LONGEST  32 /* what value 0 stands for: the series' next member behind 31 */
#define TIMEOUT_UNIT UINT64_C(4096)
#define CREDIT_MAX   30

/*
 * Tables 45 and 46 are one series: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 ... From 2 on, its index holds
 * the exponent and, in bit 0, the one bit behind the leading bit.
 */
static uint32_t series(uint32_t index)
{
	if (index < 2)
		return index;
	return (2 + (index & 1)) << (index / 2 - 1);
}

uint8_t aeth_credit_encode(uint32_t n)
{
	uint32_t msb;

	if (n < 2)
		return (uint8_t)n;
	if (n >= series(CREDIT_MAX))
		return CREDIT_MAX;
	msb = 31 - (uint32_t)__builtin_clz(n);
	return (uint8_t)(2 * msb + (n >> (msb - 1) & 1));
}

uint32_t aeth_credit_decode(uint8_t value)
{
	return series(value & AETH_VALUE_MASK);
}

uint64_t aeth_rnr_ns(uint8_t value)
{
	value &= AETH_VALUE_MASK;
	return RNR_UNIT_NS * series(value ? value : RNR_LONGEST);
}

uint64_t aeth_timeout_ns(uint8_t value)
{
	value &= AETH_VALUE_MASK;
	return value ? TIMEOUT_UNIT << value : CLOCK_NEVER;
}
