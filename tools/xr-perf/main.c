/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-perf: measures xrdma. One program, the server and the client. */
#include "client.h"
#include "server.h"

int main(int argc, char **argv)
{
	struct xr_options options;

	xr_options_parse(argc, argv, &options);
	return options.serve ? xr_server_run(&options) : xr_client_run(&options);
}
