/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exit() with contexts open: what peers can reach is deregistered before anything of the
 * process is taken down, whatever its threads do meanwhile. (After a deadly signal the kernel, or
 * the end of the NIC that is in the process, does the same.)
 */
#ifndef XR_EXIT_H
#define XR_EXIT_H

#include "base/list.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* A registration that peers reach, or may be made to. */
struct xr_exposed {
	struct ibv_mr *mr;
	uint32_t rkey;
	struct list of_process; /* under the lock of exit.c */
};

int xr_exit_init(void);    /* once in a process */
void xr_exit_forked(void); /* in the child */
void xr_exit_add(struct xr_exposed *key);
/* False: the process exits and the key is dead. */
bool xr_exit_remove(struct xr_exposed *key);

#endif
