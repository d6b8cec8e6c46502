/* SPDX-License-Identifier: BSD-2-Clause */
/* What both raw-verbs examples need before the first byte moves: what xrdma does for its users. */
#ifndef VERBS_COMMON_H
#define VERBS_COMMON_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct address { /* exchanged over TCP, both on one kind of machine */
	uint32_t qpn, psn;
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
};

struct end {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[4096];
	struct address ours, theirs;
	int socket;
};

void check(int good, const char *what); /* or exit */
void end_open(struct end *e, int access);
void end_connect(struct end *e, const char *server); /* NULL: be the server */
void end_sync(struct end *e);                        /* wait until the peer is here too */
struct ibv_wc end_wait(struct end *e);               /* for one completion */
void end_close(struct end *e);

#endif
