/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/msg.h"

#include "xrdma/channel.h"
#include "xrdma/context.h"
#include "xrdma/error.h"
#include "xrdma/region.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MSGS = 64, WARM_MSGS = 64 };

struct chunk {
	struct list link;
	struct xrdma_msg msgs[CHUNK_MSGS];
};

static int grow(struct xrdma_context *ctx)
{
	struct chunk *chunk = aligned_alloc(_Alignof(struct chunk), sizeof(*chunk));

	if (!chunk)
		return -ENOMEM;
	memset(chunk, 0, sizeof(*chunk));
	list_add_tail(&ctx->msg_chunks, &chunk->link);
	for (unsigned i = 0; i < CHUNK_MSGS; i++) {
		struct xrdma_msg *m = &chunk->msgs[i];

		m->ctx = ctx;
		list_init(&m->link);
		list_init(&m->moving);
		m->next_free = ctx->free_msgs;
		ctx->free_msgs = m;
	}
	return 0;
}

int xr_msgs_init(struct xrdma_context *ctx)
{
	list_init(&ctx->msg_chunks);
	return grow(ctx);
}

void xr_msgs_fini(struct xrdma_context *ctx)
{
	list_for_each_safe (pos, &ctx->msg_chunks) {
		struct chunk *chunk = container_of(pos, struct chunk, link);

		for (unsigned i = 0; i < CHUNK_MSGS; i++)
			xr_msg_drop_memory(&chunk->msgs[i]);
		free(chunk);
	}
}

/* The first of a list of free messages, as good as new. */
static struct xrdma_msg *take(struct xrdma_msg **list)
{
	struct xrdma_msg *m = *list;

	*list = m->next_free;
	m->ch = NULL;
	m->len = 0;
	m->received = m->unacked = m->answered = m->owes = m->complete = m->small = m->write =
		m->traced = false;
	m->wrs = 0;
	m->slot = -1;
	m->region = NULL;
	m->mw = NULL;
	m->posted = 0;
	m->done = NULL;
	m->released = NULL;
	return m;
}

struct xrdma_msg *xr_msg_get(struct xrdma_context *ctx)
{
	struct xrdma_msg *m;

	if (!ctx->free_msgs && grow(ctx)) {
		xr_error(-ENOMEM, "out of memory for a message");
		return NULL;
	}
	m = take(&ctx->free_msgs);
	m->data = NULL;
	m->origin = XR_FROM_NOWHERE;
	return m;
}

void xr_msg_drop_memory(struct xrdma_msg *m)
{
	switch ((enum xr_origin)m->origin) {
	case XR_FROM_RX:
		m->ctx->fed = true;
		if (!list_empty(&m->ctx->hungry) || !list_empty(&m->ctx->owing))
			xr_context_kick(m->ctx);
		__attribute__((fallthrough));
	case XR_FROM_TX:
	case XR_FROM_SMALL:
		xr_mem_release(m->ctx->mem, &m->buf);
		break;
	case XR_FROM_CALLER:
		if (m->ref.entry)
			xr_regcache_put(xr_mem_regcache(m->ctx->mem), &m->ref);
		m->ref.entry = NULL;
		break;
	case XR_FROM_NOWHERE:
		break;
	}
	m->origin = XR_FROM_NOWHERE;
	if (m->region)
		xr_region_unuse(m->region);
	m->region = NULL;
}

int xr_msg_bare(struct xrdma_channel *ch, enum xr_type type, struct xrdma_msg **ret_m)
{
	struct xrdma_msg *m;
	int ret = xr_context_guard(ch->ctx);

	if (ret)
		return ret;
	if (!xr_channel_accepts(ch))
		return xr_error(-EPIPE, "the channel is closed: nothing more is sent");
	m = xr_msg_get(ch->ctx);
	if (!m)
		return -ENOMEM;
	m->ch = ch;
	m->type = (uint8_t)type;
	m->state = XR_M_QUEUED;
	*ret_m = m;
	return 0;
}

void xr_msg_put(struct xrdma_msg *m)
{
	struct xrdma_context *ctx = m->ctx;

	assert(m->state != XR_M_FREE && m->wrs == 0);
	list_del(&m->link);
	list_del(&m->moving);
	m->state = XR_M_FREE;
	if (m->origin == XR_FROM_SMALL && ctx->n_warm < WARM_MSGS && !ctx->conf.guard) {
		m->next_free = ctx->warm_msgs;
		ctx->warm_msgs = m;
		ctx->n_warm++;
		return;
	}
	xr_msg_drop_memory(m);
	m->next_free = ctx->free_msgs;
	ctx->free_msgs = m;
}

void xr_msgs_cool(struct xrdma_context *ctx)
{
	while (ctx->warm_msgs) {
		struct xrdma_msg *m = ctx->warm_msgs;

		ctx->warm_msgs = m->next_free;
		xr_msg_drop_memory(m);
		m->next_free = ctx->free_msgs;
		ctx->free_msgs = m;
	}
	ctx->n_warm = 0;
}

int xr_msg_alloc(struct xrdma_msg *m, enum xr_mem_use use, size_t len)
{
	int ret = xr_mem_alloc(m->ctx->mem, use, len, &m->buf);

	if (ret == -ENOBUFS && m->ctx->n_warm) {
		xr_msgs_cool(m->ctx);
		ret = xr_mem_alloc(m->ctx->mem, use, len, &m->buf);
	}
	if (ret)
		return ret;
	m->origin = use == XR_TX ? XR_FROM_TX : XR_FROM_RX;
	m->data = m->buf.addr;
	m->lkey = m->buf.lkey;
	m->rkey = m->buf.rkey;
	return 0;
}

struct xrdma_msg *xr_msg_rx_new(struct xrdma_context *ctx)
{
	struct xrdma_msg *m = xr_msg_get(ctx);

	if (!m)
		return NULL;
	m->state = XR_M_POSTED;
	if (xr_msg_alloc(m, XR_RX, xr_rx_bytes(&ctx->conf))) {
		xr_msg_put(m);
		return NULL;
	}
	m->recv_sge = (struct ibv_sge){
		.addr = (uintptr_t)m->buf.addr + XR_RX_HEAD,
		.length = xr_rx_bytes(&ctx->conf) - XR_RX_HEAD,
		.lkey = m->lkey,
	};
	m->recv = (struct ibv_recv_wr){.sg_list = &m->recv_sge, .num_sge = 1};
	return m;
}

int xr_msg_register(struct xrdma_msg *m, unsigned access)
{
	struct xr_regcache *cache = xr_mem_regcache(m->ctx->mem);
	int ret;

	if (m->origin != XR_FROM_CALLER || m->len == 0)
		return 0;
	if (m->ref.entry && m->access == access)
		return 0;
	if (m->ref.entry)
		xr_regcache_put(cache, &m->ref);
	m->access = access;
	ret = xr_regcache_get(cache, m->data, m->len, access, &m->ref);
	if (ret) {
		m->ref.entry = NULL;
		return ret;
	}
	m->lkey = m->ref.lkey;
	m->rkey = m->ref.rkey;
	return 0;
}

void xr_msg_to_app(struct xrdma_msg *m)
{
	m->state = XR_M_APP;
	m->ch->held++;
	m->ctx->stats.messages_held++;
}

void xr_msg_from_app(struct xrdma_msg *m, enum xr_msg_state state)
{
	struct xrdma_channel *ch = m->ch;

	m->state = (uint8_t)state;
	ch->held--;
	m->ctx->stats.messages_held--;
}

void xr_msg_sent_check(struct xrdma_msg *m)
{
	xrdma_released *released = m->released;
	void *data = m->data, *arg = m->released_arg;
	size_t len = m->len;

	if (m->state != XR_M_SENT || m->unacked || m->wrs || m->mw)
		return;
	xr_msg_put(m);
	if (released)
		released(data, len, arg);
}

/* ---- public ---- */

static int check_new(const struct xrdma_channel *ch, size_t len)
{
	int ret = xr_context_guard(ch->ctx);

	if (ret)
		return ret;
	if (!xr_channel_accepts(ch))
		return xr_error(-EPIPE, "the channel is closed: no new messages");
	if (len > ch->bounds.max_bytes)
		return xr_error(-EMSGSIZE,
				"a message of %zu bytes; the limit of this channel is "
				"%u: the smallest of max_msg and 7/8 of rx_budget_bytes of both "
				"sides",
				len, ch->bounds.max_bytes);
	return 0;
}

/* Small payloads all get buffers of one size, so that any of them fits the next. */
static size_t small_bytes(const struct xrdma_context *ctx)
{
	return ctx->conf.small_bytes < XR_CLASS_BYTES ? ctx->conf.small_bytes : XR_CLASS_BYTES;
}

static int alloc_to_send(struct xrdma_msg *m, size_t len)
{
	const struct xrdma_context *ctx = m->ctx;
	size_t small = small_bytes(ctx);
	int ret;

	if (len == 0)
		return 0;
	if (len > small)
		return xr_msg_alloc(m, XR_TX, len);
	ret = xr_msg_alloc(m, XR_TX, XR_HEADROOM + (ctx->conf.guard ? len : small));
	if (ret)
		return ret;
	m->origin = XR_FROM_SMALL;
	m->data = (uint8_t *)m->buf.addr + XR_HEADROOM;
	return 0;
}

static int new_cold(struct xrdma_context *ctx, size_t len, struct xrdma_msg **ret_m)
{
	struct xrdma_msg *m = *ret_m = xr_msg_get(ctx);
	int ret;

	if (!m)
		return -ENOMEM;
	m->state = XR_M_QUEUED;
	ret = alloc_to_send(m, len);
	if (ret)
		xr_msg_put(m);
	return ret;
}

int xrdma_msg_new(struct xrdma_channel *ch, size_t len, struct xrdma_msg **ret_msg)
{
	struct xrdma_context *ctx = ch->ctx;
	int ret = check_new(ch, len);
	struct xrdma_msg *m;

	if (ret)
		return ret;
	if (ctx->warm_msgs && len && len <= small_bytes(ctx)) {
		m = take(&ctx->warm_msgs);
		ctx->n_warm--;
		ctx->stats.pool_hits++;
		m->data = (uint8_t *)m->buf.addr + XR_HEADROOM;
	} else {
		ret = new_cold(ctx, len, &m);
		if (ret)
			return ret;
	}
	m->ch = ch;
	m->len = (uint32_t)len;
	xr_msg_to_app(m);
	*ret_msg = m;
	return 0;
}

int xrdma_msg_wrap(struct xrdma_channel *ch, void *data, size_t len, xrdma_released *released,
		   void *arg, struct xrdma_msg **ret_msg)
{
	int ret = check_new(ch, len);
	struct xrdma_msg *m;

	if (ret)
		return ret;
	if (len && !data)
		return xr_error(-EINVAL, "no memory to wrap: data is NULL");
	m = xr_msg_get(ch->ctx);
	if (!m)
		return -ENOMEM;
	m->ch = ch;
	m->len = (uint32_t)len;
	m->data = data;
	m->origin = XR_FROM_CALLER;
	m->ref.entry = NULL;
	m->released = released;
	m->released_arg = arg;
	xr_msg_to_app(m);
	*ret_msg = m;
	return 0;
}

void *xrdma_msg_data(struct xrdma_msg *msg)
{
	return msg->data;
}

size_t xrdma_msg_len(const struct xrdma_msg *msg)
{
	return msg->len;
}

int xrdma_msg_slot(const struct xrdma_msg *msg)
{
	return msg->slot;
}

void xrdma_msg_free(struct xrdma_msg *msg)
{
	if (!msg || xr_context_guard(msg->ctx))
		return;
	assert(msg->state == XR_M_APP || msg->state == XR_M_DELIVERING);
	if (msg->received && msg->type == XR_REQ && !msg->answered)
		xr_rpc_refuse(msg);
	xr_msg_release(msg);
}

int xrdma_forget(struct xrdma_context *ctx, const void *data, size_t len)
{
	int ret = xr_context_guard(ctx);

	return ret ? ret : xr_regcache_forget(xr_mem_regcache(ctx->mem), data, len);
}
