/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a registration may run into, and the sentences that say so: what is, what is needed, how to
 * raise it. Pure: the figures are handed in.
 */
#ifndef XRDMA_MEM_LIMITS_H
#define XRDMA_MEM_LIMITS_H

#include <stdint.h>

#define XR_UNLIMITED UINT64_MAX

struct xr_limits {
	uint64_t max_mr; /* regions of the device, all processes together */
	uint64_t max_mr_bytes;
	uint64_t memlock_bytes;     /* RLIMIT_MEMLOCK, or XR_UNLIMITED */
	uint64_t memlock_max_bytes; /* its hard limit: what an ordinary user can raise it to */
	uint64_t locked_bytes;      /* counted against it already */
};

/*
 * Can a region of this size be made beside the n_mrs there are? 0; -EINVAL: it is empty; -E2BIG:
 * max_mr_bytes; -ENOMEM: max_mr. RLIMIT_MEMLOCK is not looked at: whether it counts depends on the
 * device and on privileges, so only the failure tells.
 */
int xr_limits_check(const struct xr_limits *limits, uint64_t n_mrs, uint64_t bytes);

/* Explain why the device refused (err: a negative errno value, returned). */
int xr_limits_explain(const struct xr_limits *limits, int err, uint64_t n_mrs, uint64_t bytes);

#endif
