/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that each have a device context, CQ and QP of their own, beside threads that share one QP
 * under a lock: shared_qp own|shared THREADS SECONDS. Each thread keeps 16 WRITEs of 64 bytes on
 * their way; QPs are connected to themselves, so that no peer is the bottleneck. Prints how many
 * WRITEs ended a second, in total.
 */
#include "base/clock.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 16, DEPTH = 16, BYTES = 64, BATCH = 16 };

struct end {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	pthread_mutex_t lock; /* of the QP and its CQ, where they are shared */
	unsigned in_flight[MAX_THREADS];
	uint64_t ended[MAX_THREADS];
	char buf[MAX_THREADS][2][BYTES]; /* written from, written to */
};

struct worker {
	pthread_t thread;
	struct end *end;
	unsigned index;
	bool shared;
};

static atomic_bool stop;

static void require(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void connect_to_itself(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	require(!ibv_modify_qp(e->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS),
		"to INIT");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = e->qp->qp_num,
				    .min_rnr_timer = 12,
				    .max_dest_rd_atomic = 1,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	attr.ah_attr.grh.hop_limit = 1;
	require(!ibv_query_gid(e->verbs, 1, 0, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	require(!ibv_modify_qp(e->qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER),
		"to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	require(!ibv_modify_qp(e->qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		"to RTS");
}

static void open_end(struct end *e, struct ibv_device *device, unsigned n_threads)
{
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = DEPTH * n_threads,
					      .max_recv_wr = 1,
					      .max_send_sge = 1,
					      .max_recv_sge = 1}};

	pthread_mutex_init(&e->lock, NULL);
	require((e->verbs = ibv_open_device(device)) != NULL, "ibv_open_device");
	require((e->pd = ibv_alloc_pd(e->verbs)) != NULL, "ibv_alloc_pd");
	e->cq = ibv_create_cq(e->verbs, (int)(DEPTH * n_threads), NULL, NULL, 0);
	require(e->cq != NULL, "ibv_create_cq");
	qp.send_cq = qp.recv_cq = e->cq;
	require((e->qp = ibv_create_qp(e->pd, &qp)) != NULL, "ibv_create_qp");
	e->mr = ibv_reg_mr(e->pd, e->buf, sizeof(e->buf),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	require(e->mr != NULL, "ibv_reg_mr");
	connect_to_itself(e);
}

static void close_end(struct end *e)
{
	ibv_destroy_qp(e->qp);
	ibv_dereg_mr(e->mr);
	ibv_destroy_cq(e->cq);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->verbs);
}

static void post(struct end *e, unsigned index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buf[index][0], .length = BYTES, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = index,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)e->buf[index][1];
	wr.wr.rdma.rkey = e->mr->rkey;
	require(!ibv_post_send(e->qp, &wr, &bad), "ibv_post_send");
	e->in_flight[index]++;
}

/* Whose completions they are, their wr_id tells. */
static void take(struct end *e)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(e->cq, BATCH, wc);

	require(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		require(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		e->in_flight[wc[i].wr_id]--;
		e->ended[wc[i].wr_id]++;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct end *e = w->end;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (w->shared)
			pthread_mutex_lock(&e->lock);
		if (e->in_flight[w->index] < DEPTH)
			post(e, w->index);
		else
			take(e);
		if (w->shared)
			pthread_mutex_unlock(&e->lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct end ends[MAX_THREADS];
	static struct worker workers[MAX_THREADS];
	bool shared = argc == 4 && !strcmp(argv[1], "shared");
	unsigned n = argc == 4 ? (unsigned)atoi(argv[2]) : 0, n_ends = shared ? 1 : n;
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t start, took, ended = 0;

	if (n < 1 || n > MAX_THREADS || !list || !list[0]) {
		fputs("shared_qp own|shared THREADS SECONDS, 1 to 16 threads, on an RDMA device\n",
		      stderr);
		return 1;
	}
	for (unsigned i = 0; i < n_ends; i++)
		open_end(&ends[i], list[0], shared ? n : 1);
	ibv_free_device_list(list);
	start = clock_now_ns();
	for (unsigned i = 0; i < n; i++) {
		workers[i] =
			(struct worker){.end = &ends[shared ? 0 : i], .index = i, .shared = shared};
		require(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "thread");
	}
	usleep((useconds_t)(strtod(argv[3], NULL) * 1e6));
	atomic_store(&stop, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	took = clock_now_ns() - start;
	for (unsigned i = 0; i < n; i++)
		ended += workers[i].end->ended[i];
	printf("%.0f\n", (double)ended * 1e9 / (double)took);
	for (unsigned i = 0; i < n_ends; i++)
		close_end(&ends[i]);
	return 0;
}
