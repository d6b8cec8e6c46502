/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/mcast.h"

#include <errno.h>
#include <stdlib.h>

struct member {
	struct list node;
	struct urxe_qp *qp;
};

struct group {
	struct list node;
	struct list members;
	struct urxe_gid gid;
	int n_members;
};

static struct group *find_group(const struct urxe_engine *e, const struct urxe_gid *gid)
{
	list_for_each (node, &e->mcast_groups) {
		struct group *g = container_of(node, struct group, node);

		if (memcmp(&g->gid, gid, sizeof(*gid)) == 0)
			return g;
	}
	return NULL;
}

static struct member *find_member(const struct group *g, const struct urxe_qp *qp)
{
	list_for_each (node, &g->members) {
		struct member *m = container_of(node, struct member, node);

		if (m->qp == qp)
			return m;
	}
	return NULL;
}

bool urxe_mcast_joined(const struct urxe_engine *e, const struct urxe_gid *gid)
{
	return find_group(e, gid) != NULL;
}

static struct group *new_group(struct urxe_engine *e, const struct urxe_gid *gid)
{
	struct group *g = e->n_mcast_groups < e->limits.max_mcast_grp ? malloc(sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->gid = *gid;
	g->n_members = 0;
	list_init(&g->members);
	list_add_tail(&e->mcast_groups, &g->node);
	e->n_mcast_groups++;
	return g;
}

static void drop_if_empty(struct urxe_engine *e, struct group *g)
{
	if (!list_empty(&g->members))
		return;
	list_del(&g->node);
	e->n_mcast_groups--;
	free(g);
}

static void leave(struct urxe_engine *e, struct group *g, struct member *m)
{
	m->qp->n_groups--;
	g->n_members--;
	e->n_mcast_members--;
	list_del(&m->node);
	free(m);
	drop_if_empty(e, g);
}

int urxe_qp_attach_mcast(struct urxe_qp *qp, const struct urxe_gid *gid)
{
	struct urxe_engine *e = qp->engine;
	struct group *g = find_group(e, gid);
	struct member *m;

	if (qp->type != IBV_QPT_UD || !urxe_gid_is_multicast(gid))
		return -EINVAL;
	if (g && find_member(g, qp))
		return 0; /* one copy, however often it is attached */
	if (e->n_mcast_members >= e->limits.max_total_mcast_qp_attach ||
	    (g && g->n_members >= e->limits.max_mcast_qp_attach))
		return -ENOMEM;
	if (!g)
		g = new_group(e, gid);
	if (!g)
		return -ENOMEM;
	m = malloc(sizeof(*m));
	if (!m) {
		drop_if_empty(e, g);
		return -ENOMEM;
	}
	m->qp = qp;
	list_add_tail(&g->members, &m->node);
	g->n_members++;
	e->n_mcast_members++;
	qp->n_groups++;
	return 0;
}

int urxe_qp_detach_mcast(struct urxe_qp *qp, const struct urxe_gid *gid)
{
	struct group *g = find_group(qp->engine, gid);
	struct member *m = g ? find_member(g, qp) : NULL;

	if (!m)
		return -EINVAL;
	leave(qp->engine, g, m);
	return 0;
}

void mcast_release_qp(struct urxe_qp *qp)
{
	list_for_each_safe (node, &qp->engine->mcast_groups) {
		struct group *g = container_of(node, struct group, node);
		struct member *m = find_member(g, qp);

		if (m)
			leave(qp->engine, g, m);
	}
}

void mcast_rx(struct urxe_engine *e, const struct urxe_pkt *pkt, const struct urxe_rx *rx)
{
	struct group *g = rx->path ? find_group(e, &rx->path->dgid) : NULL;

	if (!g) {
		count(e, URXE_CNT_RX_NO_QP);
		return;
	}
	list_for_each (node, &g->members) {
		struct urxe_qp *qp = container_of(node, struct member, node)->qp;
		bool own = rx->looped && pkt->sqpn == qp->qpn;

		if (qp_listens(qp, pkt) && !(own && qp->block_own_mcast))
			ud_rx(qp, pkt, rx);
	}
}
