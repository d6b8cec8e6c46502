/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: the engine knows who hears what, the kernel brings the packets. It gives each process
 * of this network namespace that has joined a copy, so that one way serves here and elsewhere.
 */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <string.h>

/* lid: InfiniBand's; RoCE has none. */
int urxe_verbs_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	struct urxe_gid group;
	bool joined;
	int ret;

	memcpy(group.raw, gid->raw, sizeof(group.raw));
	if (!urxe_context_lock(ctx))
		return EPERM;
	joined = urxe_mcast_joined(ctx->engine, &group);
	ret = urxe_qp_attach_mcast(vqp_of(qp)->qp, &group);
	if (!ret && !joined) {
		ret = urxe_context_join(ctx, &group);
		if (ret)
			urxe_qp_detach_mcast(vqp_of(qp)->qp, &group);
	}
	urxe_context_unlock(ctx);
	return -ret;
}

int urxe_verbs_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_context *ctx = urxe_context_of(qp->context);
	struct urxe_gid group;
	int ret;

	memcpy(group.raw, gid->raw, sizeof(group.raw));
	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_qp_detach_mcast(vqp_of(qp)->qp, &group);
	if (!ret && !urxe_mcast_joined(ctx->engine, &group))
		urxe_udp_leave(ctx->udp, &group);
	urxe_context_unlock(ctx);
	return -ret;
}
