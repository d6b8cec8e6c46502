/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/xrc.h"

#include <errno.h>
#include <stdlib.h>

int urxe_xrcd_new(struct urxe_engine *e, struct urxe_xrcd **ret_xrcd)
{
	struct urxe_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return -ENOMEM;
	xrcd->engine = e;
	list_add_tail(&e->xrcds, &xrcd->node);
	*ret_xrcd = xrcd;
	return 0;
}

int urxe_xrcd_free(struct urxe_xrcd *xrcd)
{
	if (!xrcd)
		return 0;
	if (xrcd->refs)
		return -EBUSY;
	list_del(&xrcd->node);
	free(xrcd);
	return 0;
}

/* Numbers begin with 1; one that was given back is looked for first. */
static int take_number(struct urxe_engine *e, struct urxe_srq *srq)
{
	uint32_t i = 0;

	while (i < e->n_xrc_srqs && e->xrc_srqs[i])
		i++;
	if (i == e->n_xrc_srqs) {
		uint32_t n = i ? 2 * i : 16;
		struct urxe_srq **grown = realloc(e->xrc_srqs, n * sizeof(struct urxe_srq *));

		if (!grown)
			return -ENOMEM;
		for (uint32_t j = i; j < n; j++)
			grown[j] = NULL;
		e->xrc_srqs = grown;
		e->n_xrc_srqs = n;
	}
	e->xrc_srqs[i] = srq;
	srq->num = i + 1;
	return 0;
}

int urxe_srq_new_xrc(struct urxe_pd *pd, const struct ibv_srq_attr *attr, struct urxe_xrcd *xrcd,
		     struct urxe_cq *cq, void *user, struct urxe_srq **ret_srq)
{
	struct urxe_srq *srq;
	int rc = urxe_srq_new(pd, attr, user, &srq);

	if (rc < 0)
		return rc;
	rc = take_number(pd->engine, srq);
	if (rc < 0) {
		urxe_srq_free(srq);
		return rc;
	}
	srq->xrcd = xrcd;
	srq->cq = cq;
	xrcd->refs++;
	cq->refs++;
	*ret_srq = srq;
	return 0;
}

uint32_t urxe_srq_num(const struct urxe_srq *srq)
{
	return srq->num;
}

bool xrc_adopt(struct urxe_qp *qp, uint32_t srqn)
{
	struct urxe_engine *e = qp->engine;
	struct urxe_srq *srq = srqn - 1 < e->n_xrc_srqs ? e->xrc_srqs[srqn - 1] : NULL;

	if (!srq || srq->xrcd != qp->xrcd)
		return false;
	qp->srq = srq;
	qp->pd = srq->pd;
	qp->recv_cq = srq->cq;
	return true;
}

static void forget(struct urxe_qp *qp, const struct urxe_srq *srq)
{
	struct responder *resp = &qp->resp;

	for (uint32_t i = 0; i < resp->n_res; i++) {
		if (resp->res[i].pd == srq->pd)
			resp->res[i].pd = NULL;
	}
	if (qp->srq != srq)
		return;
	resp->have_wqe = false;
	resp->kind = KIND_NONE;
	qp->srq = NULL;
	qp->pd = NULL;
	qp->recv_cq = NULL;
}

void xrc_forget(struct urxe_srq *srq)
{
	struct urxe_engine *e = srq->pd->engine;

	if (!srq->num)
		return;
	list_for_each (node, &e->qps) {
		struct urxe_qp *qp = container_of(node, struct urxe_qp, node);

		if (qp->xrcd)
			forget(qp, srq);
	}
	e->xrc_srqs[srq->num - 1] = NULL;
	if (!srq->xrcd)
		return;
	srq->xrcd->refs--;
	srq->cq->refs--;
}
