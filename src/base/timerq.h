/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines in a binary heap, tuned for timers that are pushed back far more often than they fire:
 * moving a deadline later is one store; the heap learns of it when the old time comes.
 */
#ifndef BASE_TIMERQ_H
#define BASE_TIMERQ_H

#include "base/clock.h"

#include <stdint.h>

struct timer {
	uint64_t due_ns; /* CLOCK_NEVER: off */
	uint64_t key_ns; /* what the heap is ordered by: not later than due_ns */
	uint32_t pos;    /* in the heap, from 1; 0: not in it */
};

struct timerq {
	struct timer **heap; /* heap[1..n] */
	uint32_t n;
	uint32_t capacity;
};

/* Make room for n timers; 0 or -ENOMEM. Setting a timer never allocates. */
int timerq_reserve(struct timerq *q, uint32_t n);
void timerq_fini(struct timerq *q);

void timer_init(struct timer *t);
void timer_set(struct timerq *q, struct timer *t, uint64_t due_ns);
void timer_remove(struct timerq *q, struct timer *t); /* before the timer's memory goes */

static inline void timer_off(struct timer *t)
{
	t->due_ns = CLOCK_NEVER;
}

/* Not later than the earliest deadline; CLOCK_NEVER when there is none. */
static inline uint64_t timerq_next(const struct timerq *q)
{
	return q->n ? q->heap[1]->key_ns : CLOCK_NEVER;
}

/*
 * The earliest deadline itself: what was pushed back or turned off is put in its place first. For
 * who is going to sleep until then, and would be woken for nothing.
 */
uint64_t timerq_settle(struct timerq *q);

/* A timer that is due at now, turned off; NULL when there is none. */
struct timer *timerq_expire(struct timerq *q, uint64_t now);

#endif
