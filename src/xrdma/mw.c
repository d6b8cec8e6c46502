/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mw.h"

#include "xrdma/channel.h"
#include "xrdma/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct xr_mw *mw_of(struct list *node)
{
	return container_of(node, struct xr_mw, link);
}

static bool type_2(const struct xrdma_context *ctx)
{
	return ctx->conf.mem_windows == XR_MEM_WINDOWS_TYPE2;
}

/* ---- the device ---- */

enum { TYPE_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B };

int xr_mw_check_device(const struct xrdma_context *ctx)
{
	const unsigned needs = type_2(ctx) ? TYPE_2 : IBV_DEVICE_MEM_WINDOW;

	if (!ctx->conf.mem_windows || (ctx->attr.device_cap_flags & needs && ctx->attr.max_mw > 0))
		return 0;
	return xr_error(
		-EOPNOTSUPP, "device %s has no memory windows of type %d: set mem_windows = off%s",
		ctx->device, type_2(ctx) ? 2 : 1,
		type_2(ctx) && ctx->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW ? " or type1"
										  : "");
}

/* Any of these says that it has SEND with invalidate (IBA base memory management extensions). */
static bool can_invalidate(const struct xrdma_context *ctx)
{
	return ctx->attr.device_cap_flags & (IBV_DEVICE_MEM_MGT_EXTENSIONS | TYPE_2);
}

unsigned xr_mw_access(const struct xrdma_context *ctx)
{
	return ctx->conf.mem_windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ;
}

/* ---- with the queue pair ---- */

int xr_mws_new(struct xrdma_channel *ch)
{
	const struct xrdma_context *ctx = ch->ctx;
	struct xr_mws *mws = &ch->mws;
	uint32_t n = ch->ours.window < XR_MWS_MAX ? ch->ours.window : XR_MWS_MAX;

	if (!ctx->conf.mem_windows)
		return 0;
	list_init(&mws->free);
	list_init(&mws->bound);
	list_init(&mws->due);
	mws->all = calloc(n, sizeof(struct xr_mw));
	if (!mws->all)
		return xr_error(-ENOMEM, "out of memory for memory windows");
	for (; mws->n < n; mws->n++) {
		struct xr_mw *w = &mws->all[mws->n];

		w->mw = ibv_alloc_mw(ctx->pd, type_2(ctx) ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
		if (!w->mw)
			return xr_error(-errno,
					"device %s makes no memory window, with %u of %u for this "
					"channel made: %s; lower window or set mem_windows = off",
					ctx->device, mws->n, n, strerror(errno));
		list_add_tail(&mws->free, &w->link);
	}
	return 0;
}

void xr_mws_free(struct xrdma_channel *ch)
{
	struct xr_mws *mws = &ch->mws;

	ch->mws_read.n = 0;
	for (uint32_t i = 0; i < mws->n; i++) {
		struct xrdma_msg *m = mws->all[i].msg;

		(void)ibv_dealloc_mw(mws->all[i].mw);
		if (!m)
			continue;
		m->mw = NULL;
		xr_msg_sent_check(m);
	}
	free(mws->all);
	mws->all = NULL;
	mws->n = 0;
}

/* ---- ours ---- */

static bool needs_one(const struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	return ch->mws.all && m->type <= XR_RSP && m->len > ch->bounds.small_bytes && !m->mw;
}

bool xr_mw_starved(const struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	return needs_one(ch, m) && list_empty(&ch->mws.free);
}

static struct ibv_send_wr binding(const struct xr_mw *w, struct ibv_mr *mr, const void *addr,
				  size_t len)
{
	return (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = w->mw,
			    .rkey = ibv_inc_rkey(w->mw->rkey),
			    .bind_info = {.mr = mr,
					  .addr = (uintptr_t)addr,
					  .length = len,
					  .mw_access_flags = IBV_ACCESS_REMOTE_READ}},
	};
}

static struct ibv_mr *mr_of(const struct xrdma_msg *m)
{
	return m->origin == XR_FROM_CALLER ? m->ref.mr : m->buf.mr;
}

int xr_mw_bind(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	const struct xr_flow *flow = &ch->ctx->flow;
	struct ibv_send_wr wr;
	struct xr_mw *w;
	int ret;

	if (!needs_one(ch, m))
		return 0;
	/* Room for the announcement, too. */
	if (list_empty(&ch->mws.free) || flow->used + 2 > flow->limit ||
	    !xr_flow_room(flow, &ch->flow, XR_SPARE_CONTROL + 1))
		return -EAGAIN;
	w = mw_of(ch->mws.free.next);
	wr = binding(w, mr_of(m), m->data, m->len);
	ret = xr_channel_post_mw(ch, &wr, NULL, false);
	if (ret)
		return ret;
	w->mw->rkey = wr.bind_mw.rkey;
	list_del(&w->link);
	list_add_tail(&ch->mws.bound, &w->link);
	w->msg = m;
	m->mw = w;
	ch->ctx->stats.windows_bound++;
	return 0;
}

void xr_mw_due(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	list_del(&m->mw->link);
	list_add_tail(&ch->mws.due, &m->mw->link);
}

/* IBA 10.6.7: a window of type 1 is bound to nothing, one of type 2 invalidated. */
static int post_end(struct xrdma_channel *ch, const struct xr_mw *w, bool signal)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = w->mw->rkey};

	if (w->mw->type == IBV_MW_TYPE_1)
		wr = binding(w, mr_of(w->msg), NULL, 0);
	return xr_channel_post_mw(ch, &wr, w->msg, signal);
}

bool xr_mw_pump(struct xrdma_channel *ch)
{
	while (!list_empty(&ch->mws.due)) {
		struct list *node = ch->mws.due.next;

		if (!xr_flow_room(&ch->ctx->flow, &ch->flow, XR_SPARE_CONTROL) ||
		    ch->flow.quantum == 0)
			return false;
		/* Buffers wait for the last of them, which ends the others too. */
		if (post_end(ch, mw_of(node), node->next == &ch->mws.due))
			return false;
		list_del(node);
	}
	return true;
}

static void release(struct xrdma_channel *ch, struct xrdma_msg *m)
{
	list_del(&m->mw->link);
	list_add_tail(&ch->mws.free, &m->mw->link);
	m->mw->msg = NULL;
	m->mw = NULL;
}

/* One that failed is dead when the queue pair is. */
void xr_mw_ended(struct xrdma_channel *ch, struct xrdma_msg *m, int status)
{
	if (status == 0 && m->mw) {
		ch->ctx->stats.windows_ended++;
		release(ch, m);
	}
	xr_msg_sent_check(m);
}

void xr_mw_invalidated(struct xrdma_channel *ch, uint32_t rkey)
{
	if (ch->mws.all) {
		list_for_each (pos, &ch->mws.bound) {
			if (mw_of(pos)->mw->rkey != rkey)
				continue;
			ch->ctx->stats.windows_ended_by_peer++;
			release(ch, mw_of(pos)->msg);
			return;
		}
	}
	ch->ctx->stats.protocol_errors++;
	xr_channel_fail(ch, -EPROTO, "the peer invalidates a key that is not shown to it");
}

/* ---- the peer's ---- */

void xr_mw_read(struct xrdma_channel *ch, const struct xrdma_msg *m)
{
	struct xr_mws_read *read = &ch->mws_read;

	if (ch->tcp || !(ch->theirs.flags & XR_HELLO_WINDOWS) || !can_invalidate(ch->ctx) ||
	    read->n == XR_READ_MAX)
		return;
	read->at[read->n].rkey = m->key.rkey;
	read->at[read->n++].seq = m->seq;
}

void xr_mw_choose(const struct xrdma_channel *ch, const struct xrdma_msg *m, struct xr_head *h)
{
	const struct xr_mws_read *read = &ch->mws_read;

	h->stamped = read->n && !h->traced;
	if (!h->stamped)
		return;
	h->invalidates = read->at[0].rkey;
	for (uint32_t i = 1; i < read->n && m && m->type == XR_RSP; i++) {
		if (read->at[i].rkey == m->answers)
			h->invalidates = m->answers;
	}
}

void xr_mw_told(struct xrdma_channel *ch, const struct xr_head *h, uint16_t ack)
{
	struct xr_mws_read *read = &ch->mws_read;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < read->n; i++) {
		bool told = h->stamped && read->at[i].rkey == h->invalidates;

		if (!told && (int16_t)(read->at[i].seq - ack) >= 0)
			read->at[kept++] = read->at[i];
	}
	read->n = kept;
}
