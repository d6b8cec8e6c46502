/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { RING_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct ring *urxe_ring_new_private(void)
{
	void *p = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int map_shared(int fd, struct ring **ret_ring)
{
	void *p = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*ret_ring = p;
	return 0;
}

int urxe_ring_new_shared(int *ret_fd, struct ring **ret_ring)
{
	int fd = memfd_create("urxe-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct ring)) || fcntl(fd, F_ADD_SEALS, RING_SEALS)) {
		err = -errno;
		goto err_close;
	}
	err = map_shared(fd, ret_ring);
	if (err)
		goto err_close;
	*ret_fd = fd;
	return 0;

err_close:
	close(fd);
	return err;
}

int urxe_ring_map(int fd, struct ring **ret_ring)
{
	/* Seals first: this call asks no file system, which could be one that never answers. */
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0)
		return -EINVAL;
	if ((seals & RING_SEALS) != RING_SEALS)
		return -EPERM;
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC)
		return -EINVAL;
	if (fstat(fd, &st) || st.st_size != (off_t)sizeof(struct ring))
		return -EINVAL;
	return map_shared(fd, ret_ring);
}

void urxe_ring_unmap(struct ring *ring)
{
	if (ring)
		munmap(ring, sizeof(*ring));
}

static uint32_t next_token(uint32_t token)
{
	return token + 1 ? token + 1 : 1;
}

void urxe_ring_tx_init(struct ring_tx *tx, struct ring *ring)
{
	tx->ring = ring;
	tx->head = 0;
	tx->tail = 0;
	tx->bulk_head = 0;
	tx->bulk_tail = 0;
	tx->token = 0;
	tx->rung = 0;
	tx->joined = fence_join();
}

int urxe_ring_tx_refresh(struct ring_tx *tx)
{
	uint32_t consumed = atomic_load_explicit(&tx->ring->consumed, memory_order_acquire);

	if (consumed == tx->tail)
		return 0;
	if (consumed - tx->tail > tx->head - tx->tail)
		return -EPROTO;
	tx->tail = consumed;
	tx->bulk_tail = tx->bulk_end[(consumed - 1) % RING_CELLS];
	return 0;
}

void urxe_ring_tx_sleep(struct ring_tx *tx)
{
	tx->token = next_token(tx->token);
	atomic_store_explicit(&tx->ring->producer_sleeps, tx->token, memory_order_relaxed);
}

void urxe_ring_tx_awake(struct ring_tx *tx)
{
	atomic_store_explicit(&tx->ring->producer_sleeps, 0, memory_order_relaxed);
}

void urxe_ring_rx_init(struct ring_rx *rx, struct ring *ring)
{
	*rx = (struct ring_rx){.ring = ring};
}

bool urxe_ring_rx_publish(struct ring_rx *rx)
{
	rx->unpublished_cells = 0;
	rx->unpublished_bytes = 0;
	atomic_store_explicit(&rx->ring->consumed, rx->pos, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	uint32_t token = atomic_load_explicit(&rx->ring->producer_sleeps, memory_order_relaxed);

	if (token == 0 || token == rx->rung)
		return false;
	rx->rung = token;
	return true;
}

void urxe_ring_rx_heavy(struct ring_rx *rx, bool heavy)
{
	atomic_store_explicit(&rx->ring->consumer_is_heavy, heavy, memory_order_relaxed);
}

void urxe_ring_rx_sleep(struct ring_rx *rx)
{
	rx->token = next_token(rx->token);
	atomic_store_explicit(&rx->ring->consumer_sleeps, rx->token, memory_order_relaxed);
}

void urxe_ring_rx_awake(struct ring_rx *rx)
{
	atomic_store_explicit(&rx->ring->consumer_sleeps, 0, memory_order_relaxed);
}
