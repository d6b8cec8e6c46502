/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC (IBA 7.8.1, RoCEv2 annex A17.3.3): CRC-32 over the IP, UDP and transport
 * headers and the payload with pad, the fields that routers may change masked to ones. It goes out
 * least significant byte first.
 */
#ifndef URXE_WIRE_ICRC_H
#define URXE_WIRE_ICRC_H

#include "wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a UDP socket's user knows of a packet's IP and UDP headers. Host order. */
struct urxe_icrc_net {
	struct urxe_gid src;
	struct urxe_gid dst; /* IPv4-mapped: the packet is IPv4 */
	uint16_t sport;
	uint16_t dport;
	uint16_t ip_id; /* IPv4 only */
	bool ip_df;     /* IPv4 only */
};

/*
 * Store the ICRC of a packet behind it: packet holds len bytes from the BTH to the last pad byte,
 * at least BTH_LEN.
 */
void urxe_icrc_put(const struct urxe_icrc_net *net, uint8_t *packet, size_t len);

/*
 * Verify a received packet: data holds len bytes from the BTH to the end of the ICRC. For IPv6, or
 * when net->ip_id and net->ip_df are right, the check is exact. For IPv4 a UDP socket sees neither
 * Identification nor DF; as CRC is linear, the value that would make the ICRC right is solved for.
 * Accepts if there is one, and sets *ret_ip_id (may be NULL) to it: 32 bits of check become 15.
 * With exact set, nothing is solved for.
 */
bool urxe_icrc_check(const struct urxe_icrc_net *net, const uint8_t *data, size_t len, bool exact,
		     uint16_t *ret_ip_id);

#endif
