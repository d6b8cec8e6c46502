/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers every request with its own bytes: echo_server [ADDRESS], by default *:7471. */
#include <stdio.h>
#include <string.h>
#include <xrdma/xrdma.h>

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *request, void *arg)
{
	struct xrdma_msg *reply;

	if (xrdma_msg_new(ch, xrdma_msg_len(request), &reply)) {
		fprintf(stderr, "echo_server: %s\n", xrdma_last_error());
		xrdma_msg_free(request);
		return;
	}
	memcpy(xrdma_msg_data(reply), xrdma_msg_data(request), xrdma_msg_len(request));
	if (xrdma_reply(request, reply)) { /* the client is gone */
		xrdma_msg_free(reply);
		xrdma_msg_free(request);
	}
}

int main(int argc, char **argv)
{
	const struct xrdma_handlers handlers = {.on_msg = on_msg};
	struct xrdma_listener *listener;
	struct xrdma_context *ctx;

	if (xrdma_open(NULL, &ctx) ||
	    xrdma_listen(ctx, argc > 1 ? argv[1] : "*:7471", &handlers, NULL, &listener)) {
		fprintf(stderr, "echo_server: %s\n", xrdma_last_error());
		return 1;
	}
	printf("listening on port %d\n", xrdma_listener_port(listener));
	fflush(stdout);
	xrdma_run(ctx, -1);
	xrdma_close(ctx);
	return 0;
}
