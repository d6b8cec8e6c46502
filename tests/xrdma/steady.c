/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * M2: requests and replies between two processes that poll, each on a processor of its own. In the
 * steady state nothing is allocated: counted here, the process fails. Nor is there a system call:
 * test_steady.py traces us; getppid() marks where a window of messages begins and ends. (Looking at
 * sockets, once every housekeeping_us, is put off for this; the first time it finds the end of the
 * set-up there, which is why the warm-up goes beyond it.) How long it takes: bench/watching.c.
 */
#include "base/clock.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xrdma/xrdma.h>

enum { WARM_UP = 20000, WINDOWS = 20, WINDOW = 5000, BYTES = 64, HOUSEKEEPING_US = 1000000 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static unsigned allocations;

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	allocations++;
	return __libc_realloc(old, size);
}

static void require(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, xrdma_last_error());
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

/* Ends a window and begins the next. */
static void mark(unsigned n)
{
	static unsigned at_start;

	if (n > WARM_UP)
		getppid();
	if (n > WARM_UP && allocations != at_start) {
		fprintf(stderr, "%u allocations in a window\n", allocations - at_start);
		exit(1);
	}
	at_start = allocations;
	if (n < WARM_UP + WINDOWS * WINDOW)
		getppid();
}

/* Both sides have looked at their sockets since the first message. */
static bool set_up(void)
{
	static uint64_t until_ns;

	if (until_ns == 0)
		until_ns = clock_now_ns() + 2 * HOUSEKEEPING_US * NSEC_PER_USEC;
	if (until_ns != CLOCK_NEVER && clock_now_ns() >= until_ns)
		until_ns = CLOCK_NEVER;
	return until_ns == CLOCK_NEVER;
}

static void count(void)
{
	static unsigned n;

	if (set_up() && ++n >= WARM_UP && (n - WARM_UP) % WINDOW == 0)
		mark(n);
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *request, void *arg)
{
	struct xrdma_msg *reply;

	require(xrdma_msg_new(ch, BYTES, &reply), "xrdma_msg_new");
	memcpy(xrdma_msg_data(reply), xrdma_msg_data(request), BYTES);
	require(xrdma_reply(request, reply), "xrdma_reply");
	count();
}

static void call(struct xrdma_channel *ch);
static unsigned n_done;

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	require(status, "reply");
	xrdma_msg_free(reply);
	count();
	n_done += set_up();
	if (n_done < WARM_UP + WINDOWS * WINDOW)
		call(ch);
}

static void call(struct xrdma_channel *ch)
{
	struct xrdma_msg *request;

	require(xrdma_msg_new(ch, BYTES, &request), "xrdma_msg_new");
	memset(xrdma_msg_data(request), 1, BYTES);
	require(xrdma_call(ch, request, 1000000, done, NULL, NULL), "xrdma_call");
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	if (event == XRDMA_CLOSED && n_done < WARM_UP + WINDOWS * WINDOW)
		require(arg ? -1 : 0, "closed");
	if (event == XRDMA_CONNECTED && arg)
		call(ch);
}

static struct xrdma_context *open_context(void)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;
	char period[16];

	require(xrdma_conf_new(&conf), "xrdma_conf_new");
	snprintf(period, sizeof(period), "%d", HOUSEKEEPING_US);
	require(xrdma_conf_set(conf, "housekeeping_us", period), "xrdma_conf_set");
	require(xrdma_open(conf, &ctx), "xrdma_open");
	xrdma_conf_free(conf);
	return ctx;
}

static const struct xrdma_handlers handlers = {.on_msg = on_msg, .on_event = on_event};

static void serve(int port_fd)
{
	struct xrdma_listener *listener;
	struct xrdma_context *ctx;
	int port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	ctx = open_context();
	require(xrdma_listen(ctx, "127.0.0.1:0", &handlers, NULL, &listener), "xrdma_listen");
	port = xrdma_listener_port(listener);
	if (write(port_fd, &port, sizeof(port)) != sizeof(port))
		exit(1);
	for (;;)
		require(xrdma_poll(ctx), "xrdma_poll");
}

int main(void)
{
	struct xrdma_channel *ch;
	struct xrdma_context *ctx;
	char address[32];
	int fds[2], port;
	pid_t pid;

	if (pipe(fds))
		return 1;
	pid = fork();
	if (pid == 0)
		serve(fds[1]);
	if (read(fds[0], &port, sizeof(port)) != sizeof(port))
		return 1;
	pin(0);
	ctx = open_context();
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	require(xrdma_connect(ctx, address, &handlers, ctx, &ch), "xrdma_connect");
	while (n_done < WARM_UP + WINDOWS * WINDOW)
		require(xrdma_poll(ctx), "xrdma_poll");
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	xrdma_close(ctx);
	return 0;
}
