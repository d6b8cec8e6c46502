/* SPDX-License-Identifier: BSD-2-Clause */
#include "pinger.h"

#include "base/be.h"
#include "base/clock.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct probe_call {
	struct xr_pinger *pinger;
	uint64_t seq;
	uint64_t sent_ns;
};

/* ---- figures ---- */

static void add_time(struct xr_times *t, uint64_t ns)
{
	if (t->hist.n)
		t->steps_ns += (double)(ns > t->last_ns ? ns - t->last_ns : t->last_ns - ns);
	t->last_ns = ns;
	hist_add(&t->hist, ns);
}

static void told(struct xr_pinger *p, const struct xr_probe *probe)
{
	if (probe->status == 0) {
		p->answered++;
		for (unsigned i = 0; i < (probe->split ? XR_N_LAYERS : 1); i++)
			add_time(&p->times[i], probe->ns[i]);
	} else {
		p->lost++;
	}
	if (p->on_probe)
		p->on_probe(p, probe);
}

static void lose(struct xr_pinger *p, int status)
{
	const struct xr_probe probe = {.seq = ++p->sent, .status = status};

	told(p, &probe);
}

/* ---- probes ---- */

const char *xr_transport_name(enum xrdma_transport transport)
{
	return transport == XRDMA_TCP ? "tcp" : "rdma";
}

static void look_at_transport(struct xr_pinger *p)
{
	p->transport = xrdma_channel_transport(p->ch, &p->transport_reason);
}

static void end(struct xr_pinger *p)
{
	if (p->ended || p->in_flight)
		return;
	if (p->ch) {
		xrdma_channel_close(p->ch); /* XRDMA_CLOSED brings us here again */
		return;
	}
	p->ended = true;
	if (p->on_end)
		p->on_end(p);
}

static bool is_done(const struct xr_pinger *p)
{
	return p->stopped || (p->probing.count && p->sent >= p->probing.count);
}

static bool is_right(struct xrdma_msg *reply, const struct xr_pinger *p, uint64_t seq)
{
	const uint8_t *data = xrdma_msg_data(reply);

	return xrdma_msg_len(reply) == p->probing.size && get_be32(data) == XR_PING_MAGIC &&
	       get_be32(data + 4) == (uint32_t)seq;
}

static void explain(struct xr_pinger *p, struct xrdma_msg *reply, struct xr_probe *probe)
{
	struct xrdma_trace t;

	probe->split = xrdma_msg_trace(reply, &t) == 0;
	if (!probe->split)
		return;
	probe->ns[XR_RTT] = t.rtt_ns;
	probe->ns[XR_HANDLER] = t.handler_ns;
	probe->ns[XR_QUEUE] = t.send_queue_ns + t.peer_queue_ns + t.receive_queue_ns;
	probe->ns[XR_WIRE] = t.wire_ns;
	p->clock_offset_ns = t.clock_offset_ns;
	p->clock_error_ns = t.clock_error_ns;
}

static void on_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct probe_call *call = arg;
	struct xr_pinger *p = call->pinger;
	struct xr_probe probe = {.seq = call->seq, .status = status};

	if (reply && !is_right(reply, p, call->seq))
		probe.status = -EBADMSG;
	probe.ns[XR_RTT] = clock_now_ns() - call->sent_ns;
	if (reply) {
		look_at_transport(p);
		probe.transport = p->transport;
		explain(p, reply, &probe);
	}
	xrdma_msg_free(reply);
	free(call);
	p->in_flight--;
	if (status != -ECANCELED) /* else: interrupted */
		told(p, &probe);
	else
		p->sent--;
	if (p->probing.interval_ns == 0)
		p->due_ns = 0;
	if (is_done(p))
		end(p);
}

static int send_probe(struct xr_pinger *p, uint64_t now)
{
	struct probe_call *call = malloc(sizeof(*call));
	struct xrdma_msg *m = NULL;
	uint8_t *data;
	int ret = call ? xrdma_msg_new(p->ch, p->probing.size, &m) : -ENOMEM;

	if (!ret) {
		*call = (struct probe_call){.pinger = p, .seq = p->sent + 1, .sent_ns = now};
		data = xrdma_msg_data(m);
		put_be32(data, XR_PING_MAGIC);
		put_be32(data + 4, (uint32_t)call->seq);
		for (uint32_t i = XR_PROBE_MIN; i < p->probing.size; i++)
			data[i] = (uint8_t)i;
		ret = xrdma_call(p->ch, m, p->probing.timeout_ns / NSEC_PER_USEC, on_done, call,
				 NULL);
	}
	if (ret) {
		xrdma_msg_free(m);
		free(call);
		return ret;
	}
	p->sent++;
	p->in_flight++;
	p->last_sent_ns = now;
	return 0;
}

/* ---- the channel ---- */

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct xr_pinger *p = arg;

	if (event == XRDMA_CONNECTED) {
		p->connected = p->was_connected = true;
		look_at_transport(p);
		if (xrdma_channel_tcp_rtt(ch, &p->tcp_rtt_ns))
			p->tcp_rtt_ns = 0;
		if (p->on_connected)
			p->on_connected(p);
		return;
	}
	if (event != XRDMA_CLOSED)
		return;
	p->ch = NULL;
	p->connected = false;
	if (status)
		snprintf(p->why, sizeof(p->why), "%s", xrdma_last_error());
	if (!p->was_connected) {
		p->status = status;
		p->stopped = true;
	}
	if (is_done(p))
		end(p);
}

static void connect(struct xr_pinger *p)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	int ret = xrdma_connect(p->ctx, p->address, &handlers, p, &p->ch);

	if (ret == 0)
		return;
	p->ch = NULL;
	snprintf(p->why, sizeof(p->why), "%s", xrdma_last_error());
	if (!p->was_connected) {
		p->status = ret;
		p->stopped = true;
		end(p);
	}
}

void xr_pinger_start(struct xr_pinger *p, uint64_t now)
{
	p->began_ns = p->due_ns = now;
	for (unsigned i = 0; i < XR_N_LAYERS; i++)
		hist_reset(&p->times[i].hist);
	connect(p);
}

uint64_t xr_pinger_step(struct xr_pinger *p, uint64_t now)
{
	int ret;

	if (p->ended || is_done(p) || !p->was_connected)
		return CLOCK_NEVER;
	if (p->probing.interval_ns == 0 && p->in_flight)
		return CLOCK_NEVER;
	if (now < p->due_ns)
		return p->due_ns;
	if (!p->ch)
		connect(p);
	ret = p->connected ? send_probe(p, now) : -ENOTCONN;
	if (ret)
		lose(p, ret);
	/* Probes that could not go are not made up for. */
	p->due_ns = now - p->due_ns < p->probing.interval_ns ? p->due_ns + p->probing.interval_ns
							     : now + p->probing.interval_ns;
	if (ret && p->probing.interval_ns == 0)
		p->due_ns = now + NSEC_PER_MSEC;
	if (is_done(p) && p->in_flight == 0)
		end(p);
	return p->due_ns;
}

void xr_pinger_stop(struct xr_pinger *p)
{
	p->stopped = true;
	end(p);
}
