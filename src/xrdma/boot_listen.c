/* SPDX-License-Identifier: BSD-2-Clause */
/* Listening sockets, and what all connections of a context share. */
#include "xrdma/boot.h"
#include "xrdma/boot_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct xr_boot_listener {
	struct xr_boot_world *world;
	int fd;
	uint16_t port;
};

enum { REFUSALS_PER_CALL = 64 };

static int open_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int xr_boot_world_init(struct xr_boot_world *world, const struct xr_conf *conf)
{
	struct xr_tls_world *tls;
	int err = xr_tls_world_new(conf, &tls);

	if (!err)
		*world =
			(struct xr_boot_world){.conf = *conf, .tls = tls, .spare_fd = open_spare()};
	return err;
}

void xr_boot_world_fini(struct xr_boot_world *world)
{
	xr_tls_world_free(world->tls);
	if (world->spare_fd >= 0)
		close(world->spare_fd);
}

/* ---- listening ------------------------------------------------------------------------------- */

/* A listening socket, or -errno. */
static int listen_on(const struct addrinfo *a)
{
	int on = 1, off = 0, err;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (a->ai_family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) &&
	    bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* IPv6 first: its wildcard takes IPv4 too, while that of IPv4 would leave IPv6 out. */
static int listen_on_any(const struct addrinfo *list)
{
	static const int families[] = {AF_INET6, AF_INET};
	int fd = -EADDRNOTAVAIL;

	for (unsigned i = 0; i < 2; i++) {
		for (const struct addrinfo *a = list; a; a = a->ai_next) {
			if (a->ai_family == families[i])
				fd = listen_on(a);
			if (fd >= 0)
				return fd;
		}
	}
	return fd;
}

/* Say now what would fail at the first peer. */
static int check_keys(const struct xr_boot_world *world, const struct in6_addr *bound)
{
	bool ignored;

	if (world->conf.tls == XR_CHOICE_AUTO && IN6_IS_ADDR_UNSPECIFIED(bound)) {
		if (xr_tls_has_keys(world->tls, XR_TLS_SERVER))
			log_warn("peers on other hosts will be refused: %s", xrdma_last_error());
		return 0;
	}
	return xr_tls_decide(world->tls, XR_TLS_SERVER, bound, bound, &ignored);
}

static int describe(struct xr_boot_listener *l)
{
	struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(bound);
	struct sockaddr_in v4; /* sockaddr_in6 has its port in the same place */
	struct in6_addr raw;

	if (getsockname(l->fd, (struct sockaddr *)&bound, &len))
		return xr_error(-errno, "%s", strerror(errno));
	memcpy(&v4, &bound, sizeof(v4));
	l->port = ntohs(v4.sin_port);
	raw = xr_address_raw((struct sockaddr *)&bound);
	if (bound.ss_family == AF_INET && v4.sin_addr.s_addr == INADDR_ANY)
		raw = in6addr_any;
	return check_keys(l->world, &raw);
}

int xr_boot_listen(struct xr_boot_world *world, const char *address,
		   struct xr_boot_listener **ret_listener)
{
	struct xr_boot_listener *l;
	struct xr_address parsed;
	struct addrinfo *list;
	int fd, err = xr_boot_resolve(address, AI_PASSIVE, &parsed, &list);

	if (err)
		return err;
	fd = listen_on_any(list);
	freeaddrinfo(list);
	if (fd < 0)
		return xr_error(fd, "cannot listen on %s: %s%s", address, xr_system_error(fd),
				fd == -EACCES ? ": ports below 1024 are root's, take a higher one"
					      : "");
	l = malloc(sizeof(*l));
	if (!l) {
		close(fd);
		return xr_error(-ENOMEM, "no memory for a listener");
	}
	*l = (struct xr_boot_listener){.world = world, .fd = fd};
	err = describe(l);
	if (err) {
		xr_error(err, "cannot listen on %s: %.400s", address, xrdma_last_error());
		xr_boot_listener_close(l);
		return err;
	}
	*ret_listener = l;
	return 0;
}

int xr_boot_listener_fd(const struct xr_boot_listener *listener)
{
	return listener->fd;
}

uint16_t xr_boot_listener_port(const struct xr_boot_listener *listener)
{
	return listener->port;
}

void xr_boot_listener_close(struct xr_boot_listener *listener)
{
	close(listener->fd);
	free(listener);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static int accept_one(const struct xr_boot_listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd >= 0 ? fd : -errno;
}

/*
 * Out of descriptors a connection would stay in the queue and the listener readable, for ever:
 * refuse it with the help of the one kept for this. False: there was none to refuse.
 */
static bool refuse_with_spare(struct xr_boot_listener *l)
{
	int fd;

	if (l->world->spare_fd >= 0)
		close(l->world->spare_fd);
	fd = accept_one(l);
	if (fd >= 0)
		close(fd);
	l->world->spare_fd = open_spare();
	l->world->n_refused += fd >= 0;
	return fd >= 0;
}

/* Errors of a connection that died in the queue: accept(2), "Error handling". */
static bool is_of_connection(int err)
{
	return err == -ECONNABORTED || err == -EINTR || err == -EPROTO || err == -ENETDOWN ||
	       err == -EHOSTDOWN || err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -ENOPROTOOPT || err == -EOPNOTSUPP || err == -ENONET || err == -EPERM;
}

int xr_boot_accept(struct xr_boot_listener *listener, uint64_t now, struct xr_boot **ret_boot)
{
	struct xr_boot_world *world = listener->world;

	for (unsigned i = 0; i < REFUSALS_PER_CALL; i++) {
		int fd = accept_one(listener);

		if (fd >= 0 && world->n_pending < world->conf.max_pending)
			return xr_boot_adopt(world, fd, now, ret_boot);
		if (fd >= 0) {
			close(fd);
			world->n_refused++;
		} else if (fd == -EMFILE || fd == -ENFILE) {
			if (!refuse_with_spare(listener))
				return -EAGAIN;
		} else if (fd == -EAGAIN) {
			return -EAGAIN;
		} else if (!is_of_connection(fd)) {
			return xr_error(fd, "connections cannot be accepted: %s",
					xr_system_error(fd));
		}
	}
	return -EAGAIN; /* the listener stays readable */
}
