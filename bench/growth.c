/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What many connected queue pairs in a process cost: the rate of messages over one of them while
 * the others do nothing, over all in turn beside a few in turn (no ACK speaks for two messages
 * there), and their memory. All in one context, connected two by two, in processor time. Prints
 * "name value" lines. Usage: urxe-run -d lo bench_growth [QPS]
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 16, LEN = 64, MESSAGES = 40000, ROUNDS = 5, FEW = 32, MAX_QPS = 4096 };

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[2 * LEN];
static struct ibv_qp *qps[MAX_QPS];

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(context);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	REQUIRE(pd && cq && mr);
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	REQUIRE(qp);
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t dqpn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = dqpn,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .ah_attr = {.is_global = 1, .port_num = 1}};

	REQUIRE(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	REQUIRE(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Queue pairs first to last - 1, each connected to its neighbour. */
static void add_qps(unsigned first, unsigned last)
{
	for (unsigned i = first; i < last; i += 2) {
		qps[i] = new_qp();
		qps[i + 1] = new_qp();
		connect_qp(qps[i], qps[i + 1]->qp_num);
		connect_qp(qps[i + 1], qps[i]->qp_num);
	}
}

static void post(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)memory, LEN, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + LEN;
	wr.wr.rdma.rkey = mr->rkey;
	REQUIRE(!ibv_post_send(qp, &wr, &bad));
}

static double processor_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Messages a second over the first n queue pairs in turn, DEPTH of them under way. */
static double rate(unsigned n)
{
	double start = processor_seconds();
	struct ibv_wc wc[DEPTH];
	unsigned posted = 0, done = 0;

	while (done < MESSAGES) {
		int got;

		while (posted < MESSAGES && posted - done < DEPTH)
			post(qps[posted++ % n]);
		got = ibv_poll_cq(cq, DEPTH, wc);
		REQUIRE(got >= 0);
		for (int i = 0; i < got; i++)
			REQUIRE(wc[i].status == IBV_WC_SUCCESS);
		done += (unsigned)got;
	}
	return MESSAGES / (processor_seconds() - start);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_rate(unsigned n)
{
	double rates[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++)
		rates[i] = rate(n);
	qsort(rates, ROUNDS, sizeof(rates[0]), compare);
	return rates[ROUNDS / 2];
}

static size_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	REQUIRE(f && fscanf(f, "%*u %lu", &pages) == 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	double alone, few, one, all;
	size_t before;

	REQUIRE(n > FEW && n <= MAX_QPS && n % 2 == 0);
	open_device();
	add_qps(0, FEW);
	alone = median_rate(1);
	few = median_rate(FEW);
	before = resident_bytes();
	add_qps(FEW, n);
	printf("bytes_of_an_idle_qp %zu\n", (resident_bytes() - before) / (n - FEW));
	one = median_rate(1);
	all = median_rate(n);
	printf("messages_per_second_one_of_%d_qps %.0f\n", FEW, alone);
	printf("messages_per_second_%d_qps_in_turn %.0f\n", FEW, few);
	printf("messages_per_second_one_of_%u_qps %.0f\n", n, one);
	printf("messages_per_second_%u_qps_in_turn %.0f\n", n, all);
	return 0;
}
