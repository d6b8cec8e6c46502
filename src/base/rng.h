/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small seeded generator (splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). For reproducible choices, never for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform in [0, bound); bound must not be 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t bound)
{
	return (uint32_t)(((rng_next(r) >> 32) * bound) >> 32);
}

#endif
