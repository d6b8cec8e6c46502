/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mem_numa.h"

#include "xrdma/error.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int xr_numa_of_device(const char *ibdev_path)
{
	char path[512];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/device/numa_node", ibdev_path);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1 || node < 0)
		node = -1;
	fclose(f);
	return node;
}

int xr_numa_check(unsigned node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", node);
	/* The first is there also where nobody lists them. */
	if (node == 0 || access(path, F_OK) == 0)
		return 0;
	return xr_error(-EINVAL,
			"NUMA node %u: this machine has no such node "
			"(/sys/devices/system/node lists them): set numa = auto, or -1 of a region",
			node);
}
