/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * BTH opcodes (IBA table 38) as data: what a packet of each opcode is and which extension headers
 * it carries, in the order of the wire. Parser, builder, ICRC, engine and tools all read this
 * table.
 */
#ifndef URXE_WIRE_OPCODE_H
#define URXE_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* The transport service in an opcode's top three bits. */
enum urxe_service {
	URXE_RC = 0x00,
	URXE_UC = 0x20,
	URXE_RD = 0x40,
	URXE_UD = 0x60,
	URXE_CNP = 0x80, /* 0x81 only: RoCEv2 annex A17.9.3 */
	URXE_XRC = 0xa0,
	URXE_SERVICE_MASK = 0xe0,
};

/* The operation in an opcode's low five bits. */
enum urxe_op {
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE = 0x01,
	OP_SEND_LAST = 0x02,
	OP_SEND_LAST_IMM = 0x03,
	OP_SEND_ONLY = 0x04,
	OP_SEND_ONLY_IMM = 0x05,
	OP_WRITE_FIRST = 0x06,
	OP_WRITE_MIDDLE = 0x07,
	OP_WRITE_LAST = 0x08,
	OP_WRITE_LAST_IMM = 0x09,
	OP_WRITE_ONLY = 0x0a,
	OP_WRITE_ONLY_IMM = 0x0b,
	OP_READ_REQ = 0x0c,
	OP_READ_RESP_FIRST = 0x0d,
	OP_READ_RESP_MIDDLE = 0x0e,
	OP_READ_RESP_LAST = 0x0f,
	OP_READ_RESP_ONLY = 0x10,
	OP_ACK = 0x11,
	OP_ATOMIC_ACK = 0x12,
	OP_CMP_SWAP = 0x13,
	OP_FETCH_ADD = 0x14,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV = 0x17,
	OP_ATOMIC_WRITE = 0x1d,
	OP_MASK = 0x1f,
};

#define URXE_OPCODE_CNP 0x81

/* What kind of message the packet belongs to. */
enum urxe_kind {
	KIND_NONE, /* not an opcode */
	KIND_SEND,
	KIND_WRITE,
	KIND_READ,
	KIND_READ_RESP,
	KIND_ATOMIC,
	KIND_ATOMIC_ACK,
	KIND_ATOMIC_WRITE,
	KIND_ACK,
	KIND_CNP,
};

struct urxe_opcode {
	const char *name; /* "RC_SEND_FIRST"; NULL: not an opcode */
	enum urxe_kind kind;
	uint8_t hdr_len; /* BTH and all extension headers, in bytes */
	bool first;      /* begins a message (FIRST or ONLY) */
	bool last;       /* ends a message (LAST or ONLY) */
	bool response;   /* for the requester: ACK, READ response, ATOMIC ACK */
	bool payload;    /* may carry payload */
	/* Extension headers, in the order of the wire. */
	bool xrceth;
	bool deth;
	bool reth;
	bool atomiceth;
	bool aeth;
	bool atomicack;
	bool immdt;
	bool ieth;
	/* Their offsets from the first byte of the BTH; meaningless where absent. */
	uint8_t off_xrceth, off_deth, off_reth, off_atomiceth, off_aeth, off_atomicack, off_immdt,
		off_ieth;
};

enum {
	BTH_LEN = 12,
	BTH_DQPN = 5, /* where the destination QPN is in it */
	DETH_LEN = 8,
	RETH_LEN = 16,
	ATOMICETH_LEN = 28,
	AETH_LEN = 4,
	ATOMICACK_LEN = 8,
	IMMDT_LEN = 4,
	IETH_LEN = 4,
	XRCETH_LEN = 4,
	CNP_PAD_LEN = 16, /* reserved bytes behind a CNP's BTH */
	GRH_LEN = 40,
	ICRC_LEN = 4,
	URXE_HDR_MAX = 64, /* no opcode's headers are longer */
};

extern const struct urxe_opcode urxe_opcodes[256];

/* The opcode of that name ("RC_SEND_FIRST"), or -1. */
int urxe_opcode_by_name(const char *name);

#endif
