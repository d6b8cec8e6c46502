/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/reach.h"

#include "xrdma/channel.h"
#include "xrdma/region.h"

static bool inside(const void *base, uint64_t size, uint64_t addr, uint64_t len)
{
	return addr >= (uintptr_t)base && len <= size && addr - (uintptr_t)base <= size - len;
}

static bool is_probe(const struct xrdma_channel *ch, uint32_t rkey, uint64_t addr, uint64_t len)
{
	struct xr_key ours;

	xr_key_decode(ch->ours.probe_block, &ours);
	return rkey == ours.rkey && inside(xr_channel_our_probe(ch), XR_PROBE_BYTES, addr, len);
}

/* Of a message announced and not consumed. */
static bool is_lent(const struct xrdma_channel *ch, uint32_t rkey, uint64_t addr, uint64_t len)
{
	for (uint16_t seq = ch->win.acked; seq != ch->win.next; seq++) {
		const struct xrdma_msg *m = ch->unacked[seq & ch->unacked_mask];

		if (m->type <= XR_RSP && m->len > ch->bounds.small_bytes && m->rkey == rkey &&
		    inside(m->data, m->len, addr, len))
			return true;
	}
	return false;
}

static bool is_exported(const struct xrdma_channel *ch, uint32_t rkey, uint64_t addr, uint64_t len,
			unsigned right)
{
	for (uint32_t i = 0; i < ch->n_exports; i++) {
		const struct xr_export *export = &ch->exports[i];
		const struct xrdma_region *region = export->region;

		if (export->key && !export->withdrawn && export->key->rkey == rkey)
			return (region->attr.rights & right) &&
			       inside(region->mem.map.addr,
				      region->attr.slot_bytes * region->attr.n_slots, addr, len);
	}
	return false;
}

uint8_t *xr_reach(const struct xrdma_channel *ch, const struct xr_key *key, uint64_t offset,
		  uint32_t len, unsigned right)
{
	uint64_t addr = key->addr + offset;

	if (key->epoch != ch->bounds.epoch)
		return NULL;
	if (right == XRDMA_REMOTE_READ &&
	    (is_probe(ch, key->rkey, addr, len) || is_lent(ch, key->rkey, addr, len)))
		return (uint8_t *)(uintptr_t)addr;
	return is_exported(ch, key->rkey, addr, len, right) ? (uint8_t *)(uintptr_t)addr : NULL;
}
