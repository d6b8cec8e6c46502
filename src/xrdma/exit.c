/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/exit.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list exposed = {&exposed, &exposed};
static bool exited;

static void deregister_all(void)
{
	pthread_mutex_lock(&lock);
	exited = true;
	list_for_each (pos, &exposed)
		(void)ibv_dereg_mr(container_of(pos, struct xr_exposed, of_process)->mr);
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
	list_init(&exposed);
}

void xr_exit_add(struct xr_exposed *key)
{
	pthread_mutex_lock(&lock);
	list_add_tail(&exposed, &key->of_process);
	pthread_mutex_unlock(&lock);
}

bool xr_exit_remove(struct xr_exposed *key)
{
	bool still;

	pthread_mutex_lock(&lock);
	still = !exited;
	if (still)
		list_del(&key->of_process);
	pthread_mutex_unlock(&lock);
	return still;
}
