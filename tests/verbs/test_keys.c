/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * URXE_KEYS (requirement N5), which is the argument too. fresh: a key that was given back is dead.
 * reuse: the next region gets it, and who kept the old key writes into a foreign buffer.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, BYTES = 64, ROUNDS = 1000 };

static bool reuse;
static struct end a, b;

static int open_pair(void **state)
{
	pair_open(&a, &b, true);
	return 0;
}

static int close_pair(void **state)
{
	pair_close(&a, &b, true);
	return 0;
}

static enum ibv_wc_status write_to(uint32_t rkey, const void *addr)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, BYTES, a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)addr, rkey}};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	end_wait(&a, &wc, 1);
	return wc.status;
}

static void test_numbers(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf, BYTES, ACCESS);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;

	for (int i = 0; i < ROUNDS; i++) {
		assert_int_not_equal(mr->lkey, mr->rkey);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		mr = ibv_reg_mr(b.pd, b.buf, BYTES, ACCESS);
		assert_non_null(mr);
		assert_int_equal(mr->lkey == lkey, reuse);
		assert_int_equal(mr->rkey == rkey, reuse);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* The same address, another region: exactly what a program does that registers a pool anew. */
static void test_stale_key(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf, BYTES, ACCESS);
	uint32_t stale = mr->rkey;

	fill(a.buf, BYTES, 1);
	assert_int_equal(write_to(stale, b.buf), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	memset(b.buf, 0, BYTES);
	mr = ibv_reg_mr(b.pd, b.buf, BYTES, ACCESS);
	assert_int_equal(write_to(stale, b.buf), reuse ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(memcmp(a.buf, b.buf, BYTES) == 0, reuse);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_stale_key),
	};

	reuse = argc > 1 && strcmp(argv[1], "reuse") == 0;
	return cmocka_run_group_tests(tests, open_pair, close_pair);
}
