/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/rng.h"
#include "golden.h"
#include "hex.h"
#include "ip_packet.h"
#include "wire/crc.h"
#include "wire/icrc.h"

enum { DATA_MAX = 65535 - 28 };

static uint8_t data[DATA_MAX + 8];

static struct urxe_gid ipv4(uint32_t addr)
{
	struct urxe_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	put_be32(gid.raw + 12, addr);
	return gid;
}

static struct urxe_icrc_net random_ipv4(struct rng *r)
{
	return (struct urxe_icrc_net){
		.src = ipv4((uint32_t)rng_next(r)),
		.dst = ipv4((uint32_t)rng_next(r)),
		.sport = (uint16_t)rng_next(r),
		.dport = 4791,
		.ip_id = (uint16_t)rng_next(r),
		.ip_df = rng_below(r, 2),
	};
}

/* Random bytes from the BTH on, with the ICRC that net gives them; len counts the ICRC. */
static void make_packet(struct rng *r, const struct urxe_icrc_net *net, size_t len)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)rng_next(r);
	urxe_icrc_put(net, data, len - ICRC_LEN);
}

static void golden_packets_have_their_icrc(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		uint8_t packet[512], copy[512];
		size_t len = hex_decode(golden[i].hex, packet, sizeof(packet));
		struct ip_packet ip;

		assert_true(ip_packet_split(packet, len, &ip));
		memcpy(copy, ip.bth, ip.len - ICRC_LEN);
		urxe_icrc_put(&ip.net, copy, ip.len - ICRC_LEN);
		assert_memory_equal(copy, ip.bth, ip.len);
		assert_true(urxe_icrc_check(&ip.net, ip.bth, ip.len, true, NULL));
	}
}

/* Bit by bit, as a division. */
static uint32_t crc_by_bits(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	for (size_t bit = 0; bit < 8 * len; bit++) {
		crc ^= (uint32_t)(p[bit / 8] >> bit % 8 & 1);
		crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
	}
	return ~crc;
}

/* Long data may take another way than short, and its end another than its middle. */
static void each_length_has_its_crc(void **state)
{
	struct rng r = {.state = 8};

	for (size_t blocks = 1; blocks < 60; blocks++) {
		for (size_t first = 1; first <= blocks && first < 8; first++) {
			size_t head_len = first * CRC_BLOCK, len = blocks * CRC_BLOCK;
			uint8_t head[8 * CRC_BLOCK], *p = data + blocks % 5;
			uint32_t before = (uint32_t)rng_next(&r);

			for (size_t i = 0; i < len; i++)
				p[i] = (uint8_t)rng_next(&r);
			memcpy(head, p, head_len);
			for (unsigned i = 0; i < 4; i++)
				head[i] ^= (uint8_t)(~before >> 8 * i);
			assert_int_equal(urxe_crc(head, head_len, p + head_len, len - head_len),
					 crc_by_bits(before, p, len));
		}
	}
}

/* Routers may set these BTH bits. */
static void congestion_bits_do_not_matter(void **state)
{
	struct rng r = {.state = 1};
	struct urxe_icrc_net net = random_ipv4(&r);

	make_packet(&r, &net, 300);
	assert_true(urxe_icrc_check(&net, data, 300, true, NULL));
	data[4] ^= 0xff;
	assert_true(urxe_icrc_check(&net, data, 300, true, NULL));
}

static void every_flipped_bit_is_seen(void **state)
{
	enum { LEN = 44 };
	struct rng r = {.state = 2};
	struct urxe_icrc_net net = random_ipv4(&r);

	make_packet(&r, &net, LEN);
	for (unsigned bit = 0; bit < LEN * 8; bit++) {
		if (bit / 8 == 4)
			continue; /* masked */
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(urxe_icrc_check(&net, data, LEN, true, NULL));
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	net.sport ^= 1;
	assert_false(urxe_icrc_check(&net, data, LEN, true, NULL));
	net.sport ^= 1;
	net.src.raw[15] ^= 1;
	assert_false(urxe_icrc_check(&net, data, LEN, true, NULL));
}

static void assert_solves(struct rng *r, size_t len)
{
	struct urxe_icrc_net net = random_ipv4(r), guess = net;
	uint16_t id = (uint16_t)~net.ip_id;

	make_packet(r, &net, len);
	guess.ip_id = 0;
	guess.ip_df = true;
	assert_true(urxe_icrc_check(&guess, data, len, false, &id));
	assert_int_equal(id, net.ip_id);
	assert_true(urxe_icrc_check(&guess, data, len, false, NULL));
	assert_int_equal(urxe_icrc_check(&guess, data, len, true, NULL),
			 net.ip_id == 0 && net.ip_df);
	id = (uint16_t)~net.ip_id;
	assert_true(urxe_icrc_check(&net, data, len, true, &id));
	assert_int_equal(id, net.ip_id);
}

static void identification_and_df_are_solved_for(void **state)
{
	struct rng r = {.state = 5};

	for (size_t len = BTH_LEN + ICRC_LEN; len < 4400; len++)
		assert_solves(&r, len);
	for (int i = 0; i < 300; i++)
		assert_solves(&r, 4400 + rng_below(&r, DATA_MAX - 4400));
	assert_solves(&r, DATA_MAX);
}

/* MF, the reserved flag and the fragment offset are no unknowns: they must be zero. */
static void no_other_ipv4_bits_are_solved_for(void **state)
{
	struct rng r = {.state = 6};
	struct urxe_icrc_net net = random_ipv4(&r);
	enum { LEN = 64 };

	for (unsigned bit = 0; bit < 16; bit++) {
		/* CRC is linear: what the bit does to zeros, it does to every packet. */
		uint8_t flipped[4 + 12 + 8 + LEN - ICRC_LEN] = {0};
		uint8_t zeros[sizeof(flipped)] = {0};
		uint32_t delta;
		bool df = bit == 14;

		make_packet(&r, &net, LEN);
		put_be16(flipped + 2, (uint16_t)(1 << bit));
		delta = crc_by_bits(0, flipped, sizeof(flipped)) ^
			crc_by_bits(0, zeros, sizeof(zeros));
		for (unsigned i = 0; i < ICRC_LEN; i++)
			data[LEN - ICRC_LEN + i] ^= (uint8_t)(delta >> 8 * i);
		assert_int_equal(urxe_icrc_check(&net, data, LEN, false, NULL), df);
	}
}

static void one_in_32768_wrong_packets_passes_when_solving(void **state)
{
	struct rng r = {.state = 7};
	struct urxe_icrc_net net = random_ipv4(&r);
	int passed = 0;

	make_packet(&r, &net, 48);
	for (int i = 0; i < 1 << 18; i++) {
		put_be32(data + 44, (uint32_t)rng_next(&r));
		passed += urxe_icrc_check(&net, data, 48, false, NULL);
	}
	assert_in_range(passed, 1, 24); /* 8 expected */
}

static void ipv6_is_always_exact(void **state)
{
	struct rng r = {.state = 8};
	struct urxe_icrc_net net = {
		.src.raw = {0xfe, 0x80, [15] = 1},
		.dst.raw = {0xfe, 0x80, [15] = 2},
		.sport = 0xc000,
		.dport = 4791,
	};
	uint16_t id = 1;

	make_packet(&r, &net, 48);
	assert_true(urxe_icrc_check(&net, data, 48, false, &id));
	assert_int_equal(id, 0);
	for (unsigned bit = 0; bit < 32; bit++) {
		data[44 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(urxe_icrc_check(&net, data, 48, false, NULL));
		data[44 + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	net.dst.raw[15] = 3;
	assert_false(urxe_icrc_check(&net, data, 48, false, NULL));
}

static void impossible_lengths_are_refused(void **state)
{
	struct rng r = {.state = 9};
	struct urxe_icrc_net net = random_ipv4(&r);

	for (size_t len = 0; len < BTH_LEN + ICRC_LEN; len++)
		assert_false(urxe_icrc_check(&net, data, len, false, NULL));
	for (size_t len = DATA_MAX + 1; len <= sizeof(data); len++) {
		make_packet(&r, &net, len); /* so only its length can be what is wrong */
		assert_false(urxe_icrc_check(&net, data, len, false, NULL));
	}
	assert_false(urxe_icrc_check(&net, data, SIZE_MAX, false, NULL));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_length_has_its_crc),
		cmocka_unit_test(golden_packets_have_their_icrc),
		cmocka_unit_test(congestion_bits_do_not_matter),
		cmocka_unit_test(every_flipped_bit_is_seen),
		cmocka_unit_test(identification_and_df_are_solved_for),
		cmocka_unit_test(no_other_ipv4_bits_are_solved_for),
		cmocka_unit_test(one_in_32768_wrong_packets_passes_when_solving),
		cmocka_unit_test(ipv6_is_always_exact),
		cmocka_unit_test(impossible_lengths_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
