/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/trace.h"

#include "base/ticks.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/log.h"
#include "xrdma/monitor.h"
#include "xrdma/trace_file.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum { SLOW_TRACK = 0 };

bool xr_trace_split(const uint64_t at[static XR_AT_ALL], struct xrdma_trace *ret_trace)
{
	static const unsigned char ours[] = {XR_AT_CALLED, XR_AT_SENT, XR_AT_RECEIVED,
					     XR_AT_DELIVERED};
	uint64_t inside = at[XR_AT_PEER_SENT] - at[XR_AT_PEER_RECEIVED];
	uint64_t outside = at[XR_AT_RECEIVED] - at[XR_AT_SENT];

	for (unsigned i = 0; i + 1 < sizeof(ours); i++) {
		if (at[ours[i + 1]] < at[ours[i]])
			return false;
	}
	for (unsigned i = XR_AT_PEER_RECEIVED; i < XR_AT_PEER_SENT; i++) {
		if (at[i + 1] < at[i])
			return false;
	}
	if (inside > outside)
		return false;
	ret_trace->rtt_ns = at[XR_AT_DELIVERED] - at[XR_AT_CALLED];
	ret_trace->send_queue_ns = at[XR_AT_SENT] - at[XR_AT_CALLED];
	ret_trace->wire_ns = outside - inside;
	ret_trace->handler_ns = at[XR_AT_PEER_REPLIED] - at[XR_AT_PEER_DELIVERED];
	ret_trace->peer_queue_ns = inside - ret_trace->handler_ns;
	ret_trace->receive_queue_ns = at[XR_AT_DELIVERED] - at[XR_AT_RECEIVED];
	return true;
}

/* ---- a request and its reply ---- */

void xr_trace_called(struct xrdma_channel *ch, struct xrdma_msg *request)
{
	struct xrdma_context *ctx = ch->ctx;

	if (ctx->conf.trace_sample == 0 || ++ctx->untraced < ctx->conf.trace_sample)
		return;
	ctx->untraced = 0;
	request->traced = true;
	request->at[XR_AT_CALLED] = ticks_now_ns();
}

void xr_trace_sent(struct xrdma_channel *ch, struct xrdma_msg *m, struct xr_head *h)
{
	m->at[m->type == XR_REQ ? XR_AT_SENT : XR_AT_PEER_SENT] = ticks_now_ns();
	h->traced = true;
	memcpy(h->at, m->at, sizeof(h->at));
	if (m->type == XR_REQ)
		xr_call_note(ch, m->id, m->at);
}

void xr_trace_received(struct xrdma_msg *m, const struct xr_head *h)
{
	memcpy(m->at, h->at, sizeof(h->at));
	m->at[m->type == XR_REQ ? XR_AT_PEER_RECEIVED : XR_AT_RECEIVED] = ticks_now_ns();
}

void xr_trace_delivered(struct xrdma_msg *request)
{
	request->at[XR_AT_PEER_DELIVERED] = ticks_now_ns();
}

void xr_trace_replied(struct xrdma_channel *ch, const struct xrdma_msg *request,
		      struct xrdma_msg *reply)
{
	struct xrdma_context *ctx = ch->ctx;

	reply->traced = true;
	memcpy(reply->at, request->at, sizeof(reply->at));
	reply->at[XR_AT_PEER_REPLIED] = ticks_now_ns();
	if (ctx->monitor)
		xr_hist_add(xr_monitor_hist(ctx->monitor, XR_HIST_SERVED),
			    reply->at[XR_AT_PEER_REPLIED] - reply->at[XR_AT_PEER_DELIVERED]);
	if (ctx->trace_file)
		xr_trace_span(ctx->trace_file, "serve", ch->handle + 1, reply->id,
			      reply->at[XR_AT_PEER_DELIVERED], reply->at[XR_AT_PEER_REPLIED]);
}

static void count(struct xrdma_channel *ch, const struct xrdma_trace *t)
{
	struct xr_monitor_page *page = ch->ctx->monitor;
	struct xr_hist *of_channel = page ? xr_monitor_channel_rtt(page, ch) : NULL;

	if (!page)
		return;
	xr_hist_add(xr_monitor_hist(page, XR_HIST_RTT), t->rtt_ns);
	xr_hist_add(xr_monitor_hist(page, XR_HIST_QUEUE),
		    t->send_queue_ns + t->peer_queue_ns + t->receive_queue_ns);
	xr_hist_add(xr_monitor_hist(page, XR_HIST_WIRE), t->wire_ns);
	xr_hist_add(xr_monitor_hist(page, XR_HIST_HANDLER), t->handler_ns);
	if (of_channel)
		xr_hist_add(of_channel, t->rtt_ns);
}

/* The parts of a call, the peer's moved to our clock. */
static void export(struct xrdma_channel *ch, const struct xrdma_msg *reply,
		   const struct xrdma_trace *t)
{
	static const char *const parts[] = {
		[XR_AT_CALLED] = "send queue",      [XR_AT_SENT] = "wire out",
		[XR_AT_PEER_RECEIVED] = "peer",     [XR_AT_PEER_DELIVERED] = "handler",
		[XR_AT_PEER_REPLIED] = "answer",    [XR_AT_PEER_SENT] = "wire back",
		[XR_AT_RECEIVED] = "receive queue",
	};
	struct xr_trace_file *f = ch->ctx->trace_file;
	uint64_t id = (uint64_t)ch->handle << 32 | reply->id, at[XR_AT_ALL];

	memcpy(at, reply->at, sizeof(at));
	for (unsigned i = XR_AT_PEER_RECEIVED; i <= XR_AT_PEER_SENT; i++)
		at[i] -= (uint64_t)t->clock_offset_ns;
	xr_trace_span(f, "call", ch->handle + 1, id, at[XR_AT_CALLED], at[XR_AT_DELIVERED]);
	for (unsigned i = 0; i + 1 < XR_AT_ALL; i++)
		xr_trace_span(f, parts[i], ch->handle + 1, id, at[i], at[i + 1]);
}

static int explain(const struct xrdma_msg *m, struct xrdma_trace *ret_trace)
{
	struct xrdma_trace t = {0};

	if (!m->received || !m->traced || m->type != XR_RSP)
		return -ENODATA;
	if (!xr_trace_split(m->at, &t))
		return -EPROTO;
	(void)xr_peer_clock_offset(&m->ch->peer_clock, m->at[XR_AT_DELIVERED], &t.clock_offset_ns,
				   &t.clock_error_ns);
	*ret_trace = t;
	return 0;
}

void xr_trace_done(struct xr_call *call, struct xrdma_msg *reply)
{
	struct xrdma_channel *ch = call->ch;
	struct xrdma_trace t;

	reply->at[XR_AT_CALLED] = call->called_ns;
	reply->at[XR_AT_SENT] = call->sent_ns;
	reply->at[XR_AT_DELIVERED] = ticks_now_ns();
	xr_peer_clock_add(&ch->peer_clock, reply->at[XR_AT_SENT], reply->at[XR_AT_PEER_RECEIVED],
			  reply->at[XR_AT_PEER_SENT], reply->at[XR_AT_RECEIVED]);
	if (call->called_ns == 0 || explain(reply, &t)) {
		reply->traced = false; /* not by us, or by a peer that lies */
		return;
	}
	ch->ctx->stats.calls_traced++;
	count(ch, &t);
	if (ch->ctx->trace_file)
		export(ch, reply, &t);
}

/* ---- what takes too long ---- */

static void tell_slow(struct xrdma_context *ctx, const char *what, uint64_t from, uint64_t to)
{
	if (ctx->trace_file)
		xr_trace_span(ctx->trace_file, what, SLOW_TRACK, 0, from, to);
	/* Once a second: what is slow once often stays so. */
	if (to < ctx->slow_told_at)
		return;
	ctx->slow_told_at = to + NSEC_PER_SEC;
	log_warn("%s: %llu us", what, (unsigned long long)((to - from) / NSEC_PER_USEC));
}

void xr_trace_handler(struct xrdma_channel *ch, uint64_t began_ns)
{
	struct xrdma_context *ctx = ch->ctx;
	uint64_t now = ticks_now_ns();

	if (now - began_ns < ctx->conf.slow_handler_us * NSEC_PER_USEC)
		return;
	ctx->stats.slow_handlers++;
	tell_slow(ctx, "slow handler", began_ns, now);
}

void xr_trace_poll(struct xrdma_context *ctx, uint64_t before_ns)
{
	if (ctx->monitor)
		xr_hist_add(xr_monitor_hist(ctx->monitor, XR_HIST_POLL_GAP), ctx->now - before_ns);
	if (ctx->now - before_ns < ctx->conf.slow_poll_us * NSEC_PER_USEC)
		return;
	ctx->stats.slow_polls++;
	tell_slow(ctx, "slow poll", before_ns, ctx->now);
}

/* ---- public ---- */

int xrdma_msg_trace(const struct xrdma_msg *reply, struct xrdma_trace *ret_trace)
{
	int ret = xr_context_guard(reply->ctx);

	if (ret)
		return ret;
	ret = explain(reply, ret_trace);
	return ret ? xr_error(ret, "this is no reply to a call that was traced: both sides need "
				   "trace = on, and one in trace_sample calls is")
		   : 0;
}

int xrdma_channel_tcp_rtt(const struct xrdma_channel *ch, uint64_t *ret_ns)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int ret = xr_context_guard(ch->ctx);

	if (ret)
		return ret;
	if (!ch->boot || getsockopt(xr_boot_fd(ch->boot), IPPROTO_TCP, TCP_INFO, &info, &len))
		return xr_error(-ENOTCONN, "the channel has no TCP connection");
	*ret_ns = info.tcpi_rtt * NSEC_PER_USEC;
	return 0;
}
