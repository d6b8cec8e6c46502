/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/mw.h"

#include "engine/qp.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* LOCAL_WRITE says nothing about a window, but programs set it. */
	BIND_RIGHTS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		      IBV_ACCESS_LOCAL_WRITE,
	BIND_NEEDS_LOCAL_WRITE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

int urxe_mw_new(struct urxe_pd *pd, enum ibv_mw_type type, struct urxe_mw **ret_mw)
{
	struct urxe_engine *e = pd->engine;
	struct urxe_mw *mw;
	int rc;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return -EINVAL;
	if (e->n_mw >= (uint32_t)e->limits.max_mw)
		return -ENOMEM;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->view = (struct urxe_mr){.pd = pd, .is_window = true};
	mw->type = type;
	rc = key_take(&e->keys, &mw->view, &mw->view.lkey, &mw->view.rkey);
	if (rc < 0) {
		free(mw);
		return rc;
	}
	key_remote_only(&e->keys, mw->view.rkey);
	key_set_tag(&e->keys, mw->view.rkey, KEY_NO_TAG);
	list_init(&mw->by_qp);
	list_add_tail(&e->mws, &mw->node);
	e->n_mw++;
	pd->refs++;
	*ret_mw = mw;
	return 0;
}

static void unbind(struct urxe_mw *mw)
{
	if (!mw->mr)
		return;
	key_set_tag(&mw->view.pd->engine->keys, mw->view.rkey, KEY_NO_TAG);
	mw->mr->n_windows--;
	mw->mr = NULL;
	list_del(&mw->by_qp);
}

int urxe_mw_free(struct urxe_mw *mw)
{
	struct urxe_engine *e;

	if (!mw)
		return 0;
	e = mw->view.pd->engine;
	unbind(mw);
	key_give(&e->keys, mw->view.rkey);
	list_del(&mw->node);
	e->n_mw--;
	mw->view.pd->refs--;
	free(mw);
	return 0;
}

uint32_t urxe_mw_rkey(const struct urxe_mw *mw)
{
	return mw->view.rkey;
}

static uint32_t with_tag(uint32_t key, uint32_t tag)
{
	return (key & ~(uint32_t)KEY_TAG_MASK) | (tag & KEY_TAG_MASK);
}

uint32_t urxe_mw_next_rkey(const struct urxe_mw *mw)
{
	return with_tag(mw->view.rkey, mw->view.rkey + 1);
}

/* The window of that index, or NULL: it may have gone since the key was written down. */
static struct urxe_mw *find(const struct urxe_engine *e, uint32_t key)
{
	struct urxe_mr *mr = key_find_index(&e->keys, key);

	return mr && mr->is_window ? container_of(mr, struct urxe_mw, view) : NULL;
}

int mw_prepare_bind(const struct urxe_qp *qp, const struct ibv_send_wr *wr, struct send_wqe *w)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct urxe_mw *mw = wr->bind_mw.mw ? find(qp->engine, wr->bind_mw.mw->rkey) : NULL;
	uint32_t key = wr->bind_mw.rkey;

	if (!mw || (info->mw_access_flags & ~(unsigned)(BIND_RIGHTS | IBV_ACCESS_ZERO_BASED)))
		return -EINVAL;
	if (mw->type == IBV_MW_TYPE_1) {
		if (key != urxe_mw_next_rkey(mw) || info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
			return -EINVAL;
	} else if (key >> 8 != mw->view.rkey >> 8) {
		return -EINVAL;
	}
	w->bind.rkey = key;
	w->bind.lkey = info->mr ? info->mr->lkey : 0;
	w->bind.addr = info->addr;
	w->bind.length = info->length;
	w->bind.access = info->mw_access_flags;
	if (mw->type == IBV_MW_TYPE_1)
		mw->view.rkey = key; /* what is posted next takes the one after it */
	return 0;
}

/* The bytes that the request wants to show, or NULL (IBA 10.6.7.2.2). */
static uint8_t *bindable(const struct urxe_qp *qp, const struct send_wqe *w,
			 struct urxe_mr **ret_mr)
{
	struct urxe_mr *mr = key_find(&qp->engine->keys, w->bind.lkey, false);
	unsigned needs = IBV_ACCESS_MW_BIND;

	if (!mr || mr->pd != qp->pd)
		return NULL;
	if (w->bind.access & BIND_NEEDS_LOCAL_WRITE)
		needs |= IBV_ACCESS_LOCAL_WRITE;
	*ret_mr = mr;
	return mr_at(mr, w->bind.addr, w->bind.length, needs);
}

static void bind(struct urxe_qp *qp, struct urxe_mw *mw, const struct send_wqe *w,
		 struct urxe_mr *mr, uint8_t *base)
{
	struct urxe_mr *view = &mw->view;

	unbind(mw);
	view->base = base;
	view->iova = w->bind.access & IBV_ACCESS_ZERO_BASED ? 0 : w->bind.addr;
	view->length = w->bind.length;
	view->access = w->bind.access | (mr->access & IBV_ACCESS_ON_DEMAND);
	key_set_tag(&qp->engine->keys, view->rkey, w->bind.rkey & KEY_TAG_MASK);
	mw->mr = mr;
	mr->n_windows++;
	if (mw->type == IBV_MW_TYPE_1)
		return;
	view->rkey = w->bind.rkey;
	view->qp = qp;
	list_add_tail(&qp->windows, &mw->by_qp);
}

enum ibv_wc_status mw_bind(struct urxe_qp *qp, const struct send_wqe *w)
{
	struct urxe_mw *mw = find(qp->engine, w->bind.rkey);
	struct urxe_mr *mr;
	uint8_t *base;

	if (!mw || mw->view.pd != qp->pd)
		return IBV_WC_MW_BIND_ERR;
	if (mw->type == IBV_MW_TYPE_1 && w->bind.length == 0) { /* how type 1 is invalidated */
		unbind(mw);
		return IBV_WC_SUCCESS;
	}
	/* Type 2 is invalidated before it is bound again (IBA C10-75). */
	if (mw->type == IBV_MW_TYPE_2 && (mw->mr || w->bind.length == 0))
		return IBV_WC_MW_BIND_ERR;
	base = bindable(qp, w, &mr);
	if (!base)
		return IBV_WC_MW_BIND_ERR;
	bind(qp, mw, w, mr, base);
	return IBV_WC_SUCCESS;
}

bool mw_may_invalidate(const struct urxe_qp *qp, uint32_t rkey)
{
	const struct urxe_mr *mr = key_find(&qp->engine->keys, rkey, true);

	return mr && mr->qp == qp;
}

void mw_invalidate(struct urxe_engine *e, uint32_t rkey)
{
	unbind(find(e, rkey));
}

enum ibv_wc_status mw_invalidate_local(struct urxe_qp *qp, uint32_t rkey)
{
	if (!mw_may_invalidate(qp, rkey))
		return IBV_WC_MW_BIND_ERR;
	mw_invalidate(qp->engine, rkey);
	return IBV_WC_SUCCESS;
}

void mw_release_qp(struct urxe_qp *qp)
{
	list_for_each_safe (node, &qp->windows)
		unbind(container_of(node, struct urxe_mw, by_qp));
}
