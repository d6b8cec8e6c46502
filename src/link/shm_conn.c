/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Incoming connections and the events of all descriptors. A connection is mute until its hello is
 * there: whoever connects and says nothing costs a descriptor until others need it.
 */
#include "base/log.h"
#include "link/shm_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int urxe_shm_watch(struct urxe_shm *shm, struct shm_source *src)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = src};

	return epoll_ctl(shm->epoll_fd, EPOLL_CTL_ADD, src->fd, &ev) ? -errno : 0;
}

void urxe_shm_unwatch(struct urxe_shm *shm, struct shm_source *src)
{
	if (src->fd < 0)
		return;
	epoll_ctl(shm->epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
	shutdown(src->fd, SHUT_RDWR);
	close(src->fd);
	src->fd = -1;
}

void urxe_shm_ring_bell(struct urxe_shm *shm, int fd)
{
	shm->stats->doorbells++;
	if (fd < 0)
		eventfd_write(shm->self.fd, 1);
	else /* a full socket has bells enough in it; a dead one says so by an event */
		send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static int conn_new(int fd, struct shm_conn **ret_conn)
{
	struct shm_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return -ENOMEM;
	conn->src.kind = SHM_CONN;
	conn->src.fd = fd;
	list_init(&conn->mute);
	*ret_conn = conn;
	return 0;
}

static void conn_unmute(struct urxe_shm *shm, struct shm_conn *conn)
{
	list_del(&conn->mute);
	shm->n_mute--;
}

/* Give the connection a place among those that are polled. */
static void conn_enter(struct urxe_shm *shm, struct shm_conn *conn, struct ring *ring)
{
	struct shm_in *in = &shm->in[shm->n_in];

	conn->place = shm->n_in++;
	in->conn = conn;
	urxe_ring_rx_init(&in->rx, ring);
	urxe_ring_rx_heavy(&in->rx, shm->heavy);
	if (shm->armed)
		urxe_ring_rx_sleep(&in->rx);
}

/* The last one moves to the place that becomes free. */
static void conn_leave(struct urxe_shm *shm, struct shm_conn *conn)
{
	struct shm_in *last = &shm->in[--shm->n_in];

	if (conn->self)
		urxe_shm_hang_up(conn->self);
	else
		urxe_ring_unmap(shm->in[conn->place].rx.ring);
	last->conn->place = conn->place;
	shm->in[conn->place] = *last;
}

void urxe_shm_conn_free(struct urxe_shm *shm, struct shm_conn *conn)
{
	if (list_linked(&conn->mute))
		conn_unmute(shm, conn);
	else
		conn_leave(shm, conn);
	shm->n_strangers -= conn->stranger;
	shm->n_leaving -= conn->leaving;
	urxe_shm_unwatch(shm, &conn->src);
	free(conn);
}

int urxe_shm_conn_open_self(struct urxe_shm_peer *peer, struct ring *ring)
{
	struct urxe_shm *shm = peer->shm;
	struct shm_conn *conn;
	int err;

	if (shm->n_in == SHM_CONNS_MAX)
		return -ENOSPC;
	err = conn_new(-1, &conn);
	if (err)
		return err;
	conn->self = peer;
	conn_enter(shm, conn, ring);
	return 0;
}

void urxe_shm_reap(struct urxe_shm *shm)
{
	for (unsigned i = shm->n_in; i-- > 0;) {
		struct shm_in *in = &shm->in[i];

		if (in->conn->leaving &&
		    (in->rx.pos == in->conn->drain_end || !ring_rx_ready(&in->rx)))
			urxe_shm_conn_free(shm, in->conn);
	}
}

/* ---- the hello ------------------------------------------------------------------------------- */

/* The one descriptor that came along, or -1; any others are closed. */
static int take_fd(struct msghdr *msg)
{
	int ret = -1, n = 0, fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t off = 0; off + CMSG_LEN(sizeof(fd)) <= c->cmsg_len; off += sizeof(fd)) {
			memcpy(&fd, CMSG_DATA(c) + off, sizeof(fd));
			if (n++ == 0)
				ret = fd;
			else
				close(fd);
		}
	}
	return ret;
}

/* -EAGAIN: not there yet. */
static int receive_hello(int fd, struct ring **ret_ring)
{
	struct shm_hello hello, want = SHM_HELLO;
	struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int ring_fd, err = -EPROTO;

	if (n < 0)
		return -errno;
	ring_fd = take_fd(&msg);
	if (n == sizeof(hello) && !(msg.msg_flags & MSG_TRUNC) && ring_fd >= 0 &&
	    memcmp(&hello, &want, sizeof(hello)) == 0)
		err = urxe_ring_map(ring_fd, ret_ring);
	if (ring_fd >= 0)
		close(ring_fd);
	return err;
}

static void on_hello(struct urxe_shm *shm, struct shm_conn *conn)
{
	struct ring *ring;
	int err = receive_hello(conn->src.fd, &ring);

	if (err == -EAGAIN)
		return;
	if (err) {
		shm->stats->rx_malformed++;
		log_info("shared-memory connection refused: %s", strerror(-err));
		urxe_shm_conn_free(shm, conn);
		return;
	}
	conn_unmute(shm, conn);
	conn_enter(shm, conn, ring);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static bool is_stranger(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || cred.uid != geteuid();
}

static void accept_conn(struct urxe_shm *shm, int fd)
{
	bool stranger = is_stranger(fd);
	struct shm_conn *conn;

	if (shm->n_in + shm->n_mute >= SHM_CONNS_MAX ||
	    (stranger && shm->n_strangers >= SHM_STRANGERS_MAX)) {
		log_info("too many shared-memory connections: one refused");
		goto err_close;
	}
	if (conn_new(fd, &conn))
		goto err_close;
	if (urxe_shm_watch(shm, &conn->src)) {
		free(conn);
		goto err_close;
	}
	conn->stranger = stranger;
	shm->n_strangers += stranger;
	if (shm->n_mute == SHM_MUTE_MAX)
		urxe_shm_conn_free(shm, container_of(shm->mute.next, struct shm_conn, mute));
	list_add_tail(&shm->mute, &conn->mute);
	shm->n_mute++;
	on_hello(shm, conn); /* it is usually there already */
	return;

err_close:
	close(fd);
}

/* Out of descriptors, a connection would stay in the queue and keep the epoll set readable. */
static void refuse_conn(struct urxe_shm *shm, int listener)
{
	int fd;

	log_warn("out of file descriptors: a shared-memory connection was refused");
	close(shm->spare_fd);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	shm->spare_fd = fcntl(shm->epoll_fd, F_DUPFD_CLOEXEC, 0);
}

static void on_listener(struct urxe_shm *shm, const struct shm_source *src)
{
	int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		accept_conn(shm, fd);
	else if (errno == EMFILE || errno == ENFILE)
		refuse_conn(shm, src->fd);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Take one bell out of a socket: false when the other side is gone. */
static bool take_bell(int fd)
{
	char bell;
	ssize_t n = recv(fd, &bell, sizeof(bell), MSG_DONTWAIT);

	return n > 0 || (n < 0 && errno == EAGAIN);
}

static void on_conn(struct urxe_shm *shm, struct shm_conn *conn)
{
	if (list_linked(&conn->mute)) {
		on_hello(shm, conn);
		return;
	}
	if (take_bell(conn->src.fd))
		return;
	conn->leaving = true;
	conn->drain_end = shm->in[conn->place].rx.pos + RING_CELLS;
	shm->n_leaving++;
	urxe_shm_unwatch(shm, &conn->src);
}

static void on_peer(struct urxe_shm_peer *peer)
{
	if (!take_bell(peer->src.fd))
		urxe_shm_hang_up(peer);
}

bool urxe_shm_service(struct urxe_shm *shm)
{
	struct epoll_event ev;
	struct shm_source *src;
	eventfd_t bells;

	/* One at a time: handling it may free what another one is about. */
	if (epoll_wait(shm->epoll_fd, &ev, 1, 0) != 1)
		return false;
	src = ev.data.ptr;
	switch (src->kind) {
	case SHM_SELF:
		eventfd_read(src->fd, &bells);
		break;
	case SHM_LISTENER:
		on_listener(shm, src);
		break;
	case SHM_PEER:
		on_peer(container_of(src, struct urxe_shm_peer, src));
		break;
	case SHM_CONN:
		on_conn(shm, container_of(src, struct shm_conn, src));
		break;
	}
	return true;
}
