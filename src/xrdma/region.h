/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: registered once, cut into slots. Ours, and what peers exported to us. */
#ifndef XR_REGION_H
#define XR_REGION_H

#include "xrdma/context.h"
#include "xrdma/exit.h"
#include "xrdma/resume.h"

enum { XR_REGIONS_MAX = 1024 /* exported over one channel, either way */ };

struct xrdma_region {
	struct xrdma_context *ctx;
	struct list link;
	struct xr_region_mem mem;
	struct xr_exposed own; /* its registration, for the end of the process */
	struct xrdma_region_attr attr;
	uint32_t uses; /* messages in its slots or about it */
	uint32_t keys; /* of peers */
	bool freed;    /* by the application: it goes with the last key */
};

struct xrdma_remote_region {
	struct list link; /* of the channel */
	struct xrdma_channel *ch;
	uint32_t id, tag, n_slots;
	uint64_t slot_bytes;
	struct xr_key key;
	uint32_t in_flight; /* operations that use the key */
	bool gone;          /* the peer takes it back: none begins any more */
};

void xr_region_unuse(struct xrdma_region *region);
/* What a REGION message says of export `id`. */
void xr_region_describe(const struct xrdma_channel *ch, uint32_t id, struct xr_head *h);

/* A SLOT message arrived: m gets the slot's memory. -ESTALE: the region was freed since the peer
 * was told of it; -EPROTO: there is no such slot. */
int xr_region_arrived_slot(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h);

int xr_remote_new(struct xrdma_channel *ch, const struct xr_head *h);
/* Those from id on: their REGION messages come again. */
void xr_remote_forget(struct xrdma_channel *ch, uint32_t id);
struct xrdma_remote_region *xr_remote_find(struct xrdma_channel *ch, uint32_t id);
/* A GONE message arrived: it can be consumed when the key is not in use. -EPROTO: of which region?
 */
int xr_remote_gone(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h);

/*
 * A key that a peer holds is good for one epoch of one channel. When the channel breaks the keys
 * given out over it die; when it is whole again its exports get new ones, of which KEYS tells.
 */
void xr_exports_revoke(struct xrdma_channel *ch);
/* The peer has consumed the message that the key of export `id` is gone. */
void xr_export_let_go(struct xrdma_channel *ch, uint32_t id);
int xr_exports_renew(struct xrdma_channel *ch);
size_t xr_exports_encode(const struct xrdma_channel *ch,
			 uint8_t out[static XR_REGIONS_MAX * XR_KEYS_ENTRY_BYTES]);
int xr_remotes_renew(struct xrdma_channel *ch, const uint8_t *in, size_t len);

/* The channel is no more: its exports and its peer's regions are forgotten. */
void xr_regions_forget(struct xrdma_channel *ch);
void xr_regions_free_all(struct xrdma_context *ctx);

#endif
