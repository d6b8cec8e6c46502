/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles of datagram QPs. */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_ah *urxe_verbs_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vah *vah = calloc(1, sizeof(*vah));
	struct urxe_route route;
	int ret = -EPERM;

	if (!vah)
		return NULL;
	if (attr->port_num != 1) {
		ret = -EINVAL;
		goto err_free;
	}
	if (!urxe_context_lock(ctx))
		goto err_free;
	ret = urxe_context_route(ctx, attr, 0, 0, &route);
	if (!ret)
		ret = urxe_ah_new(vpd_of(pd)->pd, &route, &vah->ah);
	urxe_context_unlock(ctx);
	if (ret)
		goto err_free;
	vah->ibv.context = pd->context;
	vah->ibv.pd = pd;
	return &vah->ibv;

err_free:
	free(vah);
	errno = -ret;
	return NULL;
}

int urxe_verbs_destroy_ah(struct ibv_ah *ah)
{
	struct urxe_context *ctx = urxe_context_of(ah->context);
	struct vah *vah = container_of(ah, struct vah, ibv);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_ah_free(vah->ah);
	urxe_context_unlock(ctx);
	if (!ret)
		free(vah);
	return -ret;
}
