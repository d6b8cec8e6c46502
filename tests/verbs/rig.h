/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection for the tests of the verbs: device, domain, queues, a buffer. Everything
 * that goes wrong here ends the test program, with its place.
 */
#ifndef TESTS_VERBS_RIG_H
#define TESTS_VERBS_RIG_H

/* gcc says so by a macro, clang by a feature. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

enum { RIG_BUF = 1 << 20, RIG_DEPTH = 64, RIG_INLINE = 128 };

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	uint8_t timeout, retry_cnt;
	uint8_t gid_index; /* its own */
	bool unreliable;   /* UC */
};

/* What the peer needs to know. */
struct end_address {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
};

/* Opens urxe0. A second end may share the first one's context. */
void end_open(struct end *e, struct ibv_context *context);

/* Gives the end a QP with this much room, in RESET. */
void end_qp(struct end *e, bool extended);
struct end_address end_address(const struct end *e);

/* RESET to RTS. */
void end_connect(struct end *e, const struct end_address *to);
void end_close(struct end *e, bool close_context);

/* Two ends of this process that have their QPs: RESET to RTS. */
void pair_connect(struct end *a, struct end *b);

/* Two connected ends in this process: in one context, or in two. */
void pair_open(struct end *a, struct end *b, bool one_context);
void pair_close(struct end *a, struct end *b, bool one_context);

void end_recv(struct end *e, uint64_t wr_id, size_t offset, uint32_t length);

/* Polls until n completions have come; in order, in wc. */
void end_wait(struct end *e, struct ibv_wc *wc, int n);

/* A pattern that differs for every seed. */
void fill(uint8_t *p, size_t len, unsigned seed);

double seconds(void);

/* Starts this program again with these arguments and a socket to it as descriptor 3. */
int spawn_self(int *ret_socket, const char *arg1, const char *arg2);
void exchange(int fd, const void *mine, void *theirs, size_t len);

#endif
