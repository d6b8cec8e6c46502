/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a context on a device that fails on purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_mem_fake.h"
#include "xrdma/mem.h"
#include "xrdma/xrdma.h"

static void assert_tells(const char *text)
{
	if (!strstr(xrdma_last_error(), text))
		fail_msg("\"%s\" is not in: %s", text, xrdma_last_error());
}

static struct xr_mem *open_mem(const struct xr_mem_conf *conf)
{
	struct xr_mem *mem;

	assert_int_equal(xr_mem_new(conf, fake_reset(), &mem), 0);
	return mem;
}

static void close_mem(struct xr_mem *mem)
{
	xr_mem_free(mem);
	assert_int_equal(fake.mrs, 0);
}

static void k1_a_device_that_does_not_answer(void **state)
{
	struct ibv_pd *pd = fake_reset();
	struct xr_mem *mem = NULL;

	fake.query_error = EIO;
	assert_int_equal(xr_mem_new(&xr_mem_conf_default, pd, &mem), -EIO);
	assert_null(mem);
	assert_tells("does not tell its limits");
}

static void k1_region_larger_than_the_device_allows(void **state)
{
	struct ibv_pd *pd = fake_reset();
	struct xr_region_mem region;
	struct xr_mem *mem;
	struct xr_buf buf;

	fake.max_mr_bytes = 1 << 20;
	assert_int_equal(xr_mem_new(&xr_mem_conf_default, pd, &mem), 0);
	assert_int_equal(xr_mem_region_new(mem, 2 << 20, IBV_ACCESS_REMOTE_READ, -1, &region),
			 -E2BIG);
	assert_tells("the device allows 1 MiB (max_mr_size)");
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 100, &buf), -E2BIG); /* slabs are, too */
	assert_int_equal(xr_mem_region_new(mem, 0, IBV_ACCESS_REMOTE_READ, -1, &region), -EINVAL);
	assert_int_equal(fake.regs, 0);
	close_mem(mem);
}

static void k1_regions_that_peers_write_need_local_write(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_region_mem region;

	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_WRITE, -1, &region),
			 -EINVAL);
	assert_tells("must be locally writable");
	close_mem(mem);
}

static void m31_memlock_is_named(void **state)
{
	struct rlimit old, low = {.rlim_cur = 65536};
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_buf buf;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	fake.regs_to_go = 0;
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 100, &buf), -ENOMEM);
	assert_tells("4 MiB could not be locked for a memory region: RLIMIT_MEMLOCK is 64 KiB");
	assert_tells("0 bytes are locked already");
	assert_tells("ulimit -l unlimited");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
	close_mem(mem);
}

static void k1_region_larger_than_memory(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) - (64 << 20);
	struct xr_region_mem region;

	/* A real device would pin it, and somebody would be killed for it. */
	assert_int_equal(xr_mem_region_new(mem, bytes, IBV_ACCESS_REMOTE_READ, -1, &region),
			 -ENOMEM);
	assert_tells("are available (MemAvailable)");
	assert_int_equal(fake.regs, 0);
	close_mem(mem);
}

static void k1_more_regions_than_the_device_allows(void **state)
{
	struct ibv_pd *pd = fake_reset();
	struct xr_region_mem region;
	struct xr_mem *mem;
	struct xr_buf a, b;

	fake.max_mr = 1;
	assert_int_equal(xr_mem_new(&xr_mem_conf_default, pd, &mem), 0);
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 100, &a), 0);
	assert_int_equal(xr_mem_alloc(mem, XR_RX, 100, &b), -ENOMEM);
	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_READ, -1, &region),
			 -ENOMEM);
	assert_tells("the device allows 1 (max_mr) and this context has 1");
	xr_mem_release(mem, &a);
	assert_int_equal(
		xr_mem_region_new(mem, (size_t)1 << 60, IBV_ACCESS_REMOTE_READ, -1, &region),
		-ENOMEM);
	assert_tells("could not be mapped");
	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_READ, -1, &region), 0);
	xr_mem_region_free(mem, &region);
	close_mem(mem);
}

static void trimming_can_be_changed(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_buf buf;

	for (enum xr_mem_use use = XR_TX; use <= XR_RX; use++) {
		assert_int_equal(xr_mem_alloc(mem, use, 4 << 20, &buf), 0);
		assert_int_equal(xr_mem_alloc(mem, use, 20 << 20, &buf), 0);
		xr_mem_release(mem, &buf);
	}
	xr_mem_set_trim(mem, 5);
	assert_int_equal(xr_mem_trim(mem, 10), 0);
	assert_int_equal(xr_mem_trim(mem, 14), 0);
	assert_int_equal(xr_mem_trim(mem, 15), 40 << 20);
	close_mem(mem);
}

static void m29_unused_registrations_yield_to_new_ones(void **state)
{
	struct xr_mem *mem = open_mem(&xr_mem_conf_default);
	struct xr_regcache_ref ref;
	struct xr_region_mem region;
	struct xr_buf tx, rx;

	/* 3 registrations, all unused, then a device that is out of them. */
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 100, &tx), 0);
	assert_int_equal(xr_mem_alloc(mem, XR_RX, 3 << 20, &rx), 0);
	assert_int_equal(
		xr_regcache_get(xr_mem_regcache(mem), &ref, 8, IBV_ACCESS_REMOTE_READ, &ref), 0);
	xr_mem_release(mem, &tx);
	xr_mem_release(mem, &rx);
	xr_regcache_put(xr_mem_regcache(mem), &ref);
	fake.regs_to_go = 0;
	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_READ, -1, &region),
			 -ENOMEM);
	assert_int_equal(fake.mrs, 0);
	assert_tells("this context has 0 memory regions");
	close_mem(mem);
}

static void k10_on_demand_paging_only_where_offered(void **state)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct xr_regcache_ref ref;
	struct xr_region_mem region;
	struct ibv_pd *pd = fake_reset();
	struct xr_mem *mem = NULL;
	struct xr_buf buf;

	conf.odp = XR_ODP_REQUIRE;
	assert_int_equal(xr_mem_new(&conf, pd, &mem), -EOPNOTSUPP);
	assert_tells("does not offer on-demand paging");
	assert_null(mem);

	conf.odp = XR_ODP_TRY;
	mem = open_mem(&conf);
	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_READ, -1, &region), 0);
	assert_int_equal(fake.last_access, IBV_ACCESS_REMOTE_READ); /* pinned instead */
	xr_mem_region_free(mem, &region);
	close_mem(mem);

	pd = fake_reset();
	conf.odp = XR_ODP_REQUIRE;
	fake.odp_caps = IBV_ODP_SUPPORT_SEND; /* too little for us */
	assert_int_equal(xr_mem_new(&conf, pd, &mem), -EOPNOTSUPP);
	fake.odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			IBV_ODP_SUPPORT_READ;
	assert_int_equal(xr_mem_new(&conf, pd, &mem), 0);
	assert_int_equal(xr_mem_region_new(mem, 4096, IBV_ACCESS_REMOTE_READ, -1, &region), 0);
	assert_int_equal(fake.last_access, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	assert_int_equal(
		xr_regcache_get(xr_mem_regcache(mem), &ref, 8, IBV_ACCESS_REMOTE_READ, &ref), 0);
	assert_int_equal(fake.last_access, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	xr_regcache_put(xr_mem_regcache(mem), &ref);
	/* Pools are on the critical path. */
	assert_int_equal(xr_mem_alloc(mem, XR_RX, 100, &buf), 0);
	assert_int_equal(fake.last_access, IBV_ACCESS_LOCAL_WRITE);
	xr_mem_region_free(mem, &region);
	close_mem(mem);
}

static void slabs_too_small_are_refused(void **state)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct xr_mem *mem = NULL;

	conf.slab_bytes = 65536;
	assert_int_equal(xr_mem_new(&conf, fake_reset(), &mem), -EINVAL);
	assert_null(mem);
	xr_mem_free(NULL);
}

/* Use everything once; 0 or what failed first, having undone the rest. */
static int use_everything(struct ibv_pd *pd, bool guard)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct xr_regcache_ref ref;
	struct xr_region_mem region;
	struct xr_buf small, span, large;
	struct xr_mem *mem;
	int ret;

	conf.guard = guard;
	ret = xr_mem_new(&conf, pd, &mem);
	if (ret)
		return ret;
	ret = xr_mem_alloc(mem, XR_TX, 100, &small);
	if (!ret)
		ret = xr_mem_alloc(mem, XR_RX, 2 << 20, &span);
	if (!ret)
		ret = xr_mem_alloc(mem, XR_RX, 9 << 20, &large);
	if (!ret)
		ret = xr_regcache_get(xr_mem_regcache(mem), &conf, sizeof(conf),
				      IBV_ACCESS_REMOTE_READ, &ref);
	if (!ret)
		ret = xr_mem_region_new(mem, 1 << 20, IBV_ACCESS_REMOTE_READ, -1, &region);
	if (!ret)
		xr_mem_region_free(mem, &region);
	xr_mem_free(mem);
	return ret;
}

static void every_nth_failure_is_clean(void **state)
{
	for (int guard = 0; guard < 2; guard++) {
		struct ibv_pd *pd;
		uint32_t n = 0;
		int ret;

		do {
			pd = fake_reset();
			fake.regs_to_go = n++;
			ret = use_everything(pd, guard);
			assert_true(ret == 0 || ret == -ENOMEM);
			assert_int_equal(fake.mrs, 0);
		} while (ret);
		assert_int_equal(n, 6); /* 5 registrations */
		n = 0;
		do {
			pd = fake_reset();
			fake.allocs_to_go = n++;
			ret = use_everything(pd, guard);
			assert_true(ret == 0 || ret == -ENOMEM);
			assert_int_equal(fake.mrs, 0);
		} while (ret);
		assert_int_equal(n, 6); /* context, cache, three buffers */
	}
}

/* What a child that runs f on a guarded buffer of 100 bytes dies of. */
static int signal_of(void (*f)(struct xr_mem *mem, struct xr_buf *buf))
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct xr_mem *mem;
		struct xr_buf buf;

		signal(SIGSEGV, SIG_DFL);
		signal(SIGABRT, SIG_DFL);
		conf.guard = true;
		if (xr_mem_new(&conf, fake_reset(), &mem) || xr_mem_alloc(mem, XR_TX, 100, &buf))
			_exit(1);
		f(mem, &buf);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void inside(struct xr_mem *mem, struct xr_buf *buf)
{
	memset(buf->addr, 1, 100);
	xr_mem_release(mem, buf);
	xr_mem_free(mem);
}

static void overrun(struct xr_mem *mem, struct xr_buf *buf)
{
	((volatile char *)buf->addr)[104] = 1;
}

static void overrun_within_alignment(struct xr_mem *mem, struct xr_buf *buf)
{
	((volatile char *)buf->addr)[100] = 1;
	xr_mem_release(mem, buf);
}

static void underrun(struct xr_mem *mem, struct xr_buf *buf)
{
	((volatile char *)buf->addr)[-1] = 1;
	xr_mem_release(mem, buf);
}

static void underrun_far(struct xr_mem *mem, struct xr_buf *buf)
{
	((volatile char *)buf->addr)[-4096] = 1;
}

static void use_after_release(struct xr_mem *mem, struct xr_buf *buf)
{
	xr_mem_release(mem, buf);
	((volatile char *)buf->addr)[0] = 1;
}

static void m6_guard_zones_find_writes_out_of_bounds(void **state)
{
	assert_int_equal(signal_of(inside), 0);
	assert_int_equal(signal_of(overrun), SIGSEGV);
	assert_int_equal(signal_of(underrun_far), SIGSEGV);
	assert_int_equal(signal_of(use_after_release), SIGSEGV);
	assert_int_equal(signal_of(overrun_within_alignment), SIGABRT);
	assert_int_equal(signal_of(underrun), SIGABRT);
}

static void m6_guarded_buffers_keep_the_budget(void **state)
{
	struct xr_mem_conf conf = xr_mem_conf_default;
	struct xr_mem_stats stats;
	struct xr_buf a, b;
	struct xr_mem *mem;

	conf.guard = true;
	conf.budget_bytes[XR_TX] = 5000;
	conf.budget_bytes[XR_RX] = UINT64_MAX;
	mem = open_mem(&conf);
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 4000, &a), 0);
	/* To the NIC it is exactly its bytes, too. */
	assert_ptr_equal(fake.last_addr, a.addr);
	assert_int_equal(fake.last_len, 4000);
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 4000, &b), -ENOBUFS);
	xr_mem_release(mem, &a);
	assert_int_equal(xr_mem_alloc(mem, XR_TX, 0, &b), 0);
	assert_int_equal(xr_mem_alloc(mem, XR_RX, SIZE_MAX - 1, &a), -ENOMEM);
	assert_int_equal(xr_mem_alloc(mem, XR_RX, (size_t)1 << 60, &a), -ENOMEM);
	assert_tells("could not be mapped");
	xr_mem_stats(mem, &stats);
	assert_int_equal(stats.pool[XR_TX].refused, 1);
	assert_int_equal(stats.pool[XR_RX].refused, 0);
	assert_int_equal(stats.pool[XR_TX].used_bytes, 1);
	assert_int_equal(stats.mr_bytes, 1);
	close_mem(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k1_a_device_that_does_not_answer),
		cmocka_unit_test(k1_region_larger_than_the_device_allows),
		cmocka_unit_test(k1_regions_that_peers_write_need_local_write),
		cmocka_unit_test(m31_memlock_is_named),
		cmocka_unit_test(k1_region_larger_than_memory),
		cmocka_unit_test(k1_more_regions_than_the_device_allows),
		cmocka_unit_test(trimming_can_be_changed),
		cmocka_unit_test(m29_unused_registrations_yield_to_new_ones),
		cmocka_unit_test(k10_on_demand_paging_only_where_offered),
		cmocka_unit_test(slabs_too_small_are_refused),
		cmocka_unit_test(every_nth_failure_is_clean),
		cmocka_unit_test(m6_guard_zones_find_writes_out_of_bounds),
		cmocka_unit_test(m6_guarded_buffers_keep_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
