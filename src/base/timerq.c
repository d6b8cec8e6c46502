/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timerq.h"

#include <errno.h>
#include <stdlib.h>

int timerq_reserve(struct timerq *q, uint32_t n)
{
	struct timer **heap;
	uint32_t capacity = q->capacity ? q->capacity : 16;

	if (n <= q->capacity)
		return 0;
	while (capacity < n)
		capacity *= 2;
	heap = realloc(q->heap, ((size_t)capacity + 1) * sizeof(struct timer *));
	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	q->capacity = capacity;
	return 0;
}

void timerq_fini(struct timerq *q)
{
	free(q->heap);
}

void timer_init(struct timer *t)
{
	t->due_ns = CLOCK_NEVER;
	t->key_ns = CLOCK_NEVER;
	t->pos = 0;
}

static void place(struct timerq *q, struct timer *t, uint32_t pos)
{
	q->heap[pos] = t;
	t->pos = pos;
}

static void sift_up(struct timerq *q, struct timer *t)
{
	uint32_t pos = t->pos;

	while (pos > 1 && q->heap[pos / 2]->key_ns > t->key_ns) {
		place(q, q->heap[pos / 2], pos);
		pos /= 2;
	}
	place(q, t, pos);
}

static void sift_down(struct timerq *q, struct timer *t)
{
	uint32_t pos = t->pos;

	for (;;) {
		uint32_t child = pos * 2;

		if (child > q->n)
			break;
		if (child < q->n && q->heap[child + 1]->key_ns < q->heap[child]->key_ns)
			child++;
		if (q->heap[child]->key_ns >= t->key_ns)
			break;
		place(q, q->heap[child], pos);
		pos = child;
	}
	place(q, t, pos);
}

void timer_set(struct timerq *q, struct timer *t, uint64_t due_ns)
{
	t->due_ns = due_ns;
	if (t->pos && due_ns >= t->key_ns)
		return;
	t->key_ns = due_ns;
	if (!t->pos)
		t->pos = ++q->n;
	sift_up(q, t);
}

void timer_remove(struct timerq *q, struct timer *t)
{
	struct timer *last;

	if (!t->pos)
		return;
	last = q->heap[q->n--];
	if (last != t) {
		place(q, last, t->pos);
		sift_up(q, last);
		sift_down(q, last);
	}
	timer_init(t);
}

/* The first of the heap has been pushed back or turned off since. */
static void catch_up(struct timerq *q)
{
	struct timer *t = q->heap[1];

	if (t->due_ns == CLOCK_NEVER) {
		timer_remove(q, t);
	} else {
		t->key_ns = t->due_ns;
		sift_down(q, t);
	}
}

uint64_t timerq_settle(struct timerq *q)
{
	while (q->n && q->heap[1]->key_ns != q->heap[1]->due_ns)
		catch_up(q);
	return timerq_next(q);
}

struct timer *timerq_expire(struct timerq *q, uint64_t now)
{
	while (q->n && q->heap[1]->key_ns <= now) {
		struct timer *t = q->heap[1];

		if (t->due_ns <= now) {
			timer_remove(q, t);
			return t;
		}
		catch_up(q);
	}
	return NULL;
}
