/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: registered once, cut into slots. Ours, and what peers exported to us. */
#ifndef XR_REGION_H
#define XR_REGION_H

#include "xrdma/context.h"

enum { XR_REGIONS_MAX = 1024 /* exported over one channel, either way */ };

struct xrdma_region {
	struct xrdma_context *ctx;
	struct list link;
	struct list of_process; /* under the lock of exit.c */
	struct xr_region_mem mem;
	uint32_t rkey;
	struct xrdma_region_attr attr;
	uint32_t uses; /* messages in its slots or about it */
	uint32_t exports;
};

struct xrdma_remote_region {
	struct list link; /* of the channel */
	struct xrdma_channel *ch;
	uint32_t id, tag, n_slots;
	uint64_t slot_bytes;
	struct xr_key key;
};

void xr_region_unuse(struct xrdma_region *region);
/* What a REGION message says of it. */
void xr_region_describe(const struct xrdma_region *region, struct xr_head *h);

/* A SLOT message arrived: m gets the slot's memory. False: there is no such slot. */
bool xr_region_arrived_slot(struct xrdma_channel *ch, struct xrdma_msg *m, const struct xr_head *h);

int xr_remote_new(struct xrdma_channel *ch, const struct xr_head *h);
struct xrdma_remote_region *xr_remote_find(struct xrdma_channel *ch, uint32_t id);

/* The channel is no more: its exports and its peer's regions are forgotten. */
void xr_regions_forget(struct xrdma_channel *ch);
void xr_regions_free_all(struct xrdma_context *ctx);

#endif
