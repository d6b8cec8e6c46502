/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key exchange block: all that a peer needs to reach our memory, 16 bytes in network order,
 * small enough for the private data of a connection manager (56 bytes) and for the first message.
 *
 *	0	u64 address
 *	8	u32 rkey
 *	12	u32 epoch	of the connection for which it was given out
 *
 * Every re-establishment raises the epoch, so that a key kept from before is told apart even when
 * its number happens to be in use again for other memory. 0 is no epoch. Pure.
 */
#ifndef XRDMA_KEYS_H
#define XRDMA_KEYS_H

#include <stdint.h>

enum { XR_KEY_BYTES = 16 };

struct xr_key {
	uint64_t addr;
	uint32_t rkey;
	uint32_t epoch;
};

void xr_key_encode(const struct xr_key *key, uint8_t out[XR_KEY_BYTES]);
void xr_key_decode(const uint8_t in[XR_KEY_BYTES], struct xr_key *ret_key);

/* Never 0. */
uint32_t xr_epoch_next(uint32_t epoch);

/*
 * May a key be used in this epoch? 0; -ESTALE: it is of another epoch; -EPROTO: it cannot be a key
 * (no epoch, or bytes that do not fit behind its address). The reason is kept by xr_error().
 */
int xr_key_check(const struct xr_key *key, uint32_t epoch, uint64_t bytes);

#endif
