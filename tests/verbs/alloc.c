/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every verb that makes something, with every allocation in turn failing: the call fails, nothing
 * crashes, nothing stays behind.
 */
#include "../unit/scarce.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s, allocation %d failing\n", __FILE__, __LINE__,  \
				#cond, fail_at);                                                   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

enum { MAX_MADE = 64, BUF = 4096 };

/* What was made, in order: undone from the end. */
struct made {
	void *object;
	int (*destroy)(void *object);
};

static struct made list[MAX_MADE];
static unsigned n_made;
static int fail_at;
static uint8_t buf[BUF];

/* Remember it; false: it could not be made. */
static bool keep(void *object, int (*destroy)(void *))
{
	if (!object) {
		REQUIRE(errno == ENOMEM || errno == EAGAIN);
		return false;
	}
	REQUIRE(n_made < MAX_MADE);
	list[n_made++] = (struct made){object, destroy};
	return true;
}

#define DESTROY(name, type, call)                                                                  \
	static int name(void *object)                                                              \
	{                                                                                          \
		type *o = object;                                                                  \
		return call(o);                                                                    \
	}

DESTROY(close_context, struct ibv_context, ibv_close_device)
DESTROY(free_pd, struct ibv_pd, ibv_dealloc_pd)
DESTROY(free_mr, struct ibv_mr, ibv_dereg_mr)
DESTROY(free_mw, struct ibv_mw, ibv_dealloc_mw)
DESTROY(free_dm, struct ibv_dm, ibv_free_dm)
DESTROY(free_td, struct ibv_td, ibv_dealloc_td)
DESTROY(free_channel, struct ibv_comp_channel, ibv_destroy_comp_channel)
DESTROY(free_cq, struct ibv_cq, ibv_destroy_cq)
DESTROY(free_srq, struct ibv_srq, ibv_destroy_srq)
DESTROY(free_qp, struct ibv_qp, ibv_destroy_qp)
DESTROY(free_ah, struct ibv_ah, ibv_destroy_ah)
DESTROY(free_xrcd, struct ibv_xrcd, ibv_close_xrcd)

static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 4, 7, 9}};

static int leave_group(void *object)
{
	return ibv_detach_mcast(object, &group, 0);
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;

	if (!devices)
		return NULL;
	context = ibv_open_device(devices[0]);
	ibv_free_device_list(devices);
	return context;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq,
			      enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {4, 4, 1, 1, 16},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return ibv_create_qp_ex(cq->context, &init);
}

static bool make_memory(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_dm *dm;

	if (!keep(ibv_reg_mr(pd, buf, BUF, IBV_ACCESS_LOCAL_WRITE), free_mr) ||
	    !keep(ibv_alloc_null_mr(pd), free_mr) ||
	    !keep(ibv_alloc_mw(pd, IBV_MW_TYPE_1), free_mw))
		return false;
	dm = ibv_alloc_dm(context, &dm_attr);
	if (!keep(dm, free_dm) ||
	    !keep(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED), free_mr))
		return false;
	if (!keep(ibv_alloc_td(context, &td_attr), free_td))
		return false;
	parent.td = list[n_made - 1].object;
	return keep(ibv_alloc_parent_domain(context, &parent), free_pd);
}

static bool make_queues(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					      .moderate = {2, 2}};
	struct ibv_cq_init_attr_ex cq_ex = {.cqe = 4};
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *ud;
	int ret;

	channel = ibv_create_comp_channel(context);
	if (!keep(channel, free_channel))
		return false;
	cq = ibv_create_cq(context, 4, NULL, channel, 0);
	if (!keep(cq, free_cq) || !keep(ibv_create_cq_ex(context, &cq_ex), free_cq))
		return false;
	ret = ibv_resize_cq(cq, 16);
	if (!ret)
		ret = ibv_modify_cq(cq, &moderate);
	REQUIRE(ret == 0 || ret == ENOMEM);
	srq = ret ? NULL : ibv_create_srq(pd, &srq_attr);
	if (ret || !keep(srq, free_srq) || !keep(ibv_open_xrcd(context, &xrcd_attr), free_xrcd) ||
	    !keep(make_qp(pd, cq, srq, IBV_QPT_RC), free_qp))
		return false;
	ud = make_qp(pd, cq, NULL, IBV_QPT_UD);
	if (!keep(ud, free_qp))
		return false;
	ret = ibv_attach_mcast(ud, &group, 0);
	REQUIRE(ret == 0 || ret == ENOMEM);
	if (ret)
		return false;
	keep(ud, leave_group);
	REQUIRE(ibv_query_gid(context, 1, 0, &ah_attr.grh.dgid) == 0);
	return keep(ibv_create_ah(pd, &ah_attr), free_ah);
}

/* True: everything could be made. */
static bool run(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd;

	if (!keep(context, close_context))
		return false;
	pd = ibv_alloc_pd(context);
	return keep(pd, free_pd) && make_memory(context, pd) && make_queues(context, pd);
}

int main(void)
{
	bool whole = false;

	run(); /* what is made once per process is there now */
	while (n_made > 0) {
		n_made--;
		REQUIRE(list[n_made].destroy(list[n_made].object) == 0);
	}
	for (fail_at = 1; !whole; fail_at++) {
		scarce_begin(fail_at);
		whole = run() && !scarce_refused();
		while (n_made > 0) {
			n_made--;
			REQUIRE(list[n_made].destroy(list[n_made].object) == 0);
		}
		REQUIRE(scarce_live() == 0);
		scarce_end();
	}
	printf("%d allocations, each failed once\n", fail_at - 2);
	REQUIRE(fail_at > 40);
	return 0;
}
