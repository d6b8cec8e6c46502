/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_nic.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_get_device_list

enum { RECEIVES = 4096, COMPLETIONS = 16384 };

struct posted {
	uint64_t id;
	struct ibv_sge sge;
};

struct fake_qp {
	struct ibv_qp ibv;
	bool error;
	uint32_t head, tail;
	struct posted receives[RECEIVES];
};

struct fake_nic fake_nic;

static struct ibv_device device = {.name = "fake0", .node_type = IBV_NODE_CA};
static struct ibv_context context = {.device = &device};
static struct ibv_comp_channel comp = {.context = &context};
static struct ibv_cq cq = {.context = &context};
static struct ibv_pd pd = {.context = &context};
static struct ibv_wc completions[COMPLETIONS];
static uint32_t cq_head, cq_tail;
static struct fake_qp *newest;

static struct fake_qp *fake(struct ibv_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

static void complete(const struct fake_qp *qp, uint64_t id, enum ibv_wc_opcode opcode,
		     enum ibv_wc_status status)
{
	assert(cq_head - cq_tail < (uint32_t)cq.cqe); /* it would be an overrun */
	completions[cq_head++ % COMPLETIONS] = (struct ibv_wc){
		.wr_id = id, .opcode = opcode, .status = status, .qp_num = qp->ibv.qp_num};
}

bool fake_receive(const void *bytes, uint32_t len, uint32_t imm, bool with_imm)
{
	struct fake_qp *qp = newest;
	const struct posted *p;
	struct ibv_wc *wc;

	if (!qp || qp->error || qp->head == qp->tail)
		return false;
	p = &qp->receives[qp->tail++ % RECEIVES];
	if (len > p->sge.length) {
		complete(qp, p->id, IBV_WC_RECV, IBV_WC_LOC_LEN_ERR);
		return true;
	}
	memcpy((void *)(uintptr_t)p->sge.addr, bytes, len);
	complete(qp, p->id, IBV_WC_RECV, IBV_WC_SUCCESS);
	wc = &completions[(cq_head - 1) % COMPLETIONS];
	wc->byte_len = len;
	wc->imm_data = htobe32(imm);
	wc->wc_flags = with_imm ? IBV_WC_WITH_IMM : 0;
	return true;
}

/* ---- the data path ---- */

static int poll_cq(struct ibv_cq *of, int n, struct ibv_wc *wcs)
{
	int i = 0;

	while (i < n && cq_tail != cq_head)
		wcs[i++] = completions[cq_tail++ % COMPLETIONS];
	return i;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = fake(ibv);

	for (; wr; wr = wr->next) {
		if (qp->error) {
			complete(qp, wr->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
			continue;
		}
		assert(qp->head - qp->tail < RECEIVES);
		qp->receives[qp->head++ % RECEIVES] = (struct posted){wr->wr_id, *wr->sg_list};
	}
	return 0;
}

static bool do_read(const struct ibv_send_wr *wr)
{
	uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	uint32_t len = wr->sg_list->length;

	if (wr->wr.rdma.remote_addr == (uintptr_t)fake_nic.readable &&
	    len == fake_nic.readable_bytes)
		memcpy(to, fake_nic.readable, len);
	else if (fake_nic.refuse_reads)
		return false;
	else
		memset(to, 0x11, len);
	return true;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = fake(ibv);

	for (; wr; wr = wr->next) {
		enum ibv_wc_status status = IBV_WC_SUCCESS;

		if (qp->error)
			status = IBV_WC_WR_FLUSH_ERR;
		else if (wr->opcode == IBV_WR_RDMA_READ && !do_read(wr))
			status = IBV_WC_REM_ACCESS_ERR;
		if (status || wr->send_flags & IBV_SEND_SIGNALED)
			complete(qp, wr->wr_id, IBV_WC_SEND, status);
	}
	return 0;
}

/* ---- the rest ---- */

struct ibv_device **ibv_get_device_list(int *n)
{
	static struct ibv_device *list[] = {&device, NULL};

	if (n)
		*n = 1;
	return list;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify_cq;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.async_fd = eventfd(0, EFD_NONBLOCK);
	return &context;
}

int ibv_close_device(struct ibv_context *c)
{
	return close(c->async_fd);
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.max_mr = 1 << 20,
		.max_mr_size = UINT64_MAX,
		.max_cqe = COMPLETIONS,
		.max_qp_wr = RECEIVES,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.phys_port_cnt = 1,
	};
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t n,
			     uint32_t flags, size_t entry_bytes)
{
	static const uint8_t loopback[16] = {[10] = 255, 255, 127, 0, 0, 1};

	*entries = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	memcpy(&entries->gid, loopback, sizeof(loopback));
	return 1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t len, uint64_t iova,
				unsigned access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	*mr = (struct ibv_mr){.context = &context, .pd = p, .addr = addr, .length = len};
	mr->lkey = mr->rkey = (uint32_t)++fake_nic.n_mrs;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *p, void *addr, size_t len, int access)
{
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	comp.fd = eventfd(0, EFD_NONBLOCK);
	return &comp;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	return close(c->fd);
}

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **of, void **arg)
{
	errno = EAGAIN;
	return -1;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	errno = EAGAIN;
	return -1;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	cq.cqe = cqe;
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *of)
{
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *p, struct ibv_srq_init_attr *attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
	static uint32_t qpn;
	struct fake_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->ibv.context = &context;
	qp->ibv.qp_num = ++qpn;
	newest = qp;
	fake_nic.n_qps++;
	return &qp->ibv;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = fake(ibv);

	if (attr->qp_state == IBV_QPS_RESET) {
		qp->error = false;
		qp->head = qp->tail = 0;
	}
	if (attr->qp_state != IBV_QPS_ERR)
		return 0;
	qp->error = true;
	while (qp->tail != qp->head)
		complete(qp, qp->receives[qp->tail++ % RECEIVES].id, IBV_WC_RECV,
			 IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	if (newest == fake(ibv))
		newest = NULL;
	free(fake(ibv));
	fake_nic.n_qps--;
	return 0;
}
