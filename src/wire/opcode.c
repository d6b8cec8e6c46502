/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode.h"

#include <string.h>

/* A row's traits and extension headers: only to write the table down, see the typed fields. */
enum {
	FIRST = 1 << 0,
	LAST = 1 << 1,
	ONLY = FIRST | LAST,
	RESP = 1 << 2,
	DATA = 1 << 3,
};

enum {
	X = 1 << 0, /* XRCETH */
	D = 1 << 1, /* DETH */
	R = 1 << 2, /* RETH */
	T = 1 << 3, /* AtomicETH */
	A = 1 << 4, /* AETH */
	C = 1 << 5, /* AtomicAckETH */
	I = 1 << 6, /* ImmDt */
	V = 1 << 7, /* IETH */
	N = 1 << 8, /* a CNP's reserved bytes */
};

/* Each header begins where the one before it ends, be that one there or not. */
#define LEN_IF(ext, bit, len) ((ext) & (bit) ? (len) : 0)
#define OFF_X(ext)            BTH_LEN
#define OFF_D(ext)            (OFF_X(ext) + LEN_IF(ext, X, XRCETH_LEN))
#define OFF_R(ext)            (OFF_D(ext) + LEN_IF(ext, D, DETH_LEN))
#define OFF_T(ext)            (OFF_R(ext) + LEN_IF(ext, R, RETH_LEN))
#define OFF_A(ext)            (OFF_T(ext) + LEN_IF(ext, T, ATOMICETH_LEN))
#define OFF_C(ext)            (OFF_A(ext) + LEN_IF(ext, A, AETH_LEN))
#define OFF_I(ext)            (OFF_C(ext) + LEN_IF(ext, C, ATOMICACK_LEN))
#define OFF_V(ext)            (OFF_I(ext) + LEN_IF(ext, I, IMMDT_LEN))
#define OFF_N(ext)            (OFF_V(ext) + LEN_IF(ext, V, IETH_LEN))
#define HDR_LEN(ext)          (OFF_N(ext) + LEN_IF(ext, N, CNP_PAD_LEN))

#define ENTRY(text, kind_, traits, ext)                                                            \
	{                                                                                          \
		.name = (text), .kind = KIND_##kind_, .hdr_len = HDR_LEN(ext),                     \
		.first = ((traits)&FIRST) != 0, .last = ((traits)&LAST) != 0,                      \
		.response = ((traits)&RESP) != 0, .payload = ((traits)&DATA) != 0,                 \
		.xrceth = ((ext)&X) != 0, .deth = ((ext)&D) != 0, .reth = ((ext)&R) != 0,          \
		.atomiceth = ((ext)&T) != 0, .aeth = ((ext)&A) != 0, .atomicack = ((ext)&C) != 0,  \
		.immdt = ((ext)&I) != 0, .ieth = ((ext)&V) != 0, .off_xrceth = OFF_X(ext),         \
		.off_deth = OFF_D(ext), .off_reth = OFF_R(ext), .off_atomiceth = OFF_T(ext),       \
		.off_aeth = OFF_A(ext), .off_atomicack = OFF_C(ext), .off_immdt = OFF_I(ext),      \
		.off_ieth = OFF_V(ext),                                                            \
	}

#define ROW(service, op, kind, traits, ext)                                                        \
	[URXE_##service | OP_##op] = ENTRY(#service "_" #op, kind, traits, ext)

/* Requests that every connected service has; x is what each of its packets carries. */
#define CONNECTED(s, x)                                                                            \
	ROW(s, SEND_FIRST, SEND, FIRST | DATA, x), ROW(s, SEND_MIDDLE, SEND, DATA, x),             \
		ROW(s, SEND_LAST, SEND, LAST | DATA, x),                                           \
		ROW(s, SEND_LAST_IMM, SEND, LAST | DATA, (x) | I),                                 \
		ROW(s, SEND_ONLY, SEND, ONLY | DATA, x),                                           \
		ROW(s, SEND_ONLY_IMM, SEND, ONLY | DATA, (x) | I),                                 \
		ROW(s, WRITE_FIRST, WRITE, FIRST | DATA, (x) | R),                                 \
		ROW(s, WRITE_MIDDLE, WRITE, DATA, x), ROW(s, WRITE_LAST, WRITE, LAST | DATA, x),   \
		ROW(s, WRITE_LAST_IMM, WRITE, LAST | DATA, (x) | I),                               \
		ROW(s, WRITE_ONLY, WRITE, ONLY | DATA, (x) | R),                                   \
		ROW(s, WRITE_ONLY_IMM, WRITE, ONLY | DATA, (x) | R | I)

/* What reliability adds. Responses go to the requester's QP, so they never carry an XRCETH. */
#define RELIABLE(s, x)                                                                             \
	ROW(s, READ_REQ, READ, ONLY, (x) | R),                                                     \
		ROW(s, READ_RESP_FIRST, READ_RESP, FIRST | RESP | DATA, A),                        \
		ROW(s, READ_RESP_MIDDLE, READ_RESP, RESP | DATA, 0),                               \
		ROW(s, READ_RESP_LAST, READ_RESP, LAST | RESP | DATA, A),                          \
		ROW(s, READ_RESP_ONLY, READ_RESP, ONLY | RESP | DATA, A),                          \
		ROW(s, ACK, ACK, ONLY | RESP, A),                                                  \
		ROW(s, ATOMIC_ACK, ATOMIC_ACK, ONLY | RESP, A | C),                                \
		ROW(s, CMP_SWAP, ATOMIC, ONLY, (x) | T), ROW(s, FETCH_ADD, ATOMIC, ONLY, (x) | T), \
		ROW(s, SEND_LAST_INV, SEND, LAST | DATA, (x) | V),                                 \
		ROW(s, SEND_ONLY_INV, SEND, ONLY | DATA, (x) | V)

const struct urxe_opcode urxe_opcodes[256] = {
	CONNECTED(RC, 0),
	RELIABLE(RC, 0),
	ROW(RC, ATOMIC_WRITE, ATOMIC_WRITE, ONLY | DATA, R),
	CONNECTED(UC, 0),
	ROW(UD, SEND_ONLY, SEND, ONLY | DATA, D),
	ROW(UD, SEND_ONLY_IMM, SEND, ONLY | DATA, D | I),
	CONNECTED(XRC, X),
	RELIABLE(XRC, X),
	[URXE_OPCODE_CNP] = ENTRY("CNP", CNP, ONLY, N),
};

int urxe_opcode_by_name(const char *name)
{
	for (int i = 0; i < 256; i++)
		if (urxe_opcodes[i].name && !strcmp(urxe_opcodes[i].name, name))
			return i;
	return -1;
}
