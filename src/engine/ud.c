/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving datagrams (IBA 9.8.2.2). What does not fit is dropped, silently but counted. */
#include "engine/mr.h"
#include "engine/qp.h"

#include "base/be.h"

#include <string.h>

static uint16_t ipv4_checksum(const uint8_t *hdr)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get_be16(hdr + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/*
 * The 40 bytes in front of a datagram: the IPv6 header, or the IPv4 header in the last 20 of them
 * (RoCEv2 annex A17.4.5.1).
 */
static void build_grh(const struct urxe_path *path, uint32_t transport_len, uint8_t grh[GRH_LEN])
{
	uint16_t udp_len = (uint16_t)(8 + transport_len + ICRC_LEN);

	memset(grh, 0, GRH_LEN);
	if (urxe_gid_is_v4(&path->sgid)) {
		uint8_t *ip = grh + 20;

		ip[0] = 0x45;
		ip[1] = path->tclass;
		put_be16(ip + 2, (uint16_t)(20 + udp_len));
		put_be16(ip + 6, 0x4000); /* DF */
		ip[8] = path->hop_limit;
		ip[9] = 17;
		memcpy(ip + 12, path->sgid.raw + 12, 4);
		memcpy(ip + 16, path->dgid.raw + 12, 4);
		put_be16(ip + 10, ipv4_checksum(ip));
		return;
	}
	put_be32(grh, 6u << 28 | (uint32_t)path->tclass << 20 | (path->flow_label & 0xfffff));
	put_be16(grh + 4, udp_len);
	grh[6] = 17;
	grh[7] = path->hop_limit;
	memcpy(grh + 8, path->sgid.raw, 16);
	memcpy(grh + 24, path->dgid.raw, 16);
}

void ud_rx(struct urxe_qp *qp, const struct urxe_pkt *pkt, const struct urxe_rx *rx)
{
	static const struct urxe_path nowhere;
	const struct urxe_opcode *op = &urxe_opcodes[pkt->opcode];
	struct responder *resp = &qp->resp;
	uint8_t grh[GRH_LEN];
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = GRH_LEN + pkt->payload_len,
		.src_qp = pkt->sqpn,
		.wc_flags = IBV_WC_GRH,
	};

	if (pkt->qkey != qp->attr.qkey || pkt->payload_len > qp->mtu || op->kind != KIND_SEND ||
	    (!resp->have_wqe && !qp_take_recv(qp)) || resp->wqe->length < wc.byte_len) {
		count(qp->engine, URXE_CNT_RX_DROPPED);
		return;
	}
	build_grh(rx->path ? rx->path : &nowhere, rx->len, grh);
	if (mr_scatter(qp->pd, resp->wqe->sge, resp->wqe->num_sge, 0, grh, GRH_LEN) < 0 ||
	    mr_scatter(qp->pd, resp->wqe->sge, resp->wqe->num_sge, GRH_LEN, pkt->payload,
		       pkt->payload_len) < 0) {
		wc = (struct ibv_wc){.status = IBV_WC_LOC_PROT_ERR};
		qp_complete_recv(qp, &wc, true);
		qp_fail(qp);
		return;
	}
	if (op->immdt) {
		wc.imm_data = pkt->imm_be;
		wc.wc_flags |= IBV_WC_WITH_IMM;
	}
	qp_complete_recv(qp, &wc, pkt->se);
}
