/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random RC operations between two processes, every byte checked: what crossed, and the guard
 * bytes around it. Written against libibverbs alone, so it runs on any verbs device.
 *
 *   bytes [-d DEV] [-g GID_INDEX] [-p PORT] [-e] [-m MTU] [-c CLIENTS] [-w SECONDS] [-t TIMEOUT]
 *         [-P FIRST_PSN]
 *   bytes [the same] [-s SEED] [-n ROUNDS] HOST
 *
 * The client announces seed and rounds; from then on both sides draw the same plan, so each knows
 * what the other does. A round is up to eight operations posted at once, then a SEND from the
 * client, answered by a SEND when the server has checked all. Exit status: 0 good, 1 wrong data or
 * set-up failed, 3 an error completion, 4 the peer went away.
 */
#include "base/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	OPS = 8, /* most in a round */
	SGES = 4,
	GUARD = 64,
	LEN_MAX = 1 << 20,
	SLOT = LEN_MAX + (SGES + 1) * GUARD,
	STATUS_WC = 3,
	STATUS_PEER = 4,
	TIMEOUT = 12, /* of the QP, unless told otherwise: 16.8 ms */
	RETRIES = 7,
};

/* A slot for each operation: where the client sends from or reads to, the server receives or is
 * written to. Behind them what READ reads, and the words of the atomics. */
struct memory {
	uint8_t slot[OPS][SLOT];
	uint8_t source[SLOT];
	uint64_t word[OPS];
};

enum kind { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, FETCH_ADD, CMP_SWAP, KINDS };

struct op {
	enum kind kind;
	uint32_t len;
	uint32_t remote_offset;
	uint32_t tag;
	uint64_t operand;
	unsigned n_local, n_remote; /* SGEs of the client and, for SEND, of the server */
};

struct options {
	const char *device, *port, *host;
	int gid_index;
	bool events;
	enum ibv_mtu mtu;
	uint32_t clients, hold_s, rounds, timeout, psn;
	uint64_t seed;
};

struct hello {
	uint64_t seed, addr;
	uint32_t rounds, qpn, psn, rkey;
	union ibv_gid gid;
};

struct end {
	const struct options *opt;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct memory *memory;
	struct hello peer;
	struct rng rng;
	int tcp;
	bool is_client;
	unsigned unfinished; /* requests posted and not completed */
	uint64_t model[OPS]; /* what the words must hold */
};

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bytes: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void swap_bytes(int tcp, const void *mine, void *theirs, size_t len)
{
	if (send(tcp, mine, len, MSG_NOSIGNAL) != (ssize_t)len ||
	    recv(tcp, theirs, len, MSG_WAITALL) != (ssize_t)len)
		exit(STATUS_PEER);
}

static uint8_t pattern(uint32_t tag, uint32_t i)
{
	return (uint8_t)((tag + i) * 0x9e3779b1u >> 24);
}

static void fill(uint8_t *p, uint32_t len, uint32_t tag, uint32_t first)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = pattern(tag, first + i);
}

static void verify(const uint8_t *p, uint32_t len, uint32_t tag, uint32_t first, const char *what)
{
	for (uint32_t i = 0; i < len; i++) {
		if (p[i] == pattern(tag, first + i))
			continue;
		fprintf(stderr, "bytes: %s: byte %u is 0x%02x, not 0x%02x\n", what, first + i, p[i],
			pattern(tag, first + i));
		exit(1);
	}
}

static void verify_guard(const uint8_t *p, size_t len, const char *what)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] != 0xee) {
			fprintf(stderr, "bytes: %s: written out of bounds\n", what);
			exit(1);
		}
	}
}

/* n pieces of len bytes, guards between them, the last one taking what is left. */
static unsigned split(struct end *end, uint8_t *base, uint32_t len, unsigned n, struct ibv_sge *sge)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len - (len / n) * i : len / n;

		base += GUARD;
		sge[i] = (struct ibv_sge){(uintptr_t)base, part, end->mr->lkey};
		base += part;
	}
	return n;
}

static void fill_pieces(const struct ibv_sge *sge, unsigned n, uint32_t tag)
{
	for (uint32_t i = 0, first = 0; i < n; first += sge[i++].length)
		fill((uint8_t *)sge[i].addr, sge[i].length, tag, first);
}

static void verify_pieces(const struct ibv_sge *sge, unsigned n, uint32_t tag, const char *what)
{
	for (uint32_t i = 0, first = 0; i < n; first += sge[i++].length) {
		verify_guard((uint8_t *)sge[i].addr - GUARD, GUARD, what);
		verify((uint8_t *)sge[i].addr, sge[i].length, tag, first, what);
	}
	verify_guard((uint8_t *)sge[n - 1].addr + sge[n - 1].length, GUARD, what);
}

/* Any length, each power of two as likely as the next, or one around whole packets. */
static uint32_t draw_len(struct end *end)
{
	uint32_t mtu = 128u << end->opt->mtu;

	if (rng_below(&end->rng, 4) == 0)
		return mtu * (1 + rng_below(&end->rng, 8)) + rng_below(&end->rng, 3) - 1;
	return rng_below(&end->rng, 1u << (1 + rng_below(&end->rng, 20)));
}

static unsigned plan_round(struct end *end, struct op *ops)
{
	unsigned n = 1 + rng_below(&end->rng, OPS);

	for (unsigned i = 0; i < n; i++) {
		struct op *op = &ops[i];

		op->kind = (enum kind)rng_below(&end->rng, KINDS);
		op->len = draw_len(end);
		op->remote_offset = rng_below(&end->rng, LEN_MAX + 1 - op->len);
		op->tag = (uint32_t)rng_next(&end->rng);
		op->operand = rng_next(&end->rng);
		op->n_local = 1 + rng_below(&end->rng, SGES);
		op->n_remote = 1 + rng_below(&end->rng, SGES);
	}
	return n;
}

static bool receives(enum kind kind)
{
	return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM;
}

/* Also the receive that ends a round: id OPS. */
static void post_recv(struct end *end, uint64_t id, struct ibv_sge *sge, unsigned n)
{
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = (int)n}, *bad;

	errno = ibv_post_recv(end->qp, &wr, &bad);
	check(!errno, "post_recv");
}

static void post_send(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	end->unfinished++;
	wr->send_flags = IBV_SEND_SIGNALED;
	errno = ibv_post_send(end->qp, wr, &bad);
	check(!errno, "post_send");
}

static void post_sync(struct end *end)
{
	struct ibv_send_wr wr = {.wr_id = OPS, .opcode = IBV_WR_SEND};

	post_send(end, &wr);
}

static bool peer_gone(struct end *end)
{
	struct pollfd fd = {end->tcp, POLLRDHUP, 0};

	return poll(&fd, 1, 0) > 0;
}

/* Sleep until there may be a completion, or the peer is gone and none is owed to us. */
static void wait_event(struct end *end)
{
	struct pollfd fds[] = {{end->channel->fd, POLLIN, 0}, {end->tcp, POLLRDHUP, 0}};
	struct ibv_cq *cq;
	void *cq_context;

	check(poll(fds, end->unfinished ? 1 : 2, -1) > 0, "poll");
	if (!fds[0].revents)
		return;
	check(!ibv_get_cq_event(end->channel, &cq, &cq_context), "get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

/*
 * The next completion. False: the peer is gone, by TCP's word. That counts only while we have no
 * request under way: a request must end by itself, with RETRY_EXC_ERR.
 */
static bool next_wc(struct end *end, struct ibv_wc *wc)
{
	bool armed = false;

	for (unsigned spins = 1;; spins++) {
		int n = ibv_poll_cq(end->cq, 1, wc);

		check(n >= 0, "poll_cq");
		if (n == 1)
			break;
		if ((end->opt->events || spins % 4096 == 0) && !end->unfinished && peer_gone(end))
			return false;
		if (!end->opt->events)
			continue;
		if (armed)
			wait_event(end);
		else
			check(!ibv_req_notify_cq(end->cq, 0), "req_notify_cq");
		armed = !armed;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "bytes: completion of %lu: %s\n", (unsigned long)wc->wr_id,
			ibv_wc_status_str(wc->status));
		if (end->opt->clients > 1)
			return false;
		exit(STATUS_WC);
	}
	if (!(wc->opcode & IBV_WC_RECV))
		end->unfinished--;
	return true;
}

static void client_post(struct end *end, unsigned i, const struct op *op)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct memory *remote = (struct memory *)end->peer.addr; /* only to compute addresses */
	struct ibv_sge sge[SGES];
	struct ibv_send_wr wr = {.wr_id = i, .sg_list = sge, .opcode = opcodes[op->kind]};

	wr.imm_data = htonl(op->tag);
	if (op->kind == FETCH_ADD || op->kind == CMP_SWAP) {
		sge[0] =
			(struct ibv_sge){(uintptr_t)&end->memory->slot[i][GUARD], 8, end->mr->lkey};
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = (uintptr_t)&remote->word[i];
		wr.wr.atomic.rkey = end->peer.rkey;
		wr.wr.atomic.compare_add = op->operand;
		if (op->kind == CMP_SWAP) { /* one in two must not swap */
			wr.wr.atomic.compare_add = end->model[i] ^ (op->operand & 1);
			wr.wr.atomic.swap = op->operand;
		}
	} else {
		wr.num_sge = (int)split(end, end->memory->slot[i], op->len, op->n_local, sge);
		wr.wr.rdma.rkey = end->peer.rkey;
		wr.wr.rdma.remote_addr = (uintptr_t)&remote->slot[i][GUARD + op->remote_offset];
		if (op->kind == READ)
			wr.wr.rdma.remote_addr = (uintptr_t)&remote->source[op->remote_offset];
		else
			fill_pieces(sge, op->n_local, op->tag);
	}
	post_send(end, &wr);
}

/* The word's value before the operation; the model moves on. */
static uint64_t model_step(struct end *end, unsigned i, const struct op *op)
{
	uint64_t before = end->model[i];

	if (op->kind == FETCH_ADD)
		end->model[i] += op->operand;
	else if (!(op->operand & 1))
		end->model[i] = op->operand;
	return before;
}

static void client_check(struct end *end, unsigned i, const struct op *op)
{
	struct ibv_sge sge[SGES];
	uint64_t before, got;

	if (op->kind == READ) {
		split(end, end->memory->slot[i], op->len, op->n_local, sge);
		verify_pieces(sge, op->n_local, (uint32_t)end->opt->seed + op->remote_offset,
			      "READ");
	} else if (op->kind == FETCH_ADD || op->kind == CMP_SWAP) {
		before = model_step(end, i, op);
		memcpy(&got, &end->memory->slot[i][GUARD], sizeof(got));
		if (got != before) {
			fprintf(stderr, "bytes: atomic returned %#lx, not %#lx\n",
				(unsigned long)got, (unsigned long)before);
			exit(1);
		}
	}
}

static void client_round(struct end *end)
{
	struct op ops[OPS];
	struct ibv_wc wc;
	unsigned n = plan_round(end, ops), left = n + 2;

	for (unsigned i = 0; i < n; i++)
		memset(end->memory->slot[i], 0xee, SLOT);
	post_recv(end, OPS, NULL, 0);
	for (unsigned i = 0; i < n; i++)
		client_post(end, i, &ops[i]);
	post_sync(end);
	while (left--) {
		if (!next_wc(end, &wc))
			exit(STATUS_PEER);
	}
	for (unsigned i = 0; i < n; i++)
		client_check(end, i, &ops[i]);
}

static void server_check(struct end *end, unsigned i, const struct op *op)
{
	uint8_t *slot = end->memory->slot[i];
	struct ibv_sge sge[SGES];

	if (op->kind == SEND || op->kind == SEND_IMM) {
		split(end, slot, op->len, op->n_remote, sge);
		verify_pieces(sge, op->n_remote, op->tag, "SEND");
	} else if (op->kind == WRITE || op->kind == WRITE_IMM) {
		verify_guard(slot, GUARD + op->remote_offset, "WRITE");
		verify(slot + GUARD + op->remote_offset, op->len, op->tag, 0, "WRITE");
		verify_guard(slot + GUARD + op->remote_offset + op->len,
			     SLOT - GUARD - op->remote_offset - op->len, "WRITE");
	} else if (op->kind != READ) {
		model_step(end, i, op);
		if (end->memory->word[i] != end->model[i]) {
			fprintf(stderr, "bytes: atomic: wrong value in memory\n");
			exit(1);
		}
	}
}

static void server_check_wc(const struct ibv_wc *wc, const struct op *op)
{
	bool imm = op->kind != SEND;

	if (imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) || (imm && ntohl(wc->imm_data) != op->tag) ||
	    wc->byte_len != op->len) {
		fprintf(stderr, "bytes: receive completion %#x: imm or length %u wrong, not %u\n",
			wc->opcode, wc->byte_len, op->len);
		exit(1);
	}
}

static unsigned server_prepare(struct end *end, struct op *ops)
{
	unsigned n = plan_round(end, ops);

	for (unsigned i = 0; i < n; i++) {
		struct ibv_sge sge[SGES];

		memset(end->memory->slot[i], 0xee, SLOT);
		if (receives(ops[i].kind))
			post_recv(
				end, i, sge,
				split(end, end->memory->slot[i], ops[i].len, ops[i].n_remote, sge));
	}
	post_recv(end, OPS, NULL, 0);
	return n;
}

/* False: the client went away. */
static bool server_rounds(struct end *end)
{
	struct op ops[OPS], next[OPS];
	unsigned n = server_prepare(end, ops);
	struct ibv_wc wc;
	char go = 0;

	swap_bytes(end->tcp, &go, &go, 1);

	for (uint32_t round = 0; round < end->peer.rounds; round++) {
		do {
			do {
				if (!next_wc(end, &wc))
					return false;
			} while (!(wc.opcode & IBV_WC_RECV)); /* our own answer's */
			if (wc.wr_id < OPS)
				server_check_wc(&wc, &ops[wc.wr_id]);
		} while (wc.wr_id != OPS);
		for (unsigned i = 0; i < n; i++)
			server_check(end, i, &ops[i]);
		if (round + 1 < end->peer.rounds)
			n = server_prepare(end, next);
		memcpy(ops, next, sizeof(ops));
		post_sync(end);
	}
	swap_bytes(end->tcp, &go, &go, 1); /* our last answer may have to be sent again */
	return true;
}

static void to_rts(struct end *end, const struct hello *mine)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	check(!errno, "to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->opt->mtu,
		.dest_qp_num = end->peer.qpn,
		.rq_psn = end->peer.psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = end->peer.gid,
				    .sgid_index = (uint8_t)end->opt->gid_index,
				    .hop_limit = 64}},
	};
	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	check(!errno, "to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = mine->psn,
		.timeout = (uint8_t)end->opt->timeout,
		.retry_cnt = RETRIES,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	check(!errno, "to RTS");
}

static void connect_qp(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = OPS + 2,
			.max_recv_wr = 2 * OPS + 2,
			.max_send_sge = SGES,
			.max_recv_sge = SGES},
	};
	struct hello mine = {
		.seed = end->opt->seed,
		.addr = (uintptr_t)end->memory,
		.rounds = end->opt->rounds,
		.rkey = end->mr->rkey,
		.psn = end->opt->psn & 0xffffff,
	};

	end->unfinished = 0;
	end->qp = ibv_create_qp(end->pd, &init);
	check(end->qp, "create_qp");
	mine.qpn = end->qp->qp_num;
	check(!ibv_query_gid(end->context, 1, end->opt->gid_index, &mine.gid), "query_gid");
	swap_bytes(end->tcp, &mine, &end->peer, sizeof(mine));
	to_rts(end, &mine);
	end->rng.state = end->is_client ? mine.seed : end->peer.seed;
	memset(end->memory->word, 0, sizeof(end->memory->word));
	memset(end->model, 0, sizeof(end->model));
	fill(end->memory->source, SLOT, (uint32_t)end->rng.state, 0);
}

static void open_device(struct end *end)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	check(list, "get_device_list");
	for (int i = 0; i < n && !end->context; i++) {
		if (!end->opt->device || !strcmp(end->opt->device, ibv_get_device_name(list[i])))
			end->context = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	check(end->context, "open_device");
	end->pd = ibv_alloc_pd(end->context);
	check(end->pd, "alloc_pd");
	end->memory = aligned_alloc(4096, (sizeof(*end->memory) + 4095) & ~(size_t)4095);
	check(end->memory, "memory");
	end->mr = ibv_reg_mr(end->pd, end->memory, sizeof(*end->memory), access);
	check(end->mr, "reg_mr");
	if (end->opt->events) {
		end->channel = ibv_create_comp_channel(end->context);
		check(end->channel, "create_comp_channel");
	}
	end->cq = ibv_create_cq(end->context, 4 * OPS, NULL, end->channel, 0);
	check(end->cq, "create_cq");
}

static int tcp_open(const struct options *opt)
{
	struct addrinfo hints = {.ai_family = opt->host ? AF_UNSPEC : AF_INET6,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = opt->host ? 0 : AI_PASSIVE};
	struct addrinfo *ai;
	int one = 1, fd;

	check(!getaddrinfo(opt->host, opt->port, &hints, &ai), "getaddrinfo");
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(fd >= 0, "socket");
	if (opt->host) {
		check(!connect(fd, ai->ai_addr, ai->ai_addrlen), "connect");
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		check(!bind(fd, ai->ai_addr, ai->ai_addrlen) && !listen(fd, 8), "listen");
	}
	freeaddrinfo(ai);
	return fd;
}

/* What this process holds, for a reader to compare between clients. */
static void report_held(unsigned client)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");
	int fds = 0;

	for (int fd = 0; fd < 1024; fd++)
		fds += !access((snprintf(line, sizeof(line), "/proc/self/fd/%d", fd), line), F_OK);
	while (fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "VmSize:", 7))
			printf("client %u: %d fds, %s", client, fds, line);
	}
	fflush(stdout);
	fclose(status);
}

static void serve(struct end *end)
{
	int listener = tcp_open(end->opt);

	for (unsigned i = 1; i <= end->opt->clients; i++) {
		end->tcp = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		check(end->tcp >= 0, "accept");
		printf("client %u came\n", i);
		fflush(stdout);
		connect_qp(end);
		if (!server_rounds(end) && end->opt->clients == 1)
			exit(STATUS_PEER);
		sleep(end->opt->hold_s);
		close(end->tcp);
		check(!ibv_destroy_qp(end->qp), "destroy_qp");
		report_held(i);
	}
	close(listener);
}

static void run_client(struct end *end)
{
	char go = 0;

	end->tcp = tcp_open(end->opt);
	connect_qp(end);
	swap_bytes(end->tcp, &go, &go, 1);
	for (uint32_t round = 0; round < end->opt->rounds; round++)
		client_round(end);
	swap_bytes(end->tcp, &go, &go, 1);
	printf("%u rounds, every byte right\n", end->opt->rounds);
	fflush(stdout);
	sleep(end->opt->hold_s);
	close(end->tcp);
	check(!ibv_destroy_qp(end->qp), "destroy_qp");
}

static enum ibv_mtu mtu_code(int bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128 << code < bytes)
		code++;
	return code;
}

int main(int argc, char **argv)
{
	struct options opt = {.port = "18600",
			      .mtu = IBV_MTU_1024,
			      .clients = 1,
			      .rounds = 100,
			      .psn = (uint32_t)getpid(),
			      .timeout = TIMEOUT};
	uint32_t *const numbers[128] = {['c'] = &opt.clients,
					['w'] = &opt.hold_s,
					['n'] = &opt.rounds,
					['t'] = &opt.timeout,
					['P'] = &opt.psn};
	struct end end = {.opt = &opt};

	for (int c; (c = getopt(argc, argv, "d:g:p:em:c:w:s:n:t:P:")) != -1;) {
		switch (c) {
		case 'd':
			opt.device = optarg;
			break;
		case 'g':
			opt.gid_index = atoi(optarg);
			break;
		case 'p':
			opt.port = optarg;
			break;
		case 'e':
			opt.events = true;
			break;
		case 'm':
			opt.mtu = mtu_code(atoi(optarg));
			break;
		case 's':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		default:
			if (!numbers[c])
				return 1;
			*numbers[c] = (uint32_t)strtoul(optarg, NULL, 0);
		}
	}
	opt.host = argv[optind];
	end.is_client = opt.host != NULL;
	open_device(&end);
	if (end.is_client)
		run_client(&end);
	else
		serve(&end);
	check(!ibv_destroy_cq(end.cq), "destroy_cq");
	check(!end.channel || !ibv_destroy_comp_channel(end.channel), "destroy_comp_channel");
	check(!ibv_dereg_mr(end.mr) && !ibv_dealloc_pd(end.pd), "dereg_mr");
	check(!ibv_close_device(end.context), "close_device");
	free(end.memory);
	return 0;
}
