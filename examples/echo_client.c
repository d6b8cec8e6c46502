/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends requests from 1 byte to 16 MiB and compares the replies: echo_client [ADDRESS]. */
#include <stdio.h>
#include <string.h>
#include <xrdma/xrdma.h>

static size_t len = 1;

static void send_next(struct xrdma_channel *ch);

static void on_reply(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	const unsigned char *data = reply ? xrdma_msg_data(reply) : NULL;
	int good = reply && xrdma_msg_len(reply) == len && data[0] == 'x' && data[len - 1] == 'x';

	printf("%zu bytes: %s\n", len, status ? strerror(-status) : good ? "echoed" : "WRONG");
	xrdma_msg_free(reply);
	len = good && len < 16 << 20 ? len * 16 : 0;
	if (len)
		send_next(ch);
	else
		xrdma_channel_close(ch);
}

static void send_next(struct xrdma_channel *ch)
{
	struct xrdma_msg *request;

	if (xrdma_msg_new(ch, len, &request) == 0) {
		memset(xrdma_msg_data(request), 'x', len);
		if (xrdma_call(ch, request, 5000000, on_reply, NULL, NULL) == 0)
			return;
	}
	fprintf(stderr, "echo_client: %s\n", xrdma_last_error());
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	xrdma_msg_free(msg);
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	if (event == XRDMA_CONNECTED)
		send_next(ch);
	else
		xrdma_stop(arg);
}

int main(int argc, char **argv)
{
	const struct xrdma_handlers handlers = {.on_msg = on_msg, .on_event = on_event};
	struct xrdma_channel *ch;
	struct xrdma_context *ctx;

	if (xrdma_open(NULL, &ctx) ||
	    xrdma_connect(ctx, argc > 1 ? argv[1] : "127.0.0.1:7471", &handlers, ctx, &ch)) {
		fprintf(stderr, "echo_client: %s\n", xrdma_last_error());
		return 1;
	}
	xrdma_run(ctx, -1);
	xrdma_close(ctx);
	return 0;
}
