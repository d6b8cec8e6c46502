/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libibverbs of the system, behind us: what is not ours goes there. Found at run time, so a
 * program that is not linked to it, or a system without it, still has our devices.
 */
#ifndef URXE_VERBS_REAL_H
#define URXE_VERBS_REAL_H

#include <stdbool.h>

/* Its function of that name in the default version, or NULL. cache is the call site's own. */
void *urxe_real_lookup(const char *name, void **cache);

/* The same, for callers that hold an object of it: there is no such object without the function. */
void *urxe_real_must(const char *name, void **cache);

#define REAL_BY(lookup, name)                                                                      \
	({                                                                                         \
		static void *cache_;                                                               \
		(__typeof__(&(name)))lookup(#name, &cache_);                                       \
	})
#define REAL_OR_NULL(name) REAL_BY(urxe_real_lookup, name)
#define REAL(name)         REAL_BY(urxe_real_must, name)

#endif
