/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/real.h"

#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void *library;

/*
 * By its name and not by RTLD_NEXT: that would miss a libibverbs which came in with a plug-in
 * loaded at run time (UCX, Python). A library already loaded is not loaded again.
 */
static void open_library(void)
{
	library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		log_info("no real libibverbs beside ours: %s", dlerror());
}

void *urxe_real_lookup(const char *name, void **cache)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (found)
		return found;
	pthread_once(&once, open_library);
	if (!library)
		return NULL;
	/* Threads that get here together find the same. */
	found = dlsym(library, name);
	__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	return found;
}

void *urxe_real_must(const char *name, void **cache)
{
	void *found = urxe_real_lookup(name, cache);

	if (!found) {
		log_error("%s: called on an object that is neither urxe's nor of a libibverbs "
			  "that has this function",
			  name);
		abort();
	}
	return found;
}
