/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hist.h"

#include <string.h>

void hist_reset(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void hist_add(struct hist *h, uint64_t value)
{
	h->n++;
	h->sum += value;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->buckets[hist_index(value, HIST_BITS)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	into->n += from->n;
	into->sum += from->sum;
	if (from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

static uint64_t clamp(const struct hist *h, uint64_t value)
{
	if (value < h->min)
		return h->min;
	return value > h->max ? h->max : value;
}

uint64_t hist_percentile(const struct hist *h, double share)
{
	double rank = share * (double)h->n;
	uint64_t wanted = rank < 1 ? 1 : (uint64_t)rank, seen = 0;

	wanted += (double)wanted < rank; /* rounded up */
	if (h->n == 0)
		return 0;
	if (share <= 0)
		return h->min;
	if (wanted >= h->n)
		return h->max;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= wanted)
			return clamp(h, hist_middle(i, HIST_BITS));
	}
	return h->max;
}

double hist_mean(const struct hist *h)
{
	return h->n ? (double)h->sum / (double)h->n : 0;
}
