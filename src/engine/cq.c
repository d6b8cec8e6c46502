/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/cq.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int urxe_cq_new(struct urxe_engine *e, unsigned cqe, void *user, struct urxe_cq **ret_cq)
{
	struct urxe_cq *cq;

	if (cqe == 0 || cqe > (unsigned)e->limits.max_cqe)
		return -EINVAL;
	if (e->n_cq >= (uint32_t)e->limits.max_cq)
		return -ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->ring = malloc(ring_size(cqe) * sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return -ENOMEM;
	}
	cq->engine = e;
	cq->mask = ring_size(cqe) - 1;
	cq->capacity = cqe;
	list_init(&cq->notify);
	timer_init(&cq->timer);
	list_add_tail(&e->cqs, &cq->node);
	async_init(&cq->async, user);
	e->n_cq++;
	*ret_cq = cq;
	return 0;
}

int urxe_cq_free(struct urxe_cq *cq)
{
	if (!cq)
		return 0;
	if (cq->refs)
		return -EBUSY;
	list_del(&cq->node);
	list_del(&cq->notify);
	list_del(&cq->async.node);
	timer_remove(&cq->engine->cq_timers, &cq->timer);
	cq->engine->n_cq--;
	free(cq->ring);
	free(cq);
	return 0;
}

void *urxe_cq_user(const struct urxe_cq *cq)
{
	return cq->async.user;
}

unsigned urxe_cq_capacity(const struct urxe_cq *cq)
{
	return cq->capacity;
}

int urxe_cq_resize(struct urxe_cq *cq, unsigned cqe)
{
	uint32_t n = cq->tail - cq->head;
	uint32_t size = ring_size(cqe);
	struct urxe_cqe *ring;

	if (cqe == 0 || cqe < n || cqe > (unsigned)cq->engine->limits.max_cqe)
		return -EINVAL;
	ring = malloc(size * sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = cq->ring[(cq->head + i) & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = size - 1;
	cq->capacity = cqe;
	cq->head = 0;
	cq->tail = n;
	return 0;
}

const struct urxe_cqe *urxe_cq_peek(const struct urxe_cq *cq)
{
	return cq->head == cq->tail ? NULL : &cq->ring[cq->head & cq->mask];
}

void urxe_cq_pop(struct urxe_cq *cq)
{
	assert(cq->head != cq->tail);
	cq->head++;
}

int urxe_cq_poll(struct urxe_cq *cq, int n, struct ibv_wc *wc)
{
	const struct urxe_cqe *cqe;
	int got = 0;

	while (got < n && (cqe = urxe_cq_peek(cq))) {
		wc[got++] = cqe->wc;
		urxe_cq_pop(cq);
	}
	return got == 0 && cq->overrun && n > 0 ? -EIO : got;
}

void urxe_cq_arm(struct urxe_cq *cq, bool solicited_only)
{
	/* Asking for less does not take back an earlier wish for more (IBA 11.4.2.2). */
	if (!solicited_only)
		cq->armed = CQ_ARMED_ANY;
	else if (cq->armed == CQ_DISARMED)
		cq->armed = CQ_ARMED_SOLICITED;
}

int urxe_cq_moderate(struct urxe_cq *cq, uint32_t count, uint64_t period_ns)
{
	struct urxe_engine *e = cq->engine;

	if (timerq_reserve(&e->cq_timers, e->n_cq) < 0)
		return -ENOMEM;
	cq->mod_count = period_ns ? count : 0;
	cq->mod_period_ns = period_ns;
	if (cq->mod_held)
		cq_fire(cq); /* by the rules of before */
	return 0;
}

void cq_fire(struct urxe_cq *cq)
{
	cq->armed = CQ_DISARMED;
	cq->mod_held = 0;
	timer_off(&cq->timer);
	if (!list_linked(&cq->notify))
		list_add_tail(&cq->engine->notify, &cq->notify);
}

/* Is this completion one of those that wait for more to come? */
static bool hold_back(struct urxe_cq *cq, const struct ibv_wc *wc)
{
	struct urxe_engine *e = cq->engine;

	if (cq->mod_count < 2 || wc->status != IBV_WC_SUCCESS || cq->mod_held + 1 >= cq->mod_count)
		return false;
	if (cq->mod_held++ == 0)
		timer_set(&e->cq_timers, &cq->timer, e->now + cq->mod_period_ns);
	return true;
}

void cq_push(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	struct urxe_engine *e = cq->engine;
	struct urxe_cqe *cqe;

	if (cq->tail - cq->head >= cq->capacity) {
		if (!cq->overrun)
			async_raise(e, &cq->async, IBV_EVENT_CQ_ERR);
		cq->overrun = true;
		e->cq_overrun = true;
		return;
	}
	cqe = &cq->ring[cq->tail++ & cq->mask];
	cqe->wc = *wc;
	cqe->ts_ns = e->now;
	if (cq->armed == CQ_ARMED_ANY ||
	    (cq->armed == CQ_ARMED_SOLICITED && (solicited || wc->status != IBV_WC_SUCCESS))) {
		if (!hold_back(cq, wc))
			cq_fire(cq);
	}
}

void cq_purge(struct urxe_cq *cq, uint32_t qpn)
{
	uint32_t keep;

	if (!cq)
		return;
	keep = cq->head;

	for (uint32_t i = cq->head; i != cq->tail; i++) {
		const struct urxe_cqe *cqe = &cq->ring[i & cq->mask];

		if (cqe->wc.qp_num != qpn)
			cq->ring[keep++ & cq->mask] = *cqe;
	}
	cq->tail = keep;
}

struct urxe_cq *urxe_engine_next_notify(struct urxe_engine *e)
{
	struct list *node = list_pop(&e->notify);

	return node ? container_of(node, struct urxe_cq, notify) : NULL;
}
