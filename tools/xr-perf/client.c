/* SPDX-License-Identifier: BSD-2-Clause */
#include "client.h"

#include "job.h"
#include "report.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 15000 /* longer than connect_timeout_ms */, GOODBYE_MS = 1000 };

/* The channel that stays while we run: the server knows by it when we are done. */
struct control {
	struct xrdma_context *ctx;
	struct xrdma_channel *ch; /* NULL: closed */
	struct xr_perf_info info;
	bool informed;
	char problem[600];
};

static void complain(struct control *c, const char *what)
{
	if (!c->problem[0])
		snprintf(c->problem, sizeof(c->problem), "%s", what);
	xrdma_stop(c->ctx);
}

static void on_info(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct control *c = arg;

	if (status)
		complain(c, "the server does not answer: is it xr-perf, and of this version?");
	else if (xr_perf_get_info(xrdma_msg_data(reply), xrdma_msg_len(reply), &c->info))
		complain(c, "the server is not xr-perf, or not of this version");
	else
		c->informed = true;
	xrdma_msg_free(reply);
	xrdma_stop(c->ctx);
}

static void ask(struct control *c, struct xrdma_channel *ch)
{
	struct xrdma_msg *msg;

	if (xrdma_msg_new(ch, XR_PERF_HEAD_BYTES, &msg)) {
		complain(c, xrdma_last_error());
		return;
	}
	xr_perf_put_head(xrdma_msg_data(msg), XR_PERF_INFO, 0);
	if (xrdma_call(ch, msg, 0, on_info, c, NULL))
		complain(c, xrdma_last_error());
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct control *c = arg;

	if (event == XRDMA_CONNECTED) {
		ask(c, ch);
		return;
	}
	if (event != XRDMA_CLOSED) /* broken or whole again: what was sent is not lost */
		return;
	c->ch = NULL;
	complain(c, status ? xrdma_last_error() : "the server closed the connection");
}

static int find_server(struct control *c, const struct xr_options *options)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	struct xrdma_conf *conf;
	int ret = xrdma_conf_new(&conf);

	if (!ret) {
		ret = xr_confs_apply(&options->confs, conf);
		if (!ret)
			ret = xrdma_open(conf, &c->ctx);
		xrdma_conf_free(conf);
	}
	if (!ret)
		ret = xrdma_connect(c->ctx, options->address, &handlers, c, &c->ch);
	if (!ret)
		ret = xrdma_run(c->ctx, PATIENCE_MS);
	if (ret)
		fprintf(stderr, "xr-perf: %s\n", xrdma_last_error());
	else if (!c->informed)
		fprintf(stderr, "xr-perf: %s\n",
			c->problem[0] ? c->problem : "the server accepts, and then says nothing");
	return ret || !c->informed;
}

static void leave_server(struct control *c)
{
	if (c->ch) {
		xrdma_channel_close(c->ch);
		(void)xrdma_run(c->ctx, GOODBYE_MS);
	}
	xrdma_close(c->ctx);
}

int xr_client_run(const struct xr_options *options)
{
	struct xr_bench bench = {.options = options};
	struct control control = {0};
	int ret = xr_report_open(&bench);

	if (!ret)
		ret = find_server(&control, options);
	if (!ret) {
		bench.info = control.info;
		snprintf(bench.device, sizeof(bench.device), "%s", xrdma_device(control.ctx));
		bench.by_tcp = control.ch && xrdma_channel_transport(control.ch, NULL) == XRDMA_TCP;
		xr_report_begin(&bench);
		for (unsigned i = 0; i < options->n_tests; i++)
			options->tests[i]->run(&bench, options->tests[i]);
		ret = xr_report_end(&bench);
	}
	if (control.ctx)
		leave_server(&control);
	return ret || bench.failed ? XR_STATUS_FAILED : 0;
}
