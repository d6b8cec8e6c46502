/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/keys.h"

#include "base/be.h"
#include "xrdma/error.h"

#include <errno.h>
#include <inttypes.h>

void xr_key_encode(const struct xr_key *key, uint8_t out[XR_KEY_BYTES])
{
	put_be64(out, key->addr);
	put_be32(out + 8, key->rkey);
	put_be32(out + 12, key->epoch);
}

void xr_key_decode(const uint8_t in[XR_KEY_BYTES], struct xr_key *ret_key)
{
	ret_key->addr = get_be64(in);
	ret_key->rkey = get_be32(in + 8);
	ret_key->epoch = get_be32(in + 12);
}

uint32_t xr_epoch_next(uint32_t epoch)
{
	return epoch == UINT32_MAX ? 1 : epoch + 1;
}

int xr_key_check(const struct xr_key *key, uint32_t epoch, uint64_t bytes)
{
	if (!key->epoch)
		return xr_error(-EPROTO, "a key without an epoch: the peer broke the protocol");
	if (key->epoch != epoch)
		return xr_error(-ESTALE,
				"the key is of epoch %" PRIu32 ", the connection is in %" PRIu32
				": it was given out before the connection was re-established; "
				"wait for the peer to export the region again",
				key->epoch, epoch);
	if (bytes > UINT64_MAX - key->addr)
		return xr_error(-EPROTO,
				"%" PRIu64 " bytes do not fit behind address 0x%" PRIx64
				": the peer broke the protocol",
				bytes, key->addr);
	return 0;
}
