/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections set up and closed per second over TCP, with TLS 1.3 by a pre-shared key or plain:
 * connect server PORT plain|tls, connect client HOST:PORT plain|tls SECONDS. 32 at once, by
 * as many processes on each side (threads would wait for OpenSSL's locks); each carries a byte
 * there and one back. Prints how many a second.
 */
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 32 };

static const unsigned char key[32] = "a secret of as many bytes as it";
static struct sockaddr_in address = {.sin_family = AF_INET};
static SSL_CTX *tls; /* NULL: plain */
static int listener;
static uint64_t end_ns;
static atomic_ullong *connections; /* of all processes */

static void require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "connect: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned client_key(SSL *ssl, const char *hint, char *identity, unsigned identity_max,
			   unsigned char *psk, unsigned psk_max)
{
	snprintf(identity, identity_max, "bench");
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static unsigned server_key(SSL *ssl, const char *identity, unsigned char *psk, unsigned psk_max)
{
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static void use_tls(void)
{
	require((tls = SSL_CTX_new(TLS_method())) != NULL, "SSL_CTX_new");
	SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
	require(SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256"), "cipher");
	SSL_CTX_set_num_tickets(tls, 0); /* nobody comes back */
	SSL_CTX_set_psk_client_callback(tls, client_key);
	SSL_CTX_set_psk_server_callback(tls, server_key);
}

/* A byte from the client and one back, after the handshake if any. */
static bool talk(int fd, bool server)
{
	SSL *ssl = tls ? SSL_new(tls) : NULL;
	char byte = 'x';
	bool good;

	if (ssl) {
		SSL_set_fd(ssl, fd);
		good = (server ? SSL_accept : SSL_connect)(ssl) == 1;
		if (!server)
			good = good && SSL_write(ssl, &byte, 1) == 1;
		good = good && SSL_read(ssl, &byte, 1) == 1;
		if (server)
			good = good && SSL_write(ssl, &byte, 1) == 1;
		SSL_free(ssl);
		return good;
	}
	if (!server && send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
		return false;
	good = recv(fd, &byte, 1, 0) == 1;
	return good && (!server || send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void serve(void)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		require(fd >= 0, "accept");
		no_delay(fd);
		talk(fd, true);
		close(fd);
	}
}

/* Closed by a reset: ports would soon be used up by waiting for the last packets. */
static void connect_again(void)
{
	struct linger reset = {.l_onoff = 1};

	while (clock_now_ns() < end_ns) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		require(fd >= 0, "socket");
		require(!connect(fd, (struct sockaddr *)&address, sizeof(address)), "connect");
		no_delay(fd);
		require(talk(fd, false), "handshake or byte");
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
		atomic_fetch_add(connections, 1);
	}
}

static void run(void (*f)(void))
{
	for (int i = 0; i < AT_ONCE; i++) {
		pid_t pid = fork();

		require(pid >= 0, "fork");
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f();
		_exit(0);
	}
	for (int i = 0, status; i < AT_ONCE; i++)
		require(wait(&status) > 0 && !status, "a process");
}

static void listen_on(int port)
{
	int one = 1;

	address.sin_port = htons((uint16_t)port);
	require((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0, "socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	require(!bind(listener, (struct sockaddr *)&address, sizeof(address)), "bind");
	require(!listen(listener, 1024), "listen");
}

int main(int argc, char **argv)
{
	bool server = argc == 4 && !strcmp(argv[1], "server");
	char *colon = argc == 5 ? strchr(argv[2], ':') : NULL;
	uint64_t start = clock_now_ns();

	if (!server && !colon) {
		fputs("connect server PORT plain|tls, connect client HOST:PORT plain|tls SECONDS\n",
		      stderr);
		return 1;
	}
	if (!strcmp(argv[3], "tls"))
		use_tls();
	if (server) {
		listen_on(atoi(argv[2]));
		run(serve);
	}
	*colon = '\0';
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	require(inet_pton(AF_INET, argv[2], &address.sin_addr) == 1, argv[2]);
	end_ns = start + (uint64_t)(strtod(argv[4], NULL) * 1e9);
	connections = mmap(NULL, sizeof(*connections), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(connections != MAP_FAILED, "mmap");
	run(connect_again);
	printf("%.0f\n", (double)*connections * 1e9 / (double)(clock_now_ns() - start));
	return 0;
}
