/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/rpc.h"

#include "base/ticks.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { CHUNK_CALLS = 16, NO_CALL = UINT16_MAX };

static void deadline_passed(struct xr_timer *t)
{
	struct xr_call *call = container_of(t, struct xr_call, deadline);

	call->ch->ctx->stats.calls_timed_out++;
	xr_call_end(call, xr_error(-ETIMEDOUT, "a call had no reply within its deadline"), NULL);
}

static struct xr_call *call_at(const struct xr_calls *calls, uint32_t index)
{
	return &calls->chunks[index / CHUNK_CALLS][index % CHUNK_CALLS];
}

static int grow(struct xrdma_channel *ch)
{
	struct xr_calls *calls = &ch->calls;
	struct xr_call *chunk;
	int ret;

	if (calls->n >= calls->max || calls->n + CHUNK_CALLS > NO_CALL)
		return xr_error_counted(-EAGAIN, calls->busy,
					"calls of this channel are in flight (max_calls)");
	ret = xr_timers_reserve(ch->ctx, CHUNK_CALLS);
	if (ret)
		return ret;
	chunk = calloc(CHUNK_CALLS, sizeof(*chunk));
	if (!chunk)
		return xr_error(-ENOMEM, "out of memory for calls");
	calls->chunks[calls->n / CHUNK_CALLS] = chunk;
	for (uint32_t i = 0; i < CHUNK_CALLS; i++) {
		struct xr_call *call = &chunk[i];

		call->ch = ch;
		call->index = (uint16_t)(calls->n + i);
		call->next_free = (uint16_t)(i + 1 < CHUNK_CALLS ? call->index + 1U : calls->free);
		xr_timer_init(&call->deadline, deadline_passed);
		list_init(&call->ended);
	}
	calls->free = calls->n;
	calls->n += CHUNK_CALLS;
	return 0;
}

int xr_calls_init(struct xrdma_channel *ch)
{
	struct xr_calls *calls = &ch->calls;

	calls->max = ch->ctx->conf.max_calls;
	calls->free = NO_CALL;
	calls->chunks = calloc(calls->max / CHUNK_CALLS + 1, sizeof(struct xr_call *));
	return calls->chunks ? grow(ch) : xr_error(-ENOMEM, "out of memory for calls");
}

void xr_calls_fini(struct xrdma_channel *ch)
{
	struct xr_calls *calls = &ch->calls;

	for (uint32_t i = 0; i < calls->n; i += CHUNK_CALLS) {
		struct xr_call *chunk = calls->chunks[i / CHUNK_CALLS];

		for (uint32_t k = 0; k < CHUNK_CALLS; k++)
			timer_remove(&ch->ctx->timers, &chunk[k].deadline.timer);
		free(chunk);
	}
	ch->ctx->n_timers -= calls->n;
	free(calls->chunks);
	calls->chunks = NULL;
	calls->n = 0;
}

struct xr_call *xr_call_find(struct xrdma_channel *ch, uint32_t id)
{
	uint32_t index = id >> 16;
	struct xr_call *call;

	if (index >= ch->calls.n)
		return NULL;
	call = call_at(&ch->calls, index);
	/* One that is cancelled is as good as ended. */
	return call->done && call->generation == (uint16_t)id && !list_linked(&call->ended) ? call
											    : NULL;
}

void xr_call_note(struct xrdma_channel *ch, uint32_t id, const uint64_t at[static XR_AT_WIRE])
{
	struct xr_call *call = call_at(&ch->calls, id >> 16);

	if (call->generation != (uint16_t)id)
		return; /* it has ended before its request went */
	call->called_ns = at[XR_AT_CALLED];
	call->sent_ns = at[XR_AT_SENT];
}

void xr_call_end(struct xr_call *call, int status, struct xrdma_msg *reply)
{
	struct xrdma_channel *ch = call->ch;
	xrdma_done *done = call->done;
	void *arg = call->arg;

	timer_off(&call->deadline.timer);
	list_del(&call->ended);
	call->done = NULL;
	call->generation++;
	call->next_free = (uint16_t)ch->calls.free;
	ch->calls.free = call->index;
	ch->calls.busy--;
	if (status == -ENOMSG)
		xr_error(status, "the peer freed a request without a reply: is it a program that "
				 "serves such requests?");
	done(ch, status, reply, arg);
}

void xr_calls_end_all(struct xrdma_channel *ch, int status)
{
	for (uint32_t i = 0; i < ch->calls.n && ch->calls.busy; i++) {
		struct xr_call *call = call_at(&ch->calls, i);

		if (call->done)
			xr_call_end(call, list_linked(&call->ended) ? call->status : status, NULL);
	}
}

int xr_calls_end_cancelled(struct xrdma_context *ctx)
{
	int n = 0;

	for (struct list *node = list_pop(&ctx->ended); node; node = list_pop(&ctx->ended), n++) {
		struct xr_call *call = container_of(node, struct xr_call, ended);

		xr_call_end(call, call->status, NULL);
	}
	return n;
}

void xr_rpc_refuse(struct xrdma_msg *request)
{
	struct xrdma_channel *ch = request->ch;
	struct xrdma_msg *m;

	ch->ctx->stats.unanswered++;
	/* Not for ever more of them to a peer that does not listen. */
	if (ch->queued >= ch->ctx->conf.queue_depth || xr_msg_bare(ch, XR_ERR_RSP, &m))
		return;
	m->id = request->id;
	m->status = -ENOMSG;
	(void)xr_channel_send(ch, m, true); /* always accepted */
}

/* ---- public ---- */

static int check_ours(const struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	int ret = xr_context_guard(ch->ctx);

	if (ret)
		return ret;
	if (m->ch != ch || m->received || m->state != XR_M_APP)
		return xr_error(-EINVAL, "not a message that xrdma_msg_new() or xrdma_msg_wrap() "
					 "made for this channel, or one that was sent already");
	if (!xr_channel_accepts(ch))
		return xr_error(-EPIPE, "the channel is closed: nothing more is sent");
	return 0;
}

int xrdma_send_msg(struct xrdma_channel *ch, struct xrdma_msg *msg)
{
	int ret = check_ours(ch, msg);

	if (ret)
		return ret;
	msg->type = XR_MSG;
	msg->id = 0;
	return xr_channel_send(ch, msg, false);
}

int xrdma_call(struct xrdma_channel *ch, struct xrdma_msg *request, uint64_t timeout_us,
	       xrdma_done *done, void *arg, uint64_t *ret_id)
{
	int ret = check_ours(ch, request);
	struct xr_call *call;
	uint32_t id;

	if (ret)
		return ret;
	if (!done)
		return xr_error(-EINVAL, "a call needs a function to tell the reply");
	if (ch->calls.free == NO_CALL && (ret = grow(ch)) != 0)
		return ret;
	call = call_at(&ch->calls, ch->calls.free);
	id = (uint32_t)call->index << 16 | call->generation;
	request->type = XR_REQ;
	request->id = id;
	call->called_ns = 0;
	if (ch->bounds.trace)
		xr_trace_called(ch, request);
	ret = xr_channel_send(ch, request, false);
	if (ret)
		return ret;
	ch->calls.free = call->next_free;
	ch->calls.busy++;
	call->done = done;
	call->arg = arg;
	if (timeout_us)
		xr_timer_set(ch->ctx, &call->deadline, ticks_now_ns() + timeout_us * NSEC_PER_USEC);
	ch->ctx->stats.calls++;
	ch->counts.calls++;
	if (ret_id)
		*ret_id = id;
	return 0;
}

int xrdma_cancel(struct xrdma_channel *ch, uint64_t id)
{
	struct xr_call *call;
	int ret = xr_context_guard(ch->ctx);

	if (ret)
		return ret;
	call = id <= UINT32_MAX ? xr_call_find(ch, (uint32_t)id) : NULL;
	if (!call)
		return xr_error(-ENOENT, "no such call is in flight: it has ended");
	call->status = -ECANCELED;
	timer_off(&call->deadline.timer);
	list_add_tail(&ch->ctx->ended, &call->ended);
	ch->ctx->stats.calls_cancelled++;
	xr_context_kick(ch->ctx);
	return 0;
}

int xrdma_reply(struct xrdma_msg *request, struct xrdma_msg *reply)
{
	struct xrdma_channel *ch = request->ch;
	int ret = check_ours(ch, reply);

	if (ret)
		return ret;
	if (!request->received || request->type != XR_REQ ||
	    (request->state != XR_M_APP && request->state != XR_M_DELIVERING))
		return xr_error(-EINVAL, "not a request that waits for a reply");
	reply->type = XR_RSP;
	reply->id = request->id;
	reply->answers = request->small ? 0 : request->key.rkey;
	if (request->traced)
		xr_trace_replied(ch, request, reply);
	ret = xr_channel_send(ch, reply, true);
	if (ret)
		return ret;
	request->answered = true;
	xr_msg_release(request);
	return 0;
}
