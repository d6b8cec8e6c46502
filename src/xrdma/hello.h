/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two sides of a channel tell each other over the bootstrap connection. Pure.
 *
 * HELLO, network byte order: magic "XRDM", u16 lowest and u16 highest version spoken, u32 length of
 * the fields that follow, the fields. Later versions append fields: a reader takes those it knows
 * and skips the rest.
 */
#ifndef XRDMA_HELLO_H
#define XRDMA_HELLO_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* Types of the blocks of the bootstrap connection; boot.h frames them. */
enum xr_block_type {
	XR_BLOCK_HELLO = 1,
	XR_BLOCK_READY,  /* my queue pair receives, or RESUME comes next; a token to resume the
			    channel by, or empty */
	XR_BLOCK_OPEN,   /* I have read your probe: data may flow; empty */
	XR_BLOCK_REJECT, /* no connection, or not any more: status and reason */
	XR_BLOCK_BYE,    /* closing in good order; empty */
	XR_BLOCK_RESUME, /* the channel is broken: resume.h */
	XR_BLOCK_KEYS,   /* what is exported, with the keys of the new epoch: resume.h */
	XR_BLOCK_PROBE,  /* does RDMA work again? A HELLO of a queue pair that is only for this:
			    mock.c */
	XR_BLOCK_SEND,   /* a message by TCP: tcp_qp.h */
	XR_BLOCK_READ,
	XR_BLOCK_WRITE,
	XR_BLOCK_ANSWER,
};

enum {
	XR_VERSION_MIN = 1, /* what this library speaks */
	XR_VERSION_MAX = 1,
	XR_HELLO_BYTES = 104,
	XR_REJECT_TEXT = 200,
	XR_REJECT_BYTES = 4 + XR_REJECT_TEXT,
};

enum {
	XR_HELLO_TRACE = 1,   /* messages may carry times, if both sides say so */
	XR_HELLO_WINDOWS = 2, /* its large messages are in windows that the reader may invalidate */
	XR_HELLO_MOCK = 4,    /* TCP may take over from RDMA, if both sides say so */
	XR_HELLO_TCP = 8,     /* and does, in this epoch, if one says so */
	XR_HELLO_FORCED = 16, /* and for good */
	XR_HELLO_GONE = 32,   /* it may be told by messages that keys are gone */
};

enum xr_gid_type {
	XR_GID_IB,
	XR_GID_ROCE_V1,
	XR_GID_ROCE_V2,
};

struct xr_hello {
	uint16_t version_min, version_max;
	uint32_t flags;       /* XR_HELLO_*; unknown ones are ignored */
	uint64_t incarnation; /* of the process and context: a peer that restarted has another */
	uint32_t epoch;       /* of the channel: raised by each re-establishment */
	uint32_t qpn, psn;    /* 24 bits */
	uint8_t gid_type;     /* enum xr_gid_type */
	struct in6_addr gid;
	uint32_t mtu;            /* bytes */
	uint8_t max_rd_atomic;   /* READs it has in flight at most */
	uint8_t max_dest_rd;     /* READs it answers at once at most */
	uint32_t window;         /* messages per direction */
	uint32_t control;        /* control messages per direction */
	uint32_t small_bytes;    /* payload of a SEND */
	uint32_t frag_bytes;     /* of a READ */
	uint32_t max_msg;        /* bytes */
	uint32_t max_calls;      /* requests in flight */
	uint8_t probe_block[16]; /* key block (keys.h) of the memory that proves the path */
	uint32_t probe_bytes;
};

/* Returns the length written, XR_HELLO_BYTES. */
size_t xr_hello_encode(const struct xr_hello *hello, uint8_t out[static XR_HELLO_BYTES]);

/*
 * 0; -EPROTO: not a HELLO, or too short for the version it claims. Its version range may still not
 * meet ours: xr_negotiate() tells. Values are as the peer sent them: xr_negotiate() bounds them.
 */
int xr_hello_decode(const uint8_t *in, size_t len, struct xr_hello *ret_hello);

/* REJECT: a negative errno value and a sentence (cut to XR_REJECT_TEXT). Returns the length. */
size_t xr_reject_encode(int status, const char *why, uint8_t out[static XR_REJECT_BYTES]);

/* 0 or -EPROTO. *ret_status is always a negative errno value; unprintable bytes become '?'. */
int xr_reject_decode(const uint8_t *in, size_t len, int *ret_status,
		     char ret_why[static XR_REJECT_TEXT + 1]);

#endif
