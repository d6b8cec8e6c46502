/* SPDX-License-Identifier: BSD-2-Clause */
/* A RoCEv2 packet from its IP header on, taken apart for the tests that have whole packets. */
#ifndef TESTS_UNIT_IP_PACKET_H
#define TESTS_UNIT_IP_PACKET_H

#include "base/be.h"
#include "wire/icrc.h"

struct ip_packet {
	struct urxe_icrc_net net;
	const uint8_t *bth;
	size_t len; /* from the BTH to the end of the ICRC */
	bool ipv4;
};

/* Takes IPv4 without options, or IPv6, directly followed by UDP to port 4791; false: it is not. */
static inline bool ip_packet_split(const uint8_t *ip, size_t len, struct ip_packet *ret)
{
	size_t ip_len, udp_len;

	*ret = (struct ip_packet){0};
	if (len >= 28 && ip[0] == 0x45 && ip[9] == 17) {
		ret->ipv4 = true;
		ip_len = 20;
		memset(ret->net.src.raw + 10, 0xff, 2);
		memcpy(ret->net.src.raw + 12, ip + 12, 4);
		memset(ret->net.dst.raw + 10, 0xff, 2);
		memcpy(ret->net.dst.raw + 12, ip + 16, 4);
		ret->net.ip_id = get_be16(ip + 4);
		ret->net.ip_df = get_be16(ip + 6) == 0x4000;
	} else if (len >= 48 && ip[0] >> 4 == 6 && ip[6] == 17) {
		ip_len = 40;
		memcpy(ret->net.src.raw, ip + 8, 16);
		memcpy(ret->net.dst.raw, ip + 24, 16);
	} else {
		return false;
	}
	udp_len = get_be16(ip + ip_len + 4);
	if (get_be16(ip + ip_len + 2) != 4791 || udp_len < 8 || udp_len > len - ip_len)
		return false;
	ret->net.sport = get_be16(ip + ip_len);
	ret->net.dport = 4791;
	ret->bth = ip + ip_len + 8;
	ret->len = udp_len - 8;
	return true;
}

#endif
