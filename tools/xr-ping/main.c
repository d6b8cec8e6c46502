/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-ping: pings over RDMA. One program, both sides. */
#include "sides.h"

int main(int argc, char **argv)
{
	static struct xr_options options;

	xr_options_parse(argc, argv, &options);
	if (options.listen)
		return xr_listen_run(&options);
	return options.mesh ? xr_mesh_run(&options) : xr_ping_run(&options);
}
