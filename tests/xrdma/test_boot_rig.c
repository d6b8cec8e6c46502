/* SPDX-License-Identifier: BSD-2-Clause */
#include "test_boot_rig.h"

#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT, "poll() takes events as they are");

void rig_conf(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	xr_conf_defaults(&r->server_conf);
	r->server_conf.tls = XR_CHOICE_OFF;
	r->client_conf = r->server_conf;
	r->now = 1000000000;
}

void rig_listen(struct rig *r, const char *address)
{
	assert_int_equal(xr_boot_world_init(&r->server_world, &r->server_conf), 0);
	assert_int_equal(xr_boot_world_init(&r->client_world, &r->client_conf), 0);
	if (xr_boot_listen(&r->server_world, address, &r->listener))
		fail_msg("%s", xrdma_last_error());
	snprintf(r->address, sizeof(r->address), "127.0.0.1:%u",
		 xr_boot_listener_port(r->listener));
}

void rig_connect(struct rig *r)
{
	if (xr_boot_connect(&r->client_world, r->address, r->now, &r->client) ||
	    xr_boot_start(r->client, r->now))
		fail_msg("%s", xrdma_last_error());
}

static nfds_t watch(struct pollfd *fds, nfds_t n, const struct xr_boot *boot, int err)
{
	if (!boot || err)
		return n;
	fds[n] = (struct pollfd){.fd = xr_boot_fd(boot), .events = (short)xr_boot_events(boot)};
	return n + 1;
}

void rig_step(struct rig *r)
{
	struct pollfd fds[3];
	nfds_t n = 0;

	if (r->listener && !r->server)
		fds[n++] =
			(struct pollfd){.fd = xr_boot_listener_fd(r->listener), .events = POLLIN};
	n = watch(fds, n, r->server, r->server_err);
	n = watch(fds, n, r->client, r->client_err);
	if (poll(fds, n, PATIENCE_MS) <= 0)
		fail_msg("nothing happens: server %d, client %d", r->server_err, r->client_err);
	if (r->listener && !r->server && !r->server_err) {
		int err = xr_boot_accept(r->listener, r->now, &r->server);

		r->server_err = err == -EAGAIN ? 0 : err;
	}
	if (r->server && !r->server_err)
		r->server_err = xr_boot_io(r->server, r->now);
	if (r->client && !r->client_err)
		r->client_err = xr_boot_io(r->client, r->now);
}

void rig_settle(struct rig *r)
{
	while (!((r->server_err || (r->server && xr_boot_is_open(r->server))) &&
		 (r->client_err || xr_boot_is_open(r->client))))
		rig_step(r);
}

void rig_open(struct rig *r)
{
	rig_conf(r);
	rig_listen(r, "127.0.0.1:0");
	rig_connect(r);
	rig_settle(r);
	assert_int_equal(r->server_err, 0);
	assert_int_equal(r->client_err, 0);
}

void rig_close(struct rig *r)
{
	if (r->client)
		xr_boot_close(r->client);
	if (r->server)
		xr_boot_close(r->server);
	if (r->listener)
		xr_boot_listener_close(r->listener);
	assert_int_equal(r->server_world.n_pending, 0);
	xr_boot_world_fini(&r->client_world);
	xr_boot_world_fini(&r->server_world);
}

void wait_fd(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

int rig_raw(struct rig *r)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(xr_boot_listener_port(r->listener)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	wait_fd(xr_boot_listener_fd(r->listener), POLLIN);
	assert_int_equal(xr_boot_accept(r->listener, r->now, &r->server), 0);
	return fd;
}

void rig_server_dies(struct rig *r)
{
	while (!r->server_err)
		rig_step(r);
}

unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

void assert_said(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}
