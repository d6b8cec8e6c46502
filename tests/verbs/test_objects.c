/* SPDX-License-Identifier: BSD-2-Clause */
/* What is refused, and with which error; who must go before whom. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct end e;

static int open_end(void **state)
{
	end_open(&e, NULL);
	end_qp(&e, false);
	return 0;
}

static int close_end(void **state)
{
	end_close(&e, true);
	return 0;
}

#define assert_fails(pointer, error)                                                               \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(pointer);                                                              \
		assert_int_equal(errno, error);                                                    \
	} while (0)

/* Inline functions of verbs.h, and programs themselves, call through these without looking. */
static void test_every_slot_filled(void **state)
{
	struct verbs_context *vctx = verbs_get_ctx(e.context);
	void *const *slot = (void *const *)vctx;
	void *const *ops = (void *const *)&e.context->ops;

	assert_non_null(vctx);
	assert_int_equal(vctx->sz, sizeof(*vctx));
	for (size_t i = 0; i < offsetof(struct verbs_context, _ABI_placeholder3) / sizeof(*slot);
	     i++) {
		if (i * sizeof(*slot) != offsetof(struct verbs_context, priv))
			assert_non_null(slot[i]);
	}
	for (size_t i = 0; i < sizeof(e.context->ops) / sizeof(*ops); i++)
		assert_non_null(ops[i]);
}

static void test_not_offered(void **state)
{
	struct ibv_qp_init_attr_ex qp = {
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER, .pd = e.pd};
	struct ibv_sge sge = {0};

	assert_fails(ibv_create_qp_ex(e.context, &qp), EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(e.pd, (enum ibv_advise_mr_advice)77, 0, &sge, 1),
			 EOPNOTSUPP);
}

static void test_queries(void **state)
{
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	/* Real descriptors: programs duplicate the one and poll the other. */
	assert_true(e.context->cmd_fd > 2 && fcntl(e.context->cmd_fd, F_GETFD) >= 0);
	assert_true(e.context->async_fd > 2 && fcntl(e.context->async_fd, F_GETFD) >= 0);
	assert_int_equal(ibv_query_device_ex(e.context, NULL, &ex), 0);
	assert_int_equal(ex.hca_core_clock, 1000000);
	assert_true(ex.orig_attr.max_qp > 0 && ex.orig_attr.node_guid);
	assert_int_equal(ibv_query_port(e.context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_true(port.gid_tbl_len > 0);
	assert_int_equal(ibv_query_port(e.context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_pkey(e.context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(e.context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_query_gid(e.context, 1, port.gid_tbl_len, &gid), -1);
}

static void test_memory(void **state)
{
	uint8_t *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	assert_fails(ibv_reg_mr(e.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	mr = ibv_reg_mr(e.pd, page, 8192, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_not_equal(mr->lkey, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* What is optional may be left out, known or not; what is not must be known. */
	mr = ibv_reg_mr(e.pd, page, 64, IBV_ACCESS_RELAXED_ORDERING | 1 << 29);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_fails(ibv_reg_mr(e.pd, page, 64, 1 << 19), EINVAL);
	munmap(page + 4096, 4096);
	assert_fails(ibv_reg_mr(e.pd, page, 8192, 0), EFAULT);
	assert_fails(ibv_reg_mr(e.pd, page + 4095, 2, 0), EFAULT);
	assert_fails(ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	assert_fails(ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	assert_fails(ibv_reg_mr(e.pd, (void *)UINTPTR_MAX, 2, 0), EINVAL);
	munmap(page, 4096);
}

static void test_busy(void **state)
{
	assert_int_equal(ibv_dealloc_pd(e.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(e.cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(e.channel), EBUSY);
}

static void test_cq(void **state)
{
	struct ibv_cq_init_attr_ex ex = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO};
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};
	struct ibv_device_attr limits;
	struct ibv_cq_ex *cq;

	assert_int_equal(ibv_query_device(e.context, &limits), 0);
	assert_fails(ibv_create_cq(e.context, 0, NULL, NULL, 0), EINVAL);
	assert_fails(ibv_create_cq(e.context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
	assert_fails(ibv_create_cq(e.context, 1, NULL, NULL, 1), EINVAL);
	assert_fails(ibv_create_cq_ex(e.context, &ex), EOPNOTSUPP);
	ex.wc_flags = IBV_WC_STANDARD_FLAGS;
	cq = ibv_create_cq_ex(e.context, &ex);
	assert_non_null(cq);
	assert_int_equal(ibv_start_poll(cq, &attr), EINVAL);
	attr.comp_mask = 0;
	assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
	assert_true(cq->cqe >= 100);
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), limits.max_cqe + 1), EINVAL);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static int to_rtr(struct ibv_ah_attr *ah)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = 17,
				   .ah_attr = *ah,
				   .min_rnr_timer = 1};

	return ibv_modify_qp(e.qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static void test_qp_and_posting(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_sge sges[5] = {0};
	struct ibv_recv_wr second = {.wr_id = 2, .sg_list = sges, .num_sge = 5};
	struct ibv_recv_wr first = {.wr_id = 1, .next = &second}, *bad = NULL;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_ah_attr ah = {.port_num = 1};
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_post_recv(e.qp, &first, &bad), EINVAL); /* RESET */
	assert_ptr_equal(bad, &first);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(
		ibv_modify_qp(e.qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_post_recv(e.qp, &first, &bad), EINVAL); /* the second's elements */
	assert_ptr_equal(bad, &second);
	second.num_sge = 0;
	for (int i = 1; i < RIG_DEPTH; i++)
		assert_int_equal(ibv_post_recv(e.qp, &second, &bad), 0);
	assert_int_equal(ibv_post_recv(e.qp, &second, &bad), ENOMEM);
	assert_int_equal(ibv_post_send(e.qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);

	assert_int_equal(to_rtr(&ah), EINVAL); /* no GRH */
	ah.is_global = 1;
	assert_int_equal(to_rtr(&ah), EINVAL); /* no GID */
	assert_int_equal(ibv_query_gid(e.context, 1, 0, &ah.grh.dgid), 0);
	ah.grh.sgid_index = 200;
	assert_int_equal(to_rtr(&ah), EINVAL);
	ah.grh.sgid_index = 0;
	ah.grh.traffic_class = 0x60;
	assert_int_equal(to_rtr(&ah), 0);
	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 0x60);
	assert_int_equal(attr.dest_qp_num, 17);
	assert_true(init.cap.max_send_wr >= RIG_DEPTH);
}

static void test_ah(void **state)
{
	struct ibv_ah_attr attr = {.port_num = 1};
	struct ibv_ah *ah;

	assert_fails(ibv_create_ah(e.pd, &attr), EINVAL);
	attr.is_global = 1;
	attr.dlid = 0xc000; /* UCX probes with it */
	assert_int_equal(ibv_query_gid(e.context, 1, 0, &attr.grh.dgid), 0);
	attr.grh.sgid_index = 100;
	assert_fails(ibv_create_ah(e.pd, &attr), EINVAL);
	attr.grh.sgid_index = 0;
	ah = ibv_create_ah(e.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void test_srq(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(e.pd, &init);
	struct ibv_qp_init_attr qp_init = {.send_cq = e.cq,
					   .recv_cq = e.cq,
					   .srq = srq,
					   .qp_type = IBV_QPT_RC,
					   .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_srq_attr attr;
	struct ibv_qp *qp;

	assert_non_null(srq);
	assert_true(init.attr.max_wr >= 8);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.max_sge, init.attr.max_sge);
	qp = ibv_create_qp(e.pd, &qp_init);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_slot_filled),
		cmocka_unit_test(test_not_offered),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_cq),
		cmocka_unit_test(test_ah),
		cmocka_unit_test(test_srq),
		cmocka_unit_test(test_qp_and_posting),
	};

	return cmocka_run_group_tests(tests, open_end, close_end);
}
