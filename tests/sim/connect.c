/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect.h"

#include <string.h>

int connect_init(struct urxe_qp *qp, const struct connect_attr *a, uint64_t now)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = a->qkey,
		.qp_access_flags = a->access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= a->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	return urxe_qp_modify(qp, &attr, mask, NULL, now);
}

int connect_up(struct urxe_qp *qp, const struct connect_attr *a, uint64_t now)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = a->mtu,
		.dest_qp_num = a->dqpn,
		.rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn,
		.max_rd_atomic = a->rd_atomic,
		.max_dest_rd_atomic = a->dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int mask = IBV_QP_STATE;
	int err;

	memcpy(attr.ah_attr.grh.dgid.raw, a->route.path.dgid.raw, sizeof(attr.ah_attr.grh.dgid));
	if (a->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (a->type == IBV_QPT_RC || a->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	err = urxe_qp_modify(qp, &attr, mask, a->type == IBV_QPT_UD ? NULL : &a->route, now);
	if (err)
		return err;

	attr.qp_state = IBV_QPS_RTS;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (a->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	if (a->type == IBV_QPT_RC || a->type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return urxe_qp_modify(qp, &attr, mask, NULL, now);
}

static void host_gid(struct urxe_gid *gid, unsigned host, bool ipv4)
{
	memset(gid, 0, sizeof(*gid));
	if (ipv4) {
		gid->raw[10] = gid->raw[11] = 0xff;
		gid->raw[12] = 10;
	} else {
		gid->raw[0] = 0xfd;
	}
	gid->raw[15] = (uint8_t)(host + 1);
}

void connect_path(struct urxe_path *ret_path, unsigned from, unsigned to, bool ipv4)
{
	*ret_path = (struct urxe_path){.sport = 0xc000, .hop_limit = 64};
	host_gid(&ret_path->sgid, from, ipv4);
	host_gid(&ret_path->dgid, to, ipv4);
}
