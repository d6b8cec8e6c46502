/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the small programs around other messaging libraries share: PROGRAM server|client URL
 * latency|rate BYTES SECONDS. latency: the client asks, the server replies, and the median round
 * trip is printed in microseconds. rate: the server sends one way without end, and how many
 * messages the client receives a second is printed. As a sender that has built its message in
 * place, they do not fill it.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct peer {
	/* Bind (server) or connect; reply: requests and replies, else a pipeline of that many
	 * messages per side. */
	void (*open)(const char *url, bool server, bool reply, int queue);
	/* A new message of that many bytes; waits while the library's queue is full. */
	void (*send)(size_t bytes);
	/* Waits for a message and frees it; returns its size. */
	size_t (*recv)(void);
};

int peer_run(const struct peer *peer, int argc, char **argv);

/* Ends the program with a sentence, unless good. */
void peer_check(bool good, const char *what, const char *why);

#endif
