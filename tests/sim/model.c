/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include "wire/aeth.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>

/* Is the outcome of this end's operations exact, or may messages be lost or be repeated? */
static bool is_reliable(const struct end *e)
{
	return e->pair->type == IBV_QPT_RC;
}

void model_init(struct end *e)
{
	size_t len = e->peer->target.len;

	e->at_send = malloc(len);
	e->at_recv = malloc(len);
	memcpy(e->at_send, e->peer->target.mem, len);
	memcpy(e->at_recv, e->peer->target.mem, len);
}

void model_fini(struct end *e)
{
	free(e->at_send);
	free(e->at_recv);
}

static uint8_t payload_byte(const struct end *e, const struct op *op, uint32_t at)
{
	for (unsigned i = 0; i < op->n_pieces; i++) {
		if (at < op->piece[i].len)
			return e->src.mem[op->piece[i].off + at];
		at -= op->piece[i].len;
	}
	abort();
}

static uint64_t word_at(const uint8_t *state, uint32_t off)
{
	uint64_t v;

	memcpy(&v, state + off, sizeof(v));
	return v;
}

static void apply_atomic(const struct op *op, uint8_t *state)
{
	uint64_t v = word_at(state, op->roff);

	if (op->shared)
		return;
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		v += op->operand;
	else if (v == op->operand)
		v = op->swap;
	memcpy(state + op->roff, &v, sizeof(v));
}

static void apply(const struct end *e, const struct op *op, uint8_t *state)
{
	if (op_writes(op))
		work_payload(e, op, state + op->roff);
	else if (op_is_atomic(op))
		apply_atomic(op, state);
}

/* May the byte at off hold value because one of the operations [from, to) wrote it? */
static bool may_hold(const struct end *e, uint32_t off, uint8_t value, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		const struct op *op = &e->ops[i];

		if (op_writes(op) && off >= op->roff && off - op->roff < op->len &&
		    payload_byte(e, op, off - op->roff) == value)
			return true;
	}
	return false;
}

/* May the words be what they are because a prefix of the operations [from, to) was executed? */
static bool words_fit(const struct end *e, const uint8_t *state, const uint8_t *mem, unsigned from,
		      unsigned to)
{
	uint8_t words[8 * N_WORDS];

	memcpy(words, state, sizeof(words));
	for (unsigned i = from;; i++) {
		if (!memcmp(words, mem, sizeof(words)))
			return true;
		if (i == to)
			return false;
		if (op_is_atomic(&e->ops[i]))
			apply_atomic(&e->ops[i], words);
	}
}

/* The peer's target must be in the state given, but for what operations [from, posted) did. */
static void check_target(const struct end *e, const uint8_t *state, unsigned from, const char *when)
{
	struct world *w = e->pair->w;
	const uint8_t *mem = e->peer->target.mem;
	uint32_t len = (uint32_t)e->peer->target.len;

	if (!memcmp(mem, state, len))
		return;
	check(w, words_fit(e, state, mem, from, e->posted), "end %u, %s: an atomic's word is wrong",
	      e->peer->id, when);
	for (uint32_t off = 8 * N_WORDS; off < len; off++)
		check(w, mem[off] == state[off] || may_hold(e, off, mem[off], from, e->posted),
		      "end %u, %s: target byte %u is %02x, must be %02x", e->peer->id, when, off,
		      mem[off], state[off]);
}

/* A READ's data must be what was there, or what later operations not fenced from it wrote. */
static void check_read(const struct end *e, unsigned index)
{
	const struct op *op = &e->ops[index];
	const uint8_t *got = e->sink.mem + op->sink_off;
	const uint8_t *want = e->at_send + op->roff;
	unsigned until = index + 1;

	if (!memcmp(got, want, op->len))
		return;
	while (until < e->posted && !(e->ops[until].flags & IBV_SEND_FENCE))
		until++;
	for (uint32_t i = 0; i < op->len; i++)
		check(e->pair->w,
		      got[i] == want[i] || may_hold(e, op->roff + i, got[i], index + 1, until),
		      "end %u: READ, op %u: byte %u is %02x, must be %02x", e->id, index, i, got[i],
		      want[i]);
}

static void check_atomic(const struct end *e, unsigned index)
{
	const struct op *op = &e->ops[index];
	struct node *n = e->peer->node;
	struct world *w = e->pair->w;
	uint64_t got = word_at(e->sink.mem, op->sink_off);

	if (op->shared) {
		check(w, got < n->word_adds && !n->word_seen[got],
		      "end %u: op %u fetched %llu from the shared word", e->id, index,
		      (unsigned long long)got);
		n->word_seen[got] = 1;
		return;
	}
	check(w, got == word_at(e->at_send, op->roff), "end %u: op %u fetched %llu, must be %llu",
	      e->id, index, (unsigned long long)got,
	      (unsigned long long)word_at(e->at_send, op->roff));
}

/* Operation e->done is known to have succeeded. */
static void succeed(struct end *e)
{
	unsigned i = e->done++;
	const struct op *op = &e->ops[i];

	check(e->pair->w, !op->fail, "end %u: op %u succeeded, must fail", e->id, i);
	e->ok = e->done;
	if (op_is_local(op))
		work_window_done(e, op);
	if (!is_reliable(e))
		return;
	if (op->opcode == IBV_WR_RDMA_READ)
		check_read(e, i);
	else if (op_is_atomic(op))
		check_atomic(e, i);
	apply(e, op, e->at_send);
}

void model_posted(struct end *e, unsigned index)
{
	const struct op *op = &e->ops[index];

	e->posted_at = e->pair->w->now;
	if (op->shared)
		e->peer->node->word_adds++;
	if (!op->fail)
		return;
	/* This end's QP ends in ERR: the peer speaks to the deaf. */
	e->pair->error_prone = true;
	if (op->fail == IBV_WC_REM_ACCESS_ERR)
		e->peer->may_flush = true;
}

/* A peer that is gone is found out within the QP's own timeouts. */
static void check_patience(const struct end *e)
{
	const struct pair *p = e->pair;
	uint64_t since = p->silent_at > e->posted_at ? p->silent_at : e->posted_at;
	uint64_t wait = (p->retry_cnt + 1u) * 4 * aeth_timeout_ns(p->timeout) +
			aeth_rnr_ns(p->min_rnr_timer) + NSEC_PER_MSEC;

	check(p->w, !p->silent_at || p->w->now <= since + wait,
	      "end %u: gave up %.3f us after its peer fell silent", e->id,
	      (double)(p->w->now - p->silent_at) / 1e3);
}

static void check_send_error(struct end *e, unsigned index, enum ibv_wc_status status)
{
	struct world *w = e->pair->w;
	bool right;

	if (e->failed) {
		right = status == IBV_WC_WR_FLUSH_ERR;
	} else {
		right = (e->ops[index].fail && status == e->ops[index].fail) ||
			(status == IBV_WC_WR_FLUSH_ERR && e->may_flush) ||
			(status == IBV_WC_RETRY_EXC_ERR && e->pair->error_prone) ||
			(status == IBV_WC_RNR_RETRY_EXC_ERR && e->peer->inbox->late &&
			 e->pair->rnr_retry < 7);
		/* The peer's requests now meet a QP that does not answer. */
		e->pair->error_prone = true;
	}
	check(w, right, "end %u: op %u ended with status %d", e->id, index, status);
	if (status == IBV_WC_RETRY_EXC_ERR)
		check_patience(e);
	check(w, urxe_qp_state(e->qp) == IBV_QPS_ERR, "end %u: status %d and not in ERR", e->id,
	      status);
	e->failed = true;
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static void send_wc(struct end *e, unsigned index, const struct ibv_wc *wc)
{
	struct world *w = e->pair->w;
	const struct op *op = &e->ops[index];

	check(w, index >= e->done && index < e->posted, "end %u: completion of op %u, %u..%u open",
	      e->id, index, e->done, e->posted);
	check(w, wc->opcode == wc_opcode(op->opcode), "end %u: op %u has opcode %d", e->id, index,
	      wc->opcode);
	while (e->done < index) {
		check(w, !e->failed && !e->sig_all && !(e->ops[e->done].flags & IBV_SEND_SIGNALED),
		      "end %u: no completion of op %u", e->id, e->done);
		succeed(e);
	}
	if (wc->status == IBV_WC_SUCCESS) {
		check(w, !e->failed, "end %u: op %u succeeds after an error", e->id, index);
		check(w, e->sig_all || (op->flags & IBV_SEND_SIGNALED),
		      "end %u: op %u is not signaled", e->id, index);
		if (op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op))
			check(w, wc->byte_len == op->len, "end %u: op %u: byte_len %u, must be %u",
			      e->id, index, wc->byte_len, op->len);
		succeed(e);
	} else {
		check_send_error(e, index, wc->status);
		e->done++;
	}
	work_schedule_sends(e);
}

/* Does this completion of a receive look like the arrival of op? */
static bool looks_like(const struct end *from, const struct op *op, const struct ibv_wc *wc,
		       const uint8_t *slot, uint32_t slot_len, uint8_t *scratch)
{
	uint32_t grh = from->pair->type == IBV_QPT_UD ? GRH_BYTES : 0;
	uint32_t used = grh + (op_sends(op) ? op->len : 0);

	if (!op_receives(op) || wc->byte_len != op->len + grh ||
	    wc->opcode != (op_sends(op) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM) ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM) != !op_has_imm(op) ||
	    (op_has_imm(op) && wc->imm_data != op->imm) ||
	    !(wc->wc_flags & IBV_WC_WITH_INV) != (op->opcode != IBV_WR_SEND_WITH_INV))
		return false;
	memset(scratch, FILL, slot_len);
	if (op_sends(op))
		work_payload(from, op, scratch + grh);
	/* Of a message that UC gave up, its receive keeps a part until the next one comes. */
	if (from->pair->type != IBV_QPT_UC)
		used = slot_len;
	return !memcmp(scratch + grh, slot + grh, used - grh);
}

/* Find what op of the peer's it is that has arrived; all before it have been executed. */
static const struct op *hear(struct end *from, const struct ibv_wc *wc, const uint8_t *slot,
			     uint32_t slot_len)
{
	struct world *w = from->pair->w;
	unsigned first = is_reliable(from) || w->net.in_order ? from->heard : 0;
	uint8_t *scratch = malloc(slot_len);
	const struct op *found = NULL;
	unsigned i;

	for (i = first; i < from->posted && !found; i++) {
		if (looks_like(from, &from->ops[i], wc, slot, slot_len, scratch))
			found = &from->ops[i];
		else if (is_reliable(from) && op_receives(&from->ops[i]))
			break;
	}
	free(scratch);
	check(w, found, "end %u: a receive (opcode %d, len %u, imm %x) unlike op %u of its peer",
	      from->peer->id, wc->opcode, wc->byte_len, wc->imm_data, i);
	check(w, !found->fail, "end %u: received op %u, which has to fail", from->peer->id, i - 1);
	if (is_reliable(from)) {
		for (unsigned j = from->heard; j < i; j++)
			apply(from, &from->ops[j], from->at_recv);
		check_target(from, from->at_recv, i, "at a receive");
	}
	from->heard = i;
	return found;
}

static bool recv_wc(struct inbox *in, struct end *e, unsigned index, const struct ibv_wc *wc)
{
	struct world *w = in->node->w;
	const struct op *op;

	check(w, index < in->posted && !in->seen[index], "receive %u completes, %u are posted",
	      index, in->posted);
	check(w, !in->end || index == in->done, "end %u: receive %u completes before %u", e->id,
	      index, in->done);
	in->seen[index] = 1;
	in->done++;
	work_schedule_recvs(in);
	if (wc->status != IBV_WC_SUCCESS) {
		/* A write with immediate takes its receive before its key is looked at. */
		check(w,
		      wc->status == IBV_WC_WR_FLUSH_ERR || (wc->status == IBV_WC_LOC_ACCESS_ERR &&
							    e->may_flush && !e->recv_flushed),
		      "end %u: receive %u has status %d", e->id, index, wc->status);
		check(w, urxe_qp_state(e->qp) == IBV_QPS_ERR, "end %u: flush and not in ERR",
		      e->id);
		e->recv_flushed++;
		return true;
	}
	check(w, !e->recv_flushed, "end %u: a receive succeeds after a flush", e->id);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		work_window_shut(e, wc->invalidated_rkey);
	op = hear(e->peer, wc, in->buf.mem + (size_t)index * in->slot_len, in->slot_len);
	e->got++;
	check(w, !e->pair->xrc || in == &in->node->xrc_inbox[op->xsrq],
	      "end %u: a receive of another SRQ than number %u", e->id, op->xsrq);
	if (e->pair->type == IBV_QPT_UD)
		check(w, wc->src_qp == e->peer->qpn && (wc->wc_flags & IBV_WC_GRH),
		      "end %u: datagram from %x, flags %x", e->id, wc->src_qp, wc->wc_flags);
	/* Of two like datagrams one may have been lost, and it is not known which. */
	return is_reliable(e) && (op->flags & IBV_SEND_SOLICITED);
}

static struct end *end_of_qpn(struct world *w, const struct node *n, uint32_t qpn)
{
	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		struct end *e = &w->pair[i / 2].end[i % 2];

		if (e->node == n && e->qpn == qpn)
			return e;
	}
	world_fail(w, "completion for qp %x, which nobody has", qpn);
}

bool model_wc(struct world *w, const struct ibv_wc *wc)
{
	unsigned owner = (unsigned)(wc->wr_id >> 32) & 0xffff;
	unsigned index = (uint32_t)wc->wr_id;
	struct inbox *in = NULL;
	struct end *e;

	if (owner >= OWNER_SRQ) {
		check(w,
		      owner - OWNER_SRQ < w->n_nodes || owner - OWNER_XSRQ < N_XSRQS * w->n_nodes,
		      "wr_id %llx", (unsigned long long)wc->wr_id);
		in = work_srq_inbox(w, owner);
		e = end_of_qpn(w, in->node, wc->qp_num);
	} else {
		check(w, owner < 2 * w->n_pairs, "wr_id %llx", (unsigned long long)wc->wr_id);
		e = &w->pair[owner / 2].end[owner % 2];
		in = e->inbox;
	}
	check(w, wc->qp_num == e->qpn, "end %u: qp_num %x", e->id, wc->qp_num);
	check(w, !e->gone, "end %u: a completion, and it has no QP any more", e->id);
	world_trace(w, "end %u completes %s%u: status %d opcode %d len %u", e->id,
		    wc->wr_id & WR_RECV ? "receive " : "op ", index, wc->status, wc->opcode,
		    wc->byte_len);
	if (wc->wr_id & WR_RECV)
		return recv_wc(in, e, index, wc);
	send_wc(e, index, wc);
	return wc->status != IBV_WC_SUCCESS;
}

/* All that end e did has arrived where it must. */
static void final_effects(struct end *e)
{
	struct world *w = e->pair->w;
	bool lossless =
		is_reliable(e) || (w->net.perfect && !e->peer->inbox->late && !e->peer->may_flush);

	for (unsigned i = e->heard; lossless && !e->peer->gone && i < e->ok; i++)
		check(w, !op_receives(&e->ops[i]), "end %u: op %u succeeded but was not received",
		      e->id, i);
	if (e->peer->node->gone)
		return;
	if (is_reliable(e))
		check_target(e, e->at_send, e->ok, "at the end");
	else
		check_target(e, e->at_send, 0, "at the end");
}

static void final_slots(struct world *w, const struct inbox *in)
{
	for (size_t i = (size_t)in->posted * in->slot_len; i < in->buf.len; i++)
		check(w, in->buf.mem[i] == FILL, "a receive slot that was not posted is written");
}

static void final_end(struct end *e)
{
	struct world *w = e->pair->w;
	bool error = urxe_qp_state(e->qp) == IBV_QPS_ERR;
	struct inbox *in = e->inbox;

	check(w, e->done == e->n_ops, "end %u: stalled, %u of %u posted ops are complete", e->id,
	      e->done, e->posted);
	final_effects(e);
	check(w, e->sink.mem[e->sink.len - 1] == FILL, "end %u: sink overrun", e->id);
	check(w, error == (e->failed || e->fatal_events || e->may_flush) || e->may_flush,
	      "end %u: in ERR without a reason", e->id);
	if (error && in->end)
		check(w, in->done == in->posted, "end %u: %u of %u receives are complete", e->id,
		      in->done, in->posted);
	/* An XRC_RECV that was never asked to receive has no SRQ. */
	if (error && !in->end)
		check(w, e->last_wqe_events == 1 || (e->pair->xrc && !e->last_wqe_events),
		      "end %u: %u LAST_WQE_REACHED events", e->id, e->last_wqe_events);
	final_slots(w, in);
}

/* Every acknowledged increment of a shared word is in it, each once. */
static void final_word(struct node *n)
{
	struct world *w = n->w;
	uint64_t value = word_at(n->word.mem, 0);
	unsigned sure = 0;

	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		const struct end *e = &w->pair[i / 2].end[i % 2];

		for (unsigned j = 0; e->peer->node == n && j < e->ok; j++)
			sure += e->ops[j].shared;
	}
	check(w, value >= sure && value <= n->word_adds, "shared word of node %u is %llu, %u..%u",
	      n->id, (unsigned long long)value, sure, n->word_adds);
}

static void final_node(struct node *n)
{
	final_word(n);
	for (unsigned k = 0; n->xrcd && k < N_XSRQS; k++)
		final_slots(n->w, &n->xrc_inbox[k]);
}

static void final_counters(struct world *w)
{
	for (unsigned i = 0; i < w->n_nodes; i++) {
		const struct urxe_engine *e = w->node[i].engine;

		check(w, !urxe_engine_counter(e, URXE_CNT_RETRANSMITS),
		      "retransmission on a perfect network");
		check(w, !urxe_engine_counter(e, URXE_CNT_TIMEOUTS),
		      "timeout on a perfect network");
		check(w, !urxe_engine_counter(e, URXE_CNT_DUPLICATE_REQUEST),
		      "duplicate request on a perfect network");
	}
}

void model_final(struct world *w)
{
	bool calm = w->net.perfect;

	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		struct end *e = &w->pair[i / 2].end[i % 2];

		if (!e->gone)
			final_end(e);
		calm &= !e->gone && !e->failed && !e->inbox->late && !e->may_flush;
	}
	for (unsigned i = 0; i < w->n_nodes; i++) {
		if (!w->node[i].gone)
			final_node(&w->node[i]);
	}
	if (calm)
		final_counters(w);
}
