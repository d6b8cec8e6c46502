/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of channels that have closed, in RESET, for channels to come: making one costs more
 * than all else of a connection that the device does. At most qp_cache of them; those of the
 * context's completion queue and shared receive queue, they go before these.
 */
#include "xrdma/channel.h"

#include <stdlib.h>

struct cached {
	struct list link;
	struct ibv_qp *qp;
	struct xr_qp_shape shape;
};

bool xr_qp_cache_put(struct xrdma_context *ctx, struct ibv_qp *qp, const struct xr_qp_shape *shape)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct cached *c;

	if (ctx->stats.qps_cached >= ctx->conf.qp_cache || ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		return false;
	c = malloc(sizeof(*c));
	if (!c)
		return false;
	*c = (struct cached){.qp = qp, .shape = *shape};
	list_add_tail(&ctx->qp_cache, &c->link);
	ctx->stats.qps_cached++;
	return true;
}

static bool fits(const struct xr_qp_shape *have, const struct xr_qp_shape *want)
{
	return have->sends >= want->sends && have->receives >= want->receives &&
	       !have->receives == !want->receives;
}

struct ibv_qp *xr_qp_cache_take(struct xrdma_context *ctx, const struct xr_qp_shape *want,
				struct xr_qp_shape *ret_shape)
{
	list_for_each (pos, &ctx->qp_cache) {
		struct cached *c = container_of(pos, struct cached, link);
		struct ibv_qp *qp = c->qp;

		if (!fits(&c->shape, want))
			continue;
		*ret_shape = c->shape;
		list_del(pos);
		free(c);
		ctx->stats.qps_cached--;
		ctx->stats.qps_reused++;
		return qp;
	}
	return NULL;
}

void xr_qp_cache_free(struct xrdma_context *ctx)
{
	for (struct list *node = list_pop(&ctx->qp_cache); node; node = list_pop(&ctx->qp_cache)) {
		struct cached *c = container_of(node, struct cached, link);

		(void)ibv_destroy_qp(c->qp);
		free(c);
		ctx->stats.qps_cached--;
	}
}
