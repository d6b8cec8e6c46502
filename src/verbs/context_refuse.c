/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that urxe does not offer. Callers tell "not offered" from "failed" by EOPNOTSUPP, and
 * some look at no pointer before they call: so each slot of the tables has a function, here or
 * in context.c.
 */
#include "verbs/context_priv.h"

#include <errno.h>

#define REFUSE_POINTER(type, name, ...)                                                            \
	static type *name(__VA_ARGS__)                                                             \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return NULL;                                                                       \
	}
#define REFUSE_STATUS(name, ...)                                                                   \
	static int name(__VA_ARGS__)                                                               \
	{                                                                                          \
		return EOPNOTSUPP;                                                                 \
	}

REFUSE_POINTER(void, refuse_compat, void)
REFUSE_STATUS(refuse_compat_query_port, struct ibv_context *context, uint8_t port,
	      struct _compat_ibv_port_attr *attr)

REFUSE_STATUS(refuse_read_counters, struct ibv_counters *counters, uint64_t *values, uint32_t n,
	      uint32_t flags)
REFUSE_STATUS(refuse_attach_counters, struct ibv_counters *counters,
	      struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
REFUSE_POINTER(struct ibv_counters, refuse_create_counters, struct ibv_context *context,
	       struct ibv_counters_init_attr *attr)
REFUSE_STATUS(refuse_destroy_counters, struct ibv_counters *counters)
REFUSE_STATUS(refuse_modify_esp, struct ibv_flow_action *action,
	      struct ibv_flow_action_esp_attr *attr)
REFUSE_STATUS(refuse_destroy_flow_action, struct ibv_flow_action *action)
REFUSE_POINTER(struct ibv_flow_action, refuse_create_esp, struct ibv_context *context,
	       struct ibv_flow_action_esp_attr *attr)
REFUSE_STATUS(refuse_rate_limit, struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
REFUSE_STATUS(refuse_destroy_ind_table, struct ibv_rwq_ind_table *table)
REFUSE_POINTER(struct ibv_rwq_ind_table, refuse_create_ind_table, struct ibv_context *context,
	       struct ibv_rwq_ind_table_init_attr *attr)
REFUSE_STATUS(refuse_destroy_wq, struct ibv_wq *wq)
REFUSE_STATUS(refuse_modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *attr)
REFUSE_POINTER(struct ibv_wq, refuse_create_wq, struct ibv_context *context,
	       struct ibv_wq_init_attr *attr)
REFUSE_STATUS(refuse_destroy_flow, struct ibv_flow *flow)
REFUSE_POINTER(struct ibv_flow, refuse_create_flow, struct ibv_qp *qp, struct ibv_flow_attr *attr)
REFUSE_POINTER(struct ibv_qp, refuse_open_qp, struct ibv_context *context,
	       struct ibv_qp_open_attr *attr)

static int refuse_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
			       struct ibv_ops_wr **bad_op)
{
	*bad_op = op;
	return EOPNOTSUPP;
}

static void refuse_placeholder(void)
{
}

static const struct verbs_context refusals = {
	.read_counters = refuse_read_counters,
	.attach_counters_point_flow = refuse_attach_counters,
	.create_counters = refuse_create_counters,
	.destroy_counters = refuse_destroy_counters,
	.modify_flow_action_esp = refuse_modify_esp,
	.destroy_flow_action = refuse_destroy_flow_action,
	.create_flow_action_esp = refuse_create_esp,
	.modify_qp_rate_limit = refuse_rate_limit,
	.post_srq_ops = refuse_post_srq_ops,
	.destroy_rwq_ind_table = refuse_destroy_ind_table,
	.create_rwq_ind_table = refuse_create_ind_table,
	.destroy_wq = refuse_destroy_wq,
	.modify_wq = refuse_modify_wq,
	.create_wq = refuse_create_wq,
	.ibv_destroy_flow = refuse_destroy_flow,
	.ABI_placeholder2 = refuse_placeholder,
	.ibv_create_flow = refuse_create_flow,
	.ABI_placeholder1 = refuse_placeholder,
	.open_qp = refuse_open_qp,
	.context.ops =
		{
			._compat_query_port = refuse_compat_query_port,
			._compat_alloc_pd = refuse_compat,
			._compat_dealloc_pd = refuse_compat,
			._compat_reg_mr = refuse_compat,
			._compat_rereg_mr = refuse_compat,
			._compat_dereg_mr = refuse_compat,
			._compat_create_cq = refuse_compat,
			._compat_cq_event = refuse_compat,
			._compat_resize_cq = refuse_compat,
			._compat_destroy_cq = refuse_compat,
			._compat_create_srq = refuse_compat,
			._compat_modify_srq = refuse_compat,
			._compat_query_srq = refuse_compat,
			._compat_destroy_srq = refuse_compat,
			._compat_create_qp = refuse_compat,
			._compat_query_qp = refuse_compat,
			._compat_modify_qp = refuse_compat,
			._compat_destroy_qp = refuse_compat,
			._compat_create_ah = refuse_compat,
			._compat_destroy_ah = refuse_compat,
			._compat_attach_mcast = refuse_compat,
			._compat_detach_mcast = refuse_compat,
			._compat_async_event = refuse_compat,
		},
};

void urxe_context_refuse_all(struct verbs_context *vctx)
{
	*vctx = refusals;
}
