/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <string.h>

struct name {
	const char *name;
	int value;
};

static const struct name statuses[] = {
	{"SUCCESS", IBV_WC_SUCCESS},
	{"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
	{"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
	{"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
	{"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
	{"MW_BIND_ERR", IBV_WC_MW_BIND_ERR},
	{"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
	{"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
	{"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
	{"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
	{"REM_OP_ERR", IBV_WC_REM_OP_ERR},
	{"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
	{"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
	{NULL, 0},
};

static const struct name wc_opcodes[] = {
	{"SEND", IBV_WC_SEND},
	{"RDMA_WRITE", IBV_WC_RDMA_WRITE},
	{"RDMA_READ", IBV_WC_RDMA_READ},
	{"COMP_SWAP", IBV_WC_COMP_SWAP},
	{"FETCH_ADD", IBV_WC_FETCH_ADD},
	{"ATOMIC_WRITE", IBV_WC_ATOMIC_WRITE},
	{"BIND_MW", IBV_WC_BIND_MW},
	{"LOCAL_INV", IBV_WC_LOCAL_INV},
	{"RECV", IBV_WC_RECV},
	{"RECV_RDMA_WITH_IMM", IBV_WC_RECV_RDMA_WITH_IMM},
	{NULL, 0},
};

static const struct name events[] = {
	{"CQ_ERR", IBV_EVENT_CQ_ERR},
	{"QP_FATAL", IBV_EVENT_QP_FATAL},
	{"QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR},
	{"QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR},
	{"COMM_EST", IBV_EVENT_COMM_EST},
	{"SQ_DRAINED", IBV_EVENT_SQ_DRAINED},
	{"SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED},
	{"QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED},
	{NULL, 0},
};

static const struct name states[] = {
	{"RESET", IBV_QPS_RESET}, {"INIT", IBV_QPS_INIT},
	{"RTR", IBV_QPS_RTR},     {"RTS", IBV_QPS_RTS},
	{"SQD", IBV_QPS_SQD},     {"SQE", IBV_QPS_SQE},
	{"ERR", IBV_QPS_ERR},     {NULL, 0},
};

static const char *name_of(const struct name *table, int value)
{
	for (; table->name; table++) {
		if (table->value == value)
			return table->name;
	}
	return "?";
}

static int next_name(struct stage *s, const struct name *table)
{
	const char *token = next_token(s);

	for (; table->name; table++) {
		if (!strcmp(table->name, token))
			return table->value;
	}
	fail(s, "script error: unknown name %s", token);
}

static void expect_number(struct stage *s, const char *what, uint64_t want, uint64_t got)
{
	if (want != got)
		fail(s, "%s: expected %llu (0x%llx)\n  got      %llu (0x%llx)", what,
		     (unsigned long long)want, (unsigned long long)want, (unsigned long long)got,
		     (unsigned long long)got);
}

static void check_wc(struct stage *s, const struct ibv_wc *wc)
{
	while (more(s)) {
		if (accept(s, "wr")) {
			expect_number(s, "wr_id", next_number(s), wc->wr_id);
		} else if (accept(s, "opcode")) {
			expect_number(s, "opcode", (uint64_t)next_name(s, wc_opcodes), wc->opcode);
		} else if (accept(s, "len")) {
			expect_number(s, "byte_len", next_number(s), wc->byte_len);
		} else if (accept(s, "imm")) {
			expect_number(s, "WITH_IMM", 1, !!(wc->wc_flags & IBV_WC_WITH_IMM));
			expect_number(s, "imm", next_number(s), be32toh(wc->imm_data));
		} else if (accept(s, "no_imm")) {
			expect_number(s, "WITH_IMM", 0, !!(wc->wc_flags & IBV_WC_WITH_IMM));
		} else if (accept(s, "inv")) {
			expect_number(s, "WITH_INV", 1, !!(wc->wc_flags & IBV_WC_WITH_INV));
			expect_number(s, "inv", next_number(s), wc->invalidated_rkey);
		} else if (accept(s, "src_qp")) {
			expect_number(s, "src_qp", next_number(s), wc->src_qp);
		} else if (accept(s, "grh")) {
			expect_number(s, "GRH", 1, !!(wc->wc_flags & IBV_WC_GRH));
		} else {
			int want = next_name(s, statuses);

			if (want != (int)wc->status)
				fail(s, "status: expected %s\n  got      %s",
				     name_of(statuses, want), name_of(statuses, wc->status));
		}
	}
}

static void poll_wc(struct stage *s, struct urxe_cq *cq)
{
	struct ibv_wc wc;
	int n;

	memset(&wc, 0xa5, sizeof(wc));
	n = urxe_cq_poll(cq, 1, &wc);
	if (accept(s, "none")) {
		if (n > 0)
			fail(s, "expected no completion\n  got      wr %llu %s",
			     (unsigned long long)wc.wr_id, name_of(statuses, wc.status));
		return;
	}
	if (accept(s, "=>")) {
		next_token(s);
		if (n >= 0)
			fail(s, "expected an error of the queue\n  got      %d", n);
		return;
	}
	if (n != 1)
		fail(s, "expected a completion\n  got      %d", n);
	expect_number(s, "qp_num", urxe_qp_num(stage_qp(s)), wc.qp_num);
	check_wc(s, &wc);
}

void cmd_wc(struct stage *s)
{
	poll_wc(s, s->scq);
	stage_pump(s);
}

void cmd_rwc(struct stage *s)
{
	poll_wc(s, s->rcq);
	stage_pump(s);
}

static struct urxe_cq *next_cq(struct stage *s)
{
	if (accept(s, "send"))
		return s->scq;
	if (accept(s, "recv"))
		return s->rcq;
	fail(s, "script error: send or recv?");
}

void cmd_arm(struct stage *s)
{
	struct urxe_cq *cq = next_cq(s);

	urxe_cq_arm(cq, accept(s, "solicited"));
}

void cmd_notify(struct stage *s)
{
	struct urxe_cq *got = urxe_engine_next_notify(s->engine);
	struct urxe_cq *want = accept(s, "none") ? NULL : next_cq(s);

	if (got != want)
		fail(s, "expected %s\n  got      %s", want ? "that CQ to fire" : "no CQ to fire",
		     !got            ? "nothing"
		     : got == s->scq ? "the send CQ"
				     : "the receive CQ");
}

void cmd_async(struct stage *s)
{
	struct urxe_async ev;
	bool got = urxe_engine_next_async(s->engine, &ev);
	int want;

	if (accept(s, "none")) {
		if (got)
			fail(s, "expected no event\n  got      %s", name_of(events, (int)ev.type));
		return;
	}
	want = next_name(s, events);
	if (!got || (int)ev.type != want)
		fail(s, "expected %s\n  got      %s", name_of(events, want),
		     got ? name_of(events, (int)ev.type) : "no event");
}

void cmd_state(struct stage *s)
{
	int want = next_name(s, states);
	int got = (int)urxe_qp_state(stage_qp(s));

	if (want != got)
		fail(s, "expected %s\n  got      %s", name_of(states, want), name_of(states, got));
}

void cmd_mem(struct stage *s)
{
	uint8_t want[MAX_PAYLOAD];
	uint64_t off;
	const struct region *r = next_place(s, &off);
	uint32_t len = next_bytes(s, want, sizeof(want));

	if (off > r->len || len > r->len - off)
		fail(s, "script error: outside the region");
	region_open(r);
	for (uint32_t i = 0; i < len; i++) {
		if (r->mem[off + i] != want[i])
			fail(s, "%s+%llu: expected %02x\n  got      %02x", r->name,
			     (unsigned long long)off + i, want[i], r->mem[off + i]);
	}
	region_close(r);
}

void cmd_counter(struct stage *s)
{
	const char *name = next_token(s);

	for (unsigned i = 0; i < URXE_CNT_MAX; i++) {
		if (strcmp(urxe_counter_names[i], name))
			continue;
		expect_number(s, name, next_number(s),
			      urxe_engine_counter(s->engine, (enum urxe_counter)i));
		return;
	}
	fail(s, "script error: no counter %s", name);
}
