/* SPDX-License-Identifier: BSD-2-Clause */
/* K1, M31: what a failed registration tells a person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "xrdma/mem_limits.h"
#include "xrdma/xrdma.h"

static const struct xr_limits roomy = {
	.max_mr = 1000,
	.max_mr_bytes = XR_UNLIMITED,
	.memlock_bytes = XR_UNLIMITED,
	.memlock_max_bytes = XR_UNLIMITED,
};

static void assert_tells(const char *text)
{
	if (!strstr(xrdma_last_error(), text))
		fail_msg("\"%s\" is not in: %s", text, xrdma_last_error());
}

static void k1_what_fits_passes(void **state)
{
	assert_int_equal(xr_limits_check(&roomy, 0, 1), 0);
	assert_int_equal(xr_limits_check(&roomy, 999, UINT64_MAX), 0);
	assert_int_equal(xr_limits_check(&roomy, 0, 0), -EINVAL);
}

static void k1_max_mr_is_checked_first_and_explained(void **state)
{
	struct xr_limits limits = roomy;

	limits.max_mr = 64;
	assert_int_equal(xr_limits_check(&limits, 63, 4096), 0);
	assert_int_equal(xr_limits_check(&limits, 64, 4096), -ENOMEM);
	assert_tells("allows 64 (max_mr)");
	assert_tells("has 64");
	assert_tells("raise slab_bytes");
}

static void k1_max_mr_size_is_checked_first_and_explained(void **state)
{
	struct xr_limits limits = roomy;

	limits.max_mr_bytes = 1 << 20;
	assert_int_equal(xr_limits_check(&limits, 0, 1 << 20), 0);
	assert_int_equal(xr_limits_check(&limits, 0, (1 << 20) + 1024), -E2BIG);
	assert_tells("1.001 MiB are to be");
	assert_tells("allows 1 MiB (max_mr_size)");
}

static void m31_memlock_is_named_with_need_and_remedy(void **state)
{
	struct xr_limits limits = roomy;

	limits.memlock_bytes = 64 << 10;
	limits.memlock_max_bytes = 8 << 20;
	limits.locked_bytes = 512;
	assert_int_equal(xr_limits_explain(&limits, -ENOMEM, 1, 4 << 20), -ENOMEM);
	assert_tells("4 MiB could not be locked");
	assert_tells("RLIMIT_MEMLOCK is 64 KiB (hard limit 8 MiB)");
	assert_tells("512 bytes are locked already");
	assert_tells("ulimit -l unlimited");
	assert_tells("/etc/security/limits.conf");
	assert_tells("LimitMEMLOCK=infinity");
	assert_tells("--ulimit memlock=-1");

	limits.locked_bytes = 1 << 20; /* lowered since */
	assert_int_equal(xr_limits_explain(&limits, -ENOMEM, 1, 4096), -ENOMEM);
	assert_tells("4 KiB could not be locked");
}

static void memlock_is_not_blamed_when_it_suffices(void **state)
{
	struct xr_limits limits = roomy;

	limits.memlock_bytes = (uint64_t)3 << 60;
	assert_int_equal(xr_limits_explain(&limits, -ENOMEM, 7, 4096), -ENOMEM);
	assert_tells("has 7 memory regions");
	assert_tells("RLIMIT_MEMLOCK is 3 EiB and not the cause");
	assert_int_equal(xr_limits_explain(&roomy, -ENOMEM, 7, 4096), -ENOMEM);
	assert_tells("RLIMIT_MEMLOCK is unlimited and not the cause");
}

static void other_refusals(void **state)
{
	assert_int_equal(xr_limits_explain(&roomy, -EFAULT, 0, 100), -EFAULT);
	assert_tells("100 bytes could not be registered: not all of it is mapped");
	assert_int_equal(xr_limits_explain(&roomy, -EOPNOTSUPP, 0, 100), -EOPNOTSUPP);
	assert_tells("Operation not supported");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k1_what_fits_passes),
		cmocka_unit_test(k1_max_mr_is_checked_first_and_explained),
		cmocka_unit_test(k1_max_mr_size_is_checked_first_and_explained),
		cmocka_unit_test(m31_memlock_is_named_with_need_and_remedy),
		cmocka_unit_test(memlock_is_not_blamed_when_it_suffices),
		cmocka_unit_test(other_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
