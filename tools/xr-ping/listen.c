/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-ping -l: probes come back as they are; orders make it ping others. */
#include "base/be.h"
#include "base/clock.h"
#include "base/list.h"
#include "report.h"
#include "sides.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ORDERS = 16 };

struct order {
	struct list link;
	struct xrdma_channel *ch;
	struct xrdma_msg *request;
	json_t *text;
	unsigned n, running;
	struct xr_pinger pingers[];
};

static struct list orders = {&orders, &orders};
static unsigned n_orders;
static struct xrdma_context *ctx;

/* Reply with data, or with none: the request ends at the caller with -ENOMSG. */
static void answer(struct xrdma_channel *ch, struct xrdma_msg *request, const void *data,
		   size_t len)
{
	struct xrdma_msg *reply;

	if (xrdma_msg_new(ch, len, &reply)) {
		xrdma_msg_free(request);
		return;
	}
	if (len)
		memcpy(xrdma_msg_data(reply), data, len);
	if (xrdma_reply(request, reply)) { /* the caller is gone */
		xrdma_msg_free(reply);
		xrdma_msg_free(request);
	}
}

/* ---- orders ---- */

static void refuse(struct xrdma_channel *ch, struct xrdma_msg *request, const char *why)
{
	json_t *o = json_pack("{s:s}", "error", why);
	char *text = json_dumps(o, 0);

	answer(ch, request, text, strlen(text));
	free(text);
	json_decref(o);
}

static void finish_order(struct order *o)
{
	json_t *results = json_array();
	char *text;

	for (unsigned i = 0; i < o->n; i++)
		json_array_append_new(results, xr_report_json(&o->pingers[i], clock_now_ns()));
	text = json_dumps(results, JSON_REAL_PRECISION(6));
	answer(o->ch, o->request, text, strlen(text));
	free(text);
	json_decref(results);
	json_decref(o->text);
	list_del(&o->link);
	n_orders--;
	free(o);
}

static void on_end(struct xr_pinger *p)
{
	((struct order *)p->arg)->running--;
}

static bool in_bounds(json_int_t value, json_int_t min, json_int_t max)
{
	return value >= min && value <= max;
}

static const char *parse_order(json_t *text, struct xr_probing *probing, json_t **ret_targets)
{
	json_int_t count, interval, timeout, size;

	if (json_unpack(text, "{s:o, s:I, s:I, s:I, s:I}", "targets", ret_targets, "count", &count,
			"interval_ns", &interval, "timeout_ns", &timeout, "size", &size))
		return "an order that is none";
	if (!in_bounds(count, 1, XR_ORDER_MAX_COUNT) ||
	    !in_bounds(interval, 0, (json_int_t)(86400 * NSEC_PER_SEC)) ||
	    !in_bounds(timeout, NSEC_PER_USEC, (json_int_t)(86400 * NSEC_PER_SEC)) ||
	    !in_bounds(size, XR_PROBE_MIN, XR_PROBE_MAX))
		return "an order out of bounds";
	if (!json_is_array(*ret_targets) || json_array_size(*ret_targets) > XR_MAX_HOSTS)
		return "an order with too many targets";
	for (size_t i = 0; i < json_array_size(*ret_targets); i++) {
		const char *s = json_string_value(json_array_get(*ret_targets, i));

		if (!s || strlen(s) >= XR_ADDRESS_BYTES)
			return "an order with a target that is none";
	}
	*probing = (struct xr_probing){.count = (uint64_t)count,
				       .interval_ns = (uint64_t)interval,
				       .timeout_ns = (uint64_t)timeout,
				       .size = (uint32_t)size};
	return NULL;
}

static void take_order(struct xrdma_channel *ch, struct xrdma_msg *request)
{
	const char *data = (const char *)xrdma_msg_data(request) + 4;
	json_t *text = json_loadb(data, xrdma_msg_len(request) - 4, 0, NULL), *targets = NULL;
	struct xr_probing probing;
	const char *why = n_orders == MAX_ORDERS ? "too many orders at once" : NULL;
	struct order *o = NULL;

	if (!why)
		why = parse_order(text, &probing, &targets);
	if (!why) {
		o = calloc(1, sizeof(*o) + json_array_size(targets) * sizeof(o->pingers[0]));
		why = o ? NULL : "out of memory";
	}
	if (why) {
		json_decref(text);
		refuse(ch, request, why);
		return;
	}
	*o = (struct order){.ch = ch,
			    .request = request,
			    .text = text,
			    .n = (unsigned)json_array_size(targets),
			    .running = (unsigned)json_array_size(targets)};
	list_add_tail(&orders, &o->link);
	n_orders++;
	for (unsigned i = 0; i < o->n; i++) {
		o->pingers[i] =
			(struct xr_pinger){.ctx = ctx,
					   .address = json_string_value(json_array_get(targets, i)),
					   .probing = probing,
					   .on_end = on_end,
					   .arg = o};
		xr_pinger_start(&o->pingers[i], clock_now_ns());
	}
}

/* Returns when something is due; *ret_sent: the last probe of an order that is on its way. */
static uint64_t step_orders(uint64_t *ret_sent)
{
	uint64_t next = CLOCK_NEVER;

	*ret_sent = 0;
	list_for_each_safe (pos, &orders) {
		struct order *o = container_of(pos, struct order, link);

		for (unsigned i = 0; i < o->n; i++) {
			uint64_t due = xr_pinger_step(&o->pingers[i], clock_now_ns());

			if (due < next)
				next = due;
			if (o->pingers[i].in_flight && o->pingers[i].last_sent_ns > *ret_sent)
				*ret_sent = o->pingers[i].last_sent_ns;
		}
		if (o->running == 0)
			finish_order(o);
	}
	return next;
}

/* ---- messages ---- */

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *request, void *arg)
{
	size_t len = xrdma_msg_len(request);
	uint32_t magic = len >= 4 ? get_be32(xrdma_msg_data(request)) : 0;

	if (magic == XR_ORDER_MAGIC && len <= XR_ORDER_MAX)
		take_order(ch, request);
	else if (magic == XR_PING_MAGIC && len <= XR_PROBE_MAX)
		answer(ch, request, xrdma_msg_data(request), len);
	else
		xrdma_msg_free(request);
	if (n_orders)
		xrdma_stop(ctx); /* what is due is known outside of xrdma_run() */
}

int xr_listen_run(const struct xr_options *options)
{
	static const struct xrdma_handlers handlers = {.on_msg = on_msg};
	struct xrdma_listener *listener;
	char address[XR_ADDRESS_BYTES];

	if (xr_open(options, &ctx))
		return XR_STATUS_FAILED;
	xr_address_join(options->listen_on, options->port, address);
	if (xrdma_listen(ctx, address, &handlers, NULL, &listener)) {
		fprintf(stderr, "xr-ping: cannot listen: %s\n", xrdma_last_error());
		xrdma_close(ctx);
		return XR_STATUS_FAILED;
	}
	printf("xr-ping %s: listening on port %d, device %s\n", XR_VERSION,
	       xrdma_listener_port(listener), xrdma_device(ctx));
	fflush(stdout);
	xr_catch_signals(ctx);
	while (!xr_stopped) {
		uint64_t sent, due = step_orders(&sent);

		if (due == CLOCK_NEVER && !n_orders && !options->poll)
			(void)xrdma_run(ctx, -1);
		else
			xr_wait(ctx, due, sent, options->poll);
	}
	xrdma_close(ctx); /* ends every probe, so nothing refers to orders any more */
	for (struct list *node = list_pop(&orders); node; node = list_pop(&orders)) {
		struct order *o = container_of(node, struct order, link);

		json_decref(o->text);
		free(o);
	}
	return 0;
}
