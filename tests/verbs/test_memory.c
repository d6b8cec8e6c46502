/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions changed in place, windows, device memory, domains: what makes or takes a key. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

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

/* a writes eight bytes of its buffer to the peer's memory. */
static enum ibv_wc_status write8(uint32_t rkey, uint64_t addr)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = addr;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	end_wait(&a, &wc, 1);
	return wc.status;
}

static void restore(struct end *e, struct end *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct end_address to = end_address(peer);

	assert_int_equal(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	end_connect(e, &to);
}

static void expect_refused(uint32_t rkey, uint64_t addr)
{
	assert_int_equal(write8(rkey, addr), IBV_WC_REM_ACCESS_ERR);
	restore(&a, &b);
	restore(&b, &a);
}

static void test_rereg(void **state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *one = aligned_alloc(4096, 4096), *two = aligned_alloc(4096, 8192);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, one, 4096, access);
	struct ibv_pd *pd = ibv_alloc_pd(b.context);
	uint32_t rkey = mr->rkey;

	memset(one, 0, 4096);
	memset(two, 0, 8192);
	fill(a.buf, 8, 1);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, two, 8192, 0), 0);
	assert_ptr_equal(mr->addr, two);
	assert_int_equal(mr->rkey, rkey);
	assert_int_equal(write8(rkey, (uintptr_t)two + 8184), IBV_WC_SUCCESS);
	assert_memory_equal(two + 8184, a.buf, 8);
	expect_refused(rkey, (uintptr_t)one);
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
		0);
	expect_refused(rkey, (uintptr_t)two);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD, pd,
				      NULL, 0, access),
			 0);
	expect_refused(rkey, (uintptr_t)two);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	free(one);
	free(two);
}

/* Type 1: a fresh key by each binding (requirement K8). */
static void test_window(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(b.pd, b.buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	uint32_t first;
	struct ibv_wc wc;

	assert_non_null(mw);
	bind.bind_info = (struct ibv_mw_bind_info){.mr = mr,
						   .addr = (uintptr_t)b.buf,
						   .length = 64,
						   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	end_wait(&b, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	first = mw->rkey;
	assert_int_equal(write8(first, (uintptr_t)b.buf), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	end_wait(&b, &wc, 1);
	assert_int_not_equal(mw->rkey, first);
	assert_int_equal(write8(mw->rkey, (uintptr_t)b.buf), IBV_WC_SUCCESS);
	expect_refused(first, (uintptr_t)b.buf);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_alloc_mw(b.pd, (enum ibv_mw_type)3));
	assert_int_equal(errno, EINVAL);
}

static void test_device_memory(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 256};
	struct ibv_dm *dm = ibv_alloc_dm(b.context, &attr);
	struct ibv_mr *mr = ibv_reg_dm_mr(b.pd, dm, 64, 128,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						  IBV_ACCESS_ZERO_BASED);
	uint8_t got[8];

	assert_non_null(mr);
	fill(a.buf, 8, 3);
	assert_int_equal(write8(mr->rkey, 120), IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(got, dm, 184, 8), 0);
	assert_memory_equal(got, a.buf, 8);
	expect_refused(mr->rkey, 124);
	assert_int_equal(ibv_memcpy_to_dm(dm, 252, got, 8), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 2, got, 4), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, got, 4), EINVAL);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_dm_mr(b.pd, dm, 200, 64, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(ibv_free_dm(dm), 0);
}

static unsigned n_allocs, n_frees;

static void *count_alloc(struct ibv_pd *pd, void *arg, size_t size, size_t alignment, uint64_t type)
{
	assert_ptr_equal(arg, &n_allocs);
	if (n_allocs++ == 0)
		return IBV_ALLOCATOR_USE_DEFAULT;
	return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_free(struct ibv_pd *pd, void *arg, void *p, uint64_t type)
{
	n_frees++;
	free(p);
}

static void test_parent_domain(void **state)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(a.context, &td_attr);
	struct ibv_pd *pd = ibv_alloc_pd(a.context);
	struct ibv_parent_domain_init_attr attr = {.pd = pd,
						   .td = td,
						   .alloc = count_alloc,
						   .free = count_free,
						   .pd_context = &n_allocs,
						   .comp_mask =
							   IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
							   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT};
	struct ibv_pd *parent = ibv_alloc_parent_domain(a.context, &attr);
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = a.cq, .recv_cq = a.cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	assert_non_null(parent);
	qp = ibv_create_qp(parent, &qp_attr);
	assert_non_null(qp);
	assert_int_equal(n_allocs, 2);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(n_frees, 1);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
}

static void test_on_demand(void **state)
{
	struct ibv_mr *all =
		ibv_reg_mr(a.pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)a.buf, RIG_BUF, 0};

	assert_non_null(all);
	sge.lkey = all->lkey;
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	sge.addr = 4096; /* nobody maps that */
	assert_int_not_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
					   IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			     0);
	sge.lkey++;
	assert_int_equal(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_dereg_mr(all), 0);
	/* A peer could touch what is not there. */
	assert_null(
		ibv_reg_mr(a.pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_reg_mr(a.pd, (void *)4096, 4096, IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EFAULT);
}

/* Somebody unmapped memory behind the NIC's back: requests fail, the program lives. */
static void post(struct end *e, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint32_t rkey,
		 const void *remote)
{
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wr.wr.rdma.rkey = rkey;
	}
	assert_int_equal(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void test_unmapped(void **state)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_ON_DEMAND;
	const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status;
	} remote[] = {
		{IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR},
	};
	uint8_t *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, page, 8192, access);
	struct ibv_sge mine = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_sge gone = {(uintptr_t)page + 4096, 64, mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = &gone, .num_sge = 1}, *bad;
	struct ibv_wc wc[2];

	assert_non_null(mr);
	assert_int_equal(write8(mr->rkey, (uintptr_t)page + 4096), IBV_WC_SUCCESS);
	munmap(page + 4096, 4096);
	assert_int_equal(write8(mr->rkey, (uintptr_t)page), IBV_WC_SUCCESS); /* is still there */
	for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++) {
		post(&a, remote[i].opcode, &mine, mr->rkey, page + 4096);
		end_wait(&a, wc, 1);
		assert_int_equal(wc[0].status, remote[i].status);
		restore(&a, &b);
		restore(&b, &a);
	}
	post(&b, IBV_WR_SEND, &gone, 0, NULL);
	end_wait(&b, wc, 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_PROT_ERR);
	restore(&a, &b);
	restore(&b, &a);
	assert_int_equal(ibv_post_recv(b.qp, &recv, &bad), 0);
	post(&a, IBV_WR_SEND, &mine, 0, NULL);
	end_wait(&a, wc, 1);
	assert_int_equal(wc[0].status, IBV_WC_REM_OP_ERR);
	end_wait(&b, wc, 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_PROT_ERR);
	restore(&a, &b);
	restore(&b, &a);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(page, 4096);
}

/* A page that comes and goes, whatever the NIC is about to do with it. */
struct flicker {
	uint8_t *page;
	atomic_bool stop;
};

static void *flicker(void *arg)
{
	struct flicker *f = arg;

	while (!atomic_load(&f->stop)) {
		if (mprotect(f->page, 4096, PROT_NONE) ||
		    mprotect(f->page, 4096, PROT_READ | PROT_WRITE))
			return f->page;
	}
	return NULL;
}

/* Each request succeeds or is refused; whoever looks first and touches then dies here. */
static void test_flickering(void **state)
{
	enum { ROUNDS = 2000 };
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct flicker f = {.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
	struct ibv_mr *mr = ibv_reg_mr(b.pd, f.page, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					       IBV_ACCESS_ON_DEMAND);
	struct ibv_sge mine = {(uintptr_t)a.buf, 8, a.mr->lkey};
	pthread_t thread;
	struct ibv_wc wc;
	void *failed;

	assert_non_null(mr);
	assert_int_equal(pthread_create(&thread, NULL, flicker, &f), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		post(&a, opcodes[i % 3], &mine, mr->rkey, f.page);
		end_wait(&a, &wc, 1);
		if (wc.status == IBV_WC_SUCCESS)
			continue;
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		restore(&a, &b);
		restore(&b, &a);
	}
	atomic_store(&f.stop, true);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Reading it gives zeros, writing to it leaves no trace. */
static void test_null(void **state)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(b.pd);
	struct ibv_sge from[2] = {{0xdeadbeef, 40000, 0}, {(uintptr_t)b.buf, 8, b.mr->lkey}};
	struct ibv_sge to = {(uintptr_t)a.buf, 65536, a.mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr = {.sg_list = from,
				 .num_sge = 2,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	assert_non_null(mr);
	from[0].lkey = mr->lkey;
	for (int round = 0; round < 2; round++) {
		memset(a.buf, 0xee, 65536);
		fill(b.buf, 8, 4);
		assert_int_equal(ibv_post_recv(a.qp, &recv, &bad_recv), 0);
		assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
		end_wait(&b, &wc, 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		end_wait(&a, &wc, 1);
		assert_int_equal(wc.byte_len, 40008);
		for (int i = 0; i < 40000; i++)
			assert_int_equal(a.buf[i], 0);
		assert_memory_equal(a.buf + 40000, b.buf, 8);
		/* All but the last eight bytes of a READ are not wanted. */
		fill(a.buf, 40008, 5);
		memset(b.buf, 0, 8);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)a.buf;
		wr.wr.rdma.rkey = a.mr->rkey;
		assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
		end_wait(&b, &wc, 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_memory_equal(b.buf, a.buf + 40000, 8);
		wr.opcode = IBV_WR_SEND;
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* The address that peers know a region by may not run over the end of the address space. */
static void test_iova(void **state)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = ibv_reg_mr_iova2(b.pd, b.buf, 4096, UINT64_MAX - 4095, access);

	assert_non_null(mr);
	assert_int_equal(write8(mr->rkey, UINT64_MAX - 7), IBV_WC_SUCCESS);
	assert_memory_equal(b.buf + 4088, a.buf, 8);
	expect_refused(mr->rkey, UINT64_MAX - 6);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr_iova2(b.pd, b.buf, 4096, UINT64_MAX - 4094, access));
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rereg),         cmocka_unit_test(test_window),
		cmocka_unit_test(test_device_memory), cmocka_unit_test(test_parent_domain),
		cmocka_unit_test(test_on_demand),     cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_flickering),    cmocka_unit_test(test_null),
		cmocka_unit_test(test_iova),
	};

	return cmocka_run_group_tests(tests, open_pair, close_pair);
}
