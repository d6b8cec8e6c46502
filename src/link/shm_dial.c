/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "link/shm_priv.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

unsigned urxe_shm_block_name(uint32_t block, struct sockaddr_un *ret_name)
{
	ret_name->sun_family = AF_UNIX;
	ret_name->sun_path[0] = '\0'; /* abstract */
	int n = snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1, "urxe-qp-%x",
			 block);

	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)n);
}

static bool owns_block(const struct urxe_shm *shm, uint32_t block)
{
	list_for_each (pos, &shm->listeners) {
		if (container_of(pos, struct shm_listener, link)->block == block)
			return true;
	}
	return false;
}

static int dial_self(struct urxe_shm_peer *peer)
{
	struct ring *ring = urxe_ring_new_private();
	int err;

	if (!ring)
		return -ENOMEM;
	err = urxe_shm_conn_open_self(peer, ring);
	if (err) {
		urxe_ring_unmap(ring);
		return err;
	}
	urxe_ring_tx_init(&peer->tx, ring);
	return 0;
}

static int send_hello(int fd, int ring_fd)
{
	struct shm_hello hello = SHM_HELLO;
	struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &ring_fd, sizeof(ring_fd));
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The owner need not have accepted yet: hello and packets wait for it. */
static int dial_owner(struct urxe_shm_peer *peer)
{
	struct sockaddr_un name;
	socklen_t len = urxe_shm_block_name(peer->block, &name);
	struct ring *ring = NULL;
	int ring_fd, err;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&name, len)) {
		err = -errno;
		goto err_close;
	}
	err = urxe_ring_new_shared(&ring_fd, &ring);
	if (err)
		goto err_close;
	err = send_hello(fd, ring_fd);
	close(ring_fd);
	if (err)
		goto err_unmap;
	peer->src.fd = fd;
	err = urxe_shm_watch(peer->shm, &peer->src);
	if (err)
		goto err_unmap;
	urxe_ring_tx_init(&peer->tx, ring);
	return 0;

err_unmap:
	urxe_ring_unmap(ring);
err_close:
	close(fd);
	peer->src.fd = -1;
	return err;
}

int urxe_shm_dial(struct urxe_shm_peer *peer)
{
	int err = owns_block(peer->shm, peer->block) ? dial_self(peer) : dial_owner(peer);

	if (err && err != -ECONNREFUSED && err != -EAGAIN)
		log_warn("no shared-memory connection to QP block %#x: %s", peer->block,
			 strerror(-err));
	return err;
}

/* Attempts are a back-off apart that doubles, and starts anew after a quiet time. */
bool urxe_shm_dial_when_due(struct urxe_shm_peer *peer, uint64_t now)
{
	if (now < peer->retry_ns)
		return false;
	if (now - peer->retry_ns >= SHM_BACKOFF_MAX_NS)
		peer->backoff_ns = SHM_BACKOFF_MIN_NS;
	peer->retry_ns = now + peer->backoff_ns;
	if (peer->backoff_ns < SHM_BACKOFF_MAX_NS / 2)
		peer->backoff_ns *= 2;
	else
		peer->backoff_ns = SHM_BACKOFF_MAX_NS;
	return urxe_shm_dial(peer) == 0;
}

void urxe_shm_hang_up(struct urxe_shm_peer *peer)
{
	list_del(&peer->full);
	urxe_ring_unmap(peer->tx.ring);
	peer->tx.ring = NULL;
	urxe_shm_unwatch(peer->shm, &peer->src);
}
