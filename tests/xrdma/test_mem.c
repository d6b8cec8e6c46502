/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a context on a real device: what peers may do, what the system is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/mem.h"
#include "xrdma/xrdma.h"

enum {
	SKIPPED = 77,
	READ = IBV_ACCESS_REMOTE_READ,
	WRITE = IBV_ACCESS_REMOTE_WRITE,
	LOCAL = IBV_ACCESS_LOCAL_WRITE,
};

#define MIB ((size_t)1 << 20)

/* Two queue pairs, connected to each other: ours and the one that serves it. */
static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp, *peer;
static int gid_index;
static char *scratch; /* what one-sided operations copy from or to */
static struct ibv_mr *scratch_mr;

static bool open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	const char *name = getenv("XRDMA_DEVICE");

	for (unsigned i = 0; list && list[i] && !device; i++) {
		if (!name || strcmp(ibv_get_device_name(list[i]), name) == 0)
			device = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return device;
}

static int setup(void **state)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_gid_entry gid;

	while (!ibv_query_gid_ex(device, 1, (uint32_t)gid_index, &gid, 0) &&
	       gid.gid_type != IBV_GID_TYPE_ROCE_V2)
		gid_index++;
	pd = ibv_alloc_pd(device);
	attr.send_cq = attr.recv_cq = cq = ibv_create_cq(device, 16, NULL, NULL, 0);
	scratch = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	scratch_mr = ibv_reg_mr(pd, scratch, 4096, LOCAL);
	qp = ibv_create_qp(pd, &attr);
	peer = ibv_create_qp(pd, &attr);
	return pd && cq && scratch_mr && qp && peer ? 0 : -1;
}

/* The domain cannot be freed while a test has left a region behind. */
static int teardown(void **state)
{
	return ibv_destroy_qp(qp) || ibv_destroy_qp(peer) || ibv_dereg_mr(scratch_mr) ||
	       ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(device);
}

static void connect_to(struct ibv_qp *from, const struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RESET,
		.port_num = 1,
		.qp_access_flags = WRITE | READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 1}},
	};

	assert_int_equal(ibv_query_gid(device, 1, gid_index, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(from, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(
		ibv_modify_qp(from, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(from, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(from, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

/* What becomes of 8 bytes between local memory and what a peer knows as addr and rkey. */
static enum ibv_wc_status one_sided(enum ibv_wr_opcode opcode, void *local, uint32_t lkey,
				    void *addr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = 8, .lkey = lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = (uintptr_t)addr, .rkey = rkey},
				 };
	uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
	struct ibv_wc wc;
	int n;

	connect_to(peer, qp);
	connect_to(qp, peer);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		assert_true(clock_now_ns() < until);
	assert_int_equal(n, 1);
	return wc.status;
}

static enum ibv_wc_status peer_reads(void *addr, uint32_t rkey)
{
	return one_sided(IBV_WR_RDMA_READ, scratch, scratch_mr->lkey, addr, rkey);
}

static enum ibv_wc_status peer_writes(void *addr, uint32_t rkey)
{
	return one_sided(IBV_WR_RDMA_WRITE, scratch, scratch_mr->lkey, addr, rkey);
}

static struct xr_mem *open_mem(const struct xr_mem_conf *conf)
{
	struct xr_mem *mem;

	assert_int_equal(xr_mem_new(conf, pd, &mem), 0);
	return mem;
}

static void k1_rights_are_per_region_and_minimal(void **state)
{
	static const struct {
		unsigned access;
		bool reads;
		bool writes;
	} rows[] = {
		{0, false, false},
		{READ, true, false},          /* a read-only export */
		{WRITE | LOCAL, false, true}, /* a write-only sink */
		{READ | WRITE | LOCAL, true, true},
	};
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct xr_region_mem r;

		assert_int_equal(xr_mem_region_new(mem, 8192, rows[i].access, -1, &r), 0);
		assert_int_equal(peer_reads(r.map.addr, r.mr->rkey),
				 rows[i].reads ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(peer_writes(r.map.addr, r.mr->rkey),
				 rows[i].writes ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		xr_mem_region_free(mem, &r);
	}
	xr_mem_free(mem);
}

static void k1_pools_grant_what_their_use_needs(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_buf tx, rx;

	assert_int_equal(xr_mem_alloc(mem, XR_TX, 2 * MIB, &tx), 0);
	assert_int_equal(xr_mem_alloc(mem, XR_RX, 100, &rx), 0);
	assert_int_equal(peer_reads(tx.addr, tx.rkey), IBV_WC_SUCCESS);
	assert_int_equal(peer_writes(tx.addr, tx.rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(peer_reads(rx.addr, rx.rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(peer_writes(rx.addr, rx.rkey), IBV_WC_REM_ACCESS_ERR);
	memcpy(tx.addr, "8 bytes", 8); /* a READ, as of a large message */
	assert_int_equal(one_sided(IBV_WR_RDMA_READ, rx.addr, rx.lkey, tx.addr, tx.rkey),
			 IBV_WC_SUCCESS);
	assert_string_equal(rx.addr, "8 bytes");
	xr_mem_free(mem);
}

static void k2_one_registration_serves_4096_slots(void **state)
{
	enum { SLOTS = 4096, SLOT_BYTES = 16384 };
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_mem_stats stats;
	struct xr_region_mem r;

	assert_int_equal(xr_mem_region_new(mem, (size_t)SLOTS * SLOT_BYTES, READ, 0, &r), 0);
	xr_mem_stats(mem, &stats);
	assert_int_equal(stats.mrs, 1);
	print_message("64 MiB in %s, %zu MiB of them huge, NUMA node %d\n",
		      xr_backing_name(r.map.backing), r.map.huge_bytes / MIB, r.map.numa_node);
	assert_int_equal(stats.huge_bytes, r.map.huge_bytes);
	for (uint16_t slot = 1; slot; slot = (uint16_t)(slot * 8 % SLOTS)) {
		char *at = (char *)r.map.addr + (size_t)slot * SLOT_BYTES;

		snprintf(at, 8, "%u", slot);
		assert_int_equal(peer_reads(at, r.mr->rkey), IBV_WC_SUCCESS);
		assert_string_equal(scratch, at);
	}
	assert_int_equal(
		peer_reads((char *)r.map.addr + (size_t)SLOTS * SLOT_BYTES - 4, r.mr->rkey),
		IBV_WC_REM_ACCESS_ERR);
	xr_mem_region_free(mem, &r);
	xr_mem_free(mem);
}

static size_t free_huge_pages(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	size_t n = 0;

	if (f) {
		if (fscanf(f, "%zu", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

static void k2_huge_pages_or_a_reported_fallback(void **state)
{
	struct xr_map map;

	assert_int_equal(xr_map_new(8 * MIB, XR_HUGE_OFF, -1, &map), 0);
	memset(map.addr, 1, map.bytes);
	xr_map_measure(&map);
	assert_int_equal(map.backing, XR_BACKING_PAGES);
	assert_int_equal(map.huge_bytes, 0);
	assert_string_equal(xr_backing_name(map.backing), "ordinary pages");
	xr_map_free(&map);

	assert_int_equal(xr_map_new(8 * MIB, XR_HUGE_AUTO, -1, &map), 0);
	memset(map.addr, 1, map.bytes);
	xr_map_measure(&map);
	assert_true(map.huge_bytes <= map.bytes);
	if (free_huge_pages() >= 4)
		assert_int_equal(map.backing, XR_BACKING_2M);
	if (map.backing == XR_BACKING_2M)
		assert_int_equal(map.huge_bytes, map.bytes);
	if (map.huge_bytes)
		assert_int_equal((uintptr_t)map.addr % (2 * MIB), 0);
	xr_map_free(&map);

	if (xr_map_new((free_huge_pages() + 1) * 2 * MIB, XR_HUGE_ON, -1, &map) == 0)
		fail_msg("more huge pages than there are");
	assert_non_null(strstr(xrdma_last_error(), "vm.nr_hugepages"));

	/* A page more than asked for would be waste: 5 KiB do not become 2 MiB. */
	assert_int_equal(xr_map_new(5000, XR_HUGE_AUTO, -1, &map), 0);
	assert_int_equal(map.bytes, 8192);
	xr_map_free(&map);
	assert_int_equal(xr_map_new((size_t)1 << 60, XR_HUGE_AUTO, -1, &map), -ENOMEM);
	assert_int_equal(xr_map_new(SIZE_MAX, XR_HUGE_AUTO, -1, &map), -ENOMEM);
}

static void k2_numa_node_is_preferred_where_it_exists(void **state)
{
	struct xr_map map;
	int mode = -1;

	assert_int_equal(xr_map_new(MIB, XR_HUGE_AUTO, 0, &map), 0);
	if (map.numa_node == 0) { /* containers may forbid it */
		assert_int_equal(syscall(SYS_get_mempolicy, &mode, NULL, 0, map.addr, MPOL_F_ADDR),
				 0);
		assert_int_equal(mode, MPOL_PREFERRED);
	}
	xr_map_free(&map);
	for (int node = 1023; node <= 1024; node++) { /* there is none such */
		assert_int_equal(xr_map_new(MIB, XR_HUGE_AUTO, node, &map), 0);
		assert_int_equal(map.numa_node, -1);
		xr_map_free(&map);
	}
}

static void m6_a_starved_pool_leaves_the_other_working(void **state)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct xr_mem *mem;
	struct xr_buf buf;
	int n = 0, ret;

	for (enum xr_mem_use use = XR_TX; use <= XR_RX; use++) {
		conf.budget_bytes[XR_TX] = 8 * MIB;
		conf.budget_bytes[XR_RX] = 8 * MIB;
		mem = open_mem(&conf);
		while ((ret = xr_mem_alloc(mem, use, 65536, &buf)) == 0)
			n++;
		assert_int_equal(ret, -ENOBUFS);
		assert_non_null(strstr(xrdma_last_error(), use == XR_TX ? "tx" : "rx"));
		for (int i = 0; i < 128; i++)
			assert_int_equal(xr_mem_alloc(mem, XR_RX - use, 65536, &buf), 0);
		xr_mem_free(mem);
	}
	assert_int_equal(n, 2 * 128);
}

static uint64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long total, resident = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
	fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void k9_steady_use_hits_and_trim_gives_memory_back(void **state)
{
	static const size_t sizes[] = {64, 4096, 65536, MIB, 5 * MIB, 24 * MIB};
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	uint64_t before = resident_bytes(), peak;
	struct xr_mem_stats stats;
	struct xr_buf buf;

	for (int round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			assert_int_equal(xr_mem_alloc(mem, XR_TX, sizes[i], &buf), 0);
			xr_mem_release(mem, &buf);
		}
	}
	xr_mem_stats(mem, &stats);
	/* One slab for all small sizes, one span each for the large ones. */
	assert_int_equal(stats.pool[XR_TX].tier[0].misses, 1);
	assert_int_equal(stats.pool[XR_TX].tier[0].hits, 3999);
	assert_int_equal(stats.pool[XR_TX].tier[1].misses, 1);
	assert_int_equal(stats.pool[XR_TX].tier[2].misses, 1);
	assert_int_equal(stats.mrs, 3);
	assert_int_equal(stats.mr_bytes, (4 + 6 + 24) * MIB);
	peak = resident_bytes();
	xr_mem_trim(mem, NSEC_PER_SEC);
	assert_int_equal(xr_mem_trim(mem, 3 * NSEC_PER_SEC), 30 * MIB);
	xr_mem_stats(mem, &stats);
	assert_int_equal(stats.mrs, 1);
	/* Registering has made it resident on devices that pin; there it must be gone, too. */
	if (peak > before + 34 * MIB)
		assert_true(resident_bytes() < peak - 29 * MIB);
	xr_mem_free(mem);
}

static void callers_memory_that_is_none_is_refused(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_regcache *cache = xr_mem_regcache(mem);
	struct xr_regcache_ref ref;
	struct xr_regcache_stats stats;
	char *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(munmap(p + 8192, 4096), 0);
	assert_int_equal(xr_regcache_get(cache, p + 8192, 100, READ, &ref), -EFAULT);
	assert_non_null(strstr(xrdma_last_error(), "not all of it is mapped"));
	assert_int_equal(xr_regcache_get(cache, p, 16384, READ, &ref), -EFAULT);
	assert_int_equal(mprotect(p, 4096, PROT_READ), 0);
	assert_int_equal(xr_regcache_get(cache, p, 4096, LOCAL, &ref), -EFAULT);
	assert_int_equal(xr_regcache_get(cache, NULL, 100, READ, &ref), -EFAULT);
	xr_regcache_stats(cache, &stats);
	assert_int_equal(stats.entries, 0);
	assert_int_equal(xr_regcache_get(cache, p, 8192, READ, &ref), 0);
	assert_int_equal(peer_reads(p, ref.rkey), IBV_WC_SUCCESS);
	xr_regcache_put(cache, &ref);
	munmap(p, 16384);
	xr_mem_free(mem);
}

static void forgotten_memory_is_registered_anew(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_regcache *cache = xr_mem_regcache(mem);
	struct xr_regcache_ref ref;
	uint32_t old;
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	strcpy(p, "before");
	assert_int_equal(xr_regcache_get(cache, p, 8192, READ, &ref), 0);
	assert_int_equal(xr_regcache_forget(cache, p, 8192), -EBUSY);
	old = ref.rkey;
	xr_regcache_put(cache, &ref);
	assert_int_equal(xr_regcache_forget(cache, p, 8192), 0);
	assert_int_equal(peer_reads(p, old), IBV_WC_REM_ACCESS_ERR);
	assert_ptr_equal(mmap(p, 8192, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
	strcpy(p, "after");
	assert_int_equal(xr_regcache_get(cache, p, 8192, READ, &ref), 0);
	assert_int_equal(peer_reads(p, ref.rkey), IBV_WC_SUCCESS);
	assert_string_equal(scratch, "after");
	xr_regcache_put(cache, &ref);
	xr_mem_free(mem);
	munmap(p, 8192);
}

/* Of how many mappings does the kernel make up this memory? */
static unsigned count_mappings(const char *p, size_t len)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2)
			n += from < (uintptr_t)p + len && to > (uintptr_t)p;
	fclose(f);
	return n;
}

static void m27_churn_does_not_split_mappings(void **state)
{
	enum { ROUNDS = 100000, PAGES = 256 };
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct rng rng = {.state = 27};
	struct xr_regcache *cache;
	struct xr_regcache_ref ref;
	struct xr_mem *mem;
	char *p = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	conf.cache_entries = 16;
	mem = open_mem(&conf);
	cache = xr_mem_regcache(mem);
	memset(p, 1, PAGES * 4096); /* in use, as buffers are */
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t first = rng_below(&rng, PAGES);
		size_t n = 1 + rng_below(&rng, (PAGES - first < 8 ? PAGES - first : 8) * 4096);

		assert_int_equal(xr_regcache_get(cache, p + first * 4096, n, READ, &ref), 0);
		xr_regcache_put(cache, &ref);
		if (i % 3 == 0)
			assert_int_equal(xr_regcache_forget(cache, p + first * 4096, n), 0);
	}
	/* fork() protection splits at each end of what is registered: bounded by the cache. */
	assert_in_range(count_mappings(p, PAGES * 4096), 1, 2 * 16 + 1);
	assert_int_equal(xr_regcache_forget(cache, p, PAGES * 4096), 0);
	assert_int_equal(count_mappings(p, PAGES * 4096), 1);
	xr_mem_free(mem);
	munmap(p, PAGES * 4096);
}

static void m29_a_device_with_few_regions(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct ibv_device_attr attr;
	struct xr_regcache_ref ref;
	struct xr_mem_stats stats;
	struct xr_buf buf;
	char *p;

	assert_int_equal(ibv_query_device(device, &attr), 0);
	if (attr.max_mr > 1000) {
		xr_mem_free(mem);
		print_message("the device has many regions: xr_mem_few_regions does it\n");
		skip();
	}
	p = mmap(NULL, 4096 * 1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(
			xr_regcache_get(xr_mem_regcache(mem), p + i * 4096, 4096, READ, &ref), 0);
		xr_regcache_put(xr_mem_regcache(mem), &ref);
	}
	xr_mem_stats(mem, &stats);
	assert_true(stats.mrs <= (unsigned)attr.max_mr && stats.cache.evictions > 0);
	/* The pools get theirs, too: the cache yields. */
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 100, &buf), 0);
	while (xr_mem_alloc(mem, XR_TX, 2 * MIB, &buf) == 0)
		;
	assert_non_null(strstr(xrdma_last_error(), "max_mr"));
	xr_mem_free(mem);
	munmap(p, 4096 * 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k1_rights_are_per_region_and_minimal),
		cmocka_unit_test(k1_pools_grant_what_their_use_needs),
		cmocka_unit_test(k2_one_registration_serves_4096_slots),
		cmocka_unit_test(k2_huge_pages_or_a_reported_fallback),
		cmocka_unit_test(k2_numa_node_is_preferred_where_it_exists),
		cmocka_unit_test(m6_a_starved_pool_leaves_the_other_working),
		cmocka_unit_test(k9_steady_use_hits_and_trim_gives_memory_back),
		cmocka_unit_test(callers_memory_that_is_none_is_refused),
		cmocka_unit_test(forgotten_memory_is_registered_anew),
		cmocka_unit_test(m27_churn_does_not_split_mappings),
		cmocka_unit_test(m29_a_device_with_few_regions),
	};

	ibv_fork_init();
	if (!open_device()) {
		puts("no RDMA device");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
