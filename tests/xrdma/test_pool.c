/* SPDX-License-Identifier: BSD-2-Clause */
/* One pool on a device that only registers: sizes, budget, reuse, giving back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "test_mem_fake.h"
#include "xrdma/pool.h"
#include "xrdma/xrdma.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct xr_mem_source source;
static struct xr_pool pool;

static const struct xr_pool_conf usual = {
	.name = "tx",
	.access = IBV_ACCESS_REMOTE_READ,
	.budget_bytes = 64 << 20,
	.slab_bytes = 4 << 20,
	.small_bytes = 4096,
	.headroom_bytes = 64,
	.trim_ns = 100,
};

static void start(const struct xr_pool_conf *conf)
{
	struct ibv_pd *pd = fake_reset();

	memset(&source, 0, sizeof(source));
	source.huge = XR_HUGE_AUTO;
	source.numa_node = -1;
	assert_int_equal(xr_reg_init(&source.reg, pd, XR_ODP_OFF), 0);
	assert_int_equal(xr_pool_init(&pool, &source, conf), 0);
}

static void stop(void)
{
	xr_pool_fini(&pool);
	assert_int_equal(fake.mrs, 0);
	assert_int_equal(source.reg.mrs, 0);
	assert_int_equal(source.reg.bytes, 0);
	assert_int_equal(source.huge_bytes, 0);
	assert_int_equal(pool.stats.registered_bytes, 0);
}

static struct xr_buf alloc(size_t len)
{
	struct xr_buf buf;

	assert_int_equal(xr_pool_alloc(&pool, len, &buf), 0);
	assert_true(buf.capacity >= len);
	assert_int_equal((uintptr_t)buf.addr % 64, 0);
	return buf;
}

static void k9_every_size_has_its_tier(void **state)
{
	static const struct {
		size_t len;
		size_t capacity;
		unsigned tier;
	} rows[] = {
		{0, 4160, 0},
		{1, 4160, 0},
		{4096, 4160, 0},
		{4160, 4160, 0}, /* a header in front of 4 KiB */
		{4161, 8192, 0},
		{8192, 8192, 0},
		{8193, 16384, 0},
		{MIB - 1, MIB, 0},
		{MIB, MIB, 0},
		{MIB + 1, 2 * MIB, 1},
		{2 * MIB, 2 * MIB, 1},
		{2 * MIB + 1, 4 * MIB, 1},
		{5 * MIB, 6 * MIB, 1},
		{8 * MIB, 8 * MIB, 1},
		{8 * MIB + 1, 10 * MIB, 2},
	};

	start(&usual);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t before =
			pool.stats.tier[rows[i].tier].hits + pool.stats.tier[rows[i].tier].misses;
		struct xr_buf buf = alloc(rows[i].len);

		assert_int_equal(buf.capacity, rows[i].capacity);
		assert_int_equal(pool.stats.tier[rows[i].tier].hits +
					 pool.stats.tier[rows[i].tier].misses,
				 before + 1);
		memset(buf.addr, 1, buf.capacity);
		xr_pool_release(&pool, &buf);
	}
	assert_int_equal(fake.last_access, IBV_ACCESS_REMOTE_READ);
	stop();
}

static void headroom_follows_small_bytes(void **state)
{
	struct xr_pool_conf conf = usual;

	conf.small_bytes = 16384;
	conf.headroom_bytes = 32;
	start(&conf);
	assert_int_equal(alloc(16384 + 32).capacity, 16384 + 64);
	assert_int_equal(alloc(32768).capacity, 32768);
	stop();
	conf.small_bytes = 1 << 20;
	conf.slab_bytes = 1 << 20;
	assert_int_equal(xr_pool_init(&pool, &source, &conf), -EINVAL);
	assert_non_null(strstr(xrdma_last_error(), "slab_bytes is 1048576"));
}

static void m6_slabs_are_4_mib_and_shared_by_classes_when_empty(void **state)
{
	struct xr_buf bufs[4];

	start(&usual);
	for (int i = 0; i < 4; i++)
		bufs[i] = alloc(MIB);
	assert_int_equal(fake.regs, 1);
	assert_int_equal(fake.last_len, 4 * MIB);
	for (int i = 0; i < 4; i++)
		xr_pool_release(&pool, &bufs[i]);
	/* Cut anew, not registered anew. */
	for (int i = 0; i < 1008; i++)
		alloc(4096);
	assert_int_equal(fake.regs, 1);
	alloc(4096);
	assert_int_equal(fake.regs, 2);
	assert_int_equal(pool.stats.tier[0].misses, 2);
	assert_int_equal(pool.stats.tier[0].hits, 3 + 1008);
	stop(); /* with all of them in use */
}

static void the_last_released_is_the_next(void **state)
{
	struct xr_buf a, b, c;

	start(&usual);
	a = alloc(100);
	b = alloc(100);
	xr_pool_release(&pool, &a);
	c = alloc(100);
	assert_ptr_equal(c.addr, a.addr);
	assert_int_equal(c.lkey, b.lkey);
	stop();
}

static void budget_is_kept_and_a_larger_object_helps_out(void **state)
{
	struct xr_pool_conf conf = usual;
	struct xr_buf big, buf;

	conf.budget_bytes = 4 << 20;
	start(&conf);
	big = alloc(MIB);
	buf = alloc(4096); /* no second slab: takes an object of 1 MiB */
	assert_int_equal(buf.capacity, MIB);
	alloc(4096);
	alloc(4096);
	assert_int_equal(xr_pool_alloc(&pool, 4096, &buf), -ENOBUFS);
	assert_non_null(strstr(xrdma_last_error(), "tx_budget_bytes allows 4194304"));
	assert_int_equal(xr_pool_alloc(&pool, MIB, &buf), -ENOBUFS);
	assert_int_equal(xr_pool_alloc(&pool, 2 * MIB, &buf), -ENOBUFS);
	assert_int_equal(xr_pool_alloc(&pool, 5 * MIB, &buf), -ENOBUFS);
	assert_int_equal(xr_pool_alloc(&pool, SIZE_MAX, &buf), -ENOMEM);
	assert_int_equal(pool.stats.refused, 4);
	xr_pool_release(&pool, &big);
	alloc(4096);
	assert_int_equal(pool.stats.registered_bytes, 4 << 20);
	assert_int_equal(pool.stats.used_bytes, 4 * MIB);
	stop();
}

static void unused_memory_makes_room_in_the_budget(void **state)
{
	struct xr_pool_conf conf = usual;
	struct xr_buf a, b, c;

	conf.budget_bytes = 12 << 20;
	start(&conf);
	a = alloc(4096);
	b = alloc(2 * MIB);
	c = alloc(4 * MIB);
	xr_pool_release(&pool, &a);
	xr_pool_release(&pool, &b);
	xr_pool_release(&pool, &c);
	assert_int_equal(pool.stats.registered_bytes, 10 * MIB);
	a = alloc(8 * MIB); /* the largest goes: 4 MiB, then 2 MiB; the slab may stay */
	assert_int_equal(pool.stats.registered_bytes, 12 * MIB);
	xr_pool_release(&pool, &a);
	a = alloc(12 * MIB); /* all go */
	assert_int_equal(fake.mrs, 1);
	assert_false(xr_pool_shed(&pool));
	stop();
}

static void k9_spans_are_kept_with_their_registration(void **state)
{
	struct xr_buf a, b;

	start(&usual);
	a = alloc(3 * MIB);
	xr_pool_release(&pool, &a);
	b = alloc(4 * MIB);
	assert_ptr_equal(a.addr, b.addr);
	assert_int_equal(pool.stats.tier[1].misses, 1);
	assert_int_equal(pool.stats.tier[1].hits, 1);

	a = alloc(20 * MIB);
	xr_pool_release(&pool, &a);
	b = alloc(11 * MIB);
	assert_ptr_equal(a.addr, b.addr);
	xr_pool_release(&pool, &b);
	b = alloc(10 * MIB); /* would waste half of it */
	assert_ptr_not_equal(a.addr, b.addr);
	alloc(22 * MIB); /* does not fit */
	assert_int_equal(pool.stats.tier[2].misses, 3);
	assert_int_equal(pool.stats.tier[2].hits, 1);
	stop();
}

static void k9_trim_gives_back_what_was_idle(void **state)
{
	struct xr_pool_conf conf = usual;
	struct xr_buf a, b, c;

	conf.keep_bytes = 4 << 20;
	start(&conf);
	a = alloc(4096);
	b = alloc(2 * MIB);
	c = alloc(20 * MIB);
	assert_int_equal(xr_pool_trim(&pool, 1000), 0); /* all in use */
	xr_pool_release(&pool, &c);
	xr_pool_release(&pool, &b);
	assert_int_equal(xr_pool_trim(&pool, 2000), 0); /* seen idle */
	assert_int_equal(xr_pool_trim(&pool, 2099), 0); /* not long enough */
	b = alloc(2 * MIB);
	xr_pool_release(&pool, &b); /* was in use in between */
	assert_int_equal(xr_pool_trim(&pool, 2100), 20 * MIB);
	assert_int_equal(xr_pool_trim(&pool, 2199), 0);
	assert_int_equal(xr_pool_trim(&pool, 2200), 2 * MIB);
	xr_pool_release(&pool, &a);
	xr_pool_trim(&pool, 3000);
	assert_int_equal(xr_pool_trim(&pool, 9000), 0); /* the slab is kept */
	assert_int_equal(pool.stats.registered_bytes, 4 * MIB);
	assert_int_equal(pool.stats.trimmed_bytes, 22 * MIB);
	assert_int_equal(fake.mrs, 1);
	stop();
}

static void registration_failure_leaves_nothing(void **state)
{
	struct xr_buf buf;

	start(&usual);
	fake.regs_to_go = 0;
	assert_int_equal(xr_pool_alloc(&pool, 100, &buf), -ENOMEM);
	assert_int_equal(xr_pool_alloc(&pool, 2 * MIB, &buf), -ENOMEM);
	fake.regs_to_go = 1;
	fake.allocs_to_go = 0;
	assert_int_equal(xr_pool_alloc(&pool, 100, &buf), -ENOMEM);
	assert_int_equal(pool.stats.refused, 0);
	assert_int_equal(pool.stats.registered_bytes, 0);
	stop();
}

/* Whatever the order, no two buffers share a byte, and all comes back. */
static void random_use_against_a_model(void **state)
{
	enum { N = 300, ROUNDS = 20000 };
	static struct xr_buf bufs[N];
	static uint32_t marks[N];
	struct rng rng = {.state = 42};
	struct xr_pool_conf conf = usual;
	uint64_t used = 0;

	conf.trim_ns = 10;
	start(&conf);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		unsigned i = (unsigned)(rng_next(&rng) % N);
		size_t len = (size_t)1 << rng_next(&rng) % 24;

		len += rng_next(&rng) % len;
		if (marks[i]) {
			uint32_t *ends = bufs[i].addr;

			assert_int_equal(ends[0], marks[i]);
			assert_int_equal(ends[bufs[i].capacity / 4 - 1], marks[i]);
			xr_pool_release(&pool, &bufs[i]);
			used -= bufs[i].capacity;
			marks[i] = 0;
		} else if (xr_pool_alloc(&pool, len, &bufs[i]) == 0) {
			uint32_t *ends = bufs[i].addr;

			marks[i] = round;
			ends[0] = round;
			ends[bufs[i].capacity / 4 - 1] = round;
			used += bufs[i].capacity;
		}
		if (round % 8 == 0)
			xr_pool_trim(&pool, round);
		assert_int_equal(pool.stats.used_bytes, used);
		assert_int_equal(pool.stats.registered_bytes, fake.bytes);
		assert_true(fake.bytes <= usual.budget_bytes);
	}
	assert_true(pool.stats.refused > 0 && pool.stats.trimmed_bytes > 0);
	for (unsigned i = 0; i < N; i++)
		if (marks[i])
			xr_pool_release(&pool, &bufs[i]);
	xr_pool_trim(&pool, 1 << 20);
	xr_pool_trim(&pool, 2 << 20);
	assert_int_equal(fake.mrs, 0);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k9_every_size_has_its_tier),
		cmocka_unit_test(headroom_follows_small_bytes),
		cmocka_unit_test(m6_slabs_are_4_mib_and_shared_by_classes_when_empty),
		cmocka_unit_test(the_last_released_is_the_next),
		cmocka_unit_test(budget_is_kept_and_a_larger_object_helps_out),
		cmocka_unit_test(unused_memory_makes_room_in_the_budget),
		cmocka_unit_test(k9_spans_are_kept_with_their_registration),
		cmocka_unit_test(k9_trim_gives_back_what_was_idle),
		cmocka_unit_test(registration_failure_leaves_nothing),
		cmocka_unit_test(random_use_against_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
