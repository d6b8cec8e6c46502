/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include "../sim/connect.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What the peer is called unless a script says otherwise. */
enum { PEER_QPN = 0x77, QPN_BASE = 0x400, QKEY = 0x1234 };

static void must(struct stage *s, int err, const char *what)
{
	if (err)
		fail(s, "%s: %d", what, err);
}

/* ---- memory on demand: whoever touches it unasked does not survive ---- */

static struct stage *on_stage; /* the engine's copy() knows of none */

static void region_protect(const struct region *r, int prot)
{
	int err = r->mapped && !r->gone ? mprotect(r->mem, r->mapped, prot) : 0;

	assert(!err);
}

void region_open(const struct region *r)
{
	region_protect(r, PROT_READ | PROT_WRITE);
}

void region_close(const struct region *r)
{
	region_protect(r, PROT_NONE);
}

static const struct region *region_of(const struct stage *s, const uint8_t *p)
{
	for (unsigned i = 0; i < s->n_regions; i++) {
		const struct region *r = &s->region[i];

		if (p >= r->mem && p < r->mem + r->len)
			return r;
	}
	return NULL;
}

static bool copy_on_demand(void *to, const void *from, size_t len, bool write)
{
	const struct region *r = region_of(on_stage, write ? to : from);

	assert(r && r->mapped);
	if (r->gone)
		return false;
	region_open(r);
	memcpy(to, from, len);
	region_close(r);
	return true;
}

static void region_alloc(struct region *r, bool on_demand)
{
	size_t len = r->len ? r->len : 1;

	r->mapped = on_demand ? len : 0;
	r->gone = false;
	r->mem = on_demand ? mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
			   : calloc(1, len);
	assert(r->mem && r->mem != MAP_FAILED);
}

static void region_free(struct region *r)
{
	if (r->mapped && !r->gone)
		munmap(r->mem, r->mapped);
	else if (!r->mapped)
		free(r->mem);
}

void cmd_vanish(struct stage *s)
{
	uint64_t off;
	struct region *r = next_place(s, &off);

	if (!r->mapped)
		fail(s, "script error: not on demand");
	region_free(r);
	r->gone = true;
}

/* ---- the engine ---- */

void stage_init(struct stage *s)
{
	struct ibv_device_attr limits;
	struct urxe_engine_conf conf = {.limits = &limits,
					.max_inline_data = 256,
					.active_mtu = IBV_MTU_4096,
					.ecn = true,
					.seed = 1};

	conf.copy = copy_on_demand;
	on_stage = s;
	urxe_limits_default(&limits);
	s->now = NSEC_PER_SEC;
	must(s, urxe_engine_new(&conf, &s->engine), "urxe_engine_new");
	must(s, urxe_engine_add_qpns(s->engine, QPN_BASE), "urxe_engine_add_qpns");
	must(s, urxe_pd_new(s->engine, &s->pd), "urxe_pd_new");
	urxe_txq_init(&s->txq, s->engine, NULL);
}

void stage_fini(struct stage *s)
{
	urxe_engine_free(s->engine);
	for (unsigned i = 0; i < s->n_regions; i++)
		region_free(&s->region[i]);
	for (unsigned i = 0; i < s->n_sent; i++)
		free(s->sent[i].bytes);
}

static void keep(struct stage *s, const struct urxe_frame *f)
{
	struct sent *sent = &s->sent[s->n_sent];
	uint8_t *at;

	if (s->n_sent == MAX_FRAMES)
		fail(s, "the engine does not stop sending");
	s->n_sent++;
	sent->at_ns = s->now;
	sent->tclass = f->path->tclass;
	sent->len = f->hdr_len + f->payload_len + f->pad;
	at = sent->bytes = malloc(sent->len);
	memcpy(at, f->hdr, f->hdr_len);
	at += f->hdr_len;
	for (unsigned i = 0; i < f->n_iov; i++) {
		memcpy(at, f->iov[i].iov_base, f->iov[i].iov_len);
		at += f->iov[i].iov_len;
	}
	memset(at, 0, f->pad);
}

void stage_pump(struct stage *s)
{
	struct urxe_frame f;

	while (!s->hold && urxe_txq_pull(&s->txq, s->now, &f))
		keep(s, &f);
}

struct urxe_qp *stage_qp(struct stage *s)
{
	if (s->current >= s->n_qps || !s->qp[s->current])
		fail(s, "script error: no qp");
	return s->qp[s->current];
}

void expect_result(struct stage *s, int err)
{
	static const struct {
		const char *name;
		int value;
	} names[] = {{"EINVAL", EINVAL},
		     {"ENOMEM", ENOMEM},
		     {"EBUSY", EBUSY},
		     {"EOPNOTSUPP", EOPNOTSUPP},
		     {"EAGAIN", EAGAIN}};
	const char *want = "0";
	int value = 0;

	if (accept(s, "=>")) {
		want = next_token(s);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (!strcmp(names[i].name, want))
				value = names[i].value;
		}
		if (!strcmp(want, "ERROR") && err < 0)
			return;
		if (!value)
			fail(s, "script error: no error %s", want);
	}
	if (err != -value)
		fail(s, "expected %s\n  got      %d (%s)", want, err, strerror(-err));
}

void cmd_cq(struct stage *s)
{
	unsigned depth = (unsigned)next_number(s);

	must(s, urxe_cq_new(s->engine, depth, NULL, &s->scq), "urxe_cq_new");
	must(s, urxe_cq_new(s->engine, depth, NULL, &s->rcq), "urxe_cq_new");
}

void cmd_srq(struct stage *s)
{
	struct ibv_srq_attr attr = {.max_wr = (uint32_t)next_number(s), .max_sge = 4};

	must(s, urxe_srq_new(s->pd, &attr, NULL, &s->srq), "urxe_srq_new");
}

static void need_cqs(struct stage *s)
{
	if (s->scq)
		return;
	must(s, urxe_cq_new(s->engine, 256, NULL, &s->scq), "urxe_cq_new");
	must(s, urxe_cq_new(s->engine, 256, NULL, &s->rcq), "urxe_cq_new");
}

/* In the one domain of the script; its receives complete where all others do. */
void cmd_xrc_srq(struct stage *s)
{
	struct ibv_srq_attr attr = {.max_wr = (uint32_t)next_number(s), .max_sge = 4};
	struct urxe_pd *pd = s->pd;

	need_cqs(s);
	if (!s->xrcd)
		must(s, urxe_xrcd_new(s->engine, &s->xrcd), "urxe_xrcd_new");
	if (accept(s, "other_pd")) {
		if (!s->other_pd)
			must(s, urxe_pd_new(s->engine, &s->other_pd), "urxe_pd_new");
		pd = s->other_pd;
	}
	must(s, urxe_srq_new_xrc(pd, &attr, s->xrcd, s->rcq, NULL, &s->srq), "urxe_srq_new_xrc");
}

void cmd_srq_free(struct stage *s)
{
	must(s, urxe_srq_free(s->srq), "urxe_srq_free");
	s->srq = NULL;
}

void cmd_srq_limit(struct stage *s)
{
	struct ibv_srq_attr attr = {.srq_limit = (uint32_t)next_number(s)};

	must(s, urxe_srq_modify(s->srq, &attr, IBV_SRQ_LIMIT), "urxe_srq_modify");
}

struct qp_options {
	struct connect_attr attr;
	struct urxe_qp_init init;
	const char *upto;
};

static enum ibv_mtu mtu_of(struct stage *s, uint64_t bytes)
{
	for (unsigned m = IBV_MTU_256; m <= IBV_MTU_4096; m++) {
		if (bytes == 128u << m)
			return (enum ibv_mtu)m;
	}
	fail(s, "script error: no MTU of %llu", (unsigned long long)bytes);
}

static bool number_option(struct stage *s, struct qp_options *o, const char *key)
{
	struct {
		const char *name;
		uint8_t *u8;
		uint32_t *u32;
	} table[] = {
		{"timeout", &o->attr.timeout, NULL},
		{"retry", &o->attr.retry_cnt, NULL},
		{"rnr", &o->attr.rnr_retry, NULL},
		{"min_rnr", &o->attr.min_rnr_timer, NULL},
		{"rd", &o->attr.rd_atomic, NULL},
		{"dest_rd", &o->attr.dest_rd_atomic, NULL},
		{"sq_psn", NULL, &o->attr.sq_psn},
		{"rq_psn", NULL, &o->attr.rq_psn},
		{"line", NULL, &o->attr.route.line_mbps},
		{"dqpn", NULL, &o->attr.dqpn},
		{"qkey", NULL, &o->attr.qkey},
		{"window", NULL, &o->attr.route.window_pkts},
		{"sq", NULL, &o->init.cap.max_send_wr},
		{"rq", NULL, &o->init.cap.max_recv_wr},
		{"sge", NULL, &o->init.cap.max_send_sge},
		{"inline", NULL, &o->init.cap.max_inline_data},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].name, key))
			continue;
		if (table[i].u8)
			*table[i].u8 = (uint8_t)next_number(s);
		else
			*table[i].u32 = (uint32_t)next_number(s);
		return true;
	}
	return false;
}

static void qp_option(struct stage *s, struct qp_options *o, const char *key)
{
	if (number_option(s, o, key))
		return;
	if (!strcmp(key, "mtu"))
		o->attr.mtu = mtu_of(s, next_number(s));
	else if (!strcmp(key, "access"))
		o->attr.access = next_rights(s);
	else if (!strcmp(key, "sig_all"))
		o->init.sq_sig_all = true;
	else if (!strcmp(key, "srq"))
		o->init.srq = s->srq;
	else if (!strcmp(key, "upto"))
		o->upto = next_token(s);
	else
		fail(s, "script error: no qp option %s", key);
}

static enum ibv_qp_type qp_type(struct stage *s)
{
	const char *type = next_token(s);

	if (!strcmp(type, "rc"))
		return IBV_QPT_RC;
	if (!strcmp(type, "uc"))
		return IBV_QPT_UC;
	if (!strcmp(type, "ud"))
		return IBV_QPT_UD;
	if (!strcmp(type, "xrc_send"))
		return IBV_QPT_XRC_SEND;
	if (!strcmp(type, "xrc_recv"))
		return IBV_QPT_XRC_RECV;
	fail(s, "script error: no qp type %s", type);
}

void cmd_qp(struct stage *s)
{
	struct qp_options o = {
		.attr = {.type = qp_type(s),
			 .mtu = IBV_MTU_1024,
			 .dqpn = PEER_QPN,
			 .qkey = QKEY,
			 .timeout = 14,
			 .retry_cnt = 7,
			 .rnr_retry = 7,
			 .min_rnr_timer = 12,
			 .rd_atomic = 4,
			 .dest_rd_atomic = 4,
			 .access = ~0u,
			 .route = {.txq = &s->txq}},
		.init = {.cap = {64, 64, 4, 4, 64}},
		.upto = "rts",
	};
	struct urxe_qp **qp = &s->qp[s->n_qps];

	o.attr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC;
	connect_path(&o.attr.route.path, 0, 1, true);
	while (more(s))
		qp_option(s, &o, next_token(s));
	need_cqs(s);
	o.init.type = s->type[s->n_qps] = o.attr.type;
	o.init.send_cq = s->scq;
	o.init.recv_cq = s->rcq;
	if (o.attr.type == IBV_QPT_XRC_RECV && !s->xrcd)
		must(s, urxe_xrcd_new(s->engine, &s->xrcd), "urxe_xrcd_new");
	o.init.xrcd = o.attr.type == IBV_QPT_XRC_RECV ? s->xrcd : NULL;
	must(s, urxe_qp_new(o.init.xrcd ? NULL : s->pd, &o.init, qp), "urxe_qp_new");
	s->current = s->n_qps++;
	if (o.attr.type == IBV_QPT_UD && !s->ah)
		must(s, urxe_ah_new(s->pd, &o.attr.route, &s->ah), "urxe_ah_new");
	if (!strcmp(o.upto, "reset"))
		return;
	must(s, connect_init(*qp, &o.attr, s->now), "to INIT");
	if (strcmp(o.upto, "init"))
		must(s, connect_up(*qp, &o.attr, s->now), "to RTS");
}

void cmd_use(struct stage *s)
{
	s->current = (unsigned)next_number(s) - 1;
	stage_qp(s);
}

void cmd_mr(struct stage *s)
{
	struct region *r = &s->region[s->n_regions];
	unsigned rights;
	bool other;
	int err;

	snprintf(r->name, sizeof(r->name), "%s", next_token(s));
	r->len = next_number(s);
	rights = next_rights(s);
	r->iova = accept(s, "iova") ? next_number(s) : 0x10000 * (s->n_regions + 1);
	region_alloc(r, rights & IBV_ACCESS_ON_DEMAND);
	other = accept(s, "other_pd");
	if (other && !s->other_pd)
		must(s, urxe_pd_new(s->engine, &s->other_pd), "urxe_pd_new");
	err = urxe_mr_reg(other ? s->other_pd : s->pd, r->mem, r->len, r->iova, rights, &r->mr);
	if (err)
		region_free(r);
	else
		s->n_regions++;
	expect_result(s, err);
}

void cmd_dereg(struct stage *s)
{
	uint64_t off;
	struct region *r = next_place(s, &off);
	int err = urxe_mr_dereg(r->mr);

	expect_result(s, err);
	if (err)
		return;
	region_free(r);
	*r = s->region[--s->n_regions];
}

void cmd_mw(struct stage *s)
{
	struct window *w = &s->window[s->n_windows++];

	snprintf(w->name, sizeof(w->name), "%s", next_token(s));
	must(s, urxe_mw_new(s->pd, (enum ibv_mw_type)next_number(s), &w->mw), "urxe_mw_new");
}

void cmd_mw_free(struct stage *s)
{
	struct window *w = next_window(s);

	must(s, urxe_mw_free(w->mw), "urxe_mw_free");
	*w = s->window[--s->n_windows];
}

void cmd_fill(struct stage *s)
{
	uint64_t off;
	struct region *r = next_place(s, &off);

	if (off > r->len)
		fail(s, "script error: outside the region");
	region_open(r);
	next_bytes(s, r->mem + off, (uint32_t)(r->len - off));
	region_close(r);
}

void cmd_modify(struct stage *s)
{
	static const char *const states[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
	const char *state = next_token(s);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_UNKNOWN};
	int mask = IBV_QP_STATE;

	for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (!strcmp(states[i], state))
			attr.qp_state = (enum ibv_qp_state)i;
	}
	if (attr.qp_state == IBV_QPS_UNKNOWN)
		fail(s, "script error: no state %s", state);
	if (accept(s, "dest_rd")) {
		attr.max_dest_rd_atomic = (uint8_t)next_number(s);
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC;
	}
	if (accept(s, "min_rnr")) {
		attr.min_rnr_timer = (uint8_t)next_number(s);
		mask |= IBV_QP_MIN_RNR_TIMER;
	}
	expect_result(s, urxe_qp_modify(stage_qp(s), &attr, mask, NULL, s->now));
	stage_pump(s);
}

void cmd_destroy(struct stage *s)
{
	must(s, urxe_qp_free(stage_qp(s)), "urxe_qp_free");
	s->qp[s->current] = NULL;
}

void cmd_hold(struct stage *s)
{
	if (accept(s, "acks"))
		urxe_engine_hold_acks(s->engine, true);
	else
		s->hold = true;
}

void cmd_release(struct stage *s)
{
	s->hold = false;
	urxe_engine_hold_acks(s->engine, false);
	stage_pump(s);
}

void cmd_elapse(struct stage *s, const char *duration)
{
	uint64_t until = s->now + next_duration(s, duration);
	uint64_t at;

	while ((at = urxe_engine_deadline(s->engine)) <= until) {
		s->now = at > s->now ? at : s->now;
		urxe_engine_advance(s->engine, s->now);
		if (urxe_engine_deadline(s->engine) <= s->now)
			fail(s, "a deadline that advancing does not move");
		stage_pump(s);
	}
	s->now = until;
	stage_pump(s);
}
