/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mem_map.h"

#include "xrdma/error.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAP_HUGE_OF(log2) (MAP_HUGETLB | (log2) << 26) /* MAP_HUGE_SHIFT */

/* Linux 6.7; older headers do not know it. */
struct scan_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

struct scan_arg {
	uint64_t size;
	uint64_t flags;
	uint64_t start;
	uint64_t end;
	uint64_t walk_end;
	uint64_t vec;
	uint64_t vec_len;
	uint64_t max_pages;
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};

#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
#define SCAN_HUGE  ((uint64_t)1 << 6)

static const struct page_size {
	const char *name;
	unsigned log2;
	int flags;
	bool huge; /* of its own kind: reserved for it */
} page_sizes[] = {
	[XR_BACKING_1G] = {"1 GiB pages", 30, MAP_HUGE_OF(30), true},
	[XR_BACKING_2M] = {"2 MiB pages", 21, MAP_HUGE_OF(21), true},
	[XR_BACKING_THP] = {"transparent huge pages", 21, 0, false},
	[XR_BACKING_PAGES] = {"ordinary pages", 12, 0, false},
};

const char *xr_backing_name(enum xr_backing backing)
{
	return page_sizes[backing].name;
}

/* Whole pages of this size, 0 if there is no such number; `to` is the smallest that may be. */
static size_t rounded(size_t bytes, enum xr_backing backing, enum xr_backing to)
{
	size_t mask = ((size_t)1 << page_sizes[backing].log2) - 1;
	size_t up = (bytes + mask) & ~mask;

	/* Not if they would waste more than an eighth for being large. */
	return up >= bytes && (backing == to || up - bytes <= bytes / 8) ? up : 0;
}

/* Huge pages form only where the addresses are multiples of their size, too. */
static void *map_aligned(size_t bytes, size_t align)
{
	char *raw = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	size_t front;

	if (raw == MAP_FAILED)
		return raw;
	front = -(uintptr_t)raw & (align - 1);
	if (front)
		munmap(raw, front);
	munmap(raw + front + bytes, align - front);
	return raw + front;
}

static bool try_backing(size_t up, enum xr_backing backing, struct xr_map *ret_map)
{
	const struct page_size *p = &page_sizes[backing];
	void *addr;

	if (backing == XR_BACKING_THP)
		addr = map_aligned(up, (size_t)1 << p->log2);
	else
		addr = mmap(NULL, up, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | p->flags, -1, 0);
	if (addr == MAP_FAILED)
		return false;
	if (backing == XR_BACKING_THP && madvise(addr, up, MADV_HUGEPAGE)) {
		munmap(addr, up); /* the kernel has none */
		return false;
	}
	ret_map->addr = addr;
	ret_map->bytes = up;
	ret_map->backing = backing;
	ret_map->huge_bytes = p->huge ? up : 0;
	return true;
}

/* Preferred, not bound: a node without memory left must not become SIGBUS at the first touch. */
static int prefer_node(const struct xr_map *map, int node)
{
	enum { BITS = 8 * sizeof(unsigned long), WORDS = 1024 / BITS };
	unsigned long mask[WORDS] = {0};

	if (node < 0 || node >= WORDS * BITS)
		return -1;
	mask[node / BITS] = 1UL << node % BITS;
	/* The kernel looks at one bit less than it is told. */
	if (syscall(SYS_mbind, map->addr, map->bytes, MPOL_PREFERRED, mask, WORDS * BITS + 1, 0))
		return -1;
	return node;
}

int xr_map_new(size_t bytes, enum xr_huge huge, int numa_node, struct xr_map *ret_map)
{
	enum xr_backing from = huge == XR_HUGE_OFF ? XR_BACKING_PAGES : XR_BACKING_1G;
	enum xr_backing to = huge == XR_HUGE_ON ? XR_BACKING_2M : XR_BACKING_PAGES;

	for (enum xr_backing b = from; b <= to; b++) {
		size_t up = rounded(bytes, b, to);
		struct xr_map map;

		if (!up || !try_backing(up, b, &map))
			continue;
		map.numa_node = prefer_node(&map, numa_node);
		*ret_map = map;
		return 0;
	}
	if (huge == XR_HUGE_ON)
		return xr_error(-ENOMEM,
				"%zu bytes were to be in reserved huge pages and there are not "
				"enough: raise vm.nr_hugepages (pages of 2 MiB), or set huge=auto",
				bytes);
	return xr_error(-ENOMEM, "%zu bytes of memory could not be mapped: %s", bytes,
			strerror(errno));
}

void xr_map_free(struct xr_map *map)
{
	munmap(map->addr, map->bytes);
}

void xr_map_measure(struct xr_map *map)
{
	struct scan_region found[64];
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = (uintptr_t)map->addr,
		.end = (uintptr_t)map->addr + map->bytes,
		.vec = (uintptr_t)found,
		.vec_len = sizeof(found) / sizeof(found[0]),
		.category_mask = SCAN_HUGE,
		.return_mask = SCAN_HUGE,
	};
	int fd, n;

	if (map->backing != XR_BACKING_THP)
		return;
	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	map->huge_bytes = 0;
	while (arg.start < arg.end && (n = ioctl(fd, SCAN_IOCTL, &arg)) >= 0) {
		for (int i = 0; i < n; i++)
			map->huge_bytes += found[i].end - found[i].start;
		arg.start = arg.walk_end;
	}
	close(fd);
}
