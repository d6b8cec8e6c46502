/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_common.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 7472 };

void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

void end_open(struct end *e, int access)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};

	check(list && list[0], "no RDMA device: run it by urxe-run");
	check((e->verbs = ibv_open_device(list[0])) != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	check((e->pd = ibv_alloc_pd(e->verbs)) != NULL, "ibv_alloc_pd");
	check((e->cq = ibv_create_cq(e->verbs, 32, NULL, NULL, 0)) != NULL, "ibv_create_cq");
	qp.send_cq = qp.recv_cq = e->cq;
	check((e->qp = ibv_create_qp(e->pd, &qp)) != NULL, "ibv_create_qp");
	e->mr = ibv_reg_mr(e->pd, e->buf, sizeof(e->buf), access | IBV_ACCESS_LOCAL_WRITE);
	check(e->mr != NULL, "ibv_reg_mr");
	check(ibv_modify_qp(e->qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
		      0,
	      "to INIT");
	e->ours = (struct address){.qpn = e->qp->qp_num,
				   .psn = (uint32_t)getpid() & 0xffffff,
				   .addr = (uintptr_t)e->buf,
				   .rkey = e->mr->rkey};
	check(ibv_query_gid(e->verbs, 1, 0, &e->ours.gid) == 0, "ibv_query_gid");
}

static int tcp(const char *server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *info;
	int fd, one = 1, conn, err;
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	err = getaddrinfo(server ? server : "127.0.0.1", port, &hints, &info);
	if (err) {
		fprintf(stderr, "%s: %s\n", server, gai_strerror(err));
		exit(1);
	}
	check((fd = socket(info->ai_family, SOCK_STREAM, 0)) >= 0, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (server) {
		check(connect(fd, info->ai_addr, info->ai_addrlen) == 0, "the server");
		conn = fd;
	} else {
		check(bind(fd, info->ai_addr, info->ai_addrlen) == 0, "bind");
		check(listen(fd, 1) == 0, "listen");
		fprintf(stderr, "waiting for a peer on port %d\n", PORT);
		check((conn = accept(fd, NULL, NULL)) >= 0, "accept");
		close(fd);
	}
	freeaddrinfo(info);
	return conn;
}

static void exchange(int fd, const void *ours, void *theirs, size_t len)
{
	check(send(fd, ours, len, 0) == (ssize_t)len, "send");
	check(recv(fd, theirs, len, MSG_WAITALL) == (ssize_t)len, "recv");
}

void end_connect(struct end *e, const char *server)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = e->ours.psn,
				  .max_rd_atomic = 1};

	e->socket = tcp(server);
	exchange(e->socket, &e->ours, &e->theirs, sizeof(e->ours));
	rtr.dest_qp_num = e->theirs.qpn;
	rtr.rq_psn = e->theirs.psn;
	rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	rtr.ah_attr.grh = (struct ibv_global_route){.dgid = e->theirs.gid, .hop_limit = 64};
	check(ibv_modify_qp(e->qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0,
	      "to RTR");
	check(ibv_modify_qp(e->qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	      "to RTS");
	end_sync(e);
}

void end_sync(struct end *e)
{
	char byte;

	exchange(e->socket, "x", &byte, 1);
}

struct ibv_wc end_wait(struct end *e)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, &wc)) == 0)
		;
	check(n == 1, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

void end_close(struct end *e)
{
	close(e->socket);
	ibv_destroy_qp(e->qp);
	ibv_dereg_mr(e->mr);
	ibv_destroy_cq(e->cq);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->verbs);
}
