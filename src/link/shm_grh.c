/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/shm_grh.h"

#include "base/be.h"

#include <string.h>

enum {
	GRH_IP_VERSION = 6,
	GRH_NEXT_HEADER = 0x1b, /* IBA transport */
	GRH_FLOW_MASK = 0xfffff,
	ECN_CE = 3, /* RFC 3168, 5 */
};

void urxe_shm_grh_put(uint8_t grh[GRH_LEN], const struct urxe_path *path, uint32_t len, bool ce)
{
	uint8_t tclass = ce ? path->tclass | ECN_CE : path->tclass;

	put_be32(grh, (uint32_t)GRH_IP_VERSION << 28 | (uint32_t)tclass << 20 |
			      (path->flow_label & GRH_FLOW_MASK));
	put_be16(grh + 4, (uint16_t)(len + ICRC_LEN)); /* counts the ICRC, were there one */
	grh[6] = GRH_NEXT_HEADER;
	grh[7] = path->hop_limit;
	memcpy(grh + 8, path->sgid.raw, sizeof(path->sgid.raw));
	memcpy(grh + 24, path->dgid.raw, sizeof(path->dgid.raw));
}

bool urxe_shm_grh_get(const uint8_t grh[GRH_LEN], struct urxe_path *ret_path, bool *ret_ce)
{
	uint32_t word = get_be32(grh);

	if (word >> 28 != GRH_IP_VERSION || grh[6] != GRH_NEXT_HEADER)
		return false;
	ret_path->tclass = (uint8_t)(word >> 20);
	ret_path->flow_label = word & GRH_FLOW_MASK;
	ret_path->hop_limit = grh[7];
	ret_path->sport = 0;
	memcpy(ret_path->sgid.raw, grh + 8, sizeof(ret_path->sgid.raw));
	memcpy(ret_path->dgid.raw, grh + 24, sizeof(ret_path->dgid.raw));
	*ret_ce = (ret_path->tclass & ECN_CE) == ECN_CE;
	return true;
}
