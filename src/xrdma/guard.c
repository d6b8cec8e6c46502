/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/guard.h"

#include "xrdma/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATTERN = 0xa5, ALIGN = 8 };

/* Where the buffer's pages start and end. */
static uint8_t *inner(const struct xr_guard *g, size_t page)
{
	return g->map + page;
}

static uint8_t *inner_end(const struct xr_guard *g, size_t page)
{
	return g->map + g->map_bytes - page;
}

int xr_guard_new(struct xr_reg *reg, size_t len, unsigned access, struct xr_guard **ret_guard)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct xr_guard *g;
	int ret;

	if (len > SIZE_MAX / 2)
		return xr_error(-ENOMEM, "a buffer of %zu bytes: no memory is that large", len);
	g = calloc(1, sizeof(*g));
	if (!g)
		return xr_error(-ENOMEM, "out of memory for a guarded buffer");
	g->len = len;
	g->map_bytes = ((len + page - 1) & ~(page - 1)) + 2 * page;
	g->map = mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->map == MAP_FAILED ||
	    mprotect(inner(g, page), g->map_bytes - 2 * page, PROT_READ | PROT_WRITE)) {
		ret = xr_error(-ENOMEM,
			       "a guarded buffer of %zu bytes could not be mapped: %s; each takes "
			       "three of the mappings that vm.max_map_count allows",
			       len, strerror(errno));
		goto err_unmap;
	}
	g->addr = inner_end(g, page) - ((len + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	memset(inner(g, page), PATTERN, g->map_bytes - 2 * page);
	ret = xr_reg_mr(reg, g->addr, len, access, XR_HOT, &g->mr);
	if (ret)
		goto err_unmap;
	list_init(&g->link);
	*ret_guard = g;
	return 0;

err_unmap:
	if (g->map != MAP_FAILED)
		munmap(g->map, g->map_bytes);
	free(g);
	return ret;
}

static void check(const struct xr_guard *g, const uint8_t *from, const uint8_t *to)
{
	for (const uint8_t *p = from; p < to; p++) {
		if (*p == PATTERN)
			continue;
		dprintf(STDERR_FILENO,
			"xrdma: guard: byte %td of a buffer of %zu bytes at %p was overwritten\n",
			p - g->addr, g->len, (void *)g->addr);
		abort();
	}
}

void xr_guard_free(struct xr_reg *reg, struct xr_guard *guard)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	check(guard, inner(guard, page), guard->addr);
	check(guard, guard->addr + guard->len, inner_end(guard, page));
	list_del(&guard->link);
	xr_reg_dereg(reg, guard->mr);
	munmap(guard->map, guard->map_bytes);
	free(guard);
}
