/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What memory costs, on the first RDMA device. mem buffer: a buffer registered for each operation,
 * beside one of the pool, one known to the registration cache and a slot of a region; and locked in
 * memory, which is what the driver of a card does to it besides. mem region: a region in huge pages
 * beside ordinary ones. mem window: memory windows bound and invalidated, beside registrations. One
 * line of JSON for each; medians.
 */
#include "xrdma/mem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/xrdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SAMPLES = 15, BATCH_NS = 1000000, TOUCHES = 1000000, SLOTS = 4 };

#define MIB          ((size_t)1 << 20)
#define REGION_BYTES (256 * MIB)

struct buffer {
	struct xr_mem *mem;
	struct ibv_pd *pd;
	char *addr;
	size_t len;
	struct xr_region_mem region; /* SLOTS of that length */
	char *volatile at;           /* the last one told of */
	unsigned slot;
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

static void pin(struct buffer *b)
{
	mlock(b->addr, b->len);
	munlock(b->addr, b->len);
}

/* All that is to be done: to tell where it is. */
static void slot(struct buffer *b)
{
	b->at = (char *)b->region.map.addr + b->slot++ % SLOTS * b->len;
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

static double median(double *samples, int n)
{
	qsort(samples, (size_t)n, sizeof(samples[0]), ascending);
	return samples[n / 2];
}

/* Median nanoseconds of f, called in batches long enough for the clock. */
static double measure(void (*f)(struct buffer *), struct buffer *b)
{
	uint64_t start = clock_now_ns(), calls;
	double samples[SAMPLES];

	f(b);
	calls = BATCH_NS / (clock_now_ns() - start + 1) + 1;
	for (int s = 0; s < SAMPLES; s++) {
		start = clock_now_ns();
		for (uint64_t i = 0; i < calls; i++)
			f(b);
		samples[s] = (double)(clock_now_ns() - start) / (double)calls;
	}
	return median(samples, SAMPLES);
}

/* The same of ibv_reg_mr() alone. */
static double measure_reg_mr(struct buffer *b)
{
	double samples[SAMPLES];
	struct ibv_mr *mrs[64];
	unsigned n = sizeof(mrs) / sizeof(mrs[0]);

	for (int s = 0; s < SAMPLES; s++) {
		uint64_t start = clock_now_ns();

		for (unsigned i = 0; i < n; i++) {
			mrs[i] = ibv_reg_mr(b->pd, b->addr, b->len, IBV_ACCESS_REMOTE_READ);
			require(mrs[i], "ibv_reg_mr");
		}
		samples[s] = (double)(clock_now_ns() - start) / n;
		for (unsigned i = 0; i < n; i++)
			ibv_dereg_mr(mrs[i]);
	}
	return median(samples, SAMPLES);
}

/* As many others as a busy program has. */
static void fill_cache(const struct buffer *b)
{
	for (size_t j = 0; j < 500; j++) {
		struct buffer other = *b;

		other.addr += j * 8;
		other.len = 4;
		cache(&other);
	}
}

static void bench_buffer(struct ibv_pd *pd, size_t len)
{
	struct buffer b = {.pd = pd, .len = len, .addr = aligned_alloc(4096, len)};

	require(b.addr, "memory");
	memset(b.addr, 1, len);
	require(!xr_mem_new(&xr_mem_conf_default, pd, &b.mem), "open");
	require(!xr_mem_region_new(b.mem, SLOTS * len, IBV_ACCESS_REMOTE_READ, -1, &b.region),
		"region");
	fill_cache(&b);
	printf("{\"bench\": \"buffer\", \"bytes\": %zu, \"register_ns\": %.1f, "
	       "\"reg_mr_ns\": %.1f, \"pool_ns\": %.1f, \"cache_ns\": %.1f, "
	       "\"slot_ns\": %.2f, \"pin_ns\": ",
	       len, measure(per_operation, &b), measure_reg_mr(&b), measure(pool, &b),
	       measure(cache, &b), measure(slot, &b));
	if (mlock(b.addr, len))
		printf("null}\n"); /* RLIMIT_MEMLOCK */
	else
		printf("%.1f}\n", measure(pin, &b));
	xr_mem_region_free(b.mem, &b.region);
	xr_mem_free(b.mem);
	free(b.addr);
}

/* ---- windows ---- */

enum { WINDOWS = 64 };

struct windows {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mws[WINDOWS];
};

/* Connected to itself: nothing of this reaches a peer. */
static void connect_itself(struct windows *w, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 16, .max_recv_wr = 1},
					.sq_sig_all = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int err;

	w->cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0);
	require(w->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = w->cq;
	w->qp = ibv_create_qp(pd, &init);
	require(w->qp, "ibv_create_qp");
	err = ibv_modify_qp(w->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = w->qp->qp_num,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	err |= ibv_query_gid(pd->context, 1, 0, &attr.ah_attr.grh.dgid);
	err |= ibv_modify_qp(w->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	err |= ibv_modify_qp(w->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	require(!err, "queue pair");
}

static void wait_for_it(const struct windows *w)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(w->cq, 1, &wc);
	while (n == 0);
	require(n == 1 && wc.status == IBV_WC_SUCCESS, "completion");
}

/* len 0: what it showed is out of reach again. */
static void bind(struct windows *w, struct ibv_mw *mw, void *addr, size_t len)
{
	const struct ibv_mw_bind_info info = {.mr = w->mr,
					      .addr = (uintptr_t)addr,
					      .length = len,
					      .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	struct ibv_mw_bind type_1 = {.bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey}, *bad;
	int err;

	if (mw->type == IBV_MW_TYPE_1) {
		err = ibv_bind_mw(w->qp, mw, &type_1);
	} else if (len == 0) {
		err = ibv_post_send(w->qp, &wr, &bad);
	} else {
		wr.opcode = IBV_WR_BIND_MW;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		err = ibv_post_send(w->qp, &wr, &bad);
	}
	require(!err, "a window");
	wait_for_it(w);
}

static void measure_type(struct windows *w, const struct buffer *b, enum ibv_mw_type type)
{
	double bind_ns[SAMPLES], end_ns[SAMPLES];

	for (int i = 0; i < WINDOWS; i++)
		require((w->mws[i] = ibv_alloc_mw(b->pd, type)), "ibv_alloc_mw");
	for (int s = 0; s < SAMPLES; s++) {
		uint64_t start = clock_now_ns(), bound;

		for (int i = 0; i < WINDOWS; i++)
			bind(w, w->mws[i], b->addr, b->len);
		bound = clock_now_ns();
		for (int i = 0; i < WINDOWS; i++)
			bind(w, w->mws[i], NULL, 0);
		bind_ns[s] = (double)(bound - start) / WINDOWS;
		end_ns[s] = (double)(clock_now_ns() - bound) / WINDOWS;
	}
	printf(", \"bind_%d_ns\": %.1f, \"end_%d_ns\": %.1f", type, median(bind_ns, SAMPLES), type,
	       median(end_ns, SAMPLES));
	for (int i = 0; i < WINDOWS; i++)
		ibv_dealloc_mw(w->mws[i]);
}

static void bench_window(struct ibv_pd *pd, size_t len)
{
	struct buffer b = {.pd = pd, .len = len, .addr = aligned_alloc(4096, len)};
	struct windows w;

	require(b.addr, "memory");
	memset(b.addr, 1, len);
	connect_itself(&w, pd);
	w.mr = ibv_reg_mr(pd, b.addr, len, IBV_ACCESS_MW_BIND);
	require(w.mr, "ibv_reg_mr");
	printf("{\"bench\": \"window\", \"bytes\": %zu, \"register_ns\": %.1f", len,
	       measure(per_operation, &b));
	measure_type(&w, &b, IBV_MW_TYPE_1);
	measure_type(&w, &b, IBV_MW_TYPE_2);
	if (mlock(b.addr, len))
		printf(", \"pin_ns\": null}\n"); /* RLIMIT_MEMLOCK */
	else
		printf(", \"pin_ns\": %.1f}\n", measure(pin, &b));
	ibv_dereg_mr(w.mr);
	ibv_destroy_qp(w.qp);
	ibv_destroy_cq(w.cq);
	free(b.addr);
}

/* ---- regions ---- */

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
	printf("{\"bench\": \"region\", \"bytes\": %zu, \"asked\": \"%s\", \"backing\": \"%s\", "
	       "\"huge_bytes\": %zu, \"make_ms\": %.1f, \"touch_ns\": %.1f}\n",
	       REGION_BYTES, huge == XR_HUGE_OFF ? "off" : "auto",
	       xr_backing_name(region.map.backing), region.map.huge_bytes, median(make_ms, 5),
	       median(touch_ns, 5));
	xr_mem_region_free(mem, &region);
	xr_mem_free(mem);
}

static void bench(struct ibv_pd *pd, const char *what)
{
	static const size_t sizes[] = {4096, 65536, MIB, 8 * MIB, 64 * MIB};

	if (!strcmp(what, "region")) {
		bench_region(pd, XR_HUGE_OFF);
		bench_region(pd, XR_HUGE_AUTO);
		return;
	}
	if (!strcmp(what, "window")) {
		for (unsigned i = 0; i < 3; i++)
			bench_window(pd, sizes[i]);
		return;
	}
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		bench_buffer(pd, sizes[i]);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = device ? ibv_alloc_pd(device) : NULL;

	if (argc != 2 || !pd) {
		fputs("mem buffer|region|window, on an RDMA device or under urxe-run\n", stderr);
		return 1;
	}
	ibv_free_device_list(list);
	bench(pd, argv[1]);
	ibv_dealloc_pd(pd);
	ibv_close_device(device);
	return 0;
}
