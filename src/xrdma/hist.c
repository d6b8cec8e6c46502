/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/hist.h"

void xr_hist_read(const struct xr_hist *h, struct xr_hist_copy *ret_copy)
{
	ret_copy->count = 0;
	for (unsigned i = 0; i < XR_HIST_BUCKETS; i++) {
		ret_copy->bucket[i] = xr_relaxed(&h->bucket[i]);
		ret_copy->count += ret_copy->bucket[i];
	}
	ret_copy->sum = xr_relaxed(&h->sum);
	ret_copy->max = xr_relaxed(&h->max);
}

uint64_t xr_hist_quantile(const struct xr_hist_copy *h, double share)
{
	uint64_t rank = (uint64_t)(share * (double)h->count), below = 0, middle;
	unsigned i = 0;

	if (h->count == 0)
		return 0;
	if (rank >= h->count)
		rank = h->count - 1;
	while (i + 1 < XR_HIST_BUCKETS && below + h->bucket[i] <= rank)
		below += h->bucket[i++];
	middle = hist_middle(i, XR_HIST_BITS);
	return middle < h->max ? middle : h->max;
}
