/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between channels, as they cross the wire: one RDMA SEND with immediate data each.
 * Immediate: seq:16 | ack:16 (window.h). Then a header of 16 bytes, and for some types a body:
 *
 *	0 type   1 flags   2 control ack   3 zero   4 id   8 len   12 epoch
 *
 * All in network order. A small payload follows the header. A large one stays where it is: the body
 * is an exchange block that says where, and the receiver READs it. If both sides trace, times may
 * stand between header and body (a flag says so): two u64 in a REQ, four in a RSP; trace.h tells
 * which.
 *
 * A message that invalidates a memory window has that key in place of immediate data. A stamp then
 * stands between header and body (a flag says so, too), and no times:
 *
 *	0 seq   2 ack   4 the key   8 zero
 *
 * Pure: bytes in, struct out.
 */
#ifndef XR_PROTO_H
#define XR_PROTO_H

#include "base/be.h"
#include "xrdma/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xr_type {
	XR_MSG = 1, /* one way */
	XR_REQ,
	XR_RSP,
	XR_ERR_RSP, /* a request that will have no reply, and why */
	XR_REGION,  /* a region is exported */
	XR_SLOT,    /* one way; the payload lies in a slot of a region exported before */
	XR_ACK,     /* nothing but the acknowledgements that every message carries */
	XR_BYE,     /* the last message of this direction */
	XR_GONE,    /* the key of a region exported before is not to be used any more */
	XR_N_TYPES,
};

enum {
	XR_HDR_BYTES = 16,
	XR_TIMES_BYTES = 32, /* at most */
	XR_STAMP_BYTES = 16, /* as payloads are aligned */
	/* the largest head: RSP, large and traced */
	XR_MAX_HEAD_BYTES = XR_HDR_BYTES + XR_TIMES_BYTES + XR_KEY_BYTES,
	XR_AT_WIRE = 6, /* times of a call that cross the wire, on its way there and back */
};

struct xr_head {
	enum xr_type type;
	bool large;        /* the payload is to be read from key */
	uint8_t ctrl_ack;  /* control messages received, modulo 256 */
	uint32_t id;       /* REQ, RSP, ERR_RSP: of the call; REGION, SLOT, GONE: of the export */
	uint32_t len;      /* payload bytes, wherever they are */
	uint32_t epoch;    /* of the sender's connection */
	struct xr_key key; /* large, REGION (rkey 0: gone already) */
	int status;        /* ERR_RSP: a negative errno value */
	uint32_t n_slots;  /* REGION */
	uint32_t tag;
	uint64_t slot_bytes;
	uint16_t slot; /* SLOT */
	bool stamped;  /* these come along, as it invalidates: */
	uint16_t seq, ack;
	uint32_t invalidates;
	bool traced; /* REQ: at[0..1] come along; RSP: at[2..5] */
	uint64_t at[XR_AT_WIRE];
};

/* What was agreed. */
struct xr_bounds {
	uint32_t small_bytes; /* payload inside a SEND */
	uint32_t max_bytes;   /* payload of any message */
	uint32_t epoch;
	bool trace;
	bool stamps;
};

/* Bytes of times or stamp in a head. */
size_t xr_head_extra(const struct xr_head *h);

/* Messages that take a place in the window; the others take one among the control messages. */
static inline bool xr_type_windowed(enum xr_type type)
{
	return type != XR_ACK && type != XR_BYE;
}

const char *xr_type_name(enum xr_type type);

/* Write header and body at p, XR_MAX_HEAD_BYTES of room. Returns their length. */
size_t xr_head_put(uint8_t *p, const struct xr_head *h);

/* The same for a payload type when there is nothing else to say; XR_HDR_BYTES of room. */
static inline void xr_head_put_plain(uint8_t *p, unsigned type, uint8_t ctrl_ack, uint32_t id,
				     uint32_t len, uint32_t epoch)
{
	put_be64(p, (uint64_t)type << 56 | (uint64_t)ctrl_ack << 40 | id);
	put_be64(p + 8, (uint64_t)len << 32 | epoch);
}

/*
 * Parse size bytes that came. A payload that is not large is the ret_h->len bytes behind the
 * header. -EPROTO: no peer that keeps to the protocol sends this, *ret_why says what it is.
 * -ESTALE: it is of another epoch.
 */
int xr_head_parse(const uint8_t *p, size_t size, const struct xr_bounds *bounds,
		  struct xr_head *ret_h, const char **ret_why);

static inline uint32_t xr_imm(uint16_t seq, uint16_t ack)
{
	return (uint32_t)seq << 16 | ack;
}

static inline uint16_t xr_imm_seq(uint32_t imm)
{
	return (uint16_t)(imm >> 16);
}

static inline uint16_t xr_imm_ack(uint32_t imm)
{
	return (uint16_t)imm;
}

#endif
