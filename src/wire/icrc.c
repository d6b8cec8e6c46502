/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/icrc.h"

#include "base/be.h"
#include "wire/crc.h"

#define IPV4_LEN   20
#define IPV6_LEN   40
#define UDP_LEN    8
#define IPV4_DF    0x4000
#define IP_UDP     17
#define BTH_MASKED 4 /* the BTH byte of FECN, BECN and reserved bits */

/*
 * The inverted CRC of eight bytes of ones, its least significant byte first: they stand where
 * native InfiniBand has its LRH (A17.3.3).
 */
#define CRC_SEED UINT32_C(0xe320bbde)

#define CRC_POLY UINT32_C(0xedb88320) /* reflected: bit 31 is x^0 */

/* The Identification and DF in an IPv4 header's second word, its first byte lowest. */
#define ID_DF_MASK UINT32_C(0x0040ffff)

static void put_ipv4(const struct urxe_icrc_net *net, size_t udp_len, uint8_t *h)
{
	h[0] = 0x45;
	h[1] = 0xff; /* TOS */
	put_be16(h + 2, (uint16_t)(IPV4_LEN + udp_len));
	put_be16(h + 4, net->ip_id);
	put_be16(h + 6, net->ip_df ? IPV4_DF : 0);
	h[8] = 0xff; /* TTL */
	h[9] = IP_UDP;
	put_be16(h + 10, 0xffff); /* checksum */
	memcpy(h + 12, net->src.raw + URXE_GID_V4, 4);
	memcpy(h + 16, net->dst.raw + URXE_GID_V4, 4);
}

static void put_ipv6(const struct urxe_icrc_net *net, size_t udp_len, uint8_t *h)
{
	put_be32(h, 0x6fffffff); /* traffic class and flow label */
	put_be16(h + 4, (uint16_t)udp_len);
	h[6] = IP_UDP;
	h[7] = 0xff; /* hop limit */
	memcpy(h + 8, net->src.raw, 16);
	memcpy(h + 24, net->dst.raw, 16);
}

/* Of a packet of len bytes, from its BTH to its last pad byte. */
static uint32_t icrc(const struct urxe_icrc_net *net, const uint8_t *packet, size_t len)
{
	bool v4 = urxe_gid_is_v4(&net->dst);
	size_t udp_len = UDP_LEN + len + ICRC_LEN, ip_len = v4 ? IPV4_LEN : IPV6_LEN;
	/* Zeros, masked headers, and so much of the packet that whole blocks are left of it. */
	uint8_t head[CRC_BLOCK + IPV6_LEN + UDP_LEN + BTH_LEN + CRC_BLOCK];
	size_t part = BTH_LEN + (len - BTH_LEN) % CRC_BLOCK;
	size_t zeros = -(ip_len + UDP_LEN + part) % CRC_BLOCK;
	uint8_t *ip = head + zeros, *udp = ip + ip_len, *bth = udp + UDP_LEN;

	memset(head, 0, CRC_BLOCK);
	(v4 ? put_ipv4 : put_ipv6)(net, udp_len, ip);
	put_be32(ip, get_be32(ip) ^ CRC_SEED);
	put_be16(udp, net->sport);
	put_be16(udp + 2, net->dport);
	put_be16(udp + 4, (uint16_t)udp_len);
	put_be16(udp + 6, 0xffff); /* checksum */
	memcpy(bth, packet, part);
	bth[BTH_MASKED] = 0xff;
	return urxe_crc(head, zeros + ip_len + UDP_LEN + part, packet + part, len - part);
}

void urxe_icrc_put(const struct urxe_icrc_net *net, uint8_t *packet, size_t len)
{
	uint32_t crc = htole32(icrc(net, packet, len));

	memcpy(packet + len, &crc, ICRC_LEN);
}

/* The product of two polynomials modulo the CRC's. */
static uint32_t poly_mul(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; b; b <<= 1) {
		product ^= a & -(b >> 31);
		a = a >> 1 ^ (CRC_POLY & -(a & 1));
	}
	return product;
}

/*
 * What was xored into four bytes that lie n - 4 bytes before the end, if that changed the CRC by
 * delta; the first of the four is the lowest byte of the result.
 *
 * CRC is linear: delta is the CRC, without seed and final inversion, of the difference d alone,
 * that is d * x^(8n) mod P. As P has a constant term, x has an inverse, and d = delta * x^(-8n).
 * Row k, column i below is x^(-8 * i * 16^k): one factor for each hexadecimal digit of n.
 */
static uint32_t unshift(uint32_t delta, size_t n)
{
	static const uint32_t inverse[4][16] = {
		{0x80000000, 0x6567cb95, 0xd7125358, 0x1f81b6e1, 0x5b358fd3, 0xeb21cebf, 0x2ff880c5,
		 0x97fc423c, 0x2e9bb40b, 0x2fb98a7d, 0xd6f6fa3c, 0x2059d4a0, 0x36511375, 0x525983aa,
		 0x31619cb3, 0x0f125cae},
		{0x80000000, 0x12a59a49, 0x8df9403d, 0x9d764201, 0x5139de12, 0x17958e0b, 0xdb1c4863,
		 0xc31ec6b9, 0xba340226, 0x6b85d37b, 0x0ba861bc, 0x39b0d61c, 0xfb844d1f, 0xc9771684,
		 0x8073ef0c, 0xc3f881be},
		{0x80000000, 0x29c45641, 0x12fbc105, 0x8b712bc1, 0xecd30c55, 0x930588dc, 0x3c4c471a,
		 0x25cd5760, 0x3755ebd8, 0xe264a9e0, 0xc3a68b42, 0x219c9d64, 0x75cc86fa, 0xebcce135,
		 0x84773a36, 0x4e1b970f},
		{0x80000000, 0x24ee460c, 0x23783fcf, 0xea8683d0, 0x479933fc, 0x1e25ac62, 0x6523628c,
		 0x3704e154, 0xa39442a5, 0x4ff1fa8c, 0xbc26806e, 0x1b2888be, 0x7910287d, 0xb8721901,
		 0x7bea74c8, 0x655ffa6b},
	};

	for (int k = 0; n; k++, n >>= 4)
		if (n & 15)
			delta = poly_mul(delta, inverse[k][n & 15]);
	return delta;
}

bool urxe_icrc_check(const struct urxe_icrc_net *net, const uint8_t *data, size_t len, bool exact,
		     uint16_t *ret_ip_id)
{
	size_t transport_len = len - ICRC_LEN;
	uint32_t crc, got, diff = 0;

	if (len < BTH_LEN + ICRC_LEN || len > UINT16_MAX - IPV4_LEN - UDP_LEN)
		return false;
	crc = icrc(net, data, transport_len);
	memcpy(&got, data + transport_len, ICRC_LEN);
	got = le32toh(got);
	if (got != crc) {
		if (exact || !urxe_gid_is_v4(&net->dst))
			return false;
		/* From the Identification to the end of the packet. */
		diff = unshift(got ^ crc, IPV4_LEN - 4 + UDP_LEN + transport_len);
		if (diff & ~ID_DF_MASK)
			return false;
	}
	if (ret_ip_id)
		*ret_ip_id = net->ip_id ^ (uint16_t)((diff & 0xff) << 8 | (diff >> 8 & 0xff));
	return true;
}
