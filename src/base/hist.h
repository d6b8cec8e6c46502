/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Histograms of fixed size, log-linear: values below 2^(bits+1) have a bucket each, above that
 * every power of two is cut into 2^bits buckets. So a value is known, by the middle of its bucket,
 * to 1/2^(bits+1) of itself.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>

static inline unsigned hist_index(uint64_t value, unsigned bits)
{
	unsigned shift;

	if (value >> bits <= 1)
		return (unsigned)value;
	shift = 63U - (unsigned)__builtin_clzll(value) - bits;
	return (shift << bits) + (unsigned)(value >> shift);
}

/* The lowest value of a bucket. */
static inline uint64_t hist_low(unsigned index, unsigned bits)
{
	unsigned shift = index >> bits <= 1 ? 0 : (index >> bits) - 1;

	return (uint64_t)(index - (shift << bits)) << shift;
}

static inline uint64_t hist_middle(unsigned index, unsigned bits)
{
	return hist_low(index, bits) + (hist_low(index + 1, bits) - hist_low(index, bits)) / 2;
}

/* Of one thread, fine: percentiles are off by 1/128 at most. Adding is O(1), allocates nothing. */
enum { HIST_BITS = 6, HIST_BUCKETS = (64 - HIST_BITS + 1) << HIST_BITS };

struct hist {
	uint64_t n;
	uint64_t sum;
	uint64_t min; /* undefined while n is 0 */
	uint64_t max;
	uint64_t buckets[HIST_BUCKETS];
};

void hist_reset(struct hist *h);
void hist_add(struct hist *h, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);

/*
 * The least value that at least the given share of all, 0 to 1, do not exceed; min and max are
 * exact. 0 of an empty one.
 */
uint64_t hist_percentile(const struct hist *h, double share);
double hist_mean(const struct hist *h);

#endif
