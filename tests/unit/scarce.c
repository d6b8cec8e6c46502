/* SPDX-License-Identifier: BSD-2-Clause */
#include "scarce.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Thread_local bool counting;
static long refuse_at, calls, live;
static bool refused;

void scarce_begin(long nth)
{
	refuse_at = nth;
	calls = live = 0;
	refused = false;
	counting = true;
}

void scarce_end(void)
{
	counting = false;
}

bool scarce_refuse(void)
{
	if (!counting || ++calls != refuse_at)
		return false;
	refused = true;
	errno = ENOMEM;
	return true;
}

bool scarce_refused(void)
{
	return refused;
}

long scarce_calls(void)
{
	return calls;
}

long scarce_live(void)
{
	return live;
}

static void *made(void *p)
{
	live += counting && p;
	return p;
}

/* p is what it was before. */
static void *grown(void *p, void *now)
{
	return p ? now : made(now);
}

#define WRAP(name, parameters, arguments, refusal, result)                                         \
	void *__real_##name parameters;                                                            \
	void *__wrap_##name parameters;                                                            \
	void *__wrap_##name parameters                                                             \
	{                                                                                          \
		void *now = scarce_refuse() ? (refusal) : __real_##name arguments;                 \
		return result;                                                                     \
	}

WRAP(malloc, (size_t n), (n), NULL, made(now))
WRAP(calloc, (size_t n, size_t size), (n, size), NULL, made(now))
WRAP(aligned_alloc, (size_t alignment, size_t n), (alignment, n), NULL, made(now))
WRAP(realloc, (void *p, size_t n), (p, n), NULL, grown(p, now))
WRAP(reallocarray, (void *p, size_t n, size_t size), (p, n, size), NULL, grown(p, now))
WRAP(mmap, (void *addr, size_t len, int prot, int flags, int fd, off_t at),
     (addr, len, prot, flags, fd, at), MAP_FAILED, now)

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	live -= counting && p;
	__real_free(p);
}
