/* SPDX-License-Identifier: BSD-2-Clause */
#include "guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guest {
	struct xr_perf_start start;
	struct xr_perf_report report;
	uint32_t expected; /* number of the next DATA */
	bool asked_info;   /* this channel stays as long as its client */
	bool complained;
};

static void complain(const char *what, const char *why)
{
	fprintf(stderr, "xr-perf: %s: %s\n", what, why);
}

static void refuse(struct xrdma_channel *ch, struct xrdma_msg *msg, const char *why)
{
	complain("a client is sent away", why);
	xrdma_msg_free(msg);
	xrdma_channel_close(ch);
}

/* ---- calls about the measurement ---- */

static size_t answer_body(struct xr_service *s, struct guest *g, enum xr_perf_type type, void *data)
{
	switch (type) {
	case XR_PERF_INFO:
		return xr_perf_put_info(data, s->info);
	case XR_PERF_FINISH:
		return xr_perf_put_report(data, &g->report);
	default:
		xr_perf_put_head(data, type, 0);
		return XR_PERF_HEAD_BYTES;
	}
}

static void answer(struct xr_service *s, struct xrdma_channel *ch, struct xrdma_msg *msg,
		   enum xr_perf_type type)
{
	uint8_t body[XR_PERF_BODY_MAX];
	size_t len = answer_body(s, xrdma_channel_user(ch), type, body);
	struct xrdma_msg *reply;

	if (xrdma_msg_new(ch, len, &reply)) {
		refuse(ch, msg, xrdma_last_error());
		return;
	}
	memcpy(xrdma_msg_data(reply), body, len);
	if (xrdma_reply(msg, reply)) {
		xrdma_msg_free(reply);
		refuse(ch, msg, xrdma_last_error());
	}
}

static void begin(struct xr_service *s, struct xrdma_channel *ch, struct xrdma_msg *msg)
{
	struct guest *g = xrdma_channel_user(ch);

	if (xr_perf_get_start(xrdma_msg_data(msg), xrdma_msg_len(msg), &g->start)) {
		refuse(ch, msg, "its START makes no sense");
		return;
	}
	g->report = (struct xr_perf_report){0};
	g->expected = 0;
	answer(s, ch, msg, XR_PERF_START);
}

/* ---- data ---- */

static void wrong(struct guest *g, uint32_t number, const struct xr_pattern_fault *fault)
{
	struct xr_perf_report *r = &g->report;

	if (r->wrong++)
		return;
	r->number = number;
	r->number_wanted = g->expected;
	r->fault = *fault;
	if (number != g->expected)
		fprintf(stderr, "xr-perf: message %u came where %u was expected\n", number,
			g->expected);
	else
		fprintf(stderr, "xr-perf: message %u: byte %zu is 0x%02x and should be 0x%02x\n",
			number, fault->offset, fault->got, fault->wanted);
}

static void check(struct guest *g, const uint8_t *data, size_t len, uint32_t number)
{
	struct xr_pattern_fault fault = {0};

	if (number != g->expected) {
		wrong(g, number, &fault);
	} else if (g->start.verify &&
		   xr_pattern_check(g->start.seed, number, data + XR_PERF_HEAD_BYTES,
				    len - XR_PERF_HEAD_BYTES, &fault)) {
		fault.offset += XR_PERF_HEAD_BYTES;
		wrong(g, number, &fault);
	}
	g->expected = number + 1;
	g->report.messages++;
	g->report.bytes += len;
}

/* Unanswered, the call ends at the client, which says so. */
static void give_up(struct guest *g, struct xrdma_msg *msg)
{
	if (!g->complained)
		complain("a request stays without a reply", xrdma_last_error());
	g->complained = true;
	xrdma_msg_free(msg);
}

static void data_came(struct xr_service *s, struct xrdma_channel *ch, struct xrdma_msg *msg,
		      uint32_t number)
{
	struct guest *g = xrdma_channel_user(ch);
	struct xrdma_msg *reply;
	uint8_t *data;

	check(g, xrdma_msg_data(msg), xrdma_msg_len(msg), number);
	if (!g->start.reply_bytes) {
		xrdma_msg_free(msg);
		return;
	}
	if (xrdma_msg_new(ch, g->start.reply_bytes, &reply)) {
		give_up(g, msg);
		return;
	}
	data = xrdma_msg_data(reply);
	xr_perf_put_head(data, XR_PERF_DATA, number);
	if (g->start.verify || g->report.messages <= g->start.fill)
		xr_pattern_fill(~g->start.seed, number, data + XR_PERF_HEAD_BYTES,
				g->start.reply_bytes - XR_PERF_HEAD_BYTES);
	if (g->report.messages == s->options->corrupt)
		data[g->start.reply_bytes - 1] ^= 1;
	if (xrdma_reply(msg, reply)) {
		xrdma_msg_free(reply);
		give_up(g, msg);
	}
}

/* ---- callbacks ---- */

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	struct guest *g = xrdma_channel_user(ch);
	uint32_t number;

	if (!g) {
		refuse(ch, msg, "out of memory");
		return;
	}
	switch (xr_perf_head(xrdma_msg_data(msg), xrdma_msg_len(msg), &number)) {
	case XR_PERF_DATA:
		data_came(arg, ch, msg, number);
		return;
	case XR_PERF_INFO:
		g->asked_info = true;
		answer(arg, ch, msg, XR_PERF_INFO);
		return;
	case XR_PERF_START:
		begin(arg, ch, msg);
		return;
	case XR_PERF_FINISH:
		answer(arg, ch, msg, XR_PERF_FINISH);
		return;
	}
	refuse(ch, msg, "it does not speak the protocol of this version of xr-perf");
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	const struct xr_service *s = arg;
	struct guest *g = xrdma_channel_user(ch);

	if (event == XRDMA_CONNECTED) {
		xrdma_channel_set_user(ch, calloc(1, sizeof(struct guest)));
		if (!xrdma_channel_user(ch))
			xrdma_channel_close(ch);
		return;
	}
	if (event != XRDMA_CLOSED) /* broken or whole again: what was sent is not lost */
		return;
	if (status && g && g->asked_info)
		complain("a client is gone", strerror(-status));
	if (g && g->asked_info && s->options->once)
		xr_server_stop();
	free(g);
}

const struct xrdma_handlers xr_guest_handlers = {.on_msg = on_msg, .on_event = on_event};
