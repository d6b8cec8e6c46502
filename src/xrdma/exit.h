/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exit() with contexts open: regions that peers can reach are deregistered before anything of the
 * process is taken down, whatever its threads do meanwhile. (After a deadly signal the kernel, or
 * the end of the NIC that is in the process, does the same.)
 */
#ifndef XR_EXIT_H
#define XR_EXIT_H

#include <stdbool.h>

struct xrdma_region;

int xr_exit_init(void);    /* once in a process */
void xr_exit_forked(void); /* in the child */
void xr_exit_add(struct xrdma_region *region);
/* False: the process exits and the region is deregistered. */
bool xr_exit_remove(struct xrdma_region *region);

#endif
