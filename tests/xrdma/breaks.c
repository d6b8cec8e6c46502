/* SPDX-License-Identifier: BSD-2-Clause */
#include "breaks.h"

#include "xrdma/channel.h"

#include <sys/socket.h>

struct xrdma_channel *inside(struct rig *r, unsigned side)
{
	return r->side[side].ch;
}

void break_qp(struct rig *r, unsigned side)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct xrdma_channel *ch = inside(r, side);

	if (ch->state < XR_CH_READY || ch->state > XR_CH_BYE || !ch->qp || ch->tcp)
		return;
	assert_int_equal(ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE), 0);
}

void cut_tcp(struct rig *r, unsigned side)
{
	if (inside(r, side)->boot)
		(void)shutdown(xr_boot_fd(inside(r, side)->boot), SHUT_RDWR); /* or it is dialing */
}
