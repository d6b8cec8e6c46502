/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of a peer's, as it told of them over one channel, and operations on them. */
#include "base/be.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdlib.h>

struct xrdma_remote_region *xr_remote_find(struct xrdma_channel *ch, uint32_t id)
{
	list_for_each (pos, &ch->remotes) {
		struct xrdma_remote_region *remote =
			container_of(pos, struct xrdma_remote_region, link);

		if (remote->id == id)
			return remote;
	}
	return NULL;
}

int xr_remote_new(struct xrdma_channel *ch, const struct xr_head *h)
{
	struct xrdma_remote_region *remote;

	if (ch->n_remotes == XR_REGIONS_MAX || h->id != ch->n_remotes)
		return -EPROTO;
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return -ENOMEM;
	remote->ch = ch;
	remote->id = h->id;
	remote->tag = h->tag;
	remote->n_slots = h->n_slots;
	remote->slot_bytes = h->slot_bytes;
	remote->key = h->key;
	remote->gone = h->key.rkey == 0; /* revoked before it was told */
	list_add_tail(&ch->remotes, &remote->link);
	ch->n_remotes++;
	return 0;
}

void xr_remote_forget(struct xrdma_channel *ch, uint32_t id)
{
	while (ch->n_remotes > id) {
		struct list *last = ch->remotes.prev;

		list_del(last);
		free(container_of(last, struct xrdma_remote_region, link));
		ch->n_remotes--;
	}
}

int xr_remote_gone(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h)
{
	m->remote = xr_remote_find(ch, h->id);
	if (!m->remote)
		return -EPROTO;
	m->remote->gone = true;
	return 0;
}

int xr_remotes_renew(struct xrdma_channel *ch, const uint8_t *in, size_t len)
{
	if (len % XR_KEYS_ENTRY_BYTES || len > XR_REGIONS_MAX * XR_KEYS_ENTRY_BYTES)
		return xr_error(-EPROTO, "the peer sent KEYS that are none");
	for (const uint8_t *p = in; p < in + len; p += XR_KEYS_ENTRY_BYTES) {
		struct xrdma_remote_region *remote = xr_remote_find(ch, get_be32(p));
		struct xr_key key;

		if (!remote) /* its REGION message is to come */
			continue;
		xr_key_decode(p + 4, &key);
		if (xr_key_check(&key, ch->bounds.epoch, remote->slot_bytes * remote->n_slots)) {
			ch->ctx->stats.stale_epochs++;
			return -ESTALE;
		}
		remote->key = key;
	}
	return 0;
}

/* ---- public ---- */

uint32_t xrdma_remote_region_tag(const struct xrdma_remote_region *remote)
{
	return remote->tag;
}

uint32_t xrdma_remote_region_slots(const struct xrdma_remote_region *remote)
{
	return remote->n_slots;
}

size_t xrdma_remote_region_slot_bytes(const struct xrdma_remote_region *remote)
{
	return remote->slot_bytes;
}

static int check_range(const struct xrdma_channel *ch, const struct xrdma_remote_region *remote,
		       uint32_t slot, size_t offset, size_t len)
{
	if (!remote)
		return xr_error(-EINVAL, "no remote region: it comes with on_region");
	if (remote->ch != ch)
		return xr_error(-EINVAL, "this region was exported over another channel");
	if (slot >= remote->n_slots || offset > remote->slot_bytes ||
	    len > remote->slot_bytes - offset)
		return xr_error(
			-EINVAL,
			"%zu bytes at %zu of slot %u; the region has %u slots of %llu bytes", len,
			offset, slot, remote->n_slots, (unsigned long long)remote->slot_bytes);
	return 0;
}

static int one_sided(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
		     size_t offset, struct xrdma_msg *m, bool write, xrdma_done *done, void *arg)
{
	int ret = xr_context_guard(ch->ctx);

	if (!ret)
		ret = check_range(ch, remote, slot, offset, m->len);
	if (ret)
		return ret;
	if (m->ch != ch || m->state != XR_M_APP || m->region || !m->len || !done)
		return xr_error(-EINVAL, "a one-sided operation needs a message of this channel, "
					 "not empty and not in a slot, and a function to tell");
	if (!(xr_channel_flows(ch) || xr_recovering(ch)) || !xr_channel_accepts(ch))
		return xr_error(-EPIPE, "the channel is not open");
	/* While the channel is broken all keys are stale: the operation waits for new ones. */
	if (remote->gone ||
	    (!xr_recovering(ch) && !ch->rec.keys_due && remote->key.epoch != ch->bounds.epoch)) {
		ch->ctx->stats.stale_epochs++;
		return xr_error(-ESTALE, "the region's key is gone: the peer has freed the region "
					 "or revoked the key");
	}
	if (!write && (m->origin == XR_FROM_TX || m->origin == XR_FROM_SMALL)) {
		/* Send memory must not be written by the NIC: trade it for receive memory. */
		struct xr_buf tx = m->buf;

		ret = xr_msg_alloc(m, XR_RX, m->len);
		if (ret)
			return ret;
		xr_mem_release(ch->ctx->mem, &tx);
	}
	ret = xr_msg_register(m, write ? 0 : IBV_ACCESS_LOCAL_WRITE);
	if (ret)
		return ret;
	xr_msg_from_app(m, XR_M_MOVING);
	m->remote = remote;
	m->remote_offset = slot * remote->slot_bytes + offset;
	m->key = remote->key;
	m->key.addr += m->remote_offset;
	m->write = write;
	m->status = 0;
	m->done = done;
	m->arg = arg;
	if (xr_recovering(ch) || ch->rec.keys_due) {
		list_add_tail(&ch->rec.moves, &m->moving);
		return 0;
	}
	xr_move_start(ch, m);
	xr_channel_pump(ch);
	return 0;
}

int xrdma_put(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
	      size_t offset, struct xrdma_msg *msg, xrdma_done *done, void *arg)
{
	return one_sided(ch, remote, slot, offset, msg, true, done, arg);
}

int xrdma_get(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
	      size_t offset, struct xrdma_msg *msg, xrdma_done *done, void *arg)
{
	return one_sided(ch, remote, slot, offset, msg, false, done, arg);
}

int xrdma_send_slot(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
		    size_t len)
{
	struct xrdma_msg *m;
	int ret = check_range(ch, remote, slot, 0, len);

	if (!ret)
		ret = xr_msg_bare(ch, XR_SLOT, &m);
	if (ret)
		return ret;
	m->id = remote->id;
	m->slot = (int)slot;
	m->len = (uint32_t)len;
	ret = xr_channel_send(ch, m, false);
	if (ret)
		xr_msg_put(m);
	return ret;
}
