/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one way to a memory region: limits are checked before, failures are explained, and what is
 * registered is counted.
 */
#ifndef XRDMA_MEM_REG_H
#define XRDMA_MEM_REG_H

#include "xrdma/mem_limits.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* On-demand paging, for memory off the critical path: nothing is pinned, the NIC faults pages in.
 */
enum xr_odp {
	XR_ODP_OFF,
	XR_ODP_TRY,     /* where the device offers it */
	XR_ODP_REQUIRE, /* -EOPNOTSUPP where it does not */
};

enum xr_reg_path {
	XR_HOT,  /* pinned, always */
	XR_COLD, /* paged on demand, if so configured */
};

struct xr_reg {
	struct ibv_pd *pd;
	struct xr_limits limits;
	bool odp; /* configured and offered */
	uint32_t mrs;
	uint64_t bytes;
	uint64_t odp_made; /* registrations for on-demand paging so far */
	/* Asked to give a registration back when there are no more; false: has none. */
	bool (*reclaim)(void *arg);
	void *arg;
};

/* -EOPNOTSUPP: on-demand paging is required and not offered. */
int xr_reg_init(struct xr_reg *reg, struct ibv_pd *pd, enum xr_odp odp);

/*
 * -EINVAL: rights that no region can have; -E2BIG: longer than the device's max_mr_size; -EFAULT:
 * not all of it is memory, or not memory that may be written where the rights say so; -ENOMEM: the
 * device's max_mr, RLIMIT_MEMLOCK, or memory.
 */
int xr_reg_mr(struct xr_reg *reg, void *addr, size_t len, unsigned access, enum xr_reg_path path,
	      struct ibv_mr **ret_mr);
void xr_reg_dereg(struct xr_reg *reg, struct ibv_mr *mr);
/* Take all rights of peers from it, while its key's number stays taken. False: the device cannot,
 * and it is good for nothing but to be deregistered. */
bool xr_reg_withdraw(struct ibv_mr *mr);

#endif
