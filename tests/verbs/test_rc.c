/* SPDX-License-Identifier: BSD-2-Clause */
/* Every RC operation between two ends of one process, every byte looked at. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Source data in a's first half, destinations in second halves. */
enum { HALF = RIG_BUF / 2 };

static struct end a, b;
static bool one_context;

static const uint32_t lengths[] = {0,   1,    2,    3,    63,   64,     65,
				   255, 1023, 1024, 1025, 4096, 100001, HALF};
enum { N_LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static int open_one(void **state)
{
	one_context = true;
	pair_open(&a, &b, one_context);
	return 0;
}

#ifndef __SANITIZE_THREAD__
static int open_two(void **state)
{
	one_context = false;
	pair_open(&a, &b, one_context);
	return 0;
}
#endif

static int close_pair(void **state)
{
	pair_close(&a, &b, one_context);
	return 0;
}

static void post(struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr *bad;
	uint32_t third = length / 3;

	/* In three pieces, the middle one empty where there is little. */
	sge[0] = (struct ibv_sge){(uintptr_t)a.buf, third, a.mr->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)a.buf + third, third, a.mr->lkey};
	sge[2] = (struct ibv_sge){(uintptr_t)a.buf + 2 * third, length - 2 * third, a.mr->lkey};
	wr->sg_list = sge;
	wr->num_sge = 3;
	wr->send_flags |= IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
}

static void expect_sent(uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	end_wait(&a, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.qp_num, a.qp->qp_num);
}

/* The receiver's completion, wherever the two share a queue or not. */
static void expect_received(uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t len, uint32_t imm)
{
	struct ibv_wc wc;

	end_wait(&b, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.byte_len, len);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0, imm);
}

static void expect_untouched_behind(uint32_t length)
{
	for (uint32_t i = length; i < length + 64 && i < HALF; i++)
		assert_int_equal(b.buf[HALF + i], 0xee);
}

static void test_send(void **state)
{
	for (unsigned i = 0; i < N_LENGTHS; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_SEND};
		uint32_t imm = 0;

		if (i & 1) {
			wr.opcode = IBV_WR_SEND_WITH_IMM;
			imm = 0x1234 + i;
			wr.imm_data = htonl(imm);
		}
		if (lengths[i] <= RIG_INLINE && (i & 2))
			wr.send_flags = IBV_SEND_INLINE;
		fill(a.buf, lengths[i], i);
		memset(b.buf + HALF, 0xee, HALF);
		end_recv(&b, 100 + i, HALF, HALF);
		post(&wr, lengths[i]);
		expect_received(100 + i, IBV_WC_RECV, lengths[i], imm);
		expect_sent(i, IBV_WC_SEND);
		assert_memory_equal(a.buf, b.buf + HALF, lengths[i]);
		expect_untouched_behind(lengths[i]);
	}
}

static void test_write(void **state)
{
	for (unsigned i = 0; i < N_LENGTHS; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_RDMA_WRITE};

		wr.wr.rdma.rkey = b.mr->rkey;
		wr.wr.rdma.remote_addr = (uintptr_t)b.buf + HALF;
		if (i & 1) {
			wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			wr.imm_data = htonl(77);
			end_recv(&b, 200 + i, 0, 0);
		}
		fill(a.buf, lengths[i], i + 1000);
		memset(b.buf + HALF, 0xee, HALF);
		post(&wr, lengths[i]);
		if (i & 1)
			expect_received(200 + i, IBV_WC_RECV_RDMA_WITH_IMM, lengths[i], 77);
		expect_sent(i, IBV_WC_RDMA_WRITE);
		assert_memory_equal(a.buf, b.buf + HALF, lengths[i]);
		expect_untouched_behind(lengths[i]);
	}
}

static void test_read(void **state)
{
	for (unsigned i = 0; i < N_LENGTHS; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_RDMA_READ};

		wr.wr.rdma.rkey = b.mr->rkey;
		wr.wr.rdma.remote_addr = (uintptr_t)b.buf + HALF;
		memset(a.buf, 0x11, HALF);
		fill(b.buf + HALF, lengths[i], i + 2000);
		post(&wr, lengths[i]);
		expect_sent(i, IBV_WC_RDMA_READ);
		assert_memory_equal(a.buf, b.buf + HALF, lengths[i]);
		assert_true(lengths[i] == HALF || a.buf[lengths[i]] == 0x11);
	}
}

static uint64_t atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5,
				 .opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	uint64_t before;

	wr.wr.atomic.remote_addr = (uintptr_t)b.buf + HALF;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	expect_sent(5, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	memcpy(&before, a.buf, 8);
	return before;
}

static void test_atomics(void **state)
{
	const uint64_t first = 0xfffffffffffffff0u;
	uint64_t now;

	memcpy(b.buf + HALF, &first, 8);
	assert_int_equal(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x20, 0), first);
	assert_int_equal(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0x10, 42), 0x10);
	assert_int_equal(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0x10, 43), 42);
	memcpy(&now, b.buf + HALF, 8);
	assert_int_equal(now, 42);
}

/* ibv_wr_*: a batch arrives whole and in order, or not at all (cases R23, R24). */
static void test_wr_batch(void **state)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
	uint8_t inl[RIG_INLINE];
	struct ibv_data_buf bufs[2] = {{inl, 100}, {inl + 100, 28}};
	struct ibv_sge sges[3] = {{(uintptr_t)a.buf, 10, a.mr->lkey},
				  {(uintptr_t)a.buf + 10, 4096, a.mr->lkey},
				  {(uintptr_t)a.buf + 4106, 1, a.mr->lkey}};
	struct ibv_wc wc[2];

	assert_non_null(qp);
	assert_null(ibv_qp_to_qp_ex(b.qp));
	fill(a.buf, 4107, 9);
	fill(inl, sizeof(inl), 10);
	memset(b.buf + HALF, 0xee, HALF);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf + HALF);
	ibv_wr_set_sge_list(qp, 3, sges);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf + HALF + 8192);
	ibv_wr_set_inline_data_list(qp, 2, bufs);
	memset(bufs, 0, sizeof(bufs));
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_sent(2, IBV_WC_RDMA_WRITE);
	assert_memory_equal(b.buf + HALF, a.buf, 4107);
	expect_untouched_behind(4107);
	assert_memory_equal(b.buf + HALF + 8192, inl, sizeof(inl));

	/* The second is too long: the first is not sent either. */
	bufs[0] = bufs[1] = (struct ibv_data_buf){inl, RIG_INLINE / 2 + 1};
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_inline_data(qp, inl, 1);
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_inline_data_list(qp, 2, bufs);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	assert_int_equal(ibv_poll_cq(a.cq, 2, wc), 0);

	ibv_wr_start(qp);
	for (int i = 0; i < RIG_DEPTH + 1; i++) {
		ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf);
		ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buf, 1);
	}
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	assert_int_equal(ibv_poll_cq(a.cq, 2, wc), 0);

	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_abort(qp);
	assert_int_equal(ibv_poll_cq(a.cq, 2, wc), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send),     cmocka_unit_test(test_write),
		cmocka_unit_test(test_read),     cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_wr_batch),
	};

	int failed = cmocka_run_group_tests_name("one context", tests, open_one, close_pair);

	/*
	 * Not under TSan: it cannot know that a completion orders what the other context's thread
	 * wrote, for the ring between them is mapped twice.
	 */
#ifndef __SANITIZE_THREAD__
	failed += cmocka_run_group_tests_name("two contexts", tests, open_two, close_pair);
#endif
	return failed;
}
