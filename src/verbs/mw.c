/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows. */
#include "verbs/context_priv.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_mw *urxe_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	struct vmw *vmw = calloc(1, sizeof(*vmw));
	int ret = -EPERM;

	if (!vmw)
		return NULL;
	if (urxe_context_lock(ctx)) {
		ret = urxe_mw_new(vpd_of(pd)->pd, type, &vmw->mw);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vmw);
		errno = -ret;
		return NULL;
	}
	vmw->ibv.context = pd->context;
	vmw->ibv.pd = pd;
	vmw->ibv.rkey = urxe_mw_rkey(vmw->mw);
	vmw->ibv.type = type;
	return &vmw->ibv;
}

int urxe_verbs_dealloc_mw(struct ibv_mw *mw)
{
	struct urxe_context *ctx = urxe_context_of(mw->context);
	struct vmw *vmw = container_of(mw, struct vmw, ibv);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = urxe_mw_free(vmw->mw);
	urxe_context_unlock(ctx);
	if (!ret)
		free(vmw);
	return -ret;
}

/* Windows of type 1 only: of type 2, a binding is posted like any other request. */
int urxe_verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct vmw *vmw = container_of(mw, struct vmw, ibv);
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {.mw = mw,
			    .rkey = urxe_mw_next_rkey(vmw->mw),
			    .bind_info = bind->bind_info},
	};
	struct ibv_send_wr *bad;
	int ret = urxe_verbs_post_send(qp, &wr, &bad);

	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}
