/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/entry.h"
#include "verbs/objects.h"

#include <stddef.h>

/* Macros of verbs.h around the exported functions of these names. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* clang-format off */

ENTRY(int, close_device, (struct ibv_context *context), (context), context)
ENTRY(int, query_device, (struct ibv_context *context, struct ibv_device_attr *attr),
      (context, attr), context)
ENTRY(int, query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid),
      (context, port, index, gid), context)
ENTRY(int, query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey),
      (context, port, index, pkey), context)
ENTRY(int, get_async_event, (struct ibv_context *context, struct ibv_async_event *event),
      (context, event), context)

/* Callers of this symbol, unlike those of the inline function, know ibv_port_attr up to flags. */
ENTRY_AS(int, ibv_query_port,
	 (struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr),
	 (context, port, attr), context,
	 urxe_verbs_query_port(context, port, (struct ibv_port_attr *)attr,
			       offsetof(struct ibv_port_attr, port_cap_flags2)))

ENTRY(struct ibv_pd *, alloc_pd, (struct ibv_context *context), (context), context)
ENTRY(int, dealloc_pd, (struct ibv_pd *pd), (pd), pd->context)

ENTRY_AS(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access),
	 (pd, addr, length, access), pd->context,
	 urxe_verbs_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access))
ENTRY_AS(struct ibv_mr *, ibv_reg_mr_iova,
	 (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
	 (pd, addr, length, iova, access), pd->context,
	 urxe_verbs_reg_mr(pd, addr, length, iova, (unsigned)access))
ENTRY_AS(struct ibv_mr *, ibv_reg_mr_iova2,
	 (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access),
	 (pd, addr, length, iova, access), pd->context,
	 urxe_verbs_reg_mr(pd, addr, length, iova, access))
ENTRY(int, rereg_mr,
      (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
      (mr, flags, pd, addr, length, access), mr->context)
ENTRY(int, dereg_mr, (struct ibv_mr *mr), (mr), mr->context)

ENTRY(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *context), (context),
      context)
ENTRY(int, destroy_comp_channel, (struct ibv_comp_channel *channel), (channel), channel->context)
ENTRY(int, get_cq_event,
      (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
      (channel, cq, cq_context), channel->context)

ENTRY(struct ibv_cq *, create_cq,
      (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
       int comp_vector),
      (context, cqe, cq_context, channel, comp_vector), context)
ENTRY(int, resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe), cq->context)
ENTRY(int, destroy_cq, (struct ibv_cq *cq), (cq), cq->context)
ENTRY(void, ack_cq_events, (struct ibv_cq *cq, unsigned n), (cq, n), cq->context)

ENTRY(struct ibv_srq *, create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr),
      (pd, attr), pd->context)
ENTRY(int, modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask),
      (srq, attr, mask), srq->context)
ENTRY(int, query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr), srq->context)
ENTRY(int, destroy_srq, (struct ibv_srq *srq), (srq), srq->context)

ENTRY(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr),
      pd->context)
ENTRY(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask),
      qp->context)
ENTRY(int, query_qp,
      (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr),
      (qp, attr, mask, init_attr), qp->context)
ENTRY(int, destroy_qp, (struct ibv_qp *qp), (qp), qp->context)
ENTRY(int, attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid),
      qp->context)
ENTRY(int, detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid),
      qp->context)
ENTRY(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp *qp), (qp), qp->context)

ENTRY(struct ibv_ah *, create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr),
      pd->context)
ENTRY(int, destroy_ah, (struct ibv_ah *ah), (ah), ah->context)

/* clang-format on */

/* NULL for events that are about no object: of a port or the device. */
static const struct ibv_context *context_of_event(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	case IBV_EVENT_WQ_FATAL:
		return event->element.wq->context;
	default:
		return NULL;
	}
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	const struct ibv_context *context = context_of_event(event);

	if (!context) /* nothing waits for its acknowledgement */
		return;
	if (is_ours(context))
		urxe_verbs_ack_async_event(event);
	else
		REAL(ibv_ack_async_event)(event);
}
