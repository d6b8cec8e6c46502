/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock that one thread takes and releases all the time and others hardly ever want: one atomic
 * exchange to take it, a plain store to release it. Who must wait spins, yields, and then looks
 * again every some microseconds: nobody has to be woken.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct lock {
	atomic_bool held;
};

void lock_wait(struct lock *l);

static inline void lock_init(struct lock *l)
{
	atomic_init(&l->held, false);
}

static inline bool lock_try(struct lock *l)
{
	return !atomic_load_explicit(&l->held, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

static inline void lock_take(struct lock *l)
{
	if (__builtin_expect(atomic_exchange_explicit(&l->held, true, memory_order_acquire), 0))
		lock_wait(l);
}

static inline void lock_give(struct lock *l)
{
	atomic_store_explicit(&l->held, false, memory_order_release);
}

#endif
