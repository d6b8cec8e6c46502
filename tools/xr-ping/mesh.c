/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-ping --mesh: every host pings all others, one after the other; a matrix. */
#include "base/be.h"
#include "base/clock.h"
#include "report.h"
#include "sides.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host {
	const char *address;
	struct xrdma_channel *ch;
	bool connected, done;
	char why[256];
	json_t *results; /* an array, of the others in order */
};

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct host *h = arg;

	if (event == XRDMA_CONNECTED)
		h->connected = true;
	if (event != XRDMA_CLOSED)
		return;
	h->ch = NULL;
	h->connected = false;
	if (!h->done && !h->why[0])
		snprintf(h->why, sizeof(h->why), "%s", xrdma_last_error());
	h->done = true;
}

static void on_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct host *h = arg;
	json_t *o = NULL;

	if (reply)
		o = json_loadb(xrdma_msg_data(reply), xrdma_msg_len(reply), 0, NULL);
	if (json_is_array(o)) {
		h->results = json_incref(o);
	} else if (!h->why[0]) {
		const char *why = json_string_value(json_object_get(o, "error"));

		snprintf(h->why, sizeof(h->why), "%s",
			 why     ? why
			 : reply ? "it answers nonsense"
				 : strerror(-status));
	}
	json_decref(o);
	xrdma_msg_free(reply);
	h->done = true;
}

static json_t *order(const struct xr_options *options, unsigned from)
{
	const struct xr_probing *p = &options->probing;
	json_t *targets = json_array();

	for (unsigned i = 0; i < options->n_hosts; i++) {
		if (i != from)
			json_array_append_new(targets, json_string(options->hosts[i]));
	}
	return json_pack("{s:o, s:I, s:I, s:I, s:I}", "targets", targets, "count",
			 (json_int_t)p->count, "interval_ns", (json_int_t)p->interval_ns,
			 "timeout_ns", (json_int_t)p->timeout_ns, "size", (json_int_t)p->size);
}

static void send_order(struct host *h, const struct xr_options *options, unsigned from)
{
	const struct xr_probing *p = &options->probing;
	/* Each may lose every probe, and before that need all the time that connecting may take. */
	uint64_t patience_ns = p->count * (p->interval_ns + p->timeout_ns) + 30 * NSEC_PER_SEC;
	json_t *o = order(options, from);
	char *text = json_dumps(o, 0);
	struct xrdma_msg *m;

	if (xrdma_msg_new(h->ch, 4 + strlen(text), &m) == 0) {
		put_be32(xrdma_msg_data(m), XR_ORDER_MAGIC);
		memcpy((char *)xrdma_msg_data(m) + 4, text, strlen(text));
		if (xrdma_call(h->ch, m, patience_ns / NSEC_PER_USEC, on_done, h, NULL) == 0)
			m = NULL;
	} else {
		m = NULL;
		h->done = true;
	}
	if (m) {
		xrdma_msg_free(m);
		h->done = true;
	}
	if (h->done)
		snprintf(h->why, sizeof(h->why), "%s", xrdma_last_error());
	free(text);
	json_decref(o);
}

/* One after the other: else they would measure each other. */
static void ask(struct host *h, struct xrdma_context *ctx, const struct xr_options *options,
		unsigned from)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};

	if (xrdma_connect(ctx, h->address, &handlers, h, &h->ch)) {
		snprintf(h->why, sizeof(h->why), "%s", xrdma_last_error());
		h->ch = NULL;
		return;
	}
	while (!h->connected && !h->done && !xr_stopped)
		xr_wait(ctx, CLOCK_NEVER, clock_now_ns(), false);
	if (h->connected)
		send_order(h, options, from);
	while (!h->done && !xr_stopped)
		(void)xrdma_run(ctx, 10);
	if (h->ch)
		xrdma_channel_close(h->ch);
	while (h->ch && !xr_stopped)
		(void)xrdma_poll(ctx);
}

/* The result of `from` about `to`; NULL: none. */
static json_t *cell(const struct host *hosts, unsigned from, unsigned to)
{
	return json_array_get(hosts[from].results, to > from ? to - 1 : to);
}

static void print_cell(const struct host *hosts, unsigned from, unsigned to)
{
	json_t *r = cell(hosts, from, to),
	       *p50 = json_object_get(json_object_get(r, "rtt_us"), "p50");
	double lost = json_number_value(json_object_get(r, "lost_percent"));
	const char *transport = json_string_value(json_object_get(r, "transport"));
	char text[32];

	if (from == to)
		snprintf(text, sizeof(text), "-");
	else if (!p50)
		snprintf(text, sizeof(text), "none");
	else
		snprintf(text, sizeof(text), lost > 0 ? "%.1f%s(%.0f%%)" : "%.1f%s",
			 json_number_value(p50),
			 transport && !strcmp(transport, "tcp") ? "/tcp" : "", lost);
	printf(" %12s", text);
}

static void print_matrix(const struct host *hosts, unsigned n)
{
	int width = 4;

	for (unsigned i = 0; i < n; i++) {
		if ((int)strlen(hosts[i].address) > width)
			width = (int)strlen(hosts[i].address);
	}
	printf("Median round trips in us, from row to column, /tcp where TCP stands in (lost)\n");
	printf("%*s", width + 5, "");
	for (unsigned i = 0; i < n; i++)
		printf("        [%3u]", i + 1);
	putchar('\n');
	for (unsigned from = 0; from < n; from++) {
		printf("[%2u] %-*s", from + 1, width, hosts[from].address);
		for (unsigned to = 0; to < n; to++)
			print_cell(hosts, from, to);
		putchar('\n');
	}
	for (unsigned from = 0; from < n; from++) {
		if (!hosts[from].results)
			printf("%s: %s\n", hosts[from].address, hosts[from].why);
	}
}

static void print_json(const struct host *hosts, unsigned n)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < n; i++) {
		json_t *o = json_pack("{s:s}", "from", hosts[i].address);

		if (hosts[i].results)
			json_object_set(o, "to", hosts[i].results);
		else
			json_object_set_new(o, "error", json_string(hosts[i].why));
		json_array_append_new(all, o);
	}
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(all);
}

static bool all_answered(const struct host *hosts, unsigned n)
{
	for (unsigned from = 0; from < n; from++) {
		for (unsigned to = 0; to < n; to++) {
			if (from != to && !json_object_get(cell(hosts, from, to), "rtt_us"))
				return false;
		}
	}
	return true;
}

int xr_mesh_run(const struct xr_options *options)
{
	static struct host hosts[XR_MAX_HOSTS];
	struct xrdma_context *ctx;
	int ret;

	if (xr_open(options, &ctx))
		return XR_STATUS_FAILED;
	xr_catch_signals(ctx);
	for (unsigned i = 0; i < options->n_hosts && !xr_stopped; i++) {
		hosts[i].address = options->hosts[i];
		ask(&hosts[i], ctx, options, i);
	}
	xrdma_close(ctx);
	if (xr_stopped)
		return XR_STATUS_FAILED;
	if (options->json)
		print_json(hosts, options->n_hosts);
	else
		print_matrix(hosts, options->n_hosts);
	ret = all_answered(hosts, options->n_hosts) ? 0 : XR_STATUS_FAILED;
	for (unsigned i = 0; i < options->n_hosts; i++)
		json_decref(hosts[i].results);
	return ret;
}
