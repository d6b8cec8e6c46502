/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What it costs to be watched: round trips of 64 bytes between two processes that poll, each on a
 * processor of its own. Ways of watching take turns in short blocks, so that what else the machine
 * does falls on all alike; medians.
 */
#include "base/clock.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xrdma/xrdma.h>

enum { BYTES = 64, BLOCK = 500, WARM_UP = 100 };

static const struct {
	const char *name;
	const char *options[3][2];
} ways[] = {
	{"nothing", {{"monitor", "off"}}},
	{"monitor", {{"monitor", "on"}}},
	{"trace, 1 in 64", {{"trace", "on"}}},
	{"trace, every call", {{"trace", "on"}, {"trace_sample", "1"}}},
	{"slow polls, handlers", {{"slow_poll_us", "60000000"}, {"slow_handler_us", "60000000"}}},
	{"filter, no match", {{"filter", "drop:ch=1000000"}}},
};

enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Which of its contexts the server polls, and where they listen. */
static struct shared {
	atomic_uint way;
	int port[N_WAYS];
	atomic_bool ready;
} * shared;

static void require(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "watching: %s: %s\n", what, xrdma_last_error());
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

static struct xrdma_context *open_context(unsigned way)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;

	require(xrdma_conf_new(&conf), "xrdma_conf_new");
	for (unsigned i = 0; i < 3 && ways[way].options[i][0]; i++)
		require(xrdma_conf_set(conf, ways[way].options[i][0], ways[way].options[i][1]),
			"xrdma_conf_set");
	require(xrdma_open(conf, &ctx), "xrdma_open");
	xrdma_conf_free(conf);
	return ctx;
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *request, void *arg)
{
	struct xrdma_msg *reply;

	require(xrdma_msg_new(ch, BYTES, &reply), "xrdma_msg_new");
	memcpy(xrdma_msg_data(reply), xrdma_msg_data(request), BYTES);
	require(xrdma_reply(request, reply), "xrdma_reply");
}

static void serve(void)
{
	static const struct xrdma_handlers handlers = {.on_msg = on_msg};
	struct xrdma_context *ctx[N_WAYS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	for (unsigned i = 0; i < N_WAYS; i++) {
		struct xrdma_listener *listener;

		ctx[i] = open_context(i);
		require(xrdma_listen(ctx[i], "127.0.0.1:0", &handlers, NULL, &listener), "listen");
		shared->port[i] = xrdma_listener_port(listener);
	}
	atomic_store(&shared->ready, true);
	for (;;)
		xrdma_poll(ctx[atomic_load_explicit(&shared->way, memory_order_relaxed)]);
}

static struct client {
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	bool connected, over;
} clients[N_WAYS];

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct client *c = arg;

	if (event == XRDMA_CONNECTED)
		c->connected = true;
	else if (!c->over)
		require(-1, "the channel");
}

static void on_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	require(status, "a reply");
	xrdma_msg_free(reply);
	*(bool *)arg = true;
}

static void connect_client(unsigned way)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	struct client *c = &clients[way];
	char address[32];

	atomic_store(&shared->way, way);
	c->ctx = open_context(way);
	snprintf(address, sizeof(address), "127.0.0.1:%d", shared->port[way]);
	require(xrdma_connect(c->ctx, address, &handlers, c, &c->ch), "connect");
	while (!c->connected)
		require(xrdma_poll(c->ctx), "poll");
}

static uint64_t round_trip(struct client *c)
{
	uint64_t start = clock_now_ns();
	struct xrdma_msg *request;
	bool done = false;

	require(xrdma_msg_new(c->ch, BYTES, &request), "xrdma_msg_new");
	memset(xrdma_msg_data(request), 1, BYTES);
	require(xrdma_call(c->ch, request, 0, on_done, &done, NULL), "xrdma_call");
	while (!done)
		xrdma_poll(c->ctx);
	return clock_now_ns() - start;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(unsigned blocks)
{
	uint32_t *times[N_WAYS];

	for (unsigned w = 0; w < N_WAYS; w++)
		times[w] = calloc(blocks * BLOCK, sizeof(uint32_t));
	for (unsigned b = 0; b < blocks; b++) {
		for (unsigned w = 0; w < N_WAYS; w++) {
			atomic_store(&shared->way, w);
			for (unsigned i = 0; i < WARM_UP; i++)
				round_trip(&clients[w]);
			for (unsigned i = 0; i < BLOCK; i++)
				times[w][b * BLOCK + i] = (uint32_t)round_trip(&clients[w]);
		}
	}
	for (unsigned w = 0; w < N_WAYS; w++) {
		qsort(times[w], blocks * BLOCK, sizeof(uint32_t), compare);
		printf("{\"bench\": \"watching\", \"way\": \"%s\", \"ns\": %u}\n", ways[w].name,
		       times[w][blocks * BLOCK / 2]);
		free(times[w]);
	}
}

int main(void)
{
	enum { BLOCKS = 20 };
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	pid = fork();
	if (pid == 0)
		serve();
	pin(0);
	while (!atomic_load(&shared->ready))
		usleep(1000);
	for (unsigned w = 0; w < N_WAYS; w++)
		connect_client(w);
	measure(BLOCKS);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (unsigned w = 0; w < N_WAYS; w++) {
		clients[w].over = true;
		xrdma_close(clients[w].ctx);
	}
	return 0;
}
