/* SPDX-License-Identifier: BSD-2-Clause */
/* What our devices do not do, each in the error convention of its call, and why. */
#include "verbs/entry.h"

#include <errno.h>
#include <string.h>

static void *null_errno(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static int minus_errno(int failure)
{
	errno = EOPNOTSUPP;
	return failure;
}

static int no_ece(struct ibv_ece *ece)
{
	memset(ece, 0, sizeof(*ece));
	return EOPNOTSUPP;
}

#define REFUSED(type, name, params, args, context, answer, reason)                                 \
	ENTRY_AS(type, name, params, args, context, answer)

/* clang-format off */

REFUSED(struct ibv_mr *, ibv_reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
	(pd, offset, length, iova, fd, access), pd->context, null_errno(),
	"memory of devices cannot be reached from user space")
REFUSED(int, ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
	EOPNOTSUPP, "vendor enhancements: there are none")
REFUSED(int, ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
	no_ece(ece), "vendor enhancements: there are none")
REFUSED(struct ibv_pd *, ibv_import_pd, (struct ibv_context *context, uint32_t handle),
	(context, handle), context, null_errno(), "objects live in one process")
REFUSED(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle), (pd, handle),
	pd->context, null_errno(), "objects live in one process")
REFUSED(struct ibv_dm *, ibv_import_dm, (struct ibv_context *context, uint32_t handle),
	(context, handle), context, null_errno(), "there is no device memory")
REFUSED(int, ibv_resolve_eth_l2_from_gid,
	(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
	 uint16_t *vid),
	(context, attr, mac, vid), context, minus_errno(-EOPNOTSUPP),
	"providers ask, for hardware that writes Ethernet headers")
REFUSED(int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags),
	(qp, op, flags), qp->context, 0, "no promise: memcpy writes a packet in any order")

/* clang-format on */
