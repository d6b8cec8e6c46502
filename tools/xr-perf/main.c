/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-perf: measures xrdma. One program, the server and the client. */
#include "client.h"
#include "server.h"

#include <sys/resource.h>

/* A channel takes a descriptor, and the usual soft limit is 1024. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	struct xr_options options;

	xr_options_parse(argc, argv, &options);
	raise_descriptors();
	return options.serve ? xr_server_run(&options) : xr_client_run(&options);
}
