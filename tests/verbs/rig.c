/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void end_open(struct end *e, struct ibv_context *context)
{
	struct ibv_device **list;

	memset(e, 0, sizeof(*e));
	e->timeout = 14;
	e->retry_cnt = 7;
	e->context = context;
	if (!context) {
		list = ibv_get_device_list(NULL);
		REQUIRE(list && list[0]);
		REQUIRE(strcmp(ibv_get_device_name(list[0]), "urxe0") == 0);
		e->context = ibv_open_device(list[0]);
		ibv_free_device_list(list);
	}
	REQUIRE(e->context);
	e->pd = ibv_alloc_pd(e->context);
	e->channel = ibv_create_comp_channel(e->context);
	REQUIRE(e->pd && e->channel);
	e->cq = ibv_create_cq(e->context, 4 * RIG_DEPTH, e, e->channel, 0);
	REQUIRE(e->cq);
	e->buf = aligned_alloc(4096, RIG_BUF);
	REQUIRE(e->buf);
	memset(e->buf, 0, RIG_BUF);
	e->mr = ibv_reg_mr(e->pd, e->buf, RIG_BUF,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	REQUIRE(e->mr);
}

void end_qp(struct end *e, bool extended)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = RIG_DEPTH,
			.max_recv_wr = RIG_DEPTH,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = RIG_INLINE},
		.qp_type = e->unreliable ? IBV_QPT_UC : IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};

	if (extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags =
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	}
	e->qp = ibv_create_qp_ex(e->context, &attr);
	REQUIRE(e->qp);
}

struct end_address end_address(const struct end *e)
{
	struct end_address address = {
		.qpn = e->qp->qp_num, .rkey = e->mr->rkey, .addr = (uintptr_t)e->buf};

	REQUIRE(ibv_query_gid(e->context, 1, e->gid_index, &address.gid) == 0);
	return address;
}

void end_connect(struct end *e, const struct end_address *to)
{
	const int rtr = e->unreliable ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = e->unreliable ? 0
				      : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = e->unreliable
					   ? IBV_ACCESS_REMOTE_WRITE
					   : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						     IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qpn,
		.rq_psn = 0xfffff0, /* wraps soon */
		.sq_psn = 0xfffff0,
		.max_rd_atomic = 8,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.timeout = e->timeout,
		.retry_cnt = e->retry_cnt,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = to->gid, .sgid_index = e->gid_index, .hop_limit = 1}},
	};

	REQUIRE(ibv_modify_qp(e->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(ibv_modify_qp(e->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | rtr) == 0);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | rts) == 0);
}

void end_close(struct end *e, bool close_context)
{
	if (e->qp)
		REQUIRE(ibv_destroy_qp(e->qp) == 0);
	REQUIRE(ibv_dereg_mr(e->mr) == 0);
	REQUIRE(ibv_destroy_cq(e->cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(e->channel) == 0);
	REQUIRE(ibv_dealloc_pd(e->pd) == 0);
	if (close_context)
		REQUIRE(ibv_close_device(e->context) == 0);
	free(e->buf);
}

void pair_connect(struct end *a, struct end *b)
{
	const struct end_address to_a = end_address(a), to_b = end_address(b);

	end_connect(a, &to_b);
	end_connect(b, &to_a);
}

void pair_open(struct end *a, struct end *b, bool one_context)
{
	end_open(a, NULL);
	end_open(b, one_context ? a->context : NULL);
	end_qp(a, true);
	end_qp(b, false);
	pair_connect(a, b);
}

void pair_close(struct end *a, struct end *b, bool one_context)
{
	end_close(b, !one_context);
	end_close(a, true);
}

void end_recv(struct end *e, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	REQUIRE(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

void end_wait(struct end *e, struct ibv_wc *wc, int n)
{
	double start = seconds();

	for (int got = 0; got < n;) {
		int r = ibv_poll_cq(e->cq, n - got, wc + got);

		REQUIRE(r >= 0);
		REQUIRE(r > 0 || seconds() - start < 20);
		got += r;
	}
}

void fill(uint8_t *p, size_t len, unsigned seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = (uint8_t)(x >> 24);
	}
}

double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int spawn_self(int *ret_socket, const char *arg1, const char *arg2)
{
	int fds[2];
	pid_t pid;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
		if (fds[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(fds[1], 3);
		execl("/proc/self/exe", "peer", arg1, arg2, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	*ret_socket = fds[0];
	return pid;
}

void exchange(int fd, const void *mine, void *theirs, size_t len)
{
	REQUIRE(write(fd, mine, len) == (ssize_t)len);
	REQUIRE(recv(fd, theirs, len, MSG_WAITALL) == (ssize_t)len);
}
