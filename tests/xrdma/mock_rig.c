/* SPDX-License-Identifier: BSD-2-Clause */
#include "mock_rig.h"

#include "xrdma/channel.h"

#include <stdio.h>

void set_both(struct rig *r, const char *name, const char *value)
{
	for (unsigned i = 0; i < RIG_SIDES; i++)
		assert_int_equal(xrdma_set(r->side[i].ctx, name, value), 0);
}

enum xrdma_transport transport(struct rig *r, unsigned side)
{
	return xrdma_channel_transport(inside(r, side), NULL);
}

bool both(struct rig *r, enum xrdma_transport t)
{
	return transport(r, 0) == t && transport(r, 1) == t && inside(r, 0)->state == XR_CH_OPEN &&
	       inside(r, 1)->state == XR_CH_OPEN;
}

void to_tcp(struct rig *r)
{
	set_both(r, "filter", DEAD);
	break_qp(r, RIG_CLIENT);
	rig_until(r, both(r, XRDMA_TCP));
}

void to_rdma(struct rig *r)
{
	set_both(r, "filter", "");
	rig_until(r, both(r, XRDMA_RDMA));
}

struct xrdma_channel *tcp_rig(struct rig *r, const char *options)
{
	char text[256];

	snprintf(text, sizeof(text), "transport=force-tcp %s", options);
	rig_open(r, text);
	return rig_connect(r);
}

void close_in_order(struct rig *r)
{
	xrdma_channel_close(r->side[RIG_CLIENT].ch);
	rig_until(r, r->side[0].n_closed && r->side[1].n_closed);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		const struct xrdma_context *ctx = r->side[i].ctx;

		assert_int_equal(r->side[i].status, 0);
		assert_int_equal(rig_stat(ctx, "sends_posted"), 0);
		assert_int_equal(rig_stat(ctx, "messages_held"), 0);
		assert_int_equal(rig_stat(ctx, "tcp_channels"), 0);
		assert_int_equal(rig_stat(ctx, "qps"), 0);
		assert_int_equal(rig_stat(ctx, "protocol_errors"), 0);
	}
	rig_close(r);
}
