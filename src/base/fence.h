/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fences of unequal weight. Two sides that each store, fence and then load, so that at least one
 * sees the other's store, pay a full fence each. Where one side does it with every message and the
 * other only before it sleeps, the kernel can let the second pay for both: membarrier(2),
 * MEMBARRIER_CMD_GLOBAL_EXPEDITED (Linux 4.16), puts a fence into every running thread of every
 * process that has joined. Thread-safe.
 */
#ifndef URXE_BASE_FENCE_H
#define URXE_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Have heavy fences of other processes reach this one. False: they do not. The first call in a
 * process with threads takes milliseconds.
 */
bool fence_join(void);

/* Does fence_heavy() reach those who have joined? */
bool fence_is_heavy(void);

/* A full fence here and, unless it returns false, in everybody who has joined. A system call. */
bool fence_heavy(void);

/* Enough for who has joined, against a heavy fence; else a full fence it is. */
static inline void fence_light(bool enough)
{
	if (enough)
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
}

#endif
