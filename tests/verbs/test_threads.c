/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that share one context: each its own QPs, all of them one engine. Run under TSan too. */
#include "rig.h"

#include <pthread.h>

enum { N_THREADS = 3, N_ROUNDS = 400, LEN = 20000 };

static struct ibv_context *context;

static void write_and_check(struct end *a, struct end *b, unsigned seed)
{
	struct ibv_sge sge = {(uintptr_t)a->buf, LEN, a->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = seed,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.rdma.rkey = b->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)b->buf;
	fill(a->buf, LEN, seed);
	end_recv(b, seed, 0, 0);
	REQUIRE(ibv_post_send(a->qp, &wr, &bad) == 0);
	end_wait(b, &wc, 1);
	REQUIRE(wc.status == IBV_WC_SUCCESS && wc.wr_id == seed && wc.imm_data == seed);
	end_wait(a, &wc, 1);
	REQUIRE(wc.status == IBV_WC_SUCCESS);
	REQUIRE(memcmp(a->buf, b->buf, LEN) == 0);
}

static void *traffic(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 100000;
	struct end a, b;

	end_open(&a, context);
	end_open(&b, context);
	end_qp(&a, false);
	end_qp(&b, false);
	pair_connect(&a, &b);
	for (unsigned i = 0; i < N_ROUNDS; i++)
		write_and_check(&a, &b, seed + i);
	end_close(&a, false);
	end_close(&b, false);
	return NULL;
}

/* Objects come and go meanwhile. */
static void *churn(void *arg)
{
	for (int i = 0; i < N_ROUNDS / 10; i++) {
		struct end e;

		end_open(&e, context);
		end_qp(&e, i & 1);
		end_close(&e, false);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[N_THREADS + 1];
	struct end first;

	end_open(&first, NULL);
	context = first.context;
	for (uintptr_t i = 0; i < N_THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, traffic, (void *)i) == 0);
	REQUIRE(pthread_create(&threads[N_THREADS], NULL, churn, NULL) == 0);
	for (int i = 0; i <= N_THREADS; i++)
		pthread_join(threads[i], NULL);
	end_close(&first, true);
	return 0;
}
