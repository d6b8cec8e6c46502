/* SPDX-License-Identifier: BSD-2-Clause */
#include "setup.h"

#include "connect.h"
#include "model.h"
#include "net.h"
#include "work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { QKEY = 0x11111111, SRC_LEN = 32768, CQ_DEPTH = 4096 };

static void buf_init(struct world *w, struct node *n, struct buf *b, unsigned access)
{
	int err;

	b->mem = malloc(b->len);
	b->iova = w->next_iova;
	w->next_iova += (b->len + 0xffff) & ~UINT64_C(0xfff);
	err = urxe_mr_reg(n->pd, b->mem, b->len, b->iova, access, &b->mr);
	check(w, !err, "urxe_mr_reg: %d", err);
}

static void buf_fill_random(struct world *w, struct buf *b)
{
	for (size_t i = 0; i < b->len; i++)
		b->mem[i] = (uint8_t)rng_next(&w->rng);
}

static void buf_fini(struct world *w, struct buf *b)
{
	int err = urxe_mr_dereg(b->mr);

	check(w, !err, "urxe_mr_dereg: %d", err);
	b->mr = NULL;
}

static void node_init(struct world *w, unsigned id)
{
	struct node *n = &w->node[id];
	struct ibv_device_attr limits;
	struct urxe_engine_conf conf = {
		.limits = &limits,
		.max_inline_data = 256,
		.active_mtu = IBV_MTU_4096,
		.key_mode = chance(&w->rng, 200000) ? URXE_KEYS_REUSE : URXE_KEYS_FRESH,
		.ecn = world_has_ecn(w),
		.seed = rng_next(&w->rng),
	};

	urxe_limits_default(&limits);
	*n = (struct node){.w = w, .id = id};
	check(w, !urxe_engine_new(&conf, &n->engine), "urxe_engine_new");
	check(w, !urxe_engine_add_qpns(n->engine, (id + 1) * URXE_QPN_BLOCK), "add_qpns");
	check(w, !urxe_pd_new(n->engine, &n->pd), "urxe_pd_new");
	for (unsigned i = 0; i < w->n_nodes; i++) {
		n->links[i] = (struct net_link){.from = n, .to = i};
		urxe_txq_init(&n->links[i].txq, n->engine, &n->links[i]);
	}
	n->word.len = 8;
	buf_init(w, n, &n->word, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	memset(n->word.mem, 0, 8);
}

static struct cq *cq_init(struct node *n, bool polled)
{
	struct world *w = n->w;
	struct cq *cq = &w->cq[w->n_cqs++];

	*cq = (struct cq){.node = n, .mode = CQ_POLLED, .size = CQ_DEPTH};
	if (!polled)
		cq->mode = (enum cq_mode)rng_below(&w->rng, 3);
	check(w, !urxe_cq_new(n->engine, CQ_DEPTH, cq, &cq->cq), "urxe_cq_new");
	return cq;
}

static void choose_pair(struct pair *p)
{
	struct world *w = p->w;
	struct rng *r = &w->rng;
	const struct net_profile *net = &w->net;

	p->type = chance(r, 750000) ? IBV_QPT_RC : chance(r, 500000) ? IBV_QPT_UC : IBV_QPT_UD;
	p->xrc = p->type == IBV_QPT_RC && world_has_xrc(w) && chance(r, 400000);
	p->path_mtu = (enum ibv_mtu)between(r, IBV_MTU_256, IBV_MTU_4096);
	p->mtu = 128u << p->path_mtu;
	if (p->type == IBV_QPT_UD)
		p->mtu = 4096;
	else if (chance(r, 150000))
		p->mtu = p->link_mtu = 4096u << rng_below(r, 2);
	p->max_msg = p->type == IBV_QPT_UD ? p->mtu
		     : p->mtu >= 4096      ? 2 * p->mtu + 9
					   : 4 * p->mtu + 9;
	p->window = chance(r, 300000) ? between(r, 1, 8) : 0;
	p->timeout = (uint8_t)between(r, net->perfect ? 14 : 9, 15);
	p->retry_cnt = chance(r, 600000) ? 7 : (uint8_t)rng_below(r, 8);
	p->rnr_retry = chance(r, 700000) ? 7 : (uint8_t)rng_below(r, 7);
	/* Without a timeout nobody may ever fall silent. */
	if (net->perfect && w->disaster == NO_DISASTER && p->rnr_retry == 7 && chance(r, 100000))
		p->timeout = 0;
	p->min_rnr_timer = (uint8_t)rng_below(r, 20);
	p->rd_atomic = chance(r, 950000) ? (uint8_t)between(r, 1, 16) : 0;
	p->dest_rd_atomic = (uint8_t)between(r, p->rd_atomic, 16);
	p->error_prone =
		!net->perfect && (net->loss > 10000 || net->corrupt > 10000 || net->burst ||
				  net->cut_at != CLOCK_NEVER || p->retry_cnt < 6);
}

static bool answers_xrc(const struct end *e)
{
	return e->pair->xrc && e == &e->pair->end[1];
}

static enum ibv_qp_type qp_type(const struct end *e)
{
	if (!e->pair->xrc)
		return e->pair->type;
	return answers_xrc(e) ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND;
}

static void qp_init(struct end *e)
{
	struct pair *p = e->pair;
	struct world *w = p->w;
	struct urxe_qp_init init = {
		.type = qp_type(e),
		.send_cq = answers_xrc(e) ? NULL : e->scq->cq,
		.recv_cq = p->xrc ? NULL : e->rcq->cq,
		.srq = p->xrc ? NULL : e->inbox->srq,
		.xrcd = answers_xrc(e) ? e->node->xrcd : NULL,
		.cap = {.max_send_wr = e->sq_cap,
			.max_recv_wr = e->own_inbox.cap,
			.max_send_sge = MAX_PIECES,
			.max_recv_sge = 2,
			.max_inline_data = e->max_inline},
		.sq_sig_all = e->sig_all,
		.user = e,
	};
	int err = urxe_qp_new(answers_xrc(e) ? NULL : e->node->pd, &init, &e->qp);

	check(w, !err, "urxe_qp_new: %d", err);
	e->qpn = urxe_qp_num(e->qp);
}

static void xrc_init(struct node *n)
{
	if (n->xrcd)
		return;
	check(n->w, !urxe_xrcd_new(n->engine, &n->xrcd), "urxe_xrcd_new");
	n->xrc_cq = cq_init(n, false);
}

static void end_cqs(struct end *e)
{
	struct world *w = e->pair->w;

	if (answers_xrc(e)) {
		xrc_init(e->node);
		e->scq = e->rcq = e->node->xrc_cq;
		return;
	}
	if (chance(&w->rng, 300000)) {
		e->scq = e->rcq = cq_init(e->node, false);
		return;
	}
	/* Nothing is solicited about a send's completion: its CQ would not fire. */
	e->scq = cq_init(e->node, true);
	if (chance(&w->rng, 400000))
		e->scq->mode = CQ_ARMED;
	e->rcq = cq_init(e->node, false);
}

static void windows_init(struct end *e)
{
	struct world *w = e->pair->w;
	struct windows *win = &e->windows;

	if (e->pair->type == IBV_QPT_UD || e->pair->xrc || !chance(&w->rng, 400000))
		return;
	check(w, !urxe_mw_new(e->node->pd, IBV_MW_TYPE_1, &win->door), "urxe_mw_new");
	check(w, !urxe_mw_new(e->node->pd, IBV_MW_TYPE_2, &win->shutter), "urxe_mw_new");
	win->by_peer = e->pair->type == IBV_QPT_RC && chance(&w->rng, 500000);
}

static void end_choose(struct pair *p, unsigned i, struct node *n)
{
	struct world *w = p->w;
	struct rng *r = &w->rng;
	struct end *e = &p->end[i];

	*e = (struct end){.pair = p, .peer = &p->end[1 - i], .node = n};
	e->id = (unsigned)(p - w->pair) * 2 + i;
	e->sig_all = chance(r, 100000);
	e->sq_cap = between(r, 4, 24);
	e->max_inline = chance(r, 500000) ? between(r, 0, 256) : 0;
	e->n_ops = !answers_xrc(e) && chance(r, 800000) ? between(r, 5, 40) : 0;
	e->src.len = SRC_LEN;
	e->target.len = 8 * N_WORDS + 2 * p->max_msg;
	end_cqs(e);
	windows_init(e);
	work_choose(e);
	buf_init(w, n, &e->src, 0);
	buf_fill_random(w, &e->src);
	buf_init(w, n, &e->sink, IBV_ACCESS_LOCAL_WRITE);
	memset(e->sink.mem, FILL, e->sink.len);
	buf_init(w, n, &e->target,
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	memset(e->target.mem, 0, e->target.len);
}

static void windows_fini(struct end *e)
{
	struct world *w = e->pair->w;

	if (e->windows.door_open)
		check(w, urxe_mr_dereg(e->target.mr) == -EBUSY, "a region goes under a window");
	check(w, !urxe_mw_free(e->windows.door), "urxe_mw_free");
	check(w, !urxe_mw_free(e->windows.shutter), "urxe_mw_free");
}

static unsigned count_receives(const struct end *from)
{
	unsigned n = 0;

	for (unsigned i = 0; i < from->n_ops; i++)
		n += op_receives(&from->ops[i]);
	return n;
}

static void inbox_buf(struct inbox *in, struct node *n)
{
	in->node = n;
	in->buf.len = (size_t)in->total * in->slot_len + 1;
	buf_init(n->w, n, &in->buf, IBV_ACCESS_LOCAL_WRITE);
	memset(in->buf.mem, FILL, in->buf.len);
	in->seen = calloc(in->total + 1, 1);
}

/* An XRC_SEND receives nothing, an XRC_RECV from whatever SRQ of its node a message names. */
static void xrc_inbox(struct end *e)
{
	e->inbox = &e->own_inbox;
	e->own_inbox.end = e;
	if (!answers_xrc(e)) {
		inbox_buf(e->inbox, e->node);
		return;
	}
	e->inbox = e->node->xrc_inbox;
	for (unsigned k = 0; k < N_XSRQS; k++) {
		struct inbox *in = &e->node->xrc_inbox[k];

		in->slot_len = e->pair->max_msg > in->slot_len ? e->pair->max_msg : in->slot_len;
		in->total++; /* what a QP that dies takes with it */
		for (unsigned i = 0; i < e->peer->n_ops; i++)
			in->total += op_receives(&e->peer->ops[i]) && e->peer->ops[i].xsrq == k;
	}
}

/* Which ends share their node's SRQ, and what own receive queues the rest have. */
static void end_inbox(struct end *e)
{
	struct world *w = e->pair->w;
	struct inbox *in = &e->own_inbox;
	uint32_t slot = e->pair->max_msg + (e->pair->type == IBV_QPT_UD ? GRH_BYTES : 0);

	if (e->pair->xrc) {
		xrc_inbox(e);
		return;
	}
	if (e->pair->type == IBV_QPT_RC && chance(&w->rng, 300000)) {
		in = &e->node->srq_inbox;
		in->slot_len = slot > in->slot_len ? slot : in->slot_len;
		/* A QP that dies in a message takes one receive with it. */
		in->total += count_receives(e->peer) + 1;
		e->inbox = in;
		return;
	}
	in->end = e;
	in->slot_len = slot;
	in->total = count_receives(e->peer) + rng_below(&w->rng, 3);
	in->late = chance(&w->rng, 300000);
	in->cap = in->late ? between(&w->rng, 1, 8) : in->total + 1;
	inbox_buf(in, e->node);
	e->inbox = in;
}

static void srq_init(struct node *n, struct inbox *in)
{
	struct world *w = n->w;
	struct ibv_srq_attr attr = {.max_wr = in->total, .max_sge = 2};
	int err;

	in->cap = in->total;
	in->late = chance(&w->rng, 300000);
	if (in == &n->xrc_inbox[1])
		in->late = n->xrc_inbox[0].late; /* as an end's one inbox stands for both */
	inbox_buf(in, n);
	if (in == &n->srq_inbox)
		err = urxe_srq_new(n->pd, &attr, in, &in->srq);
	else
		err = urxe_srq_new_xrc(n->pd, &attr, n->xrcd, n->xrc_cq->cq, in, &in->srq);
	check(w, !err, "urxe_srq_new: %d", err);
	work_schedule_recvs(in);
}

static void node_srqs(struct node *n)
{
	if (n->srq_inbox.total)
		srq_init(n, &n->srq_inbox);
	for (unsigned k = 0; n->xrcd && k < N_XSRQS; k++)
		srq_init(n, &n->xrc_inbox[k]);
}

static void end_connect(struct end *e, const uint32_t psn[2])
{
	struct pair *p = e->pair;
	struct world *w = p->w;
	unsigned me = e == &p->end[1];
	struct net_link *link = &e->node->links[e->peer->node->id];
	struct connect_attr a = {
		.type = qp_type(e),
		.mtu = p->path_mtu,
		.dqpn = e->peer->qpn,
		.sq_psn = psn[me],
		.rq_psn = psn[1 - me],
		.qkey = QKEY,
		.timeout = p->timeout,
		.retry_cnt = p->retry_cnt,
		.rnr_retry = p->rnr_retry,
		.min_rnr_timer = p->min_rnr_timer,
		.rd_atomic = p->rd_atomic,
		.dest_rd_atomic = p->dest_rd_atomic,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.route = {.txq = &link->txq,
			  .mtu_bytes = p->link_mtu,
			  .window_pkts = p->window,
			  .line_mbps = 100u << p->w->seed % 11},
	};
	int err;

	connect_path(&a.route.path, e->node->id, e->peer->node->id, w->net.ipv4);
	err = connect_init(e->qp, &a, 0);
	check(w, !err, "to INIT: %d", err);
	err = connect_up(e->qp, &a, 0);
	check(w, !err, "to RTS: %d", err);
	if (p->type == IBV_QPT_UD)
		check(w, !urxe_ah_new(e->node->pd, &a.route, &e->ah), "urxe_ah_new");
}

static void pair_choose(struct world *w, unsigned index)
{
	struct pair *p = &w->pair[index];

	*p = (struct pair){.w = w};
	choose_pair(p);
	end_choose(p, 0, &w->node[rng_below(&w->rng, w->n_nodes)]);
	end_choose(p, 1, &w->node[rng_below(&w->rng, w->n_nodes)]);
	end_inbox(&p->end[0]);
	end_inbox(&p->end[1]);
}

static void pair_start(struct pair *p)
{
	struct rng *r = &p->w->rng;
	uint32_t psn[2];

	for (unsigned i = 0; i < 2; i++) {
		psn[i] = chance(r, 500000) ? 0xffffff - rng_below(r, 60) : rng_below(r, 1 << 24);
		qp_init(&p->end[i]);
		model_init(&p->end[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		end_connect(&p->end[i], psn);
		if (p->end[i].inbox->end)
			work_schedule_recvs(p->end[i].inbox);
	}
	for (unsigned i = 0; i < 2; i++)
		work_schedule_sends(&p->end[i]);
}

void setup_world(struct world *w)
{
	w->n_nodes = between(&w->rng, 2, MAX_NODES);
	w->n_pairs = between(&w->rng, 1, MAX_PAIRS);
	w->next_iova = 0x10000;
	net_choose(w);
	w->disaster = chance(&w->rng, 880000)   ? NO_DISASTER
		      : chance(&w->rng, 500000) ? AN_END_DIES
						: A_NODE_VANISHES;
	for (unsigned i = 0; i < w->n_nodes; i++)
		node_init(w, i);
	for (unsigned i = 0; i < w->n_pairs; i++)
		pair_choose(w, i);
	for (unsigned i = 0; i < w->n_nodes; i++) {
		node_srqs(&w->node[i]);
		w->node[i].word_seen = calloc(2 * MAX_PAIRS * 64, 1);
	}
	for (unsigned i = 0; i < w->n_pairs; i++)
		pair_start(&w->pair[i]);
}

void setup_destroy_qp(struct end *e)
{
	check(e->pair->w, !urxe_qp_free(e->qp), "urxe_qp_free");
	e->qp = NULL;
	e->gone = true;
}

static void free_xrc(struct node *n)
{
	struct world *w = n->w;

	for (unsigned k = 0; n->xrcd && k < N_XSRQS; k++) {
		check(w, urxe_xrcd_free(n->xrcd) == -EBUSY, "freed a domain in use");
		check(w, !urxe_srq_free(n->xrc_inbox[k].srq), "urxe_srq_free");
		buf_fini(w, &n->xrc_inbox[k].buf);
	}
	check(w, !urxe_xrcd_free(n->xrcd), "urxe_xrcd_free");
}

/* Free every object in an order that verbs allow; busy ones must say so first. */
static void free_objects(struct world *w)
{
	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		struct end *e = &w->pair[i / 2].end[i % 2];

		if (e->qp) {
			check(w, urxe_cq_free(e->scq->cq) == -EBUSY, "freed a CQ in use");
			check(w, urxe_pd_free(e->node->pd) == -EBUSY, "freed a PD in use");
			if (answers_xrc(e))
				check(w, urxe_xrcd_free(e->node->xrcd) == -EBUSY,
				      "freed a domain in use");
			setup_destroy_qp(e);
		}
		check(w, !urxe_ah_free(e->ah), "urxe_ah_free");
		buf_fini(w, &e->src);
		buf_fini(w, &e->sink);
		windows_fini(e);
		buf_fini(w, &e->target);
		if (e->inbox->end)
			buf_fini(w, &e->inbox->buf);
	}
	for (unsigned i = 0; i < w->n_nodes; i++)
		free_xrc(&w->node[i]);
	for (unsigned i = 0; i < w->n_cqs; i++)
		check(w, !urxe_cq_free(w->cq[i].cq), "urxe_cq_free");
	for (unsigned i = 0; i < w->n_nodes; i++) {
		struct node *n = &w->node[i];

		check(w, !urxe_srq_free(n->srq_inbox.srq), "urxe_srq_free");
		if (n->srq_inbox.total)
			buf_fini(w, &n->srq_inbox.buf);
		buf_fini(w, &n->word);
		check(w, !urxe_pd_free(n->pd), "urxe_pd_free");
	}
}

void setup_teardown(struct world *w)
{
	/* Else urxe_engine_free() has to find them. */
	if (chance(&w->rng, 700000))
		free_objects(w);
}

void setup_release(struct world *w)
{
	for (unsigned i = 0; i < w->n_nodes; i++)
		urxe_engine_free(w->node[i].engine);
	net_fini(w);
	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		struct end *e = &w->pair[i / 2].end[i % 2];

		model_fini(e);
		free(e->ops);
		free(e->src.mem);
		free(e->sink.mem);
		free(e->target.mem);
		free(e->own_inbox.buf.mem);
		free(e->own_inbox.seen);
	}
	for (unsigned i = 0; i < w->n_nodes; i++) {
		free(w->node[i].word.mem);
		free(w->node[i].word_seen);
		free(w->node[i].srq_inbox.buf.mem);
		free(w->node[i].srq_inbox.seen);
		for (unsigned k = 0; k < N_XSRQS; k++) {
			free(w->node[i].xrc_inbox[k].buf.mem);
			free(w->node[i].xrc_inbox[k].seen);
		}
	}
}
