/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/packet.h"

#include "base/be.h"
#include "wire/opcode.h"

#include <errno.h>

#define LOW24 UINT32_C(0xffffff)

/* The BTH as three words (IBA 9.2): opcode, flags, P_Key; congestion bits, QPN; AckReq, PSN. */
#define BTH_SE        (UINT32_C(1) << 23)
#define BTH_MIGREQ    (UINT32_C(1) << 22)
#define BTH_PAD(w0)   ((w0) >> 20 & 3)
#define BTH_TVER_MASK (UINT32_C(0xf) << 16)
#define BTH_FECN      (UINT32_C(1) << 31)
#define BTH_BECN      (UINT32_C(1) << 30)
#define BTH_ACK_REQ   (UINT32_C(1) << 31)

/*
 * Fetch a word exactly once, though a peer may be writing it: without the empty statement the
 * compiler may read memory again wherever the value is used.
 */
static inline uint32_t fetch32(const uint8_t *p)
{
	uint32_t v = get_be32(p);

	__asm__ volatile("" : "+r"(v));
	return v;
}

static inline uint64_t fetch64(const uint8_t *p)
{
	return (uint64_t)fetch32(p) << 32 | fetch32(p + 4);
}

static void parse_bth(uint32_t w0, const uint8_t *bth, struct urxe_pkt *pkt)
{
	uint32_t w1 = fetch32(bth + 4), w2 = fetch32(bth + 8);

	pkt->opcode = (uint8_t)(w0 >> 24);
	pkt->se = w0 & BTH_SE;
	pkt->migreq = w0 & BTH_MIGREQ;
	pkt->pad = BTH_PAD(w0);
	pkt->pkey = (uint16_t)w0;
	pkt->fecn = w1 & BTH_FECN;
	pkt->becn = w1 & BTH_BECN;
	pkt->dqpn = w1 & LOW24;
	pkt->ack_req = w2 & BTH_ACK_REQ;
	pkt->psn = w2 & LOW24;
}

static void parse_extensions(const struct urxe_opcode *op, const uint8_t *h, struct urxe_pkt *pkt)
{
	if (op->xrceth)
		pkt->srqn = fetch32(h + op->off_xrceth) & LOW24;
	if (op->deth) {
		pkt->qkey = fetch32(h + op->off_deth);
		pkt->sqpn = fetch32(h + op->off_deth + 4) & LOW24;
	}
	if (op->reth) {
		pkt->va = fetch64(h + op->off_reth);
		pkt->rkey = fetch32(h + op->off_reth + 8);
		pkt->dma_len = fetch32(h + op->off_reth + 12);
	}
	if (op->atomiceth) {
		pkt->va = fetch64(h + op->off_atomiceth);
		pkt->rkey = fetch32(h + op->off_atomiceth + 8);
		pkt->swap_add = fetch64(h + op->off_atomiceth + 12);
		pkt->compare = fetch64(h + op->off_atomiceth + 20);
	}
	if (op->aeth) {
		uint32_t aeth = fetch32(h + op->off_aeth);

		pkt->syndrome = (uint8_t)(aeth >> 24);
		pkt->msn = aeth & LOW24;
	}
	if (op->atomicack)
		pkt->orig = fetch64(h + op->off_atomicack);
	if (op->immdt)
		pkt->imm_be = htobe32(fetch32(h + op->off_immdt));
	if (op->ieth)
		pkt->inv_rkey = fetch32(h + op->off_ieth);
}

int urxe_pkt_parse(const uint8_t *data, size_t len, struct urxe_pkt *pkt)
{
	const struct urxe_opcode *op;
	size_t body, pad;
	uint32_t w0;

	if (len < BTH_LEN)
		return -EBADMSG;
	w0 = fetch32(data);
	op = &urxe_opcodes[w0 >> 24];
	if (!op->name || w0 & BTH_TVER_MASK)
		return -EPROTO;
	if (len < op->hdr_len || len % 4)
		return -EBADMSG;
	body = len - op->hdr_len;
	pad = BTH_PAD(w0);
	if (pad > body || (!op->payload && body))
		return -EBADMSG;

	parse_bth(w0, data, pkt);
	if (op->hdr_len > BTH_LEN)
		parse_extensions(op, data, pkt);
	pkt->payload = data + op->hdr_len;
	pkt->payload_len = (uint32_t)(body - pad);
	return 0;
}

static void build_bth(const struct urxe_pkt *pkt, uint8_t *h)
{
	put_be32(h, (uint32_t)pkt->opcode << 24 | (pkt->se ? BTH_SE : 0) |
			    (pkt->migreq ? BTH_MIGREQ : 0) | (uint32_t)(pkt->pad & 3) << 20 |
			    pkt->pkey);
	put_be32(h + 4,
		 (pkt->fecn ? BTH_FECN : 0) | (pkt->becn ? BTH_BECN : 0) | (pkt->dqpn & LOW24));
	put_be32(h + 8, (pkt->ack_req ? BTH_ACK_REQ : 0) | (pkt->psn & LOW24));
}

static void build_extensions(const struct urxe_opcode *op, const struct urxe_pkt *pkt, uint8_t *h)
{
	if (op->xrceth)
		put_be32(h + op->off_xrceth, pkt->srqn & LOW24);
	if (op->deth) {
		put_be32(h + op->off_deth, pkt->qkey);
		put_be32(h + op->off_deth + 4, pkt->sqpn & LOW24);
	}
	if (op->reth) {
		put_be64(h + op->off_reth, pkt->va);
		put_be32(h + op->off_reth + 8, pkt->rkey);
		put_be32(h + op->off_reth + 12, pkt->dma_len);
	}
	if (op->atomiceth) {
		put_be64(h + op->off_atomiceth, pkt->va);
		put_be32(h + op->off_atomiceth + 8, pkt->rkey);
		put_be64(h + op->off_atomiceth + 12, pkt->swap_add);
		put_be64(h + op->off_atomiceth + 20, pkt->compare);
	}
	if (op->aeth)
		put_be32(h + op->off_aeth, (uint32_t)pkt->syndrome << 24 | (pkt->msn & LOW24));
	if (op->atomicack)
		put_be64(h + op->off_atomicack, pkt->orig);
	if (op->immdt)
		memcpy(h + op->off_immdt, &pkt->imm_be, IMMDT_LEN);
	if (op->ieth)
		put_be32(h + op->off_ieth, pkt->inv_rkey);
	if (op->kind == KIND_CNP)
		memset(h + BTH_LEN, 0, CNP_PAD_LEN);
}

size_t urxe_pkt_build(const struct urxe_pkt *pkt, uint8_t *hdr)
{
	const struct urxe_opcode *op = &urxe_opcodes[pkt->opcode];

	build_bth(pkt, hdr);
	if (op->hdr_len > BTH_LEN)
		build_extensions(op, pkt, hdr);
	return op->hdr_len;
}
