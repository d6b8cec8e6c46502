/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"
#include "base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 1 << 20, QUEUE = 1000, QUEUE_BYTES = 16 << 20 };

void peer_check(bool good, const char *what, const char *why)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void serve(const struct peer *peer, bool reply, size_t bytes)
{
	for (;;) {
		if (reply)
			peer->recv();
		peer->send(bytes);
	}
}

static void latency(const struct peer *peer, size_t bytes, uint64_t end)
{
	static uint64_t times_ns[MAX_SAMPLES];
	size_t n = 0;

	for (uint64_t now = clock_now_ns(), start; n < MAX_SAMPLES && now < end; n++) {
		start = now;
		peer->send(bytes);
		peer_check(peer->recv() == bytes, "reply", "of another size");
		now = clock_now_ns();
		times_ns[n] = now - start;
	}
	qsort(times_ns, n, sizeof(times_ns[0]), ascending);
	printf("%.3f\n", (double)times_ns[n / 2] / 1e3);
}

/* The first tenth of the time is for the queues to fill. */
static void rate(const struct peer *peer, size_t bytes, uint64_t end)
{
	uint64_t now = clock_now_ns(), start = now + (end - now) / 10, counted = 0, since = 0;

	while (now < end) {
		peer_check(peer->recv() == bytes, "message", "of another size");
		now = clock_now_ns();
		if (since)
			counted++;
		else if (now >= start)
			since = now;
	}
	printf("%.0f\n", (double)counted * 1e9 / (double)(now - since));
}

int peer_run(const struct peer *peer, int argc, char **argv)
{
	bool server, reply;
	uint64_t end;
	size_t bytes;

	peer_check(argc == 6, argv[0], "server|client URL latency|rate BYTES SECONDS");
	server = !strcmp(argv[1], "server");
	reply = !strcmp(argv[3], "latency");
	bytes = strtoul(argv[4], NULL, 0);
	peer->open(argv[2], server, reply,
		   bytes > QUEUE_BYTES / QUEUE ? (int)(QUEUE_BYTES / bytes) : QUEUE);
	if (server)
		serve(peer, reply, bytes);
	if (reply) /* connected, then */
		peer->send(bytes);
	peer->recv();
	end = clock_now_ns() + (uint64_t)(strtod(argv[5], NULL) * 1e9);
	(reply ? latency : rate)(peer, bytes, end);
	return 0;
}
