/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs: devices "sim0" and up, one for each host, and what is made on them. */
#include "nic.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#undef ibv_get_device_list

static struct nic nics[N_HOSTS];

static struct nic_context *context_of(struct ibv_context *c)
{
	return (struct nic_context *)(void *)c;
}

static struct nic_qp *qp_of(struct ibv_qp *qp)
{
	return (struct nic_qp *)(void *)qp;
}

static struct nic_cq *cq_of(struct ibv_cq *cq)
{
	return (struct nic_cq *)(void *)cq;
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void nic_begin(bool reuse_keys, bool rereg)
{
	for (unsigned i = 0; i < N_HOSTS; i++) {
		struct nic *nic = &nics[i];

		memset(nic->keys, 0, nic->next_key * sizeof(nic->keys[0]));
		nic->n_free_keys = nic->n_free_qpns = 0;
		nic->host = i;
		nic->next_key = 1;
		nic->next_qpn = 0x100 * (i + 1);
		nic->reuse = reuse_keys;
		nic->rereg = rereg;
		nic->refused_until = 0;
		nic->counts = (struct nic_counts){0};
		nic->ibv = (struct ibv_device){.node_type = IBV_NODE_CA};
		snprintf(nic->ibv.name, sizeof(nic->ibv.name), "sim%u", i);
		list_init(&nic->qps);
		hosts[i].nic = nic;
	}
}

void nic_end(void)
{
	for (unsigned i = 0; i < N_HOSTS; i++) {
		list_for_each_safe (pos, &nics[i].qps) {
			struct nic_qp *qp = container_of(pos, struct nic_qp, link);

			free(qp->sends);
			free(qp);
		}
	}
}

struct nic_counts nic_counts(void)
{
	struct nic_counts all = {0};

	for (unsigned i = 0; i < N_HOSTS; i++) {
		const struct nic_counts *c = &nics[i].counts;

		all.contexts += c->contexts;
		all.pds += c->pds;
		all.cqs += c->cqs;
		all.channels += c->channels;
		all.qps += c->qps;
		all.srqs += c->srqs;
		all.mrs += c->mrs;
	}
	return all;
}

void nic_vanish(const struct proc *proc)
{
	list_for_each (pos, &nics[proc->host].qps) {
		struct nic_qp *qp = container_of(pos, struct nic_qp, link);

		if (qp->proc == proc)
			qp->round++; /* nothing of it arrives any more */
	}
}

void nic_break_one(const struct proc *proc)
{
	unsigned n = 0;

	list_for_each (pos, &nics[proc->host].qps) {
		const struct nic_qp *qp = container_of(pos, struct nic_qp, link);

		n += qp->proc == proc && qp->ibv.state == IBV_QPS_RTS;
	}
	if (!n)
		return;
	n = sim_below(n);
	list_for_each (pos, &nics[proc->host].qps) {
		struct nic_qp *qp = container_of(pos, struct nic_qp, link);

		if (qp->proc == proc && qp->ibv.state == IBV_QPS_RTS && n-- == 0) {
			sim_note("qp %u breaks", qp->ibv.qp_num);
			nic_qp_error(qp);
			return;
		}
	}
}

void nic_refuse(unsigned host, unsigned state, int error, uint64_t until)
{
	nics[host].refused = (enum ibv_qp_state)state;
	nics[host].refusal = error;
	nics[host].refused_until = until;
}

static bool refuses(const struct nic *nic, enum ibv_qp_state state)
{
	bool refused = sim.now < nic->refused_until && state == nic->refused;

	if (refused)
		sim_note("host %u refuses a queue pair", nic->host);
	return refused;
}

/* ---- completions ---- */

static void notify(struct nic_cq *cq)
{
	struct nic_channel *channel = (struct nic_channel *)(void *)cq->ibv.channel;

	if (!cq->armed || !channel)
		return;
	cq->armed = false;
	if (!list_linked(&cq->link))
		list_add_tail(&channel->cqs, &cq->link);
	channel->file.events = EPOLLIN;
}

void nic_complete(struct nic_qp *qp, uint64_t id, enum ibv_wc_opcode opcode,
		  enum ibv_wc_status status, uint32_t len, const uint32_t *imm)
{
	struct nic_cq *cq = qp->cq;

	assert(cq->head - cq->tail < (uint32_t)cq->ibv.cqe); /* an overrun */
	cq->wcs[cq->head++ % NIC_CQES] = (struct ibv_wc){.wr_id = id,
							 .opcode = opcode,
							 .status = status,
							 .byte_len = len,
							 .imm_data = imm ? *imm : 0,
							 .wc_flags = imm ? IBV_WC_WITH_IMM : 0,
							 .qp_num = qp->ibv.qp_num};
	notify(cq);
}

/* A queue pair that is reset or destroyed leaves no completions. */
static void drop_completions(struct nic_qp *qp)
{
	struct nic_cq *cq = qp->cq;
	uint32_t to = cq->tail;

	for (uint32_t i = cq->tail; i != cq->head; i++) {
		if (cq->wcs[i % NIC_CQES].qp_num != qp->ibv.qp_num)
			cq->wcs[to++ % NIC_CQES] = cq->wcs[i % NIC_CQES];
	}
	cq->head = to;
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wcs)
{
	struct nic_cq *cq = cq_of(ibv);
	int i = 0;

	while (i < n && cq->tail != cq->head)
		wcs[i++] = cq->wcs[cq->tail++ % NIC_CQES];
	return i;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	cq_of(ibv)->armed = true;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **ret_cq, void **arg)
{
	struct nic_channel *channel = (struct nic_channel *)(void *)ibv;
	struct list *node = list_pop(&channel->cqs);

	if (list_empty(&channel->cqs))
		channel->file.events = 0;
	if (!node) {
		errno = EAGAIN;
		return -1;
	}
	*ret_cq = &container_of(node, struct nic_cq, link)->ibv;
	return 0;
}

/* ---- receives ---- */

static int put_receives(struct nic_rq *rq, struct ibv_recv_wr *wr)
{
	for (; wr; wr = wr->next) {
		assert(rq->head - rq->tail < NIC_RECEIVES);
		rq->at[rq->head++ % NIC_RECEIVES] = (struct nic_receive){wr->wr_id, *wr->sg_list};
	}
	return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct nic_qp *qp = qp_of(ibv);

	if (ibv->state == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	(void)put_receives(&qp->own_rq, wr);
	assert(qp->own_rq.head - qp->own_rq.tail <= qp->max_recv);
	if (ibv->state == IBV_QPS_ERR)
		nic_flush_later(qp);
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return put_receives(&((struct nic_srq *)(void *)srq)->rq, wr);
}

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *n)
{
	static struct ibv_device *list[N_HOSTS + 1];

	for (unsigned i = 0; i < N_HOSTS; i++)
		list[i] = &nics[i].ibv;
	if (n)
		*n = N_HOSTS;
	return list;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct nic_context *c = must(calloc(1, sizeof(*c)));

	c->nic = container_of(d, struct nic, ibv);
	c->proc = sim.running;
	c->ibv.device = d;
	c->ibv.ops.poll_cq = poll_cq;
	c->ibv.ops.req_notify_cq = req_notify_cq;
	c->ibv.ops.post_send = nic_post_send;
	c->ibv.ops.post_recv = post_recv;
	c->ibv.ops.post_srq_recv = post_srq_recv;
	c->ibv.async_fd = file_open(&c->async, FILE_NIC);
	c->nic->counts.contexts++;
	return &c->ibv;
}

int ibv_close_device(struct ibv_context *ibv)
{
	struct nic_context *c = context_of(ibv);

	file_close(&c->async);
	c->nic->counts.contexts--;
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.max_mr = NIC_KEYS,
		.max_mr_size = UINT64_MAX,
		.max_cqe = NIC_CQES,
		.max_qp_wr = NIC_RECEIVES,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.max_srq = 16,
		.max_srq_wr = NIC_RECEIVES,
		.phys_port_cnt = 1,
	};
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t n,
			     uint32_t flags, size_t entry_bytes)
{
	uint8_t raw[16] = {[10] = 255, 255, 127, 0, 0};

	raw[15] = (uint8_t)(1 + context_of(c)->nic->host);
	*entries = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	memcpy(&entries->gid, raw, sizeof(raw));
	return 1;
}

/* ---- events ---- */

void nic_async(struct nic_context *ctx, enum ibv_event_type type, struct nic_qp *qp)
{
	assert(ctx->n_async < sizeof(ctx->async_events) / sizeof(ctx->async_events[0]));
	ctx->async_events[ctx->n_async++] =
		(struct ibv_async_event){.event_type = type, .element.qp = &qp->ibv};
	ctx->async.events = EPOLLIN;
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct nic_context *c = context_of(ibv);

	if (c->n_async == 0) {
		errno = EAGAIN;
		return -1;
	}
	*event = c->async_events[0];
	memmove(c->async_events, c->async_events + 1, --c->n_async * sizeof(*event));
	c->async.events = c->n_async ? EPOLLIN : 0;
	return 0;
}

/* ---- protection domains, memory ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = must(calloc(1, sizeof(*pd)));

	pd->context = c;
	context_of(c)->nic->counts.pds++;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	context_of(pd->context)->nic->counts.pds--;
	free(pd);
	return 0;
}

struct nic_mr *nic_mr_by(struct nic *nic, uint32_t key, bool remote)
{
	uint32_t index = key >> 1;

	return index < nic->next_key && (key & 1) == remote ? nic->keys[index] : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				unsigned access)
{
	struct nic *nic = context_of(pd->context)->nic;
	struct nic_mr *mr = must(calloc(1, sizeof(*mr)));

	/* The number freed last is given out first: what a stale key would hit at once. */
	if (nic->reuse && nic->n_free_keys)
		mr->index = nic->free_keys[--nic->n_free_keys];
	else
		mr->index = nic->next_key++;
	assert(mr->index < NIC_KEYS);
	nic->keys[mr->index] = mr;
	mr->access = access;
	mr->ibv = (struct ibv_mr){.context = pd->context,
				  .pd = pd,
				  .addr = addr,
				  .length = len,
				  .lkey = mr->index << 1,
				  .rkey = mr->index << 1 | 1};
	nic->counts.mrs++;
	return &mr->ibv;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct nic_mr *mr = container_of(ibv, struct nic_mr, ibv);
	struct nic *nic = context_of(ibv->context)->nic;

	nic->keys[mr->index] = NULL;
	nic->free_keys[nic->n_free_keys++] = mr->index;
	nic->counts.mrs--;
	free(mr);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t len,
		 int access)
{
	assert(flags == IBV_REREG_MR_CHANGE_ACCESS);
	if (!context_of(ibv->context)->nic->rereg)
		return IBV_REREG_MR_ERR_CMD;
	container_of(ibv, struct nic_mr, ibv)->access = (unsigned)access;
	return 0;
}

/* ---- queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct nic_channel *channel = must(calloc(1, sizeof(*channel)));

	channel->ibv.context = c;
	channel->ibv.fd = file_open(&channel->file, FILE_NIC);
	list_init(&channel->cqs);
	context_of(c)->nic->counts.channels++;
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct nic_channel *channel = (struct nic_channel *)(void *)ibv;

	context_of(ibv->context)->nic->counts.channels--;
	file_close(&channel->file);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	struct nic_cq *cq = must(malloc(sizeof(*cq)));

	cq->ibv = (struct ibv_cq){.context = c, .channel = channel, .cqe = cqe};
	cq->head = cq->tail = 0;
	cq->armed = false;
	list_init(&cq->link);
	context_of(c)->nic->counts.cqs++;
	return &cq->ibv;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct nic_cq *cq = cq_of(ibv);

	list_del(&cq->link);
	context_of(ibv->context)->nic->counts.cqs--;
	free(cq);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct nic_srq *srq = must(calloc(1, sizeof(*srq)));

	srq->ibv.context = pd->context;
	context_of(pd->context)->nic->counts.srqs++;
	return &srq->ibv;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	context_of(srq->context)->nic->counts.srqs--;
	free(srq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct nic *nic = context_of(pd->context)->nic;
	struct nic_qp *qp;

	if (refuses(nic, IBV_QPS_RESET)) {
		errno = nic->refusal;
		return NULL;
	}
	qp = must(calloc(1, sizeof(*qp)));
	if (nic->reuse && nic->n_free_qpns)
		qp->ibv.qp_num = nic->free_qpns[--nic->n_free_qpns];
	else
		qp->ibv.qp_num = nic->next_qpn++;
	qp->ibv.context = pd->context;
	qp->proc = sim.running;
	qp->nic = nic;
	qp->cq = cq_of(attr->send_cq);
	qp->ibv.srq = attr->srq;
	qp->rq = attr->srq ? &((struct nic_srq *)(void *)attr->srq)->rq : &qp->own_rq;
	qp->max_send = attr->cap.max_send_wr;
	qp->max_recv = attr->cap.max_recv_wr;
	qp->max_inline = attr->cap.max_inline_data;
	qp->sends = must(calloc(qp->max_send, sizeof(*qp->sends)));
	assert(qp->max_inline <= sizeof(qp->sends->data));
	list_add_tail(&nic->qps, &qp->link);
	nic->counts.qps++;
	return &qp->ibv;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct nic_qp *qp = qp_of(ibv);

	assert(mask & IBV_QP_STATE);
	if (attr->qp_state != IBV_QPS_RESET && refuses(qp->nic, attr->qp_state))
		return qp->nic->refusal;
	switch (attr->qp_state) {
	case IBV_QPS_ERR:
		nic_qp_error(qp);
		return 0;
	case IBV_QPS_RESET:
		nic_qp_reset(qp);
		drop_completions(qp);
		break;
	case IBV_QPS_RTR:
		if (ibv->state != IBV_QPS_INIT)
			return EINVAL;
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.ah_attr = attr->ah_attr;
		qp->expected_psn = attr->rq_psn & 0xffffff;
		break;
	case IBV_QPS_RTS:
		if (ibv->state != IBV_QPS_RTR)
			return EINVAL;
		qp->attr.sq_psn = attr->sq_psn;
		qp->attr.timeout = attr->timeout;
		qp->attr.retry_cnt = attr->retry_cnt;
		break;
	default:
		if (ibv->state != IBV_QPS_RESET)
			return EINVAL;
	}
	ibv->state = attr->qp_state;
	return 0;
}

/* The memory stays until the run ends: something may still be on its way to it. */
int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct nic_qp *qp = qp_of(ibv);

	nic_qp_reset(qp);
	drop_completions(qp);
	qp->destroyed = true;
	if (qp->nic->n_free_qpns < sizeof(qp->nic->free_qpns) / sizeof(uint32_t))
		qp->nic->free_qpns[qp->nic->n_free_qpns++] = ibv->qp_num;
	qp->nic->counts.qps--;
	return 0;
}
