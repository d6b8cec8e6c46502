/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/stat.h"

#include "base/list.h"
#include "base/log.h"
#include "verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct urxe_stat {
	struct list node;
	const struct urxe_device *dev;
	int fd; /* -1: the page is private memory */
	struct urxe_stat_page *page;
};

enum { MAX_COUNTERS = 64 };

static struct {
	pthread_mutex_t lock;
	struct list open;
	uint64_t closed[URXE_MAX_DEVICES][MAX_COUNTERS]; /* by contexts that are gone */
} stats = {.lock = PTHREAD_MUTEX_INITIALIZER, .open = {&stats.open, &stats.open}};

/* Sealed, so that no reader can be surprised by its size. */
static int new_memfd(size_t size)
{
	int fd = memfd_create(URXE_STAT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		close(fd);
		return -1;
	}
	return fd;
}

struct urxe_stat *urxe_stat_open(const struct urxe_device *dev)
{
	struct urxe_stat *stat = calloc(1, sizeof(*stat));
	const size_t size = sizeof(*stat->page);

	if (!stat)
		return NULL;
	stat->dev = dev;
	stat->fd = new_memfd(size);
	if (stat->fd < 0)
		log_info("counters cannot be read from outside: %s", strerror(errno));
	stat->page = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  stat->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, stat->fd, 0);
	if (stat->page == MAP_FAILED) {
		if (stat->fd >= 0)
			close(stat->fd);
		free(stat);
		return NULL;
	}
	stat->page->size = (uint32_t)size;
	stat->page->pid = getpid();
	snprintf(stat->page->device, sizeof(stat->page->device), "%.15s", dev->ibv.name);
	snprintf(stat->page->netdev, sizeof(stat->page->netdev), "%.15s", dev->netdev);
	__atomic_store_n(&stat->page->magic, URXE_STAT_MAGIC, __ATOMIC_RELEASE);
	pthread_mutex_lock(&stats.lock);
	list_add_tail(&stats.open, &stat->node);
	pthread_mutex_unlock(&stats.lock);
	return stat;
}

void urxe_stat_close(struct urxe_stat *stat)
{
	if (!stat)
		return;
	pthread_mutex_lock(&stats.lock);
	list_del(&stat->node);
	for (unsigned i = 0; i < MAX_COUNTERS && urxe_stat_name(i); i++)
		stats.closed[stat->dev->index][i] += urxe_stat_value(stat->page, i);
	pthread_mutex_unlock(&stats.lock);
	munmap(stat->page, sizeof(*stat->page));
	if (stat->fd >= 0)
		close(stat->fd);
	free(stat);
}

struct urxe_stat_page *urxe_stat_page(struct urxe_stat *stat)
{
	return stat->page;
}

bool urxe_stat_sum(const struct urxe_device *dev, const char *name, uint64_t *ret_sum)
{
	unsigned i = 0;

	while (i < MAX_COUNTERS && urxe_stat_name(i) && strcmp(urxe_stat_name(i), name) != 0)
		i++;
	if (i == MAX_COUNTERS || !urxe_stat_name(i))
		return false;
	pthread_mutex_lock(&stats.lock);
	*ret_sum = stats.closed[dev->index][i];
	list_for_each (pos, &stats.open) {
		struct urxe_stat *stat = container_of(pos, struct urxe_stat, node);

		if (stat->dev == dev)
			*ret_sum += urxe_stat_value(stat->page, i);
	}
	pthread_mutex_unlock(&stats.lock);
	return true;
}

void urxe_stats_after_fork(void)
{
	pthread_mutex_init(&stats.lock, NULL);
	list_init(&stats.open);
	memset(stats.closed, 0, sizeof(stats.closed));
}
