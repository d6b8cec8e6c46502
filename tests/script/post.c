/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SGE = 40, INLINE_CAP = 4096 };

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} opcodes[] = {
	{"send", IBV_WR_SEND},
	{"send_imm", IBV_WR_SEND_WITH_IMM},
	{"write", IBV_WR_RDMA_WRITE},
	{"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
	{"read", IBV_WR_RDMA_READ},
	{"cas", IBV_WR_ATOMIC_CMP_AND_SWP},
	{"faa", IBV_WR_ATOMIC_FETCH_AND_ADD},
	{"tso", IBV_WR_TSO},
	{"atomic_write", IBV_WR_ATOMIC_WRITE},
	{"bind", IBV_WR_BIND_MW},
	{"local_inv", IBV_WR_LOCAL_INV},
	{"send_inv", IBV_WR_SEND_WITH_INV},
};

static const struct {
	const char *name;
	unsigned flag;
} flags[] = {
	{"signaled", IBV_SEND_SIGNALED},
	{"fence", IBV_SEND_FENCE},
	{"solicited", IBV_SEND_SOLICITED},
	{"inline", IBV_SEND_INLINE},
};

struct post {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint64_t remote_addr, compare_add, swap;
	uint32_t rkey, qpn, qkey;
	uint8_t inlined[INLINE_CAP];
	uint32_t n_inlined;
	struct ibv_mw mw; /* of these two the engine looks at the keys */
	struct ibv_mr mr;
};

/* window W A+16 100 RIGHTS */
static void read_binding(struct stage *s, struct post *p)
{
	struct window *w = next_window(s);
	struct ibv_mw_bind_info *info = &p->wr.bind_mw.bind_info;
	uint64_t off;
	struct region *r = next_place(s, &off);

	p->mr.lkey = urxe_mr_lkey(r->mr);
	p->mw.rkey = urxe_mw_rkey(w->mw);
	p->wr.bind_mw.mw = &p->mw;
	p->wr.bind_mw.rkey = urxe_mw_next_rkey(w->mw);
	*info = (struct ibv_mw_bind_info){.mr = &p->mr, .addr = r->iova + off};
	info->length = next_number(s);
	info->mw_access_flags = next_rights(s);
}

static bool accept_flag(struct stage *s, unsigned *mask)
{
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (accept(s, flags[i].name)) {
			*mask |= flags[i].flag;
			return true;
		}
	}
	return false;
}

static bool accept_key(struct stage *s, struct post *p)
{
	if (accept(s, "wr"))
		p->wr.wr_id = next_number(s);
	else if (accept(s, "to"))
		p->remote_addr = next_number(s);
	else if (accept(s, "rkey"))
		p->rkey = (uint32_t)next_number(s);
	else if (accept(s, "imm"))
		p->wr.imm_data = htobe32((uint32_t)next_number(s));
	else if (accept(s, "add") || accept(s, "compare"))
		p->compare_add = next_number(s);
	else if (accept(s, "swap"))
		p->swap = next_number(s);
	else if (accept(s, "to_qpn"))
		p->qpn = (uint32_t)next_number(s);
	else if (accept(s, "srqn"))
		p->wr.qp_type.xrc.remote_srqn = (uint32_t)next_number(s);
	else if (accept(s, "inv"))
		p->wr.invalidate_rkey = (uint32_t)next_number(s);
	else if (accept(s, "window"))
		read_binding(s, p);
	else if (accept(s, "as"))
		p->wr.bind_mw.rkey = (uint32_t)next_number(s);
	else if (accept(s, "qkey"))
		p->qkey = (uint32_t)next_number(s);
	else
		return false;
	return true;
}

/* A+16 100, or A+16 100 lkey 5, or for an inline post also bytes in its place. */
static void read_sge(struct stage *s, struct ibv_sge *sge)
{
	uint64_t off;
	struct region *r = next_place(s, &off);

	*sge = (struct ibv_sge){.addr = r->iova + off, .lkey = urxe_mr_lkey(r->mr)};
	sge->length = (uint32_t)next_number(s);
	if (accept(s, "lkey"))
		sge->lkey = (uint32_t)next_number(s);
}

static struct urxe_ah *resolve_ah(struct ibv_ah *ah)
{
	return (struct urxe_ah *)(void *)ah;
}

static void set_remote(struct stage *s, struct post *p)
{
	if (s->type[s->current] == IBV_QPT_UD) {
		p->wr.wr.ud.ah = (struct ibv_ah *)(void *)s->ah;
		p->wr.wr.ud.remote_qpn = p->qpn;
		p->wr.wr.ud.remote_qkey = p->qkey;
	} else if (p->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   p->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		p->wr.wr.atomic.remote_addr = p->remote_addr;
		p->wr.wr.atomic.rkey = p->rkey;
		p->wr.wr.atomic.compare_add = p->compare_add;
		p->wr.wr.atomic.swap = p->swap;
	} else {
		p->wr.wr.rdma.remote_addr = p->remote_addr;
		p->wr.wr.rdma.rkey = p->rkey;
	}
}

static void read_opcode(struct stage *s, struct post *p)
{
	const char *name = next_token(s);

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		if (!strcmp(opcodes[i].name, name)) {
			p->wr.opcode = opcodes[i].opcode;
			return;
		}
	}
	fail(s, "script error: nothing called %s can be posted", name);
}

void cmd_post(struct stage *s)
{
	struct post *p = calloc(1, sizeof(*p));
	const struct ibv_send_wr *bad = NULL;
	int err;

	read_opcode(s, p);
	p->wr.sg_list = p->sge;
	while (more(s) && strcmp(s->line.token[s->line.at], "=>")) {
		struct ibv_sge *sge = &p->sge[p->wr.num_sge];

		if (accept_flag(s, &p->wr.send_flags) || accept_key(s, p))
			continue;
		if (p->wr.num_sge == MAX_SGE)
			fail(s, "script error: too many elements");
		p->wr.num_sge++;
		if (!accept(s, "bytes")) {
			read_sge(s, sge);
			continue;
		}
		/* Inline: the memory is anybody's and is gone right after the post. */
		sge->addr = (uintptr_t)p->inlined + p->n_inlined;
		sge->length = next_bytes(s, p->inlined + p->n_inlined, INLINE_CAP - p->n_inlined);
		p->n_inlined += sge->length;
	}
	set_remote(s, p);
	err = urxe_qp_post_send(stage_qp(s), s->now, &p->wr, &bad, resolve_ah);
	if (err && bad != &p->wr)
		fail(s, "bad_wr does not point at the request that failed");
	memset(p, 0x5b, sizeof(*p));
	free(p);
	expect_result(s, err);
	stage_pump(s);
}

static int post_recv(struct stage *s, bool srq)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_recv_wr wr = {.sg_list = sge};
	const struct ibv_recv_wr *bad = NULL;
	int err;

	if (accept(s, "wr"))
		wr.wr_id = next_number(s);
	while (more(s) && strcmp(s->line.token[s->line.at], "=>") && wr.num_sge < MAX_SGE)
		read_sge(s, &sge[wr.num_sge++]);
	err = srq ? urxe_srq_post(s->srq, &wr, &bad) : urxe_qp_post_recv(stage_qp(s), &wr, &bad);
	if (err && bad != &wr)
		fail(s, "bad_wr does not point at the request that failed");
	memset(sge, 0x5b, sizeof(sge));
	return err;
}

void cmd_recv(struct stage *s)
{
	expect_result(s, post_recv(s, false));
	stage_pump(s);
}

void cmd_srq_recv(struct stage *s)
{
	expect_result(s, post_recv(s, true));
	stage_pump(s);
}
