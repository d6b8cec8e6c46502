/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/exit.h"

#include "xrdma/context.h"
#include "xrdma/region.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list regions = {&regions, &regions};
static bool exited;

static void deregister_all(void)
{
	pthread_mutex_lock(&lock);
	exited = true;
	list_for_each (pos, &regions) {
		struct xrdma_region *region = container_of(pos, struct xrdma_region, of_process);

		(void)ibv_dereg_mr(region->mem.mr);
	}
	pthread_mutex_unlock(&lock);
}

int xr_exit_init(void)
{
	return atexit(deregister_all);
}

/* What there was is the parent's, and a thread of the parent may have held the lock. */
void xr_exit_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	list_init(&regions);
}

void xr_exit_add(struct xrdma_region *region)
{
	pthread_mutex_lock(&lock);
	list_add_tail(&regions, &region->of_process);
	pthread_mutex_unlock(&lock);
}

bool xr_exit_remove(struct xrdma_region *region)
{
	bool still;

	pthread_mutex_lock(&lock);
	still = !exited;
	if (still)
		list_del(&region->of_process);
	pthread_mutex_unlock(&lock);
	return still;
}
