/* SPDX-License-Identifier: BSD-2-Clause */
/* Which NUMA node memory should lie on. */
#ifndef XRDMA_MEM_NUMA_H
#define XRDMA_MEM_NUMA_H

/* The node that a device (its ibdev_path) is attached to; -1: to none, or nobody tells. */
int xr_numa_of_device(const char *ibdev_path);

/* 0; -EINVAL: this machine has no such node. */
int xr_numa_check(unsigned node);

#endif
