/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every allocation of the engine fails once. The call that needed it says -ENOMEM and leaves its
 * output and all else as it was: the same call then succeeds, the engine works, nothing leaks.
 * Moving data allocates nothing at all.
 */
#include "../unit/scarce.h"
#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MRS = 40, N_QPS = 24, N_QPN_BLOCKS = 3, BUF_LEN = 256 };

#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Call once, and again if it had to fail. */
#define must(output, call)                                                                         \
	do {                                                                                       \
		int rc_ = (call);                                                                  \
                                                                                                   \
		if (rc_) {                                                                         \
			check(scarce_refused() && rc_ == -ENOMEM && !(output));                    \
			rc_ = (call);                                                              \
		}                                                                                  \
		check(rc_ == 0);                                                                   \
	} while (0)

struct objects {
	struct urxe_engine *engine;
	struct urxe_pd *pd;
	struct urxe_mr *mr[N_MRS];
	struct urxe_cq *cq;
	struct urxe_mw *mw;
	struct urxe_srq *srq;
	struct urxe_ah *ah;
	struct urxe_qp *qp[N_QPS];
	struct urxe_txq txq;
	uint8_t buf[BUF_LEN];
};

static void create_queues(struct objects *o)
{
	struct ibv_srq_attr attr = {.max_wr = 8, .max_sge = 2};
	struct ibv_srq_attr more = {.max_wr = 64};
	struct urxe_route route = {.txq = &o->txq};

	must(o->cq, urxe_cq_new(o->engine, 64, NULL, &o->cq));
	must(NULL, urxe_cq_resize(o->cq, 200));
	check(urxe_cq_capacity(o->cq) >= 200);
	must(o->srq, urxe_srq_new(o->pd, &attr, NULL, &o->srq));
	must(NULL, urxe_srq_modify(o->srq, &more, IBV_SRQ_MAX_WR));
	must(o->ah, urxe_ah_new(o->pd, &route, &o->ah));
}

static void create_qps(struct objects *o)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (unsigned i = 0; i < N_QPS; i++) {
		struct urxe_qp_init init = {
			.type = types[i % 3],
			.send_cq = o->cq,
			.recv_cq = o->cq,
			.srq = i % 2 ? o->srq : NULL,
			.cap = {8, 8, 2, 2, 16},
		};

		must(o->qp[i], urxe_qp_new(o->pd, &init, &o->qp[i]));
	}
}

static void create(struct objects *o)
{
	struct ibv_device_attr limits;
	struct urxe_engine_conf conf = {
		.limits = &limits, .max_inline_data = 64, .active_mtu = IBV_MTU_4096, .seed = 1};

	urxe_limits_default(&limits);
	must(o->engine, urxe_engine_new(&conf, &o->engine));
	urxe_txq_init(&o->txq, o->engine, NULL);
	for (unsigned i = 0; i < N_QPN_BLOCKS; i++)
		must(NULL, urxe_engine_add_qpns(o->engine, (i + 1) * URXE_QPN_BLOCK));
	must(o->pd, urxe_pd_new(o->engine, &o->pd));
	for (unsigned i = 0; i < N_MRS; i++)
		must(o->mr[i],
		     urxe_mr_reg(o->pd, o->buf, BUF_LEN, 0x1000,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &o->mr[i]));
	must(o->mw, urxe_mw_new(o->pd, IBV_MW_TYPE_2, &o->mw));
	create_queues(o);
	create_qps(o);
}

/* The first QP, connected to itself, writes to itself. */
static void move_data(struct objects *o)
{
	struct connect_attr a = {
		.type = IBV_QPT_RC,
		.mtu = IBV_MTU_256,
		.dqpn = urxe_qp_num(o->qp[0]),
		.timeout = 10,
		.rd_atomic = 4,
		.dest_rd_atomic = 4,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.route = {.txq = &o->txq},
	};
	struct ibv_sge sge = {0x1000, 16, urxe_mr_lkey(o->mr[0])};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	const struct ibv_send_wr *bad;
	struct urxe_frame f;
	struct ibv_wc wc;

	check(!connect_init(o->qp[0], &a, 0) && !connect_up(o->qp[0], &a, 0));
	wr.wr.rdma.remote_addr = 0x1080;
	wr.wr.rdma.rkey = urxe_mr_rkey(o->mr[1]);
	memset(o->buf, 0x42, 16);
	check(!urxe_qp_post_send(o->qp[0], 0, &wr, &bad, NULL));
	while (urxe_txq_pull(&o->txq, 0, &f)) {
		uint8_t bytes[512];
		struct urxe_rx rx = {.data = bytes, .len = f.hdr_len};

		memcpy(bytes, f.hdr, f.hdr_len);
		for (unsigned i = 0; i < f.n_iov; i++) {
			memcpy(bytes + rx.len, f.iov[i].iov_base, f.iov[i].iov_len);
			rx.len += (uint32_t)f.iov[i].iov_len;
		}
		urxe_engine_rx(o->engine, 0, &rx);
	}
	urxe_engine_advance(o->engine, 1000);
	check(urxe_cq_poll(o->cq, 1, &wc) == 1 && wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS);
	check(!memcmp(o->buf, o->buf + 0x80, 16));
}

static void destroy(struct objects *o)
{
	for (unsigned i = 0; i < N_QPS; i++)
		check(!urxe_qp_free(o->qp[i]));
	for (unsigned i = 0; i < N_MRS; i++)
		check(!urxe_mr_dereg(o->mr[i]));
	check(!urxe_mw_free(o->mw) && !urxe_ah_free(o->ah) && !urxe_srq_free(o->srq) &&
	      !urxe_cq_free(o->cq) && !urxe_pd_free(o->pd));
}

/* Returns whether the nth allocation was reached. */
static bool run(long nth, bool tidy)
{
	struct objects o = {0};
	long moved;

	scarce_begin(nth);
	create(&o);
	moved = scarce_calls();
	move_data(&o);
	check(scarce_calls() == moved);
	if (tidy)
		destroy(&o);
	urxe_engine_free(o.engine);
	check(scarce_live() == 0);
	scarce_end();
	return scarce_refused();
}

int main(void)
{
	long n = 1;

	while (run(n, n % 2))
		n++;
	printf("%ld allocations failed in turn\n", n - 1);
	check(n > N_QPS);
	return 0;
}
