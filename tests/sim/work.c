/* SPDX-License-Identifier: BSD-2-Clause */
#include "work.h"

#include "model.h"

#include <stdlib.h>
#include <string.h>

enum { POST_BATCH = 6 };

static uint32_t choose_len(struct end *e)
{
	struct rng *r = &e->pair->w->rng;
	uint32_t mtu = e->pair->mtu;
	const uint32_t edges[] = {0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1};
	uint32_t len =
		chance(r, 500000) ? edges[rng_below(r, 8)] : rng_below(r, e->pair->max_msg + 1);

	return len > e->pair->max_msg ? e->pair->max_msg : len;
}

static enum ibv_wr_opcode choose_opcode(struct end *e)
{
	static const enum ibv_wr_opcode rc[] = {
		IBV_WR_SEND,
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	static const enum ibv_wr_opcode local[] = {IBV_WR_BIND_MW, IBV_WR_LOCAL_INV};
	static const enum ibv_wr_opcode ud[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
	struct rng *r = &e->pair->w->rng;

	if (e->windows.door && chance(r, 150000))
		return local[rng_below(r, 2)];
	switch (e->pair->type) {
	case IBV_QPT_RC:
		return rc[rng_below(r, e->pair->rd_atomic ? 10 : 6)];
	case IBV_QPT_UC:
		return rc[rng_below(r, 6)];
	default:
		return ud[rng_below(r, 2)];
	}
}

/* Cut op->len into pieces, empty ones among them; of src anywhere, of the sink in a row. */
static void choose_pieces(struct end *e, struct op *op, uint32_t *sink_used)
{
	struct rng *r = &e->pair->w->rng;
	uint32_t left = op->len;

	op->sink_off = *sink_used;
	if (op_is_local(op))
		return;
	op->n_pieces = op->len ? between(r, 1, MAX_PIECES) : rng_below(r, 3);
	if (op_is_atomic(op))
		op->n_pieces = 1;
	for (unsigned i = 0; i < op->n_pieces; i++) {
		struct piece *p = &op->piece[i];

		p->len = i + 1 == op->n_pieces ? left : rng_below(r, left + 1);
		left -= p->len;
		if (op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op)) {
			p->off = *sink_used;
			*sink_used += p->len;
		} else {
			p->off = rng_below(r, (uint32_t)e->src.len - p->len + 1);
		}
	}
}

static void choose_atomic(struct end *e, struct op *op)
{
	struct rng *r = &e->pair->w->rng;

	op->len = 8;
	op->roff = 8 * rng_below(r, N_WORDS);
	/* Small numbers: a compare should succeed now and then. */
	op->operand = rng_below(r, 3);
	op->swap = rng_below(r, 3);
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && chance(r, 500000)) {
		op->shared = true;
		op->operand = 1;
	}
}

static void choose_op(struct end *e, struct op *op, unsigned index, uint32_t *sink_used)
{
	struct rng *r = &e->pair->w->rng;
	bool sink;

	*op = (struct op){.opcode = choose_opcode(e), .imm = (uint32_t)rng_next(r)};
	if (e->windows.door && index == 0)
		op->opcode = IBV_WR_BIND_MW;
	sink = op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op);
	if (op_is_atomic(op)) {
		choose_atomic(e, op);
	} else if (!op_is_local(op)) {
		op->len = choose_len(e);
		op->roff = 8 * N_WORDS +
			   rng_below(r, (uint32_t)e->target.len - 8 * N_WORDS - op->len + 1);
	}
	choose_pieces(e, op, sink_used);
	if (e->pair->xrc)
		op->xsrq = rng_below(r, N_XSRQS);
	if (chance(r, 600000) || index + 1 == e->n_ops || index % (e->sq_cap / 2) == 0)
		op->flags |= IBV_SEND_SIGNALED;
	if (op_receives(op) && chance(r, 300000))
		op->flags |= IBV_SEND_SOLICITED;
	if (e->pair->type == IBV_QPT_RC && chance(r, 100000))
		op->flags |= IBV_SEND_FENCE;
	if (!sink && !op_is_local(op) && op->len <= e->max_inline && chance(r, 500000))
		op->flags |= IBV_SEND_INLINE;
}

/* Turn one operation into one that has to fail. */
static void spoil(struct end *e)
{
	struct rng *r = &e->pair->w->rng;
	struct op *op = &e->ops[rng_below(r, e->n_ops)];

	if (!op->len)
		return;
	if (!op_sends(op) && chance(r, 600000))
		op->fail = IBV_WC_REM_ACCESS_ERR;
	else if (!(op->flags & IBV_SEND_INLINE))
		op->fail = IBV_WC_LOC_PROT_ERR;
	if (op->fail)
		op->shared = false;
}

void work_choose(struct end *e)
{
	struct rng *r = &e->pair->w->rng;
	uint32_t sink_used = 0;

	e->ops = calloc(e->n_ops, sizeof(*e->ops));
	for (unsigned i = 0; i < e->n_ops; i++)
		choose_op(e, &e->ops[i], i, &sink_used);
	e->sink.len = sink_used + 1;
	/* What it does to the peer, only a timeout can tell the peer's requests. */
	if (e->n_ops && e->pair->type == IBV_QPT_RC && e->pair->timeout && chance(r, 60000))
		spoil(e);
}

void work_payload(const struct end *e, const struct op *op, uint8_t *ret_bytes)
{
	for (unsigned i = 0; i < op->n_pieces; i++) {
		memcpy(ret_bytes, e->src.mem + op->piece[i].off, op->piece[i].len);
		ret_bytes += op->piece[i].len;
	}
}

/*
 * Whether a window can be bound or invalidated is known only when it is asked for: if it cannot,
 * the operation becomes a WRITE of nothing. In the send queue's order what is posted counts as
 * done, for the peer only what is complete.
 */
static void settle_window_op(struct end *e, struct op *op)
{
	struct windows *win = &e->windows, *theirs = &e->peer->windows;

	if (op == e->ops || !win->door)
		return;
	if (op->opcode == IBV_WR_BIND_MW && win->shutter_is == SHUT) {
		win->shutter_is = win->by_peer ? OPENING : OPEN;
		win->shutter_key = urxe_mw_next_rkey(win->shutter);
	} else if (op->opcode == IBV_WR_LOCAL_INV && win->shutter_is == OPEN && !win->by_peer) {
		win->shutter_is = SHUT;
		op->imm = win->shutter_key;
	} else if (op_is_local(op)) {
		op->opcode = IBV_WR_RDMA_WRITE;
	} else if (op->opcode == IBV_WR_SEND && e->pair->type == IBV_QPT_RC && theirs->by_peer &&
		   theirs->shutter_is == OPEN) {
		theirs->shutter_is = CLAIMED;
		op->opcode = IBV_WR_SEND_WITH_INV;
		op->imm = theirs->shutter_key;
	}
}

void work_window_done(struct end *e, const struct op *op)
{
	if (op == e->ops)
		e->windows.door_open = true;
	else if (op->opcode == IBV_WR_BIND_MW && e->windows.shutter_is == OPENING)
		e->windows.shutter_is = OPEN;
}

void work_window_shut(struct end *e, uint32_t key)
{
	check(e->pair->w, e->windows.shutter_is == CLAIMED && key == e->windows.shutter_key,
	      "end %u: key %x is invalid, must be %x", e->id, key, e->windows.shutter_key);
	e->windows.shutter_is = SHUT;
}

struct post {
	struct ibv_mw mw; /* of these two the engine looks at the keys */
	struct ibv_mr mr;
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_PIECES];
	uint8_t *inlined; /* what the SGEs of an inline post point at */
};

static void build_sges(struct end *e, const struct op *op, struct post *p)
{
	const struct buf *b =
		op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op) ? &e->sink : &e->src;
	uint8_t *at;

	if (op->flags & IBV_SEND_INLINE) {
		p->inlined = malloc(op->len ? op->len : 1);
		work_payload(e, op, p->inlined);
	}
	at = p->inlined;
	for (unsigned i = 0; i < op->n_pieces; i++) {
		struct ibv_sge *s = &p->sge[i];

		s->length = op->piece[i].len;
		if (p->inlined) {
			s->addr = (uintptr_t)at;
			s->lkey = 0;
			at += s->length;
		} else {
			s->addr = b->iova + op->piece[i].off;
			s->lkey = urxe_mr_lkey(b->mr) ^
				  (op->fail == IBV_WC_LOC_PROT_ERR ? 1 << 20 : 0);
		}
	}
	p->wr.sg_list = p->sge;
	p->wr.num_sge = (int)op->n_pieces;
}

static void build_binding(struct end *e, const struct op *op, struct post *p)
{
	const struct urxe_mw *mw = op == e->ops ? e->windows.door : e->windows.shutter;
	const struct buf *b = &e->target;

	p->mw.rkey = urxe_mw_rkey(mw);
	p->mr.lkey = urxe_mr_lkey(b->mr);
	p->wr.bind_mw.mw = &p->mw;
	p->wr.bind_mw.rkey = urxe_mw_next_rkey(mw);
	p->wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &p->mr,
		.addr = b->iova,
		.length = b->len,
		.mw_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
}

static void build(struct end *e, const struct op *op, struct post *p)
{
	const struct buf *target = op->shared ? &e->peer->node->word : &e->peer->target;
	uint64_t va = target->iova + (op->shared ? 0 : op->roff);
	uint32_t rkey = urxe_mr_rkey(target->mr);

	if (e->peer->windows.door_open && !op->shared && chance(&e->pair->w->app_rng, 500000))
		rkey = urxe_mw_rkey(e->peer->windows.door);
	*p = (struct post){.wr = {.opcode = op->opcode, .send_flags = op->flags}};
	p->wr.wr_id = work_wr_id(0, e->id, (unsigned)(op - e->ops));
	if (e->pair->xrc)
		p->wr.qp_type.xrc.remote_srqn =
			urxe_srq_num(e->peer->node->xrc_inbox[op->xsrq].srq);
	if (op_has_imm(op))
		p->wr.imm_data = op->imm;
	else if (op->opcode == IBV_WR_LOCAL_INV || op->opcode == IBV_WR_SEND_WITH_INV)
		p->wr.invalidate_rkey = op->imm;
	else if (op->opcode == IBV_WR_BIND_MW)
		build_binding(e, op, p);
	if (op->fail == IBV_WC_REM_ACCESS_ERR)
		rkey ^= 1 << 20;
	if (e->pair->type == IBV_QPT_UD) {
		p->wr.wr.ud.ah = (struct ibv_ah *)(void *)e->ah;
		p->wr.wr.ud.remote_qpn = e->peer->qpn;
		p->wr.wr.ud.remote_qkey = 0x11111111;
	} else if (op_is_atomic(op)) {
		p->wr.wr.atomic.remote_addr = va;
		p->wr.wr.atomic.rkey = rkey;
		p->wr.wr.atomic.compare_add = op->operand;
		p->wr.wr.atomic.swap = op->swap;
	} else if (!op_sends(op)) {
		p->wr.wr.rdma.remote_addr = va;
		p->wr.wr.rdma.rkey = rkey;
	}
	build_sges(e, op, p);
}

static struct urxe_ah *resolve_ah(struct ibv_ah *ah)
{
	return (struct urxe_ah *)(void *)ah;
}

static void post_sends(struct world *w, void *arg)
{
	struct end *e = arg;
	struct post post[POST_BATCH];
	const struct ibv_send_wr *bad;
	unsigned n = between(&w->app_rng, 1, POST_BATCH), first = e->posted, room;
	int err;

	e->post_due = false;
	if (e->gone)
		return;
	room = e->sq_cap - (e->posted - e->done);
	n = n > room ? room : n;
	n = n > e->n_ops - e->posted ? e->n_ops - e->posted : n;
	if (!n)
		return;
	for (unsigned i = 0; i < n; i++) {
		settle_window_op(e, &e->ops[first + i]);
		build(e, &e->ops[first + i], &post[i]);
		if (i)
			post[i - 1].wr.next = &post[i].wr;
	}
	e->posted += n;
	world_trace(w, "end %u posts %u..%u", e->id, first, first + n - 1);
	err = urxe_qp_post_send(e->qp, w->now, &post[0].wr, &bad, resolve_ah);
	check(w, !err, "end %u: post of op %u.. failed: %d", e->id, first, err);
	for (unsigned i = 0; i < n; i++) {
		model_posted(e, first + i);
		if (post[i].inlined)
			memset(post[i].inlined, SCRIBBLE, e->ops[first + i].len);
		free(post[i].inlined);
	}
	world_touched(e->node);
	work_schedule_sends(e);
}

void work_schedule_sends(struct end *e)
{
	struct world *w = e->pair->w;

	if (e->post_due || e->gone || e->posted == e->n_ops || e->posted - e->done >= e->sq_cap)
		return;
	e->post_due = true;
	world_at(w, w->now + rng_below(&w->app_rng, 60000), post_sends, e);
}

static void post_recv(struct world *w, struct inbox *in)
{
	unsigned i = in->posted++;
	uint64_t at = in->buf.iova + (uint64_t)i * in->slot_len;
	uint32_t cut = rng_below(&w->app_rng, in->slot_len + 1);
	struct ibv_sge sge[2] = {
		{.addr = at, .length = cut, .lkey = urxe_mr_lkey(in->buf.mr)},
		{.addr = at + cut, .length = in->slot_len - cut, .lkey = urxe_mr_lkey(in->buf.mr)},
	};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 2};
	const struct ibv_recv_wr *bad;
	int err;

	if (in->end) {
		wr.wr_id = work_wr_id(WR_RECV, in->end->id, i);
		err = urxe_qp_post_recv(in->end->qp, &wr, &bad);
	} else {
		wr.wr_id = work_wr_id(WR_RECV, work_srq_owner(in), i);
		err = urxe_srq_post(in->srq, &wr, &bad);
	}
	check(w, !err, "post of receive %u failed: %d", i, err);
}

static void post_recvs(struct world *w, void *arg)
{
	struct inbox *in = arg;
	unsigned n = in->late ? between(&w->app_rng, 1, 4) : in->total;

	in->post_due = false;
	if (in->node->gone || (in->end && in->end->gone))
		return;
	while (n-- && in->posted < in->total && in->posted - in->done < in->cap)
		post_recv(w, in);
	world_touched(in->node);
	work_schedule_recvs(in);
}

void work_schedule_recvs(struct inbox *in)
{
	struct world *w = in->node->w;

	if (in->post_due || in->posted == in->total || in->posted - in->done >= in->cap)
		return;
	in->post_due = true;
	world_at(w, w->now + (in->late ? rng_below(&w->app_rng, 400000) : 0), post_recvs, in);
}
