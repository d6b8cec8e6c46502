/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/tcp_qp.h"

#include "base/be.h"
#include "base/bits.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/reach.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
	PIECE_BYTES = 32768,
	TURN_BYTES = 8 * PIECE_BYTES, /* then others have theirs */
	ACCESS_BYTES = XR_KEY_BYTES + 4,
	IMM_BYTES = 4,
	STATUS_BYTES = 4,
	SGES = 2,
	ANSWERS = 256 + 2, /* the most READs there may be, and a question whether we live */
};

struct request {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
	bool ended;
	uint32_t imm; /* as it crosses the wire */
	uint32_t len;
	struct ibv_sge sge[SGES];
	struct xr_key key;
};

struct answer {
	struct xr_key key;
	uint32_t len, done;
	bool refused, write;
};

struct xr_tcp_qp {
	struct ibv_qp qp;
	struct xrdma_channel *ch;
	struct list due; /* in the context's list: there is something to do */
	bool error;
	bool deaf; /* a request of the peer was refused: what comes behind it counts no more */
	bool answers_first; /* they and requests take turns */
	/* requests: [tail, next) are sent, [next, head) are not; of next, offset bytes are */
	struct request *requests;
	uint32_t mask, tail, next, head, offset;
	uint32_t came; /* of the oldest READ */
	struct ibv_recv_wr *receives;
	struct ibv_sge *sinks;
	uint32_t receive_mask, receive_tail, receive_head;
	/* to the peer's requests, in their order */
	struct answer answers[ANSWERS];
	uint32_t first_answer, n_answers;
};

static void schedule(struct xr_tcp_qp *t)
{
	struct xrdma_context *ctx = t->ch->ctx;

	if (!list_linked(&t->due))
		list_add_tail(&ctx->tcp_due, &t->due);
	ctx->fed = true;
	xr_context_kick(ctx);
}

/* ---- posting ---- */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct xr_tcp_qp *t = container_of(qp, struct xr_tcp_qp, qp);

	for (; wr; wr = wr->next) {
		struct request *r = &t->requests[t->head & t->mask];

		assert(wr->num_sge <= SGES && !(wr->send_flags & IBV_SEND_INLINE));
		if (t->head - t->tail > t->mask) {
			*bad = wr;
			return ENOMEM;
		}
		*r = (struct request){
			.wr_id = wr->wr_id,
			.opcode = wr->opcode,
			.imm = wr->imm_data,
			.key = {wr->wr.rdma.remote_addr, wr->wr.rdma.rkey, t->ch->bounds.epoch}};
		for (int i = 0; i < wr->num_sge; i++) {
			r->sge[i] = wr->sg_list[i];
			r->len += r->sge[i].length;
		}
		t->head++;
		/* None of the places in the completion queue that the NIC's requests share. */
		t->ch->ctx->flow.used--;
	}
	schedule(t);
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct xr_tcp_qp *t = container_of(qp, struct xr_tcp_qp, qp);

	for (; wr; wr = wr->next) {
		uint32_t at = t->receive_head & t->receive_mask;

		if (t->receive_head - t->receive_tail > t->receive_mask) {
			*bad = wr;
			return ENOMEM;
		}
		t->receives[at] = *wr;
		t->sinks[at] = wr->sg_list[0];
		t->receive_head++;
	}
	if (t->error)
		schedule(t);
	return 0;
}

/* Never written. */
static struct ibv_context tcp_verbs = {.ops = {.post_send = post_send, .post_recv = post_recv}};

/* ---- life ---- */

struct xr_tcp_qp *xr_tcp_qp_new(struct xrdma_channel *ch, uint32_t sends, uint32_t receives)
{
	struct xr_tcp_qp *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ch = ch;
	t->qp.context = &tcp_verbs;
	t->mask = power_of_two(sends) - 1;
	t->receive_mask = power_of_two(receives) - 1;
	t->requests = calloc(t->mask + 1, sizeof(struct request));
	t->receives = calloc(t->receive_mask + 1, sizeof(struct ibv_recv_wr));
	t->sinks = calloc(t->receive_mask + 1, sizeof(struct ibv_sge));
	list_init(&t->due);
	ch->ctx->stats.tcp_channels++;
	if (t->requests && t->receives && t->sinks)
		return t;
	xr_tcp_qp_free(t);
	return NULL;
}

void xr_tcp_qp_free(struct xr_tcp_qp *t)
{
	t->ch->ctx->stats.tcp_channels--;
	t->ch->ctx->flow.used += t->head - t->tail;
	list_del(&t->due);
	free(t->requests);
	free(t->receives);
	free(t->sinks);
	free(t);
}

struct ibv_qp *xr_tcp_qp_verbs(struct xr_tcp_qp *t)
{
	return &t->qp;
}

void xr_tcp_qp_error(struct xr_tcp_qp *t)
{
	t->error = true;
	schedule(t);
}

void xr_tcp_qp_writable(struct xr_tcp_qp *t)
{
	if (t->n_answers || t->next != t->head)
		schedule(t);
}

/* ---- completions ---- */

/* The requests before `tail` end, the last of them with this status. */
static void complete(struct xr_tcp_qp *t, uint32_t tail, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = t->requests[(tail - 1) & t->mask].wr_id, .status = status};

	t->ch->ctx->flow.used += tail - t->tail;
	t->tail = tail;
	if (t->ch->ctx->faults && status != IBV_WC_SUCCESS)
		xr_fault_completion(t->ch->ctx, &wc);
	xr_channel_send_completed(t->ch, (uint32_t)wc.wr_id, wc.status);
}

/* Those that have ended in order; one completion stands for all before it, up to an error. */
static void complete_ended(struct xr_tcp_qp *t)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	uint32_t tail = t->tail;

	while (tail != t->next && t->requests[tail & t->mask].ended && status == IBV_WC_SUCCESS)
		status = t->requests[tail++ & t->mask].status;
	if (tail != t->tail)
		complete(t, tail, status);
}

static void flush(struct xr_tcp_qp *t)
{
	struct xrdma_channel *ch = t->ch;

	t->n_answers = t->offset = t->came = 0;
	while (t->tail != t->head)
		complete(t, t->tail + 1, IBV_WC_WR_FLUSH_ERR);
	t->next = t->tail;
	while (t->receive_tail != t->receive_head) {
		uint32_t at = t->receive_tail++ & t->receive_mask;

		xr_msg_put(xr_rq_take(ch->rq, t->receives[at].wr_id));
	}
	xr_channel_touch(ch);
}

/* ---- sending ---- */

static bool put(struct xr_tcp_qp *t, enum xr_block_type type, const struct iovec *parts, unsigned n)
{
	struct xrdma_channel *ch = t->ch;

	if (xr_boot_send_parts(ch->boot, (uint8_t)type, parts, n, ch->ctx->now))
		return false; /* the connection finds out by itself */
	for (unsigned i = 0; i < n; i++)
		ch->ctx->stats.tcp_bytes_sent += parts[i].iov_len;
	return true;
}

static bool put_send(struct xr_tcp_qp *t, struct request *r)
{
	const struct iovec parts[] = {
		{&r->imm, IMM_BYTES},
		{(void *)(uintptr_t)r->sge[0].addr, r->sge[0].length},
		{(void *)(uintptr_t)r->sge[1].addr, r->sge[1].length},
	};

	if (!put(t, XR_BLOCK_SEND, parts, 3))
		return false;
	t->ch->ctx->stats.tcp_msgs_sent++;
	r->ended = true;
	t->next++;
	return true;
}

static void put_access(uint8_t out[ACCESS_BYTES], const struct request *r, uint32_t offset,
		       uint32_t len)
{
	const struct xr_key key = {r->key.addr + offset, r->key.rkey, r->key.epoch};

	xr_key_encode(&key, out);
	put_be32(out + XR_KEY_BYTES, len);
}

static bool put_read(struct xr_tcp_qp *t, const struct request *r)
{
	uint8_t access[ACCESS_BYTES];
	const struct iovec part = {access, ACCESS_BYTES};

	put_access(access, r, 0, r->len);
	if (!put(t, XR_BLOCK_READ, &part, 1))
		return false;
	t->next++;
	return true;
}

static bool put_write(struct xr_tcp_qp *t, const struct request *r)
{
	uint32_t left = r->len - t->offset, piece = left < PIECE_BYTES ? left : PIECE_BYTES;
	uint8_t access[ACCESS_BYTES];
	struct iovec parts[2] = {{access, ACCESS_BYTES}};

	if (piece) /* a question whether the peer lives has none */
		parts[1] = (struct iovec){(uint8_t *)(uintptr_t)r->sge[0].addr + t->offset, piece};
	put_access(access, r, t->offset, left - piece);
	if (!put(t, XR_BLOCK_WRITE, parts, piece ? 2 : 1))
		return false;
	t->offset += piece;
	if (piece == left) {
		t->offset = 0;
		t->next++;
	}
	return true;
}

/* False: there is none, or it does not go. */
static bool send_request(struct xr_tcp_qp *t)
{
	struct request *r = &t->requests[t->next & t->mask];

	if (t->next == t->head)
		return false;
	switch (r->opcode) {
	case IBV_WR_RDMA_READ:
		return put_read(t, r);
	case IBV_WR_RDMA_WRITE:
		return put_write(t, r);
	default:
		return put_send(t, r);
	}
}

static bool send_answer(struct xr_tcp_qp *t)
{
	struct answer *a = &t->answers[t->first_answer];
	uint32_t left = a->len - a->done, piece = left < PIECE_BYTES ? left : PIECE_BYTES;
	uint8_t status[STATUS_BYTES], *from = NULL;
	struct iovec parts[] = {{status, STATUS_BYTES}, {NULL, 0}};

	if (t->n_answers == 0)
		return false;
	if (!a->write) {
		/* Looked for each time: what it leads to may be gone since the last piece. */
		from = xr_reach(t->ch, &a->key, a->done, piece, XRDMA_REMOTE_READ);
		a->refused = t->deaf = !from;
	}
	put_be32(status, a->refused ? EACCES : 0);
	if (from)
		parts[1] = (struct iovec){from, piece};
	if (!put(t, XR_BLOCK_ANSWER, parts, from ? 2 : 1))
		return false;
	a->done += piece;
	if (!from || a->done == a->len) {
		t->first_answer = (t->first_answer + 1) % ANSWERS;
		t->n_answers--;
	}
	return true;
}

static bool send_something(struct xr_tcp_qp *t)
{
	t->answers_first = !t->answers_first;
	if (t->answers_first)
		return send_answer(t) || send_request(t);
	return send_request(t) || send_answer(t);
}

static void push(struct xr_tcp_qp *t)
{
	struct xrdma_channel *ch = t->ch;
	uint64_t end = ch->ctx->stats.tcp_bytes_sent + TURN_BYTES;

	if (!ch->boot)
		return;
	while (xr_boot_has_room(ch->boot) && send_something(t)) {
		if (ch->ctx->stats.tcp_bytes_sent >= end) {
			xr_timer_set(ch->ctx, &ch->boot_timer, ch->ctx->now);
			return;
		}
	}
	xr_channel_boot_rewatch(ch);
}

void xr_tcp_qp_poll(struct xrdma_context *ctx)
{
	for (struct list *node = list_pop(&ctx->tcp_due); node; node = list_pop(&ctx->tcp_due)) {
		struct xr_tcp_qp *t = container_of(node, struct xr_tcp_qp, due);

		if (!t->error)
			push(t);
		complete_ended(t);
		if (t->error)
			flush(t);
	}
}

/* ---- receiving ---- */

static int lies(const char *how)
{
	return xr_error(-EPROTO, "the peer sent %s", how);
}

static int got_send(struct xr_tcp_qp *t, const uint8_t *data, size_t len)
{
	struct xrdma_channel *ch = t->ch;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_IMM};
	uint32_t at = t->receive_tail & t->receive_mask;
	const struct ibv_sge *sink = &t->sinks[at];

	if (t->receive_tail == t->receive_head)
		return lies("more messages than there may be");
	if (len < IMM_BYTES || len - IMM_BYTES > sink->length)
		return lies("a message of a size that none has");
	t->receive_tail++;
	memcpy(&wc.imm_data, data, IMM_BYTES);
	wc.byte_len = (uint32_t)(len - IMM_BYTES);
	memcpy((void *)(uintptr_t)sink->addr, data + IMM_BYTES, wc.byte_len);
	xr_channel_received(ch, xr_rq_take(ch->rq, t->receives[at].wr_id), &wc);
	return 0;
}

static int add_answer(struct xr_tcp_qp *t, const struct answer *a)
{
	if (t->n_answers > t->ch->agreed.reads_in + 1U)
		return lies("more READs and WRITEs at once than were agreed");
	t->answers[(t->first_answer + t->n_answers++) % ANSWERS] = *a;
	schedule(t);
	return 0;
}

static int got_read(struct xr_tcp_qp *t, const uint8_t *data, size_t len)
{
	struct answer a = {.write = false};

	if (len != ACCESS_BYTES)
		return lies("a READ that is none");
	xr_key_decode(data, &a.key);
	a.len = get_be32(data + XR_KEY_BYTES);
	return add_answer(t, &a);
}

static int got_write(struct xr_tcp_qp *t, const uint8_t *data, size_t len)
{
	struct answer a = {.write = true};
	size_t piece = len - ACCESS_BYTES;
	uint8_t *to;

	if (len < ACCESS_BYTES)
		return lies("a WRITE that is none");
	xr_key_decode(data, &a.key);
	if (piece) { /* one of no bytes reaches nothing, as on a NIC */
		to = xr_reach(t->ch, &a.key, 0, (uint32_t)piece, XRDMA_REMOTE_WRITE);
		a.refused = t->deaf = !to;
		if (to)
			memcpy(to, data + ACCESS_BYTES, piece);
	}
	return a.refused || get_be32(data + XR_KEY_BYTES) == 0 ? add_answer(t, &a) : 0;
}

/* The oldest READ or WRITE without its answer; NULL: there is none. */
static struct request *unanswered(struct xr_tcp_qp *t)
{
	uint32_t end = t->next + (t->offset > 0);

	for (uint32_t i = t->tail; i != end; i++) {
		if (!t->requests[i & t->mask].ended)
			return &t->requests[i & t->mask];
	}
	return NULL;
}

static int got_answer(struct xr_tcp_qp *t, const uint8_t *data, size_t len)
{
	struct request *r = unanswered(t);
	size_t piece = len - STATUS_BYTES;
	bool read = r && r->opcode == IBV_WR_RDMA_READ;
	bool begun = r == &t->requests[t->next & t->mask] && t->offset;

	if (!r || len < STATUS_BYTES || piece > (read ? r->len - t->came : 0))
		return lies("an answer to nothing that was asked");
	if (get_be32(data)) {
		r->status = IBV_WC_REM_ACCESS_ERR;
		t->next += begun;
		t->error = true; /* as of a NIC: what comes after it counts no more */
	} else if (read && piece) {
		memcpy((uint8_t *)(uintptr_t)r->sge[0].addr + t->came, data + STATUS_BYTES, piece);
		t->came += (uint32_t)piece;
		if (t->came < r->len)
			return 0;
	} else if (read || begun) {
		return lies("an answer before there can be one");
	}
	t->came = 0;
	r->ended = true;
	schedule(t);
	return 0;
}

int xr_tcp_qp_got(struct xrdma_channel *ch, enum xr_block_type type, const uint8_t *data,
		  size_t len)
{
	struct xr_tcp_qp *t = ch->tcp;

	/* Of an epoch that has ended: the peer may not know yet. */
	if (t ? t->error : xr_recovering(ch) && !ch->rec.got)
		return 0;
	if (!t)
		return lies("data by TCP at the wrong time");
	ch->ctx->stats.tcp_bytes_received += len;
	if (type != XR_BLOCK_ANSWER && t->deaf)
		return 0;
	switch (type) {
	case XR_BLOCK_SEND:
		return got_send(t, data, len);
	case XR_BLOCK_READ:
		return got_read(t, data, len);
	case XR_BLOCK_WRITE:
		return got_write(t, data, len);
	default:
		return got_answer(t, data, len);
	}
}
