/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static long membarrier(enum membarrier_cmd cmd)
{
	return syscall(SYS_membarrier, cmd, 0, 0);
}

bool fence_join(void)
{
	static _Atomic pid_t joined; /* the child of a fork joins for itself */

	if (atomic_load_explicit(&joined, memory_order_relaxed) == getpid())
		return true;
	if (membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
		return false;
	atomic_store_explicit(&joined, getpid(), memory_order_relaxed);
	return true;
}

bool fence_is_heavy(void)
{
	long commands = membarrier(MEMBARRIER_CMD_QUERY);

	return commands > 0 && commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED;
}

bool fence_heavy(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	return !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
