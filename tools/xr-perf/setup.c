/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts and channels of a worker: from nothing to the first message, and back. */
#include "worker.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_CONNECTING = 256 /* a server takes 1024 (max_pending) */,
	MANY_CHANNELS = 64,
	WINDOW_MAX = 4096
};

/* ---- contexts ---- */

static int set(struct xrdma_conf *conf, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return xrdma_conf_set(conf, name, text);
}

/* Raise an option to what the job needs; its default may be more. */
static int at_least(struct xrdma_conf *conf, const char *name, uint64_t need)
{
	char text[64];
	uint64_t now;
	int ret = xrdma_conf_get(conf, name, text, sizeof(text));

	if (ret || (xr_parse_bytes(text, &now) == 0 && now >= need))
		return ret;
	return set(conf, name, need);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int set_for_job(struct xrdma_conf *conf, const struct xr_job *job)
{
	uint64_t in_flight = (uint64_t)job->in_flight * job->channels;
	int ret = at_least(conf, "max_channels", job->channels + job->in_flight);

	/* They share receives: what they are promised and do not use is missing to others. */
	if (!ret && job->channels > MANY_CHANNELS)
		ret = set(conf, "window",
			  job->in_flight > 4 ? least(job->in_flight, WINDOW_MAX) : 4);
	if (!ret)
		ret = at_least(conf, "srq_max", 16 * (uint64_t)job->channels);
	if (!ret)
		ret = at_least(conf, "max_calls", job->in_flight);
	/* Twice: what the peer has consumed is free only when that is known. */
	if (!ret)
		ret = at_least(conf, "tx_budget_bytes", 3 * in_flight * job->request_bytes);
	if (!ret)
		ret = at_least(conf, "rx_budget_bytes", 3 * in_flight * job->reply_bytes);
	if (ret || (job->kind != XR_JOB_ONEWAY && job->channels > MANY_CHANNELS))
		return ret;
	if (job->kind != XR_JOB_ONEWAY)
		return at_least(conf, "window", least(job->in_flight, WINDOW_MAX));
	/* What waits behind the window only takes memory and makes caches cold. */
	ret = set(conf, "queue_depth", job->in_flight);
	return ret ? ret : set(conf, "window", least(job->in_flight, WINDOW_MAX));
}

static int open_context(struct xr_worker *w, struct xr_end *end)
{
	struct xrdma_conf *conf;
	int ret = xrdma_conf_new(&conf);

	if (ret)
		return ret;
	ret = set_for_job(conf, w->job);
	if (!ret)
		ret = xr_confs_apply(&w->bench->options->confs, conf);
	if (!ret)
		ret = xrdma_open(conf, &end->ctx);
	xrdma_conf_free(conf);
	return ret ? ret : xr_loop_add(&w->loop, end->ctx);
}

static int new_lanes(struct xr_worker *w, struct xr_end *end)
{
	static const uint64_t odd = UINT64_C(0x2545f4914f6cdd1d);
	const struct xr_job *job = w->job;

	end->worker = w;
	end->lanes = calloc(job->channels, sizeof(*end->lanes));
	if (!end->lanes)
		return -ENOMEM;
	for (unsigned i = 0; i < job->channels; i++) {
		struct xr_lane *lane = &end->lanes[i];

		lane->end = end;
		lane->seed = (clock_now_ns() + i) * odd;
		lane->slots = calloc(job->in_flight, sizeof(*lane->slots));
		if (!lane->slots)
			return -ENOMEM;
		for (unsigned k = 0; k < job->in_flight; k++)
			lane->slots[k].lane = lane;
	}
	return 0;
}

void xr_worker_open_contexts(struct xr_worker *w)
{
	int ret = xr_loop_init(&w->loop, w->n_ends, w->bench->options->wait == XR_WAIT_EVENT);

	w->ends = calloc(w->n_ends, sizeof(*w->ends));
	if (ret || !w->ends) {
		xr_worker_fail(w, "out of memory for %u contexts", w->n_ends);
		return;
	}
	for (unsigned e = 0; e < w->n_ends && !w->failed; e++) {
		ret = new_lanes(w, &w->ends[e]);
		if (ret)
			xr_worker_fail(w, "out of memory for %u channels", w->job->channels);
		else if (open_context(w, &w->ends[e]))
			xr_worker_fail(w, "%s", xrdma_last_error());
	}
}

/* ---- channels ---- */

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct xr_lane *lane = arg;
	struct xr_worker *w = lane->end->worker;

	if (event != XRDMA_CONNECTED && event != XRDMA_CLOSED)
		return;
	w->pending -= event == XRDMA_CONNECTED || !lane->open;
	if (event == XRDMA_CONNECTED) {
		lane->open = true;
		return;
	}
	lane->ch = NULL;
	xrdma_msg_free(lane->waiting);
	lane->waiting = NULL;
	if (!lane->open)
		xr_worker_fail(w, "%s", xrdma_last_error());
	else if (status || !w->closing)
		xr_worker_lost(w, status);
	lane->open = false;
}

static void server_address(const struct xr_worker *w, unsigned end,
			   char text[static XR_ADDRESS_BYTES])
{
	const struct xr_bench *b = w->bench;
	uint32_t thread = (w->index + end * w->job->threads) % b->info.n_threads;

	if (w->job->spread)
		xr_address_join(b->options->host, b->info.ports[thread], text);
	else
		strcpy(text, b->options->address);
}

static void connect_lanes(struct xr_worker *w)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	char address[XR_ADDRESS_BYTES];

	for (unsigned e = 0; e < w->n_ends; e++) {
		server_address(w, e, address);
		for (unsigned i = 0; i < w->job->channels && !w->failed; i++) {
			struct xr_lane *lane = &w->ends[e].lanes[i];

			if (xrdma_connect(w->ends[e].ctx, address, &handlers, lane, &lane->ch))
				xr_worker_fail(w, "%s", xrdma_last_error());
			else
				w->pending++;
			while (w->pending >= MOST_CONNECTING && xr_worker_turn(w))
				;
		}
	}
	while (w->pending && xr_worker_turn(w))
		;
}

/* ---- what is asked on every channel ---- */

static void answered(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct xr_lane *lane = arg;
	struct xr_worker *w = lane->end->worker;
	uint32_t number;
	size_t len;

	w->pending--;
	if (status) {
		xr_worker_lost(w, status);
		return;
	}
	len = xrdma_msg_len(reply);
	if (xr_perf_head(xrdma_msg_data(reply), len, &number) == XR_PERF_FINISH &&
	    xr_perf_get_report(xrdma_msg_data(reply), len, &lane->report))
		xr_worker_fail(w, "the server's report makes no sense");
	xr_worker_count(w, 1);
	xrdma_msg_free(reply);
}

static size_t question(const struct xr_lane *lane, enum xr_perf_type type, void *data)
{
	const struct xr_job *job = lane->end->worker->job;
	struct xr_perf_start start = {
		.seed = lane->seed,
		.reply_bytes = job->reply_bytes,
		.fill = 4 * job->in_flight,
		.verify = lane->end->worker->bench->options->verify,
	};

	if (type == XR_PERF_START)
		return xr_perf_put_start(data, &start);
	xr_perf_put_head(data, type, 0);
	return XR_PERF_HEAD_BYTES;
}

static int ask(struct xr_lane *lane, enum xr_perf_type type)
{
	uint8_t body[XR_PERF_BODY_MAX];
	size_t len = question(lane, type, body);
	struct xrdma_msg *msg;
	int ret = xrdma_msg_new(lane->ch, len, &msg);

	if (ret)
		return ret;
	memcpy(xrdma_msg_data(msg), body, len);
	ret = xrdma_call(lane->ch, msg, 0, answered, lane, NULL);
	if (ret)
		xrdma_msg_free(msg);
	return ret;
}

/* One call for each lane; those without room for it ask again. */
static bool ask_those_left(struct xr_worker *w, enum xr_perf_type type)
{
	bool left = false;

	for (unsigned e = 0; e < w->n_ends; e++) {
		for (unsigned i = 0; i < w->job->channels; i++) {
			struct xr_lane *lane = &w->ends[e].lanes[i];
			int ret = lane->asked || !lane->ch ? 0 : ask(lane, type);

			w->pending += ret == 0 && !lane->asked && lane->ch;
			lane->asked = ret == 0;
			left |= ret != 0;
			if (ret && ret != -EAGAIN && ret != -ENOBUFS && ret != -EPIPE)
				xr_worker_fail(w, "%s", xrdma_last_error());
		}
	}
	return left;
}

static void ask_all(struct xr_worker *w, enum xr_perf_type type)
{
	bool left;

	for (unsigned e = 0; e < w->n_ends; e++) {
		for (unsigned i = 0; i < w->job->channels; i++)
			w->ends[e].lanes[i].asked = false;
	}
	do
		left = ask_those_left(w, type);
	while ((left || w->pending) && xr_worker_turn(w));
}

void xr_worker_finish(struct xr_worker *w)
{
	ask_all(w, XR_PERF_FINISH);
}

/* ---- all of it ---- */

void xr_worker_open(struct xr_worker *w)
{
	uint64_t start_ns;

	xr_worker_open_contexts(w);
	start_ns = clock_now_ns();
	if (!w->failed)
		connect_lanes(w);
	w->setup_ns = clock_now_ns() - start_ns;
	if (!w->failed)
		ask_all(w, XR_PERF_START);
}

static bool any_open(const struct xr_worker *w)
{
	for (unsigned e = 0; e < w->n_ends; e++) {
		for (unsigned i = 0; w->ends[e].lanes && i < w->job->channels; i++) {
			if (w->ends[e].lanes[i].open)
				return true;
		}
	}
	return false;
}

void xr_worker_close(struct xr_worker *w)
{
	w->closing = true;
	for (unsigned e = 0; w->ends && !w->failed && e < w->n_ends; e++) {
		for (unsigned i = 0; i < w->job->channels; i++) {
			if (w->ends[e].lanes[i].ch)
				xrdma_channel_close(w->ends[e].lanes[i].ch);
		}
	}
	while (!w->failed && any_open(w) && xr_worker_turn(w))
		;
	for (unsigned e = 0; w->ends && e < w->n_ends; e++) {
		xrdma_close(w->ends[e].ctx);
		for (unsigned i = 0; w->ends[e].lanes && i < w->job->channels; i++)
			free(w->ends[e].lanes[i].slots);
		free(w->ends[e].lanes);
	}
	free(w->ends);
	xr_loop_fini(&w->loop);
}
