/* SPDX-License-Identifier: BSD-2-Clause */
/* K2: memory lies near the device, where the device says where it is. */
#include "../unit/unit.h"

#include "xrdma/mem_numa.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/xrdma-numa-XXXXXX", file[64];

static void write_node(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void k2_the_node_of_a_device(void **state)
{
	assert_int_equal(xr_numa_of_device(dir), -1); /* one that exists in software only */
	write_node("3\n");
	assert_int_equal(xr_numa_of_device(dir), 3);
	write_node("-1\n"); /* what the kernel says where there is but one */
	assert_int_equal(xr_numa_of_device(dir), -1);
	write_node("-7\n");
	assert_int_equal(xr_numa_of_device(dir), -1);
	write_node("near\n");
	assert_int_equal(xr_numa_of_device(dir), -1);
}

static void k2_a_node_asked_for_must_exist(void **state)
{
	assert_int_equal(xr_numa_check(0), 0);
	assert_int_equal(xr_numa_check(1023), -EINVAL);
	assert_non_null(strstr(xrdma_last_error(), "NUMA node 1023"));
}

static int setup(void **state)
{
	char sub[64];

	if (!mkdtemp(dir))
		return -1;
	snprintf(sub, sizeof(sub), "%s/device", dir);
	snprintf(file, sizeof(file), "%s/device/numa_node", dir);
	return mkdir(sub, 0700);
}

static int teardown(void **state)
{
	unlink(file);
	*strrchr(file, '/') = '\0';
	rmdir(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k2_the_node_of_a_device),
		cmocka_unit_test(k2_a_node_asked_for_must_exist),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
