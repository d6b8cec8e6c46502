/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/verbs_rq.h"

#include "xrdma/channel.h"
#include "xrdma/context.h"
#include "xrdma/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int xr_rq_init(struct xr_rq *rq, struct xrdma_context *ctx, uint32_t capacity, uint64_t id_base)
{
	*rq = (struct xr_rq){.ctx = ctx, .capacity = capacity, .n_free = capacity};
	rq->id_base = id_base;
	list_init(&rq->debts);
	list_init(&rq->owing);
	rq->slots = calloc(capacity, sizeof(struct xrdma_msg *));
	rq->free_slots = calloc(capacity, sizeof(uint32_t));
	if (!rq->slots || !rq->free_slots) {
		xr_rq_fini(rq);
		return xr_error(-ENOMEM, "out of memory for a receive queue of %u", capacity);
	}
	for (uint32_t i = 0; i < capacity; i++)
		rq->free_slots[i] = capacity - 1 - i;
	return 0;
}

void xr_rq_fini(struct xr_rq *rq)
{
	for (uint32_t i = 0; rq->slots && i < rq->capacity; i++) {
		if (rq->slots[i])
			xr_msg_put(rq->slots[i]);
	}
	list_del(&rq->owing);
	rq->ctx->stats.receives_posted -= rq->posted;
	rq->posted = 0;
	free(rq->slots);
	free(rq->free_slots);
	rq->slots = NULL;
	rq->free_slots = NULL;
	rq->capacity = 0;
}

struct xrdma_msg *xr_rq_take(struct xr_rq *rq, uint64_t wr_id)
{
	uint64_t slot = wr_id - rq->id_base;
	struct xrdma_msg *m = slot < rq->capacity ? rq->slots[slot] : NULL;

	if (!m)
		return NULL;
	rq->slots[slot] = NULL;
	rq->free_slots[rq->n_free++] = (uint32_t)slot;
	rq->posted--;
	rq->ctx->stats.receives_posted--;
	return m;
}

/* Those from `wr` on were not posted: only a queue pair that is in error refuses. */
static void take_back(struct xr_rq *rq, const struct ibv_recv_wr *wr)
{
	while (wr) {
		struct xrdma_msg *m = xr_rq_take(rq, wr->wr_id);

		wr = wr->next;
		m->ch = NULL;
		xr_msg_put(m);
	}
}

void xr_rq_flush(struct xrdma_context *ctx)
{
	struct xr_rq_batch *batch = &ctx->batch;
	struct ibv_recv_wr *wr = batch->first, *bad = NULL;
	int ret;

	if (!wr)
		return;
	*batch->end = NULL;
	batch->first = NULL;
	if (batch->rq->srq)
		ret = ibv_post_srq_recv(batch->rq->srq, wr, &bad);
	else
		ret = ibv_post_recv(batch->rq->qp, wr, &bad);
	for (; wr && !(ret && wr == bad); wr = wr->next) {
		struct xrdma_msg *m = container_of(wr, struct xrdma_msg, recv);

		if (m->ch)
			xr_window_consume(&m->ch->win, m->seq);
		m->ch = NULL;
	}
	if (ret)
		take_back(batch->rq, bad);
}

static void add(struct xr_rq *rq, struct xrdma_msg *m, struct xrdma_channel *ch, uint16_t seq)
{
	struct xr_rq_batch *batch = &rq->ctx->batch;
	uint32_t slot;

	if (batch->rq != rq)
		xr_rq_flush(rq->ctx);
	batch->rq = rq;
	slot = rq->free_slots[--rq->n_free];
	rq->slots[slot] = m;
	rq->posted++;
	rq->ctx->stats.receives_posted++;
	m->state = XR_M_POSTED;
	m->ch = ch;
	m->seq = seq;
	m->recv.wr_id = rq->id_base | slot;
	*(batch->first ? batch->end : &batch->first) = &m->recv;
	batch->end = &m->recv.next;
}

bool xr_rq_refill(struct xr_rq *rq, struct xrdma_msg *m, struct xrdma_channel *ch, uint16_t seq)
{
	if (rq->stopped || rq->posted >= rq->promised) {
		/* Of a shared queue that has shrunk, or one that will not receive any more. */
		if (m)
			xr_msg_put(m);
		if (ch)
			xr_window_consume(&ch->win, seq);
		return true;
	}
	if (!m)
		m = xr_msg_rx_new(rq->ctx);
	if (!m)
		return false;
	add(rq, m, ch, seq);
	return true;
}

int xr_rq_promise(struct xr_rq *rq, uint32_t n)
{
	if (rq->promised + n > rq->capacity)
		return xr_error(
			-ENOBUFS,
			"the shared receive queue has %u places, %u of them are promised to "
			"channels, and this one needs %u: raise srq_max or lower window",
			rq->capacity, rq->promised, n);
	rq->promised += n;
	while (rq->posted < rq->promised) {
		if (!xr_rq_refill(rq, NULL, NULL, 0)) {
			xr_rq_flush(rq->ctx);
			rq->promised -= n;
			return -ENOBUFS;
		}
	}
	xr_rq_flush(rq->ctx);
	if (rq->posted >= rq->promised) /* more: channels of a shared queue have gone */
		return 0;
	rq->promised -= n;
	return xr_error(-EIO, "receives cannot be posted");
}

void xr_rq_withdraw(struct xr_rq *rq, uint32_t n)
{
	rq->promised -= n;
}

void xr_rq_owe(struct xr_rq *rq, struct xrdma_msg *m)
{
	m->owes = true;
	list_add_tail(&rq->debts, &m->link);
	if (!list_linked(&rq->owing))
		list_add_tail(&rq->ctx->owing, &rq->owing);
	rq->ctx->stats.rx_starved++;
}

static bool pay(struct xr_rq *rq)
{
	while (!list_empty(&rq->debts)) {
		struct xrdma_msg *m = container_of(rq->debts.next, struct xrdma_msg, link);

		if (!xr_rq_refill(rq, NULL, m->ch, m->seq))
			return false;
		m->owes = false;
		list_del(&m->link);
		xr_channel_touch(m->ch);
	}
	return true;
}

void xr_rq_pay_all(struct xrdma_context *ctx)
{
	list_for_each_safe (pos, &ctx->owing) {
		if (!pay(container_of(pos, struct xr_rq, owing)))
			return;
		list_del(pos);
	}
}
