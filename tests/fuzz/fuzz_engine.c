/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The input is a program for one engine: packets to inject, well formed or not, near what is
 * expected or not; work to post; time to pass; frames to lose or to loop back; states to enter,
 * regions and QPs to take away. Whatever it does, nothing outside of the regions is written, every
 * frame sent is well formed, and requests of a QP complete once and in order.
 */
#include "../sim/connect.h"
#include "base/clock.h"
#include "engine/cq.h"
#include "wire/packet.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
	N_QPS = 6, /* RC to each other, the second on an SRQ; XRC likewise; UC and UD to themselves
		    */
	N_MRS = 3,
	N_MWS = 2,   /* one of each type */
	N_RING = 16, /* frames on their way */
	MR_LEN = 1536,
	REDZONE = 64,
	REDZONE_BYTE = 0x7e,
	MAX_FRAME = 8192,
	MAX_PULLS = 64,
	MAX_OPS = 4000,
	CQ_DEPTH = 64,
	QUEUE_DEPTH = 16,
};

struct input {
	const uint8_t *data;
	size_t len;
};

struct frame {
	uint32_t len;
	uint8_t bytes[MAX_FRAME];
};

struct machine {
	struct input in;
	uint64_t now;
	struct urxe_engine *engine;
	struct urxe_pd *pd;
	struct urxe_cq *cq;
	struct urxe_srq *srq, *xrc_srq;
	struct urxe_xrcd *xrcd;
	struct urxe_ah *ah;
	struct urxe_txq txq;
	struct urxe_qp *qp[N_QPS];
	uint64_t posted[N_QPS], completed[N_QPS]; /* wr_ids of sends: 1, 2, ... */
	uint64_t recv_posted[N_QPS], recv_completed[N_QPS];
	uint64_t srq_posted, xrc_posted;
	uint8_t *mem[N_MRS];
	struct urxe_mr *mr[N_MRS];
	struct urxe_mw *mw[N_MWS];
	struct frame ring[N_RING];
	unsigned ring_head;
	bool no_path; /* the link has no addresses */
	bool ce;      /* what arrives was marked by a switch */
};

static const enum ibv_qp_type qp_types[N_QPS] = {IBV_QPT_RC, IBV_QPT_RC,       IBV_QPT_UC,
						 IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
static const uint8_t services[N_QPS] = {URXE_RC, URXE_RC, URXE_UC, URXE_UD, URXE_XRC, URXE_XRC};

static uint8_t take8(struct machine *m)
{
	if (!m->in.len)
		return 0;
	m->in.len--;
	return *m->in.data++;
}

static uint16_t take16(struct machine *m)
{
	uint16_t high = take8(m);

	return (uint16_t)(high << 8 | take8(m));
}

/* ---- objects --------------------------------------------------------------------------------- */

static void mr_open(struct machine *m, unsigned i)
{
	static const unsigned access[N_MRS] = {
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND,
		IBV_ACCESS_REMOTE_READ,
	};
	uint64_t iova = i == 1 ? UINT64_MAX - MR_LEN + 1 : 0x10000 * (i + 1);
	int err = urxe_mr_reg(m->pd, m->mem[i] + REDZONE, MR_LEN, iova, access[i], &m->mr[i]);

	assert(!err);
}

static void mw_open(struct machine *m, unsigned i)
{
	int err = urxe_mw_new(m->pd, i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1, &m->mw[i]);

	assert(!err);
}

static uint64_t mr_iova(unsigned i)
{
	return i == 1 ? UINT64_MAX - MR_LEN + 1 : 0x10000 * (i + 1);
}

static void qp_open(struct machine *m, unsigned i)
{
	struct urxe_qp_init init = {
		.type = qp_types[i],
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.srq = i == 1 ? m->srq : NULL,
		.cap = {QUEUE_DEPTH, QUEUE_DEPTH, 3, 3, 32},
		.user = (void *)(uintptr_t)(i + 1),
	};
	int err;

	init.xrcd = qp_types[i] == IBV_QPT_XRC_RECV ? m->xrcd : NULL;
	err = urxe_qp_new(init.xrcd ? NULL : m->pd, &init, &m->qp[i]);
	assert(!err);
	m->posted[i] = m->completed[i] = m->recv_posted[i] = m->recv_completed[i] = 0;
}

static void qp_connect(struct machine *m, unsigned i)
{
	unsigned peer = i < 2 ? 1 - i : i < 4 ? i : 9 - i;
	struct connect_attr a = {
		.type = qp_types[i],
		.mtu = IBV_MTU_256,
		.dqpn = urxe_qp_num(m->qp[peer]),
		.sq_psn = 0xfffff8,
		.rq_psn = 0xfffff8,
		.qkey = 7,
		.timeout = 8,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.min_rnr_timer = 1,
		.rd_atomic = 2,
		.dest_rd_atomic = 2,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.route = {.txq = &m->txq},
	};

	connect_path(&a.route.path, 0, 0, true);
	if (!connect_init(m->qp[i], &a, m->now)) {
		int err = connect_up(m->qp[i], &a, m->now);

		assert(!err);
	}
}

static void machine_init(struct machine *m)
{
	struct ibv_device_attr limits;
	struct urxe_engine_conf conf = {.limits = &limits,
					.max_inline_data = 64,
					.active_mtu = IBV_MTU_4096,
					.ecn = true,
					.seed = 5};
	struct ibv_srq_attr srq = {.max_wr = QUEUE_DEPTH, .max_sge = 3};
	struct urxe_route route = {.txq = &m->txq};
	int err;

	urxe_limits_default(&limits);
	m->now = NSEC_PER_SEC;
	err = urxe_engine_new(&conf, &m->engine);
	assert(!err);
	urxe_txq_init(&m->txq, m->engine, NULL);
	connect_path(&route.path, 0, 0, true);
	err = urxe_engine_add_qpns(m->engine, 0) || urxe_pd_new(m->engine, &m->pd) ||
	      urxe_cq_new(m->engine, CQ_DEPTH, NULL, &m->cq) ||
	      urxe_srq_new(m->pd, &srq, NULL, &m->srq) || urxe_xrcd_new(m->engine, &m->xrcd) ||
	      urxe_srq_new_xrc(m->pd, &srq, m->xrcd, m->cq, NULL, &m->xrc_srq) ||
	      urxe_ah_new(m->pd, &route, &m->ah);
	assert(!err);
	for (unsigned i = 0; i < N_MRS; i++) {
		m->mem[i] = malloc(MR_LEN + 2 * REDZONE);
		memset(m->mem[i], REDZONE_BYTE, MR_LEN + 2 * REDZONE);
		mr_open(m, i);
	}
	for (unsigned i = 0; i < N_MWS; i++)
		mw_open(m, i);
	for (unsigned i = 0; i < N_QPS; i++)
		qp_open(m, i);
	for (unsigned i = 0; i < N_QPS; i++)
		qp_connect(m, i);
}

static void srq_reopen(struct machine *m)
{
	struct ibv_srq_attr srq = {.max_wr = QUEUE_DEPTH, .max_sge = 3};
	int err = urxe_srq_free(m->xrc_srq) ||
		  urxe_srq_new_xrc(m->pd, &srq, m->xrcd, m->cq, NULL, &m->xrc_srq);

	assert(!err);
}

static void machine_fini(struct machine *m)
{
	urxe_engine_free(m->engine);
	for (unsigned i = 0; i < N_MRS; i++) {
		for (unsigned j = 0; j < REDZONE; j++) {
			assert(m->mem[i][j] == REDZONE_BYTE);
			assert(m->mem[i][REDZONE + MR_LEN + j] == REDZONE_BYTE);
		}
		free(m->mem[i]);
	}
	/* The last region may not be written by anybody. */
	free(m);
}

/* ---- packets --------------------------------------------------------------------------------- */

static void deliver(struct machine *m, const uint8_t *bytes, uint32_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* exactly that size, for the sanitizer */
	struct urxe_path path;
	struct urxe_rx rx = {
		.data = copy, .len = len, .path = m->no_path ? NULL : &path, .ce = m->ce};

	connect_path(&path, 0, 0, true);
	memcpy(copy, bytes, len);
	urxe_engine_rx(m->engine, m->now, &rx);
	free(copy);
}

static void keep_frame(struct machine *m, const struct urxe_frame *f)
{
	struct frame *to = &m->ring[m->ring_head++ % N_RING];
	struct urxe_pkt pkt;
	uint8_t *at = to->bytes;
	int err;

	assert(f->hdr_len + f->payload_len + f->pad <= MAX_FRAME && f->n_iov <= URXE_FRAME_IOV);
	memcpy(at, f->hdr, f->hdr_len);
	at += f->hdr_len;
	for (unsigned i = 0; i < f->n_iov; i++) {
		memcpy(at, f->iov[i].iov_base, f->iov[i].iov_len);
		at += f->iov[i].iov_len;
	}
	assert(at == to->bytes + f->hdr_len + f->payload_len);
	memset(at, 0, f->pad);
	to->len = f->hdr_len + f->payload_len + f->pad;
	err = urxe_pkt_parse(to->bytes, to->len, &pkt);
	assert(!err && pkt.payload_len == f->payload_len && pkt.dqpn == f->dqpn);
}

/* Pull some frames; those whose bit is set in the mask arrive at once. */
static void op_pull(struct machine *m)
{
	uint8_t mask = take8(m);
	struct urxe_frame f;

	for (unsigned i = 0; i < MAX_PULLS && urxe_txq_pull(&m->txq, m->now, &f); i++) {
		keep_frame(m, &f);
		if (mask >> i % 8 & 1) {
			const struct frame *last = &m->ring[(m->ring_head - 1) % N_RING];

			deliver(m, last->bytes, last->len);
		}
	}
}

/* One of the last frames again, or late, and perhaps damaged. */
static void op_replay(struct machine *m)
{
	uint8_t which = take8(m);
	struct frame f = m->ring[which % N_RING];

	if (which & 0x80 && f.len > BTH_LEN)
		f.bytes[take8(m) % f.len] ^= take8(m);
	if (f.len)
		deliver(m, f.bytes, f.len);
}

static void op_raw(struct machine *m)
{
	uint32_t len = take8(m) % 80;

	len = len > m->in.len ? (uint32_t)m->in.len : len;
	deliver(m, m->in.data, len);
	m->in.data += len;
	m->in.len -= len;
}

/* Field values near what the engine expects. */
static void near_expected(struct machine *m, unsigned q, struct urxe_pkt *pkt)
{
	unsigned r = take8(m) % N_MRS;
	struct ibv_qp_attr attr;
	uint8_t flags = take8(m);

	urxe_qp_query(m->qp[q], &attr);
	pkt->dqpn = urxe_qp_num(m->qp[q]);
	pkt->pkey = 0xffff;
	pkt->psn = (urxe_opcodes[pkt->opcode].response ? attr.sq_psn : attr.rq_psn) +
		   (uint32_t)(int8_t)take8(m);
	pkt->psn &= 0xffffff;
	pkt->ack_req = flags & 1;
	pkt->se = flags & 2;
	pkt->rkey = flags & 4 ? take16(m) : urxe_mr_rkey(m->mr[r]);
	if (flags & 16)
		pkt->rkey = urxe_mw_rkey(m->mw[flags & 1]);
	pkt->inv_rkey = pkt->rkey;
	pkt->srqn = 1 + (flags >> 5 == 7);
	pkt->va = mr_iova(r) + (uint64_t)(int64_t)(int16_t)take16(m);
	pkt->dma_len = flags & 8 ? UINT32_MAX - take16(m) : take16(m) % (2 * MR_LEN);
	pkt->syndrome = take8(m);
	pkt->msn = take8(m);
	pkt->qkey = 7;
	pkt->sqpn = pkt->dqpn;
	pkt->swap_add = take8(m);
	pkt->compare = REDZONE_BYTE * 0x0101010101010101u;
	pkt->orig = pkt->swap_add;
}

static void op_inject(struct machine *m)
{
	unsigned q = take8(m) % N_QPS;
	struct urxe_pkt pkt = {.opcode = (uint8_t)(services[q] | (take8(m) & OP_MASK))};
	uint8_t bytes[MAX_FRAME];
	uint32_t payload, len;

	if (!urxe_opcodes[pkt.opcode].name)
		return;
	near_expected(m, q, &pkt);
	payload = take8(m) & 1 ? 256 : take16(m) % 600;
	pkt.pad = (uint8_t)(-payload & 3);
	if (!urxe_opcodes[pkt.opcode].payload)
		payload = pkt.pad = 0;
	len = (uint32_t)urxe_pkt_build(&pkt, bytes);
	memset(bytes + len, take8(m), payload + pkt.pad);
	deliver(m, bytes, len + payload + pkt.pad);
}

/* ---- work ------------------------------------------------------------------------------------ */

static struct urxe_ah *resolve_ah(struct ibv_ah *ah)
{
	return (struct urxe_ah *)(void *)ah;
}

static int take_sges(struct machine *m, struct ibv_sge sge[3])
{
	int n = take8(m) % 4;

	for (int i = 0; i < n; i++) {
		unsigned r = take8(m) % N_MRS;
		uint8_t odd = take8(m);

		sge[i] = (struct ibv_sge){.addr = mr_iova(r) + take16(m) % MR_LEN,
					  .length = odd & 1 ? take16(m) : take8(m),
					  .lkey = urxe_mr_lkey(m->mr[r])};
		if ((odd & 0xf0) == 0xf0)
			sge[i].lkey += odd;
	}
	return n;
}

static void choose_binding(struct machine *m, unsigned r, struct ibv_send_wr *wr, struct ibv_mw *mw,
			   struct ibv_mr *mr)
{
	uint8_t how = take8(m);
	const struct urxe_mw *window = m->mw[how & 1];

	mr->lkey = urxe_mr_lkey(m->mr[r]);
	mw->rkey = urxe_mw_rkey(window);
	wr->num_sge = 0;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = urxe_mw_next_rkey(window);
	wr->bind_mw.bind_info.mr = mr;
	wr->bind_mw.bind_info.addr = mr_iova(r) + take16(m) % MR_LEN;
	wr->bind_mw.bind_info.length = how & 2 ? take16(m) : take8(m);
	wr->bind_mw.bind_info.mw_access_flags = how >> 2 & 0x2f;
}

static void op_send(struct machine *m)
{
	unsigned q = take8(m) % N_QPS, r = take8(m) % N_MRS;
	uint8_t bytes[64] = {1};
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = {
		.wr_id = m->posted[q] + 1, .opcode = take8(m) % 16, .send_flags = take8(m) & 0x1f};
	const struct ibv_send_wr *bad = NULL;
	struct ibv_mw mw;
	struct ibv_mr mr;
	int err;

	wr.sg_list = sge;
	wr.num_sge = take_sges(m, sge);
	wr.qp_type.xrc.remote_srqn = urxe_srq_num(m->xrc_srq);
	for (int i = 0; wr.send_flags & IBV_SEND_INLINE && i < wr.num_sge; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = sge[i].length % 64};
	if (qp_types[q] == IBV_QPT_UD) {
		wr.wr.ud.ah = (struct ibv_ah *)(void *)m->ah;
		wr.wr.ud.remote_qpn = urxe_qp_num(m->qp[q]);
		wr.wr.ud.remote_qkey = 7;
	} else {
		/* For atomics the same place of the union. */
		wr.wr.atomic.remote_addr = mr_iova(r) + take16(m) % MR_LEN / 8 * 8;
		wr.wr.rdma.rkey = urxe_mr_rkey(m->mr[r]);
		if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.compare_add = take8(m);
			wr.wr.atomic.swap = 1;
			wr.wr.atomic.rkey = urxe_mr_rkey(m->mr[r]);
		}
	}
	if (wr.opcode == IBV_WR_BIND_MW)
		choose_binding(m, r, &wr, &mw, &mr);
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = urxe_mw_rkey(m->mw[1]);
	if (wr.opcode == IBV_WR_LOCAL_INV)
		wr.num_sge = 0;
	err = urxe_qp_post_send(m->qp[q], m->now, &wr, &bad, resolve_ah);
	assert(err <= 0 && (!err || bad == &wr));
	m->posted[q] += !err;
}

static void op_recv(struct machine *m)
{
	unsigned q = take8(m) % N_QPS;
	struct ibv_sge sge[3];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = take_sges(m, sge)};
	const struct ibv_recv_wr *bad = NULL;
	int err;

	if (q >= 4) {
		wr.wr_id = UINT64_C(1) << 32 | (m->xrc_posted + 1);
		err = urxe_srq_post(m->xrc_srq, &wr, &bad);
		m->xrc_posted += !err;
	} else if (q == 1) {
		wr.wr_id = UINT64_C(1) << 32 | (m->srq_posted + 1);
		err = urxe_srq_post(m->srq, &wr, &bad);
		m->srq_posted += !err;
	} else {
		wr.wr_id = UINT64_C(1) << 32 | (m->recv_posted[q] + 1);
		err = urxe_qp_post_recv(m->qp[q], &wr, &bad);
		m->recv_posted[q] += !err;
	}
	assert(err <= 0 && (!err || bad == &wr));
}

static void check_wc(struct machine *m, const struct ibv_wc *wc)
{
	uint64_t n = (uint32_t)wc->wr_id;
	unsigned q = 0;

	while (q < N_QPS && urxe_qp_num(m->qp[q]) != wc->qp_num)
		q++;
	assert(q < N_QPS);
	if (!(wc->wr_id >> 32)) {
		assert(n > m->completed[q] && n <= m->posted[q]);
		m->completed[q] = n;
	} else if (q == 5) {
		assert(n > 0 && n <= m->xrc_posted);
	} else if (q == 1) {
		assert(n > 0 && n <= m->srq_posted);
	} else {
		assert(n > m->recv_completed[q] && n <= m->recv_posted[q]);
		assert(n == m->recv_completed[q] + 1 || m->cq->overrun); /* then there are gaps */
		m->recv_completed[q] = n;
	}
}

static void op_poll(struct machine *m)
{
	struct ibv_wc wc[8];
	int n = urxe_cq_poll(m->cq, 8, wc);

	assert(n <= 8);
	for (int i = 0; i < n; i++)
		check_wc(m, &wc[i]);
}

/* ---- the rest of a driver's life ------------------------------------------------------------- */

static void op_elapse(struct machine *m)
{
	uint64_t until = m->now + ((uint64_t)take8(m) << (take8(m) % 24));

	for (unsigned i = 0; urxe_engine_deadline(m->engine) <= until; i++) {
		uint64_t at = urxe_engine_deadline(m->engine);

		assert(i < 10000);
		m->now = at > m->now ? at : m->now;
		urxe_engine_advance(m->engine, m->now);
	}
	m->now = until;
}

/* The queue's count of completions starts again with the QP's work. */
static void forget_work(struct machine *m, unsigned q)
{
	m->completed[q] = m->posted[q];
	m->recv_completed[q] = m->recv_posted[q];
}

static void op_modify(struct machine *m)
{
	unsigned q = take8(m) % N_QPS;
	struct ibv_qp_attr attr = {.qp_state = take8(m) % 7};
	int err = urxe_qp_modify(m->qp[q], &attr, IBV_QP_STATE, NULL, m->now);

	if (err || attr.qp_state != IBV_QPS_RESET)
		return;
	forget_work(m, q);
	qp_connect(m, q);
}

static void op_reopen(struct machine *m)
{
	uint8_t what = take8(m);
	unsigned i;
	int err;

	if (what == 0xff) {
		srq_reopen(m);
	} else if (what & 1) {
		i = (what >> 1) % N_QPS;
		err = urxe_qp_free(m->qp[i]);
		assert(!err);
		qp_open(m, i);
		qp_connect(m, i);
	} else {
		i = (what >> 1) % N_MRS;
		err = urxe_mr_dereg(m->mr[i]);
		for (unsigned w = 0; err && w < N_MWS; w++) {
			assert(err == -EBUSY && !urxe_mw_free(m->mw[w]));
			mw_open(m, w);
			err = urxe_mr_dereg(m->mr[i]);
		}
		assert(!err);
		mr_open(m, i);
	}
}

static void notify_congestion(struct machine *m, unsigned q)
{
	const struct urxe_pkt pkt = {
		.opcode = URXE_OPCODE_CNP, .becn = true, .dqpn = urxe_qp_num(m->qp[q])};
	uint8_t bytes[URXE_HDR_MAX];

	deliver(m, bytes, (uint32_t)urxe_pkt_build(&pkt, bytes));
}

static void op_events(struct machine *m)
{
	uint8_t how = take8(m);
	struct urxe_async ev;
	struct ibv_srq_attr attr = {.srq_limit = how % QUEUE_DEPTH};

	while (urxe_engine_next_notify(m->engine) || urxe_engine_next_async(m->engine, &ev))
		;
	if (how & 1)
		urxe_cq_arm(m->cq, how & 2);
	if (how & 4)
		urxe_srq_modify(m->srq, &attr, IBV_SRQ_LIMIT);
	m->no_path = how & 16;
	m->ce = how & 32;
	if (how & 64)
		notify_congestion(m, how % N_QPS);
	if (how & 8)
		urxe_cq_resize(m->cq, how);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const ops[])(struct machine *) = {
		op_inject, op_inject, op_inject, op_send,   op_send,   op_recv,   op_pull, op_pull,
		op_replay, op_poll,   op_elapse, op_modify, op_reopen, op_events, op_raw,
	};
	struct machine *m = calloc(1, sizeof(*m));

	assert(m);
	m->in = (struct input){.data = data, .len = len};
	machine_init(m);
	for (unsigned i = 0; m->in.len && i < MAX_OPS; i++)
		ops[take8(m) % (sizeof(ops) / sizeof(ops[0]))](m);
	machine_fini(m);
	return 0;
}
