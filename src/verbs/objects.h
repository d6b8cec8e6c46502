/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our side of every libibverbs call that can meet one of our objects. Same signatures, results and
 * error conventions as the ibv_* function of that name; entry.c decides whose object it is.
 */
#ifndef URXE_VERBS_OBJECTS_H
#define URXE_VERBS_OBJECTS_H

#include "verbs/device.h"

#include <infiniband/verbs.h>

/* context.c */
struct ibv_context *urxe_verbs_open_device(struct urxe_device *dev);
int urxe_verbs_close_device(struct ibv_context *context);
int urxe_verbs_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int urxe_verbs_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			  size_t attr_len);
int urxe_verbs_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int urxe_verbs_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int urxe_verbs_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void urxe_verbs_ack_async_event(struct ibv_async_event *event);

/* mr.c */
struct ibv_pd *urxe_verbs_alloc_pd(struct ibv_context *context);
int urxe_verbs_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *urxe_verbs_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access);
int urxe_verbs_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
int urxe_verbs_dereg_mr(struct ibv_mr *mr);

/* cq.c */
struct ibv_comp_channel *urxe_verbs_create_comp_channel(struct ibv_context *context);
int urxe_verbs_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *urxe_verbs_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector);
int urxe_verbs_resize_cq(struct ibv_cq *cq, int cqe);
int urxe_verbs_destroy_cq(struct ibv_cq *cq);
int urxe_verbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
void urxe_verbs_ack_cq_events(struct ibv_cq *cq, unsigned nevents);

/* srq.c */
struct ibv_srq *urxe_verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int urxe_verbs_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int urxe_verbs_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int urxe_verbs_destroy_srq(struct ibv_srq *srq);

/* qp.c */
struct ibv_qp *urxe_verbs_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int urxe_verbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int urxe_verbs_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
int urxe_verbs_destroy_qp(struct ibv_qp *qp);
int urxe_verbs_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_verbs_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
struct ibv_qp_ex *urxe_verbs_qp_to_qp_ex(struct ibv_qp *qp); /* NULL: not made as one */

/* ah.c */
struct ibv_ah *urxe_verbs_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int urxe_verbs_destroy_ah(struct ibv_ah *ah);

#endif
