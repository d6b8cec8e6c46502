/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that refuses: bound, so that no test beside this one is given it, and nobody listens.
 * Calling a port that was only closed may reach a stranger.
 */
#ifndef TESTS_XRDMA_DEAF_H
#define TESTS_XRDMA_DEAF_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

/* Its address as "host:port" in text; the socket, for the caller to close. */
static inline int deaf_port(char *text, size_t size)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(a);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	snprintf(text, size, "127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

#endif
