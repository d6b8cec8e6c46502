/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include "model.h"
#include "net.h"
#include "runner.h"
#include "setup.h"
#include "work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A world that has not come to rest by then never will. */
#define MAX_TIME_NS (3600 * NSEC_PER_SEC)
enum { MAX_STEPS = 3000000, POLL_BATCH = 8, CQ_EVERYTHING = 1 << 20 };

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void swap_events(struct event *a, struct event *b)
{
	struct event t = *a;

	*a = *b;
	*b = t;
}

void world_at(struct world *w, uint64_t at_ns, event_fn *fn, void *arg)
{
	size_t i = w->n_events++;

	if (w->n_events > w->cap_events) {
		w->cap_events = w->cap_events ? 2 * w->cap_events : 256;
		w->heap = realloc(w->heap, w->cap_events * sizeof(*w->heap));
	}
	w->heap[i] =
		(struct event){.at_ns = at_ns, .order = w->event_order++, .fn = fn, .arg = arg};
	for (; i && is_before(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap_events(&w->heap[i], &w->heap[(i - 1) / 2]);
}

static struct event next_event(struct world *w)
{
	struct event first = w->heap[0];
	size_t i = 0;

	w->heap[0] = w->heap[--w->n_events];
	for (;;) {
		size_t least = i;

		for (size_t c = 2 * i + 1; c <= 2 * i + 2 && c < w->n_events; c++) {
			if (is_before(&w->heap[c], &w->heap[least]))
				least = c;
		}
		if (least == i)
			return first;
		swap_events(&w->heap[i], &w->heap[least]);
		i = least;
	}
}

/* ---- reports --------------------------------------------------------------------------------- */

void world_hash(struct world *w, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t word;

	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		w->hash = (w->hash ^ word) * 0x9e3779b97f4a7c15u;
		w->hash ^= w->hash >> 29;
	}
	for (; len; p++, len--)
		w->hash = (w->hash ^ *p) * 0x100000001b3u;
}

void world_trace(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (!w->trace)
		return;
	printf("%12.3f us  ", (double)w->now / 1e3);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void world_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	printf("seed %llu: at %.3f us: ", (unsigned long long)w->seed, (double)w->now / 1e3);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n  replay: sim --seed %llu --trace\n", (unsigned long long)w->seed);
	longjmp(w->on_failure, 1);
}

/* ---- applications ---------------------------------------------------------------------------- */

/* Now and then a queue gets another size under its owner's hands: nothing in it is lost. */
static void resize_sometimes(struct world *w, struct cq *cq)
{
	struct rng rng = {w->seed ^ w->steps};

	if (chance(&rng, 20000)) {
		unsigned size = between(&rng, cq->size, 2 * cq->size);

		check(w, urxe_cq_resize(cq->cq, size) == 0, "a CQ cannot be resized to %u", size);
	}
}

/* Take what is in the queue, a few at a time or all. */
static bool drain(struct world *w, struct cq *cq, int budget)
{
	struct ibv_wc wc[POLL_BATCH];
	bool any = false;

	resize_sometimes(w, cq);
	while (budget > 0) {
		int ask = budget < POLL_BATCH ? budget : POLL_BATCH;
		int n;

		memset(wc, 0xa5, sizeof(wc));
		n = urxe_cq_poll(cq->cq, ask, wc);
		check(w, n >= 0 && n <= ask, "urxe_cq_poll: %d", n);
		for (int i = 0; i < n; i++) {
			bool solicited = model_wc(w, &wc[i]);

			world_hash(w, &wc[i].wr_id, sizeof(wc[i].wr_id));
			check(w,
			      !cq->armed || cq->fired ||
				      (cq->mode == CQ_ARMED_SOLICITED && !solicited),
			      "an armed CQ did not fire");
		}
		any |= n > 0;
		if (n < ask)
			break;
		budget -= n;
	}
	return any;
}

static void poll_cq(struct world *w, void *arg)
{
	struct cq *cq = arg;

	cq->poll_due = false;
	if (cq->node->gone)
		return;
	if (cq->mode == CQ_POLLED) {
		if (drain(w, cq, (int)between(&w->app_rng, 1, POLL_BATCH)))
			world_touched(cq->node);
		return;
	}
	drain(w, cq, CQ_EVERYTHING);
	if (cq->armed && !cq->fired)
		return;
	cq->fired = false;
	cq->armed = false;
	urxe_cq_arm(cq->cq, cq->mode == CQ_ARMED_SOLICITED);
	drain(w, cq, CQ_EVERYTHING);
	cq->armed = true;
}

static void schedule_poll(struct cq *cq, uint32_t within_ns)
{
	struct world *w = cq->node->w;

	if (cq->poll_due)
		return;
	cq->poll_due = true;
	world_at(w, w->now + rng_below(&w->app_rng, within_ns), poll_cq, cq);
}

static void take_async(struct node *n)
{
	struct world *w = n->w;
	struct urxe_async ev;

	while (urxe_engine_next_async(n->engine, &ev)) {
		struct end *e = ev.user;

		world_trace(w, "node %u: asynchronous event %d", n->id, ev.type);
		switch (ev.type) {
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			e->last_wqe_events++;
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			e->fatal_events++;
			check(w, e->may_flush, "end %u: unexpected event %d", e->id, ev.type);
			break;
		case IBV_EVENT_COMM_EST:
			break;
		default:
			world_fail(w, "node %u: unexpected event %d", n->id, ev.type);
		}
	}
}

void world_touched(struct node *n)
{
	struct world *w = n->w;
	struct urxe_cq *fired;

	while ((fired = urxe_engine_next_notify(n->engine))) {
		struct cq *cq = urxe_cq_user(fired);

		check(w, cq->armed && !cq->fired, "a CQ fired that was not armed");
		cq->fired = true;
		schedule_poll(cq, 30000);
	}
	for (unsigned i = 0; i < w->n_cqs; i++) {
		struct cq *cq = &w->cq[i];

		if (cq->node == n && cq->mode != CQ_ARMED)
			schedule_poll(cq, cq->mode == CQ_POLLED ? 5000 : 200000);
	}
	take_async(n);
}

/* ---- disasters ------------------------------------------------------------------------------- */

static void kill_end(struct world *w, void *arg)
{
	struct end *e = arg;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned how = rng_below(&w->app_rng, 3);

	if (e->gone)
		return;
	world_trace(w, "end %u: %s", e->id,
		    how == 0   ? "to ERR"
		    : how == 1 ? "to RESET"
			       : "destroy");
	e->pair->error_prone = true;
	e->pair->silent_at = w->now;
	if (how == 2) {
		setup_destroy_qp(e);
	} else {
		e->may_flush = how == 0;
		e->gone = how == 1;
		attr.qp_state = how == 0 ? IBV_QPS_ERR : IBV_QPS_RESET;
		check(w, !urxe_qp_modify(e->qp, &attr, IBV_QP_STATE, NULL, w->now), "modify");
	}
	world_touched(e->node);
}

static void vanish(struct world *w, void *arg)
{
	struct node *n = arg;

	world_trace(w, "node %u vanishes", n->id);
	n->gone = true;
	for (unsigned i = 0; i < 2 * w->n_pairs; i++) {
		struct end *e = &w->pair[i / 2].end[i % 2];

		if (e->node != n)
			continue;
		e->gone = e->pair->error_prone = true;
		e->pair->silent_at = w->now;
	}
}

static void plan_disaster(struct world *w)
{
	struct pair *p = &w->pair[rng_below(&w->rng, w->n_pairs)];
	uint64_t at = rng_below(&w->rng, 1000000);

	if (w->disaster == AN_END_DIES)
		world_at(w, at, kill_end, &p->end[rng_below(&w->rng, 2)]);
	else if (w->disaster == A_NODE_VANISHES)
		world_at(w, at, vanish, &w->node[rng_below(&w->rng, w->n_nodes)]);
}

/* ---- the run --------------------------------------------------------------------------------- */

static uint64_t next_deadline(const struct world *w)
{
	uint64_t least = CLOCK_NEVER;

	for (unsigned i = 0; i < w->n_nodes; i++) {
		uint64_t at =
			w->node[i].gone ? CLOCK_NEVER : urxe_engine_deadline(w->node[i].engine);

		least = at < least ? at : least;
	}
	return least;
}

static void advance(struct world *w)
{
	for (unsigned i = 0; i < w->n_nodes; i++) {
		struct node *n = &w->node[i];

		if (n->gone || urxe_engine_deadline(n->engine) > w->now)
			continue;
		urxe_engine_advance(n->engine, w->now);
		check(w, urxe_engine_deadline(n->engine) > w->now,
		      "a deadline that advancing does not move");
		world_touched(n);
	}
}

/* Until nothing is left to happen. */
static void run(struct world *w)
{
	for (;;) {
		uint64_t event_at = w->n_events ? w->heap[0].at_ns : CLOCK_NEVER;
		uint64_t deadline = next_deadline(w);
		uint64_t at = event_at < deadline ? event_at : deadline;

		if (at == CLOCK_NEVER)
			return;
		check(w, at < MAX_TIME_NS && w->steps++ < MAX_STEPS, "no end of it");
		w->now = at > w->now ? at : w->now;
		if (event_at <= deadline) {
			struct event ev = next_event(w);

			ev.fn(w, ev.arg);
		} else {
			advance(w);
		}
		net_pump(w);
	}
}

/* Completions that no event announced are there all the same. */
static void drain_all(struct world *w)
{
	for (unsigned i = 0; i < w->n_cqs; i++) {
		if (!w->cq[i].node->gone)
			drain(w, &w->cq[i], CQ_EVERYTHING);
	}
	for (unsigned i = 0; i < w->n_cqs; i++) {
		struct cq *cq = &w->cq[i];

		/* The first look arms them. */
		if (cq->mode != CQ_POLLED && !cq->armed)
			schedule_poll(cq, 1);
	}
}

static bool live(struct world *w)
{
	if (setjmp(w->on_failure))
		return false;
	setup_world(w);
	plan_disaster(w);
	drain_all(w);
	run(w);
	drain_all(w);
	model_final(w);
	setup_teardown(w);
	return true;
}

bool world_run(uint64_t seed, bool trace, uint64_t *ret_hash)
{
	struct world *w = calloc(1, sizeof(*w));
	bool ok;

	w->seed = seed;
	w->trace = trace;
	w->rng.state = seed * 3 + 1;
	w->net_rng.state = ~seed;
	w->app_rng.state = seed ^ 0x5851f42d4c957f2du;
	list_init(&w->frames);
	ok = live(w);
	*ret_hash = w->hash;
	setup_release(w);
	free(w->heap);
	free(w);
	return ok;
}
