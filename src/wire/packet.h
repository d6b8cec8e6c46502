/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport packet, parsed once at the border into host order. Pure: no allocation, no I/O.
 */
#ifndef URXE_WIRE_PACKET_H
#define URXE_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct urxe_pkt {
	/* BTH */
	uint8_t opcode;
	uint8_t pad; /* bytes behind the payload that round it up to four */
	bool se;     /* solicited event */
	bool migreq;
	bool fecn;
	bool becn;
	bool ack_req;
	uint16_t pkey;
	uint32_t dqpn;
	uint32_t psn;
	/* Extension headers: only those that the opcode carries are set by the parser. */
	uint64_t va; /* RETH and AtomicETH */
	uint32_t rkey;
	uint32_t dma_len;
	uint8_t syndrome; /* AETH */
	uint32_t msn;
	uint64_t swap_add; /* AtomicETH */
	uint64_t compare;
	uint64_t orig;     /* AtomicAckETH */
	uint32_t imm_be;   /* ImmDt, in network order, as verbs has it */
	uint32_t inv_rkey; /* IETH */
	uint32_t qkey;     /* DETH */
	uint32_t sqpn;
	uint32_t srqn; /* XRCETH */
	/* Payload: set by the parser, ignored by the builder. */
	const uint8_t *payload;
	uint32_t payload_len; /* without pad */
};

/*
 * Parse len bytes from the BTH to the last pad byte (no ICRC). data may be memory that another
 * process still writes: every header byte is read exactly once, payload is not read at all.
 * Returns 0, or
 *   -EBADMSG    shorter than its headers, not a multiple of four bytes, pad larger than the
 *               payload, or payload where the opcode carries none
 *   -EPROTO     transport version not 0, or opcode unknown
 * *pkt is untouched on failure.
 */
int urxe_pkt_parse(const uint8_t *data, size_t len, struct urxe_pkt *pkt);

/* Write the headers of pkt (its opcode must be known) to hdr; returns their length in bytes. */
size_t urxe_pkt_build(const struct urxe_pkt *pkt, uint8_t *hdr);

#endif
