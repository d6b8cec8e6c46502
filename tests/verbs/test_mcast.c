/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast: who gets a copy of a datagram to a group, within a context, a process, a host. */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { QKEY = 0x11111, GRH = 40, TEXT = 100, SLOT = 256 };

static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 4, 7, 1}};
static const union ibv_gid other_group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 4, 7, 2}};
static const union ibv_gid no_group = {.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

static void make_ud(struct end *e, uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = e->pd,
		.create_flags = create_flags,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	e->qp = ibv_create_qp_ex(e->context, &init);
	REQUIRE(e->qp);
	REQUIRE(ibv_modify_qp(e->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	for (uint64_t i = 0; i < 4; i++)
		end_recv(e, i, i * SLOT, SLOT);
}

static void send_to(struct end *e, const union ibv_gid *to, unsigned seed)
{
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *to}};
	struct ibv_ah *ah = ibv_create_ah(e->pd, &ah_attr);
	struct ibv_sge sge = {(uintptr_t)e->buf + 8 * SLOT, TEXT, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 99, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	REQUIRE(ah);
	fill(e->buf + 8 * SLOT, TEXT, seed);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	REQUIRE(ibv_post_send(e->qp, &wr, &bad) == 0);
	REQUIRE(ibv_destroy_ah(ah) == 0);
}

/* The next datagram is that one, and it says where it is from and where it went. */
static void expect(struct end *e, unsigned seed, uint32_t from, const union ibv_gid *to)
{
	uint8_t text[TEXT], *slot;
	struct ibv_wc wc;

	end_wait(e, &wc, 1);
	fill(text, TEXT, seed);
	REQUIRE(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
	REQUIRE(wc.byte_len == GRH + TEXT && wc.src_qp == from && wc.wc_flags & IBV_WC_GRH);
	slot = e->buf + wc.wr_id * SLOT;
	REQUIRE(memcmp(slot + GRH, text, TEXT) == 0);
	REQUIRE(memcmp(slot + 36, to->raw + 12, 4) == 0); /* destination of the IPv4 header */
	end_recv(e, wc.wr_id, wc.wr_id * SLOT, SLOT);
}

/* What is sent later has come, so nothing more of what was sent before will. */
static void expect_nothing(struct end *e)
{
	struct ibv_wc wc;
	double start = seconds();

	while (seconds() - start < 0.05)
		assert_int_equal(ibv_poll_cq(e->cq, 1, &wc), 0);
}

static void test_copies(void **state)
{
	struct end a1, a2, b;

	end_open(&a1, NULL);
	end_open(&a2, a1.context);
	end_open(&b, NULL);
	make_ud(&a1, 0);
	make_ud(&a2, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	make_ud(&b, 0);
	assert_int_equal(ibv_attach_mcast(a2.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b.qp, &group, 0), 0); /* twice: one copy all the same */
	assert_int_equal(ibv_attach_mcast(b.qp, &other_group, 0), 0);

	send_to(&a1, &group, 1); /* a1 sends, but is not a member */
	expect(&a2, 1, a1.qp->qp_num, &group);
	expect(&b, 1, a1.qp->qp_num, &group);
	expect_nothing(&a1);

	assert_int_equal(ibv_attach_mcast(a1.qp, &group, 0), 0); /* a member hears itself... */
	send_to(&a1, &group, 2);
	expect(&a1, 2, a1.qp->qp_num, &group);
	expect(&a2, 2, a1.qp->qp_num, &group);
	expect(&b, 2, a1.qp->qp_num, &group);
	send_to(&a2, &group, 3); /* ...unless it asked not to */
	expect(&a1, 3, a2.qp->qp_num, &group);
	expect(&b, 3, a2.qp->qp_num, &group);
	expect_nothing(&a2);

	assert_int_equal(ibv_detach_mcast(b.qp, &group, 0), 0);
	send_to(&a1, &group, 4);
	send_to(&a1, &other_group, 5);
	expect(&a1, 4, a1.qp->qp_num, &group);
	expect(&a2, 4, a1.qp->qp_num, &group);
	expect(&b, 5, a1.qp->qp_num, &other_group);
	expect_nothing(&a2);

	assert_int_equal(ibv_destroy_qp(b.qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(b.qp, &other_group, 0), 0);
	assert_int_equal(ibv_detach_mcast(b.qp, &other_group, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(a1.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(a2.qp, &group, 0), 0);
	end_close(&b, true);
	end_close(&a2, false);
	end_close(&a1, true);
}

static void test_refused(void **state)
{
	struct end a, rc;
	struct ibv_device_attr attr;
	union ibv_gid gid = group;

	end_open(&a, NULL);
	end_open(&rc, a.context);
	make_ud(&a, 0);
	end_qp(&rc, false);
	assert_int_equal(ibv_attach_mcast(rc.qp, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(a.qp, &no_group, 0), EINVAL);
	assert_int_equal(ibv_query_device(a.context, &attr), 0);
	assert_true(attr.max_mcast_grp > 0);
	for (int i = 0; i < attr.max_mcast_grp; i++) {
		gid.raw[15] = (uint8_t)i;
		assert_int_equal(ibv_attach_mcast(a.qp, &gid, 0), 0);
	}
	gid.raw[15] = 200;
	assert_int_equal(ibv_attach_mcast(a.qp, &gid, 0), ENOMEM);
	for (int i = 0; i < attr.max_mcast_grp; i++) {
		gid.raw[15] = (uint8_t)i;
		assert_int_equal(ibv_detach_mcast(a.qp, &gid, 0), 0);
	}
	end_close(&rc, false);
	end_close(&a, true);
}

/* A member of another process answers to the group. */
static int member(void)
{
	struct end e;
	uint32_t qpn, peer;

	end_open(&e, NULL);
	make_ud(&e, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	REQUIRE(ibv_attach_mcast(e.qp, &group, 0) == 0);
	qpn = e.qp->qp_num;
	exchange(3, &qpn, &peer, sizeof(qpn));
	expect(&e, 1, peer, &group);
	send_to(&e, &group, 2);
	exchange(3, &qpn, &peer, sizeof(qpn));
	REQUIRE(ibv_detach_mcast(e.qp, &group, 0) == 0);
	end_close(&e, true);
	return 0;
}

static void test_processes(void **state)
{
	enum { MEMBERS = 2 };
	uint32_t qpn[MEMBERS], own;
	int fd[MEMBERS], pid[MEMBERS], status;
	struct ibv_wc wc;
	struct end e;

	end_open(&e, NULL);
	make_ud(&e, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	own = e.qp->qp_num;
	for (int i = 0; i < MEMBERS; i++) {
		pid[i] = spawn_self(&fd[i], "member", "");
		exchange(fd[i], &own, &qpn[i], sizeof(own));
	}
	assert_int_equal(ibv_attach_mcast(e.qp, &group, 0), 0);
	send_to(&e, &group, 1);
	end_wait(&e, &wc, 1); /* one of each, in any order */
	assert_true(wc.src_qp == qpn[0] || wc.src_qp == qpn[1]);
	own = wc.src_qp;
	end_wait(&e, &wc, 1);
	assert_int_equal(own + wc.src_qp, qpn[0] + qpn[1]);
	for (int i = 0; i < MEMBERS; i++) {
		exchange(fd[i], &own, &qpn[i], sizeof(own));
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
		close(fd[i]);
	}
	assert_int_equal(ibv_detach_mcast(e.qp, &group, 0), 0);
	end_close(&e, true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_processes),
	};

	if (argc > 1 && strcmp(argv[1], "member") == 0)
		return member();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
