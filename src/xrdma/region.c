/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/region.h"

#include "base/be.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/exit.h"
#include "xrdma/mem_numa.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOT_ALIGN = 64, MAX_SLOTS = 65536 };

void xr_region_unuse(struct xrdma_region *region)
{
	region->uses--;
}

void xr_region_describe(const struct xrdma_channel *ch, uint32_t id, struct xr_head *h)
{
	const struct xr_export *export = &ch->exports[id];
	const struct xrdma_region *region = export->region;

	h->key.addr = (uintptr_t)region->mem.map.addr;
	h->key.rkey = export->key ? export->key->rkey : 0; /* revoked before it was told */
	h->n_slots = region->attr.n_slots;
	h->slot_bytes = region->attr.slot_bytes;
}

int xr_region_arrived_slot(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h)
{
	struct xrdma_region *region;

	if (h->id >= ch->n_exports)
		return -EPROTO;
	region = ch->exports[h->id].region;
	if (!region || region->freed)
		return -ESTALE;
	if (h->slot >= region->attr.n_slots || h->len > region->attr.slot_bytes)
		return -EPROTO;
	m->region = region;
	region->uses++;
	m->slot = h->slot;
	m->data = xrdma_region_slot(region, h->slot);
	return 0;
}

void xr_regions_forget(struct xrdma_channel *ch)
{
	list_for_each_safe (pos, &ch->remotes) {
		list_del(pos);
		free(container_of(pos, struct xrdma_remote_region, link));
	}
	xr_exports_revoke(ch);
	free(ch->exports);
	ch->exports = NULL;
	ch->n_exports = 0;
}

static void free_region(struct xrdma_region *region)
{
	list_del(&region->link);
	if (xr_exit_remove(&region->own))
		xr_mem_region_free(region->ctx->mem, &region->mem);
	free(region);
}

void xr_regions_free_all(struct xrdma_context *ctx)
{
	list_for_each_safe (pos, &ctx->regions)
		free_region(container_of(pos, struct xrdma_region, link));
}

/* ---- keys ---- */

static unsigned access_of(unsigned rights)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE;

	if (rights & XRDMA_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights & XRDMA_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return access;
}

static int expose(struct xrdma_channel *ch, struct xr_export *export)
{
	struct xr_exposed *key = malloc(sizeof(*key));
	int ret;

	if (!key)
		return xr_error(-ENOMEM, "out of memory for a key");
	ret = xr_mem_region_key(ch->ctx->mem, &export->region->mem,
				access_of(export->region->attr.rights), &key->mr);
	if (ret) {
		free(key);
		return ret;
	}
	key->rkey = key->mr->rkey;
	xr_exit_add(key);
	export->key = key;
	export->region->keys++;
	return 0;
}

/* From here on the device may issue the number again. */
static void unexpose(struct xrdma_channel *ch, struct xr_export *export)
{
	struct xrdma_region *region = export->region;

	if (!export->key)
		return;
	if (xr_exit_remove(export->key))
		xr_mem_region_unkey(ch->ctx->mem, export->key->mr);
	free(export->key);
	export->key = NULL;
	region->keys--;
	if (!region->freed)
		return;
	export->region = NULL;
	if (region->keys == 0) {
		ch->ctx->stats.regions_lingering--;
		free_region(region);
	}
}

void xr_exports_revoke(struct xrdma_channel *ch)
{
	for (uint32_t i = 0; i < ch->n_exports; i++)
		unexpose(ch, &ch->exports[i]);
}

void xr_export_let_go(struct xrdma_channel *ch, uint32_t id)
{
	unexpose(ch, &ch->exports[id]);
}

/* Nobody gets in by it any more, and its number stays taken. */
static void withdraw(struct xrdma_channel *ch, struct xr_export *export)
{
	if (!export->key || export->withdrawn)
		return;
	export->withdrawn = true; /* reach.c: by TCP this is all that it takes */
	if (xr_reg_withdraw(export->key->mr) || ch->tcp)
		return;
	/* Then the epoch ends, and with it all use of the number. */
	xr_channel_break(ch, -EKEYREVOKED,
			 "a key is revoked, and the device cannot take its rights away");
	unexpose(ch, export);
}

/*
 * The peer gets no other. Within an epoch the number must not be issued again while the peer may
 * use it: so the registration stays until the peer has consumed a message that says so. If that
 * cannot be sent, or never is consumed, it stays until the epoch is over.
 */
static void end_export(struct xrdma_channel *ch, uint32_t id, bool at_once)
{
	struct xr_export *export = &ch->exports[id];
	struct xrdma_msg *m;

	if (ch->rec.open_epoch == 0) /* nobody was told */
		unexpose(ch, export);
	if (at_once)
		withdraw(ch, export);
	if (export->key && !export->over && ch->theirs.flags & XR_HELLO_GONE &&
	    xr_channel_accepts(ch) && xr_msg_bare(ch, XR_GONE, &m) == 0) {
		m->id = id;
		(void)xr_channel_send(ch, m, true); /* always accepted */
	}
	export->over = true;
}

int xr_exports_renew(struct xrdma_channel *ch)
{
	int ret = 0;

	for (uint32_t i = 0; i < ch->n_exports && !ret; i++) {
		/* One exported since has its key already. */
		if (ch->exports[i].region && !ch->exports[i].over && !ch->exports[i].key)
			ret = expose(ch, &ch->exports[i]);
	}
	return ret;
}

size_t xr_exports_encode(const struct xrdma_channel *ch,
			 uint8_t out[static XR_REGIONS_MAX * XR_KEYS_ENTRY_BYTES])
{
	uint8_t *p = out;

	for (uint32_t i = 0; i < ch->n_exports; i++) {
		struct xr_head h = {.key.epoch = ch->bounds.epoch};

		if (!ch->exports[i].key)
			continue;
		xr_region_describe(ch, i, &h);
		put_be32(p, i);
		xr_key_encode(&h.key, p + 4);
		p += XR_KEYS_ENTRY_BYTES;
	}
	return (size_t)(p - out);
}

/* ---- public: ours ---- */

static int check_attr(const struct xrdma_region_attr *attr, size_t *ret_slot_bytes)
{
	size_t slot_bytes = (attr->slot_bytes + SLOT_ALIGN - 1) & ~(size_t)(SLOT_ALIGN - 1), bytes;

	if (attr->n_slots == 0 || attr->n_slots > MAX_SLOTS)
		return xr_error(-EINVAL, "a region of %u slots; 1 to %d are possible",
				attr->n_slots, MAX_SLOTS);
	if (attr->slot_bytes == 0 || slot_bytes < attr->slot_bytes ||
	    __builtin_mul_overflow(slot_bytes, attr->n_slots, &bytes))
		return xr_error(-EINVAL, "a region of slots of %zu bytes", attr->slot_bytes);
	if (attr->rights & ~(unsigned)(XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE))
		return xr_error(-EINVAL, "rights %#x are not of enum xrdma_rights", attr->rights);
	*ret_slot_bytes = slot_bytes;
	return attr->numa_node < 0 ? 0 : xr_numa_check((unsigned)attr->numa_node);
}

int xrdma_region_new(struct xrdma_context *ctx, const struct xrdma_region_attr *attr,
		     struct xrdma_region **ret_region)
{
	struct xrdma_region *region;
	size_t slot_bytes = 0;
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = check_attr(attr, &slot_bytes);
	if (ret)
		return ret;
	region = calloc(1, sizeof(*region));
	if (!region)
		return xr_error(-ENOMEM, "out of memory for a region");
	ret = xr_mem_region_new(ctx->mem, slot_bytes * attr->n_slots, IBV_ACCESS_LOCAL_WRITE,
				attr->numa_node, &region->mem);
	if (ret) {
		free(region);
		return ret;
	}
	region->ctx = ctx;
	region->attr = *attr;
	region->attr.slot_bytes = slot_bytes;
	region->own.mr = region->mem.mr;
	list_add_tail(&ctx->regions, &region->link);
	xr_exit_add(&region->own);
	*ret_region = region;
	return 0;
}

/* Freed, it is forgotten where no peer holds a key of it. */
static void end_exports(struct xrdma_region *region, const struct xrdma_channel *only, bool freed)
{
	list_for_each (pos, &region->ctx->channels) {
		struct xrdma_channel *ch = container_of(pos, struct xrdma_channel, link);

		for (uint32_t i = 0; i < ch->n_exports && (!only || ch == only); i++) {
			if (ch->exports[i].region != region)
				continue;
			end_export(ch, i, !freed);
			if (freed && !ch->exports[i].key)
				ch->exports[i].region = NULL;
		}
	}
}

int xrdma_region_revoke(struct xrdma_region *region, struct xrdma_channel *ch)
{
	int ret = xr_context_guard(region->ctx);

	if (!ret)
		end_exports(region, ch, false);
	return ret;
}

int xrdma_region_free(struct xrdma_region *region)
{
	int ret;

	if (!region)
		return 0;
	ret = xr_context_guard(region->ctx);
	if (ret)
		return ret;
	if (region->uses)
		return xr_error(-EBUSY, "%u messages lie in slots of this region", region->uses);
	end_exports(region, NULL, true);
	region->freed = true;
	if (region->keys)
		region->ctx->stats.regions_lingering++;
	else
		free_region(region);
	return 0;
}

void *xrdma_region_slot(struct xrdma_region *region, uint32_t slot)
{
	if (slot >= region->attr.n_slots)
		return NULL;
	return (char *)region->mem.map.addr + slot * region->attr.slot_bytes;
}

size_t xrdma_region_huge_bytes(const struct xrdma_region *region)
{
	return region->mem.map.huge_bytes;
}

int xrdma_region_export(struct xrdma_region *region, struct xrdma_channel *ch, uint32_t tag)
{
	struct xr_export *exports, *export;
	struct xrdma_msg *m;
	int ret;

	if (ch->n_exports == XR_REGIONS_MAX)
		return xr_error(-ENOSPC, "%d regions are exported over this channel",
				XR_REGIONS_MAX);
	exports = realloc(ch->exports, (ch->n_exports + 1) * sizeof(struct xr_export));
	if (!exports)
		return xr_error(-ENOMEM, "out of memory for an export");
	ch->exports = exports;
	ret = xr_msg_bare(ch, XR_REGION, &m);
	if (ret)
		return ret;
	m->id = ch->n_exports;
	m->tag = tag;
	m->region = region;
	export = &exports[ch->n_exports];
	*export = (struct xr_export){.region = region};
	/* Between two epochs there are no keys: it gets one with the others. */
	ret = xr_recovering(ch) && ch->state >= XR_CH_BREAKING ? 0 : expose(ch, export);
	if (!ret)
		ret = xr_channel_send(ch, m, false);
	if (ret) {
		unexpose(ch, export);
		m->region = NULL;
		xr_msg_put(m);
		return ret;
	}
	region->uses++;
	ch->n_exports++;
	return 0;
}
