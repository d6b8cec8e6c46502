/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What memory costs, on the first RDMA device: a buffer registered for each operation, beside one
 * of the pool and a look-up in the registration cache; a region in huge pages beside ordinary ones.
 * One line of JSON for each; medians.
 */
#include "xrdma/mem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/xrdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15, BATCH_NS = 2000000, TOUCHES = 1000000 };

#define MIB          ((size_t)1 << 20)
#define REGION_BYTES (256 * MIB)

struct buffer {
	struct xr_mem *mem;
	struct ibv_pd *pd;
	char *addr;
	size_t len;
};

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "mem: %s: %s\n", what, xrdma_last_error());
	exit(1);
}

static void per_operation(struct buffer *b)
{
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->addr, b->len, IBV_ACCESS_REMOTE_READ);

	require(mr, "ibv_reg_mr");
	ibv_dereg_mr(mr);
}

static void pool(struct buffer *b)
{
	struct xr_buf buf;

	require(!xr_mem_alloc(b->mem, XR_TX, b->len, &buf), "pool");
	xr_mem_release(b->mem, &buf);
}

static void cache(struct buffer *b)
{
	struct xr_regcache *c = xr_mem_regcache(b->mem);
	struct xr_regcache_ref ref;

	require(!xr_regcache_get(c, b->addr, b->len, IBV_ACCESS_REMOTE_READ, &ref), "cache");
	xr_regcache_put(c, &ref);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median nanoseconds of f, called in batches long enough for the clock. */
static double measure(void (*f)(struct buffer *), struct buffer *b)
{
	double samples[SAMPLES];

	f(b);
	for (int s = 0; s < SAMPLES; s++) {
		uint64_t start = clock_now_ns(), now, n = 0;

		do {
			for (int i = 0; i < 16; i++)
				f(b);
			n += 16;
			now = clock_now_ns();
		} while (now - start < BATCH_NS);
		samples[s] = (double)(now - start) / (double)n;
	}
	qsort(samples, SAMPLES, sizeof(samples[0]), ascending);
	return samples[SAMPLES / 2];
}

static void bench_buffers(struct ibv_pd *pd)
{
	static const size_t sizes[] = {4096, 65536, MIB, 8 * MIB, 32 * MIB};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct buffer b = {.pd = pd, .len = sizes[i]};

		require(!xr_mem_new(&xr_mem_conf_default, pd, &b.mem), "open");
		b.addr = aligned_alloc(4096, b.len);
		require(b.addr, "memory");
		memset(b.addr, 1, b.len);
		/* As many others in the cache as a busy program has. */
		for (size_t j = 0; j < 500; j++) {
			struct buffer other = b;

			other.addr += j * 8;
			other.len = 4;
			cache(&other);
		}
		printf("{\"bench\": \"buffer\", \"bytes\": %zu, \"register_ns\": %.1f, "
		       "\"pool_ns\": %.1f, \"cache_ns\": %.1f}\n",
		       b.len, measure(per_operation, &b), measure(pool, &b), measure(cache, &b));
		xr_mem_free(b.mem);
		free(b.addr);
	}
}

/* Nanoseconds for the first bytes of a slot, slots at random. */
static double touch(const struct xr_region_mem *region)
{
	struct rng rng = {.state = 1};
	uint64_t sum = 0, start = clock_now_ns();

	for (int i = 0; i < TOUCHES; i++) {
		const char *slot = (const char *)region->map.addr +
				   (rng_next(&rng) + sum) % (REGION_BYTES / 4096) * 4096;

		sum += *(const volatile uint64_t *)(const void *)slot;
	}
	return (double)(clock_now_ns() - start) / TOUCHES;
}

static void bench_region(struct ibv_pd *pd, enum xr_huge huge)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	double make_ms[5], touch_ns[5];
	struct xr_region_mem region;
	struct xr_mem *mem;

	conf.huge = huge;
	require(!xr_mem_new(&conf, pd, &mem), "open");
	for (int s = 0; s < 5; s++) {
		uint64_t start;

		if (s)
			xr_mem_region_free(mem, &region);
		start = clock_now_ns();
		require(!xr_mem_region_new(mem, REGION_BYTES,
					   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE, -1,
					   &region),
			"region");
		make_ms[s] = (double)(clock_now_ns() - start) / 1e6;
		touch_ns[s] = touch(&region);
	}
	qsort(make_ms, 5, sizeof(make_ms[0]), ascending);
	qsort(touch_ns, 5, sizeof(touch_ns[0]), ascending);
	printf("{\"bench\": \"region\", \"bytes\": %zu, \"backing\": \"%s\", \"huge_bytes\": %zu, "
	       "\"make_ms\": %.1f, \"touch_ns\": %.1f}\n",
	       REGION_BYTES, xr_backing_name(region.map.backing), region.map.huge_bytes, make_ms[2],
	       touch_ns[2]);
	xr_mem_region_free(mem, &region);
	xr_mem_free(mem);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = device ? ibv_alloc_pd(device) : NULL;

	if (!pd) {
		fputs("mem: no RDMA device; run it under urxe-run\n", stderr);
		return 1;
	}
	ibv_free_device_list(list);
	bench_buffers(pd);
	bench_region(pd, XR_HUGE_OFF);
	bench_region(pd, XR_HUGE_AUTO);
	ibv_dealloc_pd(pd);
	ibv_close_device(device);
	return 0;
}
