/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer may reach of our memory by a key, where no NIC is there to check it. */
#ifndef XR_REACH_H
#define XR_REACH_H

#include "xrdma/keys.h"

struct xrdma_channel;

/*
 * The len bytes at an offset from where the key leads, or NULL: it is not a key of this epoch, they
 * are not within what it is for, or it does not give the right (enum xrdma_rights). To be asked
 * anew whenever messages may have been acknowledged, or regions freed, since.
 */
uint8_t *xr_reach(const struct xrdma_channel *ch, const struct xr_key *key, uint64_t offset,
		  uint32_t len, unsigned right);

#endif
