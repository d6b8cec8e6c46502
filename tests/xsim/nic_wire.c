/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable connections, a message at a time: requests go out in order, what is lost is sent again
 * from there on when the timeout has passed, until the retries run out. The responder does each
 * once, by its number, and READs again if it must.
 */
#include "nic.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PSN_MASK = 0xffffff, MESSAGE_MAX = 1 << 20 };

static struct nic_send *send_at(struct nic_qp *qp, uint32_t at)
{
	return &qp->sends[at % qp->max_send];
}

static enum ibv_wc_opcode opcode_of(const struct nic_send *s)
{
	return s->opcode == IBV_WR_RDMA_READ    ? IBV_WC_RDMA_READ
	       : s->opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE
						: IBV_WC_SEND;
}

/* ---- the end of a queue pair ---- */

static void flush(void *owner, uint64_t life)
{
	struct nic_qp *qp = owner;
	struct nic_context *ctx = (struct nic_context *)(void *)qp->ibv.context;

	if (qp->destroyed || qp->life != life || qp->ibv.state != IBV_QPS_ERR)
		return;
	while (qp->tail != qp->head) {
		const struct nic_send *s = send_at(qp, qp->tail++);

		nic_complete(qp, s->id, opcode_of(s), IBV_WC_WR_FLUSH_ERR, 0, NULL);
	}
	while (qp->own_rq.tail != qp->own_rq.head)
		nic_complete(qp, qp->own_rq.at[qp->own_rq.tail++ % NIC_RECEIVES].id, IBV_WC_RECV,
			     IBV_WC_WR_FLUSH_ERR, 0, NULL);
	if (qp->ibv.srq && !qp->last_said) {
		qp->last_said = true;
		nic_async(ctx, IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	}
}

/* Mostly soon, sometimes later than anybody waits. */
void nic_flush_later(struct nic_qp *qp)
{
	uint64_t longest = sim_once_in(8) ? 20 * MSEC : 20 * USEC;

	if (sim_once_in(500))
		longest = 3 * SEC;
	if (sim.closing)
		flush(qp, qp->life);
	else
		sim_after(sim_between(0, longest), flush, qp, qp->life);
}

void nic_qp_error(struct nic_qp *qp)
{
	if (qp->ibv.state != IBV_QPS_ERR) {
		qp->ibv.state = IBV_QPS_ERR;
		qp->round++;
	}
	nic_flush_later(qp);
}

void nic_qp_reset(struct nic_qp *qp)
{
	qp->ibv.state = IBV_QPS_RESET;
	qp->life++;
	qp->round++;
	qp->head = qp->tail = qp->sent = qp->retries = 0;
	qp->deadline = 0;
	qp->last_said = false;
	qp->own_rq.head = qp->own_rq.tail = 0;
}

/* A request ends badly: so do those behind it, each with a completion of its own. */
static void end_badly(struct nic_qp *qp, enum ibv_wc_status status)
{
	const struct nic_send *s = send_at(qp, qp->tail++);

	sim_note("qp %u: status %d", qp->ibv.qp_num, (int)status);
	nic_complete(qp, s->id, opcode_of(s), status, 0, NULL);
	nic_qp_error(qp);
}

/* ---- memory ---- */

static bool covers(const struct nic_mr *mr, uint64_t addr, uint64_t len, unsigned access)
{
	uint64_t start;

	if (!mr || (mr->access & access) != access)
		return false;
	start = (uintptr_t)mr->ibv.addr;
	return addr >= start && addr - start <= mr->ibv.length &&
	       len <= mr->ibv.length - (addr - start);
}

/* The payload, read when it is sent, as a NIC does. */
static bool gather(struct nic_qp *qp, const struct nic_send *s, uint8_t *to)
{
	if (s->inlined) {
		memcpy(to, s->data, s->len);
		return true;
	}
	for (int i = 0; i < s->n_sge; i++) {
		if (!covers(nic_mr_by(qp->nic, s->sge[i].lkey, false), s->sge[i].addr,
			    s->sge[i].length, 0))
			return false;
		memcpy(to, (const void *)(uintptr_t)s->sge[i].addr, s->sge[i].length);
		to += s->sge[i].length;
	}
	return true;
}

/* ---- responder ---- */

static struct nic_qp *find_peer(const struct nic_qp *qp)
{
	unsigned host = (unsigned)qp->attr.ah_attr.grh.dgid.raw[15] - 1;

	if (host >= N_HOSTS)
		return NULL;
	list_for_each (pos, &hosts[host].nic->qps) {
		struct nic_qp *to = container_of(pos, struct nic_qp, link);
		bool receives = to->ibv.state == IBV_QPS_RTR || to->ibv.state == IBV_QPS_RTS;

		if (!to->destroyed && !to->proc->dead && receives &&
		    to->ibv.qp_num == qp->attr.dest_qp_num &&
		    to->attr.dest_qp_num == qp->ibv.qp_num &&
		    to->attr.ah_attr.grh.dgid.raw[15] == qp->nic->host + 1)
			return to;
	}
	return NULL;
}

static enum nic_answer receive(struct nic_qp *to, const struct nic_send *s, const uint8_t *data)
{
	struct nic_rq *rq = to->rq;
	const struct nic_receive *r;

	if (rq->head == rq->tail) {
		sim_fail("a message came to qp %u of host %u with no receive posted",
			 to->ibv.qp_num, to->nic->host);
		return NIC_INVALID;
	}
	r = &rq->at[rq->tail++ % NIC_RECEIVES];
	if (s->len > r->sge.length || !covers(nic_mr_by(to->nic, r->sge.lkey, false), r->sge.addr,
					      r->sge.length, IBV_ACCESS_LOCAL_WRITE)) {
		nic_complete(to, r->id, IBV_WC_RECV, IBV_WC_LOC_LEN_ERR, 0, NULL);
		nic_qp_error(to);
		return NIC_INVALID;
	}
	memcpy((void *)(uintptr_t)r->sge.addr, data, s->len);
	nic_complete(to, r->id, IBV_WC_RECV, IBV_WC_SUCCESS, s->len, &s->imm);
	return NIC_ACK;
}

static enum nic_answer access_memory(struct nic_qp *to, const struct nic_qp *from,
				     const struct nic_send *s, uint8_t *data)
{
	bool write = s->opcode == IBV_WR_RDMA_WRITE;
	struct nic_mr *mr = nic_mr_by(to->nic, s->rkey, true);
	void *at = (void *)(uintptr_t)s->remote_addr;

	if (s->len == 0)
		return NIC_ACK;
	if (!covers(mr, s->remote_addr, s->len,
		    write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ)) {
		sim_expect(sim.keys_refused, "key %u is used, and gives no access", s->rkey);
		nic_qp_error(to);
		return NIC_ACCESS;
	}
	if (!write) {
		memcpy(data, at, s->len);
		return NIC_ACK;
	}
	if (!mr->writer) {
		mr->writer = from;
		mr->writer_life = from->life;
	}
	sim_expect(mr->writer == from && mr->writer_life == from->life,
		   "key %u is used by two connections: one of them has it from before", s->rkey);
	memcpy(at, data, s->len);
	return NIC_ACK;
}

/* ---- requester ---- */

struct answer {
	enum nic_answer verdict;
	uint32_t life, at, len;
	uint8_t data[];
};

static void set_timer(struct nic_qp *qp);

static void progress(struct nic_qp *qp)
{
	while (qp->tail != qp->sent && send_at(qp, qp->tail)->acked) {
		const struct nic_send *s = send_at(qp, qp->tail++);

		if (s->signaled)
			nic_complete(qp, s->id, opcode_of(s), IBV_WC_SUCCESS, s->len, NULL);
		qp->retries = 0;
		qp->deadline = 0;
	}
	set_timer(qp);
}

static void answered(void *owner, uint64_t arg)
{
	struct nic_qp *qp = owner;
	const struct answer *a = (const struct answer *)(uintptr_t)arg;
	struct nic_send *s = send_at(qp, a->at);

	if (qp->destroyed || qp->life != a->life || qp->ibv.state != IBV_QPS_RTS ||
	    a->at - qp->tail >= qp->head - qp->tail)
		return;
	if (a->verdict != NIC_ACK && a->at == qp->tail) {
		end_badly(qp, a->verdict == NIC_ACCESS ? IBV_WC_REM_ACCESS_ERR
						       : IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (a->verdict != NIC_ACK)
		return;
	/* It acknowledges what went before, too, but for the bytes of READs. */
	for (uint32_t i = qp->tail; i != a->at; i++)
		send_at(qp, i)->acked |= send_at(qp, i)->opcode != IBV_WR_RDMA_READ;
	if (s->opcode == IBV_WR_RDMA_READ && !s->acked) {
		if (!covers(nic_mr_by(qp->nic, s->sge[0].lkey, false), s->sge[0].addr, s->len,
			    IBV_ACCESS_LOCAL_WRITE)) {
			sim_fail("qp %u: READ into memory that is not registered", qp->ibv.qp_num);
			return;
		}
		memcpy((void *)(uintptr_t)s->sge[0].addr, a->data, s->len);
	}
	s->acked = true;
	progress(qp);
}

static bool lost(unsigned from, unsigned to)
{
	return !path_open(from, to, true) || sim_below(1000) < hosts[from].to[to].loss_per_mille;
}

static void answer(struct nic_qp *qp, const struct nic_qp *from, uint32_t at,
		   enum nic_answer verdict, const uint8_t *data)
{
	const struct nic_send *s = send_at(qp, at);
	bool read = s->opcode == IBV_WR_RDMA_READ && verdict == NIC_ACK;
	struct answer *a;

	if (lost(from->nic->host, qp->nic->host))
		return;
	a = sim_new(sizeof(*a) + (read ? s->len : 0));
	*a = (struct answer){.verdict = verdict, .life = qp->life, .at = at};
	if (read)
		memcpy(a->data, data, s->len);
	qp->last_answer = sim.now + hosts[from->nic->host].latency_ns > qp->last_answer
				  ? sim.now + hosts[from->nic->host].latency_ns
				  : qp->last_answer;
	sim_at(qp->last_answer, answered, qp, (uintptr_t)a);
}

static uint64_t pack(const struct nic_qp *qp, uint32_t at)
{
	return (uint64_t)qp->round << 32 | at;
}

static void arrive(void *owner, uint64_t arg)
{
	static uint8_t data[MESSAGE_MAX];
	struct nic_qp *qp = owner, *to;
	uint32_t at = (uint32_t)arg, ahead;
	struct nic_send *s = send_at(qp, at);
	enum nic_answer verdict = NIC_ACK;

	if (qp->destroyed || qp->round != arg >> 32 || at - qp->tail >= qp->head - qp->tail)
		return;
	if (s->opcode != IBV_WR_RDMA_READ && !gather(qp, s, data)) {
		sim_fail("qp %u sends memory that is not registered", qp->ibv.qp_num);
		return;
	}
	to = find_peer(qp);
	if (!to || lost(qp->nic->host, to->nic->host))
		return;
	ahead = (s->psn - to->expected_psn) & PSN_MASK;
	if (ahead && ahead < PSN_MASK / 2)
		return; /* something before it was lost */
	if (ahead == 0)
		to->expected_psn = (to->expected_psn + 1) & PSN_MASK;
	if (ahead == 0 && s->opcode == IBV_WR_SEND_WITH_IMM)
		verdict = receive(to, s, data);
	else if (ahead == 0 || s->opcode == IBV_WR_RDMA_READ)
		verdict = access_memory(to, qp, s, data);
	answer(qp, to, at, verdict, data);
}

static void transmit(struct nic_qp *qp)
{
	while (qp->sent != qp->head) {
		uint64_t due = sim.now + hosts[qp->nic->host].latency_ns;

		if (due < qp->last_arrival)
			due = qp->last_arrival;
		qp->last_arrival = due;
		sim_at(due, arrive, qp, pack(qp, qp->sent++));
	}
	set_timer(qp);
}

static void timed_out(void *owner, uint64_t arg)
{
	struct nic_qp *qp = owner;

	qp->timing = false;
	if (qp->destroyed || qp->ibv.state != IBV_QPS_RTS || qp->tail == qp->head)
		return;
	if (sim.now < qp->deadline || qp->deadline == 0) {
		set_timer(qp);
		return;
	}
	if (qp->retries++ >= qp->attr.retry_cnt) {
		end_badly(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	qp->deadline = 0;
	qp->round++;
	qp->sent = qp->tail;
	transmit(qp);
}

static void set_timer(struct nic_qp *qp)
{
	if (qp->tail == qp->head)
		return;
	if (qp->deadline == 0)
		qp->deadline = sim.now + (UINT64_C(4096) << qp->attr.timeout);
	if (!qp->timing)
		sim_at(qp->deadline, timed_out, qp, 0);
	qp->timing = true;
}

static void copy_inline(struct nic_send *s)
{
	uint32_t at = 0;

	assert(s->len <= sizeof(s->data));
	for (int i = 0; i < s->n_sge; i++) {
		memcpy(s->data + at, (const void *)(uintptr_t)s->sge[i].addr, s->sge[i].length);
		at += s->sge[i].length;
	}
}

int nic_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct nic_qp *qp = (struct nic_qp *)(void *)ibv;
	struct nic_send *s = send_at(qp, qp->head);

	assert(!wr->next);
	if (ibv->state != IBV_QPS_RTS && ibv->state != IBV_QPS_ERR)
		return EINVAL;
	if (qp->head - qp->tail >= qp->max_send)
		return ENOMEM;
	*s = (struct nic_send){.id = wr->wr_id,
			       .opcode = wr->opcode,
			       .signaled = wr->send_flags & IBV_SEND_SIGNALED,
			       .inlined = wr->send_flags & IBV_SEND_INLINE,
			       .imm = wr->imm_data,
			       .psn = (qp->attr.sq_psn + qp->head) & PSN_MASK,
			       .n_sge = wr->num_sge,
			       .remote_addr = wr->wr.rdma.remote_addr,
			       .rkey = wr->wr.rdma.rkey};
	for (int i = 0; i < wr->num_sge; i++) {
		s->sge[i] = wr->sg_list[i];
		s->len += s->sge[i].length;
	}
	assert(s->len <= MESSAGE_MAX);
	if (s->inlined)
		copy_inline(s);
	qp->head++;
	if (ibv->state == IBV_QPS_ERR)
		nic_flush_later(qp);
	else
		transmit(qp);
	return 0;
}
