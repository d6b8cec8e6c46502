/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends requests of 1 byte to 16 MiB and checks the replies: echo_client [ADDRESS]. */
#include <stdio.h>
#include <string.h>
#include <xrdma/xrdma.h>

static size_t len = 1; /* of the request on its way; 0: all are done */
static void send_next(struct xrdma_channel *ch);

static void on_reply(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	const char *data = reply ? xrdma_msg_data(reply) : NULL;
	int good = reply && xrdma_msg_len(reply) == len && data[0] == 'x' && data[len - 1] == 'x';

	printf("%zu bytes: %s\n", len, good ? "echoed" : strerror(-status));
	xrdma_msg_free(reply);
	len = good && len == 16 << 20 ? 0 : 16 * len;
	good &&len ? send_next(ch) : xrdma_channel_close(ch);
}

static void send_next(struct xrdma_channel *ch)
{
	struct xrdma_msg *request;

	if (xrdma_msg_new(ch, len, &request))
		return;
	memset(xrdma_msg_data(request), 'x', len);
	xrdma_call(ch, request, 30000000, on_reply, NULL, NULL);
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	if (event == XRDMA_CONNECTED)
		send_next(ch);
	else if (event == XRDMA_CLOSED)
		xrdma_stop(arg);
}

int main(int argc, char **argv)
{
	const struct xrdma_handlers handlers = {.on_event = on_event};
	struct xrdma_channel *ch;
	struct xrdma_context *ctx;

	if (!xrdma_open(NULL, &ctx) &&
	    !xrdma_connect(ctx, argc > 1 ? argv[1] : "127.0.0.1:7471", &handlers, ctx, &ch))
		xrdma_run(ctx, -1);
	return len ? fprintf(stderr, "echo_client: %s\n", xrdma_last_error()), 1 : 0;
}
