/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What crosses the border between the engine and a link: one packet and where it goes or came from.
 */
#ifndef URXE_WIRE_FRAME_H
#define URXE_WIRE_FRAME_H

#include "wire/opcode.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* A GID, network order: an IPv6 address, or an IPv4 address mapped into one (RoCEv2 annex A17). */
struct urxe_gid {
	uint8_t raw[16];
};

enum { URXE_GID_V4 = 12 }; /* where a mapped IPv4 address begins */

/* An IPv4 address, mapped as RoCEv2 writes it (annex A17.3.1). */
static inline bool urxe_gid_is_v4(const struct urxe_gid *gid)
{
	static const uint8_t mapped[URXE_GID_V4] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* addr: 4 bytes, network order. */
static inline void urxe_gid_from_v4(struct urxe_gid *ret_gid, const void *addr)
{
	*ret_gid = (struct urxe_gid){.raw = {[10] = 0xff, [11] = 0xff}};
	memcpy(ret_gid->raw + URXE_GID_V4, addr, 4);
}

/* IPv6's ff00::/8, or IPv4's 224.0.0.0/4. */
static inline bool urxe_gid_is_multicast(const struct urxe_gid *gid)
{
	return gid->raw[0] == 0xff ||
	       (urxe_gid_is_v4(gid) && (gid->raw[URXE_GID_V4] & 0xf0) == 0xe0);
}

/* ::1, or 127.0.0.0/8. */
static inline bool urxe_gid_is_loopback(const struct urxe_gid *gid)
{
	static const struct urxe_gid v6 = {.raw = {[15] = 1}};

	return urxe_gid_is_v4(gid) ? gid->raw[URXE_GID_V4] == 127
				   : memcmp(gid, &v6, sizeof(v6)) == 0;
}

/* The network side of a packet. Fixed when a QP reaches RTR or when an address handle is made. */
struct urxe_path {
	struct urxe_gid sgid;
	struct urxe_gid dgid;
	uint32_t flow_label; /* IPv6 only, 20 bits */
	uint16_t sport;      /* UDP source port: the flow's entropy, 0xc000..0xffff */
	uint8_t tclass;      /* IPv4 TOS, IPv6 traffic class, ECN bits included */
	uint8_t hop_limit;
};

enum { URXE_FRAME_IOV = 32 }; /* not below the engine's max_sge */

/* A packet to send. Its payload is gathered from iov; pad zero bytes follow it. */
struct urxe_frame {
	const struct urxe_path *path; /* stays valid until the link has taken the frame */
	uint32_t dqpn;                /* as in the BTH */
	uint32_t payload_len;         /* the sum of iov, without pad */
	uint8_t pad;
	uint8_t hdr_len;
	uint8_t n_iov;
	bool last; /* there is no other behind it now: asking can be saved */
	bool grh;  /* the receiver must learn the path (UD): links without addresses carry a GRH */
	uint8_t hdr[URXE_HDR_MAX];
	struct iovec
		iov[URXE_FRAME_IOV]; /* user memory: valid only while the engine's lock is held */
};

/* Before its first use: links copy more than the header, and peers see what they copy. */
static inline void urxe_frame_init(struct urxe_frame *frame)
{
	memset(frame->hdr, 0, sizeof(frame->hdr));
}

/* A packet received: from its BTH to its last pad byte. Valid only during the call. */
struct urxe_rx {
	const uint8_t *data; /* may be memory that a hostile peer still writes */
	uint32_t len;
	const struct urxe_path
		*path; /* as the packet carried it; NULL: the link has no addresses */
	bool ce;       /* ECN: congestion was experienced on the way */
	bool looped;   /* a multicast packet that comes from an address of this host */
};

/*
 * A link pulls its next frame with this, only while it has room for one: nothing ever has to be
 * put back. Returns false when there is none.
 */
typedef bool urxe_pull_fn(void *arg, struct urxe_frame *ret_frame);

/* A link hands every packet that it received to this. */
typedef void urxe_rx_fn(void *arg, const struct urxe_rx *rx);

#endif
