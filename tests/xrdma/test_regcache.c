/* SPDX-License-Identifier: BSD-2-Clause */
/* K9: registrations of callers' own buffers, kept. On a device that only registers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "test_mem_fake.h"
#include "xrdma/regcache.h"
#include "xrdma/xrdma.h"

enum { PAGE = 4096, LOCAL = IBV_ACCESS_LOCAL_WRITE, PEER = IBV_ACCESS_REMOTE_READ };

static struct xr_reg reg;
static struct xr_regcache *cache;
static char *const base = (char *)0x10000000; /* nobody touches it: the device is not real */

static void start(uint32_t max_entries, uint64_t max_bytes)
{
	assert_int_equal(xr_reg_init(&reg, fake_reset(), XR_ODP_OFF), 0);
	assert_int_equal(xr_regcache_new(&reg, max_entries, max_bytes, &cache), 0);
}

static void stop(void)
{
	xr_regcache_free(cache);
	assert_int_equal(fake.mrs, 0);
	assert_int_equal(reg.mrs, 0);
	assert_int_equal(reg.bytes, 0);
}

static struct xr_regcache_stats stats(void)
{
	struct xr_regcache_stats s;

	xr_regcache_stats(cache, &s);
	return s;
}

static struct xr_regcache_ref get(const char *addr, size_t len, unsigned access)
{
	struct xr_regcache_ref ref;

	assert_int_equal(xr_regcache_get(cache, addr, len, access, &ref), 0);
	return ref;
}

static void put(struct xr_regcache_ref ref)
{
	xr_regcache_put(cache, &ref);
}

/* Get and put. */
static uint32_t touch(const char *addr, size_t len, unsigned access)
{
	struct xr_regcache_ref ref = get(addr, len, access);

	put(ref);
	return ref.rkey;
}

static void k9_the_second_time_is_a_look_up(void **state)
{
	struct xr_regcache_ref a, b;

	start(8, 1 << 30);
	a = get(base, 3 * PAGE, PEER);
	b = get(base + PAGE, 2 * PAGE, PEER); /* at the same time, a part of it */
	assert_int_equal(a.rkey, b.rkey);
	put(a);
	put(b);
	assert_int_equal(touch(base, 3 * PAGE, PEER), a.rkey);
	assert_int_equal(fake.regs, 1);
	assert_int_equal(stats().hits, 2);
	assert_int_equal(stats().misses, 1);
	stop();
}

static void k1_each_get_has_exactly_its_rights(void **state)
{
	start(8, 1 << 30);
	touch(base, PAGE, PEER | IBV_ACCESS_REMOTE_WRITE | LOCAL);
	assert_int_equal(fake.last_access, PEER | IBV_ACCESS_REMOTE_WRITE | LOCAL);
	/* A key that also allows to write would do, and is not given out. */
	touch(base, PAGE, PEER);
	assert_int_equal(fake.last_access, PEER);
	touch(base, PAGE, LOCAL);
	assert_int_equal(fake.last_access, LOCAL);
	assert_int_equal(fake.mrs, 3);
	stop();
}

static void k1_peers_get_bytes_and_we_get_pages(void **state)
{
	struct xr_regcache_ref ref;

	start(8, 1 << 30);
	touch(base + 10, 20, PEER);
	assert_ptr_equal(fake.last_addr, base + 10);
	assert_int_equal(fake.last_len, 20);
	touch(base + 10, 20, LOCAL);
	assert_ptr_equal(fake.last_addr, base);
	assert_int_equal(fake.last_len, PAGE);
	touch(base + 4000, 200, LOCAL);
	assert_ptr_equal(fake.last_addr, base);
	assert_int_equal(fake.last_len, 2 * PAGE);
	assert_int_equal(touch(base + 5000, 100, LOCAL), touch(base, 1, LOCAL));

	assert_int_equal(xr_regcache_get(cache, base, 0, LOCAL, &ref), -EINVAL);
	assert_int_equal(xr_regcache_get(cache, base, SIZE_MAX, LOCAL, &ref), -EINVAL);
	assert_int_equal(xr_regcache_get(cache, (void *)-PAGE, PAGE, LOCAL, &ref), -EINVAL);
	assert_int_equal(xr_regcache_get(cache, base, 1, IBV_ACCESS_REMOTE_WRITE, &ref), -EINVAL);
	stop();
}

static void a_part_covered_is_not_covered(void **state)
{
	uint32_t a, b;

	start(8, 1 << 30);
	a = touch(base, 2 * PAGE, PEER);
	b = touch(base + PAGE, 2 * PAGE, PEER); /* overlaps the end */
	assert_int_not_equal(a, b);
	assert_int_equal(touch(base, 2 * PAGE, PEER), a);
	assert_int_equal(touch(base + 2 * PAGE, PAGE, PEER), b);
	/* The union is in neither; it takes the place of both. */
	assert_int_not_equal(touch(base, 3 * PAGE, PEER), a);
	assert_int_equal(stats().entries, 1);
	/* From the same start, further. */
	touch(base, 4 * PAGE, PEER);
	assert_int_equal(stats().entries, 1);
	assert_int_equal(stats().bytes, 4 * PAGE);
	assert_int_equal(fake.regs, 4);
	stop();
}

static void one_in_use_survives_what_takes_its_place(void **state)
{
	struct xr_regcache_ref part;

	start(8, 1 << 30);
	part = get(base + PAGE, PAGE, PEER);
	touch(base, 3 * PAGE, PEER);
	assert_int_equal(stats().entries, 2);
	assert_int_not_equal(touch(base + PAGE, PAGE, PEER), part.rkey);
	assert_int_equal(xr_regcache_forget(cache, base + PAGE, 1), -EBUSY);
	put(part); /* dies with its last user */
	assert_int_equal(stats().entries, 1);
	assert_int_equal(fake.mrs, 1);
	stop();
}

static void m29_least_recently_used_go_first(void **state)
{
	struct xr_regcache_ref ref, busy[4];

	start(4, 1 << 30);
	for (int i = 0; i < 4; i++)
		touch(base + i * PAGE, PAGE, PEER);
	touch(base, PAGE, PEER);
	touch(base + 9 * PAGE, PAGE, PEER); /* the place of page 1 */
	assert_int_equal(stats().evictions, 1);
	touch(base, PAGE, PEER);
	assert_int_equal(fake.regs, 5);
	for (int i = 0; i < 4; i++)
		busy[i] = get(base + (20 + i) * PAGE, PAGE, PEER);
	assert_int_equal(stats().in_use, 4);
	assert_int_equal(xr_regcache_get(cache, base, PAGE, PEER, &ref), -ENOBUFS);
	assert_non_null(strstr(xrdma_last_error(), "4 of 4 entries"));
	assert_false(xr_regcache_evict(cache));
	put(busy[2]);
	touch(base, PAGE, PEER);
	assert_int_equal(fake.mrs, 4);
	stop();
}

static void bytes_are_bounded_too(void **state)
{
	struct xr_regcache_ref ref;

	start(100, 10 * PAGE);
	for (int i = 0; i < 10; i++)
		touch(base + i * PAGE, PAGE, PEER);
	touch(base + 100 * PAGE, 5 * PAGE, PEER);
	assert_int_equal(stats().bytes, 10 * PAGE);
	assert_int_equal(stats().entries, 6);
	assert_int_equal(xr_regcache_get(cache, base, 11 * PAGE, PEER, &ref), -ENOBUFS);
	assert_int_equal(stats().entries, 6); /* not emptied in vain */
	ref = get(base + 100 * PAGE, PAGE, PEER);
	assert_int_equal(xr_regcache_get(cache, base, 6 * PAGE, PEER, &(struct xr_regcache_ref){0}),
			 -ENOBUFS);
	stop();
}

static bool evict(void *arg)
{
	return xr_regcache_evict(cache);
}

static void m29_the_device_has_fewer_than_the_cache(void **state)
{
	struct xr_regcache_ref refs[64], ref;

	start(1000, 1 << 30);
	reg.limits.max_mr = 64;
	reg.reclaim = evict;
	for (int i = 0; i < 200; i++)
		touch(base + i * PAGE, PAGE, PEER);
	assert_int_equal(fake.mrs, 64);
	for (int i = 0; i < 64; i++)
		refs[i] = get(base + i * PAGE, PAGE, PEER);
	assert_int_equal(xr_regcache_get(cache, base + 64 * PAGE, PAGE, PEER, &ref), -ENOMEM);
	assert_non_null(strstr(xrdma_last_error(), "allows 64 (max_mr)"));
	put(refs[0]);
	touch(base + 64 * PAGE, PAGE, PEER);
	stop();
}

static void forget_drops_what_shares_a_page(void **state)
{
	struct xr_regcache_ref ref;

	start(8, 1 << 30);
	touch(base + 100, 100, PEER);
	touch(base + PAGE, PAGE, PEER);
	touch(base + 2 * PAGE, PAGE, PEER);
	assert_int_equal(xr_regcache_forget(cache, base, 0), 0);
	assert_int_equal(stats().entries, 3);
	assert_int_equal(xr_regcache_forget(cache, base + 4000, 97), 0); /* the first two */
	assert_int_equal(stats().entries, 1);
	ref = get(base + 2 * PAGE, PAGE, PEER);
	touch(base + 3 * PAGE, PAGE, PEER);
	assert_int_equal(xr_regcache_forget(cache, base, 4 * PAGE), -EBUSY);
	assert_int_equal(stats().entries, 2);
	/* Neither of its neighbours is it. */
	assert_int_equal(xr_regcache_forget(cache, base, 2 * PAGE), 0);
	assert_int_equal(xr_regcache_forget(cache, base + 3 * PAGE, PAGE), 0);
	assert_int_equal(stats().entries, 1);
	put(ref);
	assert_int_equal(xr_regcache_forget(cache, base, 4 * PAGE), 0);
	assert_int_equal(fake.mrs, 0);
	stop();
}

/* The model: a get must find a live registration of the right rights over all its bytes, and must
 * not register when one that is known covers them. */
static void random_use_against_a_model(void **state)
{
	enum { N = 16, ROUNDS = 30000, PAGES = 24 };
	static struct xr_regcache_ref refs[N];
	bool held[N] = {false};
	struct rng rng = {.state = 7};

	start(N + 4, 1 << 30);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned i = rng_below(&rng, N), first = rng_below(&rng, PAGES);
		size_t len = (1 + rng_below(&rng, 6)) * PAGE;
		unsigned access = rng_below(&rng, 2) ? PEER : LOCAL;
		uint32_t regs = fake.regs;

		if (held[i]) {
			put(refs[i]);
			held[i] = false;
			continue;
		}
		refs[i] = get(base + first * PAGE, len, access);
		held[i] = true;
		if (fake.regs != regs) {
			assert_ptr_equal(fake.last_addr, base + first * PAGE);
			assert_int_equal(fake.last_len, len);
			assert_int_equal(fake.last_access, access);
		}
		regs = fake.regs; /* all parts of it are known now */
		put(get(base + first * PAGE + len - PAGE, PAGE, access));
		assert_int_equal(fake.regs, regs);
		assert_int_equal(stats().entries, fake.mrs);
		assert_int_equal(stats().bytes, fake.bytes);
	}
	for (unsigned i = 0; i < N; i++)
		if (held[i])
			put(refs[i]);
	assert_int_equal(stats().in_use, 0);
	assert_int_equal(xr_regcache_forget(cache, base, 64 * PAGE), 0);
	assert_int_equal(fake.mrs, 0);
	stop();
}

static void failures_leave_nothing(void **state)
{
	struct xr_regcache *none = NULL;
	struct xr_regcache_ref ref;

	start(8, 1 << 30);
	fake.allocs_to_go = 0;
	assert_int_equal(xr_regcache_new(&reg, 8, 1, &none), -ENOMEM);
	assert_null(none);
	fake.regs_to_go = 0;
	fake.reg_error = EFAULT;
	assert_int_equal(xr_regcache_get(cache, base, PAGE, PEER, &ref), -EFAULT);
	assert_non_null(strstr(xrdma_last_error(), "not all of it is mapped"));
	fake.reg_error = ENOMEM; /* with ibv_fork_init() */
	assert_int_equal(xr_regcache_get(cache, base, PAGE, PEER, &ref), -EFAULT);
	fake.reg_error = 0; /* a provider that does not say why */
	assert_int_equal(xr_regcache_get(cache, base, PAGE, PEER, &ref), -EIO);
	assert_int_equal(stats().entries, 0);
	xr_regcache_free(NULL);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k9_the_second_time_is_a_look_up),
		cmocka_unit_test(k1_each_get_has_exactly_its_rights),
		cmocka_unit_test(k1_peers_get_bytes_and_we_get_pages),
		cmocka_unit_test(a_part_covered_is_not_covered),
		cmocka_unit_test(one_in_use_survives_what_takes_its_place),
		cmocka_unit_test(m29_least_recently_used_go_first),
		cmocka_unit_test(bytes_are_bounded_too),
		cmocka_unit_test(m29_the_device_has_fewer_than_the_cache),
		cmocka_unit_test(forget_drops_what_shares_a_page),
		cmocka_unit_test(random_use_against_a_model),
		cmocka_unit_test(failures_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
