/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/rng.h"
#include "golden.h"
#include "hex.h"
#include "ip_packet.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#include <errno.h>
#include <stdlib.h>

enum { BODY_MAX = 64 };

/* Random values in all fields that the opcode carries, zero in all others. */
static struct urxe_pkt random_pkt(struct rng *r, uint8_t opcode)
{
	const struct urxe_opcode *op = &urxe_opcodes[opcode];
	struct urxe_pkt pkt = {
		.opcode = opcode,
		.pad = op->payload ? rng_below(r, 4) : 0,
		.se = rng_below(r, 2),
		.migreq = rng_below(r, 2),
		.fecn = rng_below(r, 2),
		.becn = rng_below(r, 2),
		.ack_req = rng_below(r, 2),
		.pkey = (uint16_t)rng_next(r),
		.dqpn = rng_below(r, 1 << 24),
		.psn = rng_below(r, 1 << 24),
	};

	if (op->xrceth)
		pkt.srqn = rng_below(r, 1 << 24);
	if (op->deth) {
		pkt.qkey = (uint32_t)rng_next(r);
		pkt.sqpn = rng_below(r, 1 << 24);
	}
	if (op->reth || op->atomiceth) {
		pkt.va = rng_next(r);
		pkt.rkey = (uint32_t)rng_next(r);
	}
	if (op->reth)
		pkt.dma_len = (uint32_t)rng_next(r);
	if (op->atomiceth) {
		pkt.swap_add = rng_next(r);
		pkt.compare = rng_next(r);
	}
	if (op->aeth) {
		pkt.syndrome = (uint8_t)rng_next(r);
		pkt.msn = rng_below(r, 1 << 24);
	}
	if (op->atomicack)
		pkt.orig = rng_next(r);
	if (op->immdt)
		pkt.imm_be = (uint32_t)rng_next(r);
	if (op->ieth)
		pkt.inv_rkey = (uint32_t)rng_next(r);
	return pkt;
}

/* The parser must leave what the opcode does not carry alone: got started out as zeros. */
static void assert_pkt_equal(const struct urxe_pkt *got, const struct urxe_pkt *want)
{
#define SAME(field) assert_true(got->field == want->field)
	SAME(opcode);
	SAME(pad);
	SAME(se);
	SAME(migreq);
	SAME(fecn);
	SAME(becn);
	SAME(ack_req);
	SAME(pkey);
	SAME(dqpn);
	SAME(psn);
	SAME(va);
	SAME(rkey);
	SAME(dma_len);
	SAME(syndrome);
	SAME(msn);
	SAME(swap_add);
	SAME(compare);
	SAME(orig);
	SAME(imm_be);
	SAME(inv_rkey);
	SAME(qkey);
	SAME(sqpn);
	SAME(srqn);
	SAME(payload);
	SAME(payload_len);
#undef SAME
}

static void what_is_built_parses_to_the_same(void **state)
{
	uint8_t data[URXE_HDR_MAX + BODY_MAX];
	struct rng r = {.state = 3};

	for (int i = 0; i < 256 * 50; i++) {
		uint8_t opcode = (uint8_t)(i % 256);
		const struct urxe_opcode *op = &urxe_opcodes[opcode];
		struct urxe_pkt want, got = {0};
		size_t body;

		if (!op->name)
			continue;
		want = random_pkt(&r, opcode);
		body = op->payload ? 4 * rng_below(&r, BODY_MAX / 4 + 1) : 0;
		if (body < want.pad)
			body = 4;
		memset(data, 0xa5, sizeof(data));
		assert_int_equal(urxe_pkt_build(&want, data), op->hdr_len);
		assert_int_equal(data[op->hdr_len], 0xa5);
		want.payload = data + op->hdr_len;
		want.payload_len = (uint32_t)(body - want.pad);
		assert_int_equal(urxe_pkt_parse(data, op->hdr_len + body, &got), 0);
		assert_pkt_equal(&got, &want);
	}
}

/* Values wider than their field must not run into the neighbours. */
static void builder_cuts_fields_to_their_width(void **state)
{
	uint8_t wide[URXE_HDR_MAX], narrow[URXE_HDR_MAX];

	for (int opcode = 0; opcode < 256; opcode++) {
		struct urxe_pkt pkt = {.opcode = (uint8_t)opcode};
		size_t len;

		if (!urxe_opcodes[opcode].name)
			continue;
		len = urxe_pkt_build(&pkt, narrow);
		pkt.pad = 0xf4;
		pkt.dqpn = pkt.psn = pkt.msn = pkt.sqpn = pkt.srqn = 0xff000000;
		urxe_pkt_build(&pkt, wide);
		assert_memory_equal(wide, narrow, len);
	}
}

/* Exact-size heap copies: a sanitizer sees each byte read beyond the packet's end. */
static int parse_copy(const uint8_t *data, size_t len, struct urxe_pkt *pkt)
{
	uint8_t *copy = malloc(len ? len : 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, data, len);
	ret = urxe_pkt_parse(copy, len, pkt);
	free(copy);
	return ret;
}

static void packets_cut_anywhere_in_their_headers_are_bad(void **state)
{
	uint8_t data[URXE_HDR_MAX + BODY_MAX] = {0};
	struct rng r = {.state = 4};

	for (int opcode = 0; opcode < 256; opcode++) {
		const struct urxe_opcode *op = &urxe_opcodes[opcode];
		struct urxe_pkt pkt, got;

		if (!op->name)
			continue;
		pkt = random_pkt(&r, (uint8_t)opcode);
		pkt.pad = 0;
		urxe_pkt_build(&pkt, data);
		for (size_t len = 0; len < sizeof(data); len++) {
			bool fits = len == op->hdr_len ||
				    (op->payload && len > op->hdr_len && len % 4 == 0);

			assert_int_equal(parse_copy(data, len, &got), fits ? 0 : -EBADMSG);
		}
	}
}

static void pad_larger_than_the_body_is_bad(void **state)
{
	uint8_t data[URXE_HDR_MAX + 4] = {0};
	struct urxe_pkt got;

	for (int opcode = 0; opcode < 256; opcode++) {
		const struct urxe_opcode *op = &urxe_opcodes[opcode];

		if (!op->name)
			continue;
		for (uint8_t pad = 0; pad < 4; pad++) {
			struct urxe_pkt pkt = {.opcode = (uint8_t)opcode, .pad = pad};
			size_t len = urxe_pkt_build(&pkt, data);

			assert_int_equal(parse_copy(data, len, &got), pad ? -EBADMSG : 0);
			if (!op->payload)
				continue;
			assert_int_equal(parse_copy(data, len + 4, &got), 0);
			assert_int_equal(got.payload_len, 4 - pad);
		}
	}
}

static void unknown_opcodes_and_versions_are_refused(void **state)
{
	uint8_t data[URXE_HDR_MAX] = {0};
	struct urxe_pkt got;

	for (int opcode = 0; opcode < 256; opcode++) {
		data[0] = (uint8_t)opcode;
		data[1] = 0;
		if (!urxe_opcodes[opcode].name)
			assert_int_equal(parse_copy(data, sizeof(data), &got), -EPROTO);
	}
	data[0] = OP_SEND_ONLY;
	for (uint8_t version = 0; version < 16; version++) {
		data[1] = version;
		assert_int_equal(parse_copy(data, sizeof(data), &got), version ? -EPROTO : 0);
	}
}

static void failure_leaves_the_packet_alone(void **state)
{
	static const uint8_t runt[12] = {OP_ACK}, pad[12] = {OP_SEND_ONLY, 0x10},
			     version[12] = {OP_SEND_ONLY, 1};
	struct urxe_pkt pkt, before;

	memset(&pkt, 0x5a, sizeof(pkt));
	memcpy(&before, &pkt, sizeof(pkt));
	assert_int_equal(urxe_pkt_parse(runt, sizeof(runt), &pkt), -EBADMSG);
	assert_int_equal(urxe_pkt_parse(pad, sizeof(pad), &pkt), -EBADMSG);
	assert_int_equal(urxe_pkt_parse(version, sizeof(version), &pkt), -EPROTO);
	assert_memory_equal(&pkt, &before, sizeof(pkt));
}

/* What else arrives at the port (a DNS query, a QUIC packet, noise) hardly ever passes. */
static void foreign_traffic_is_refused(void **state)
{
	static const char *const foreign[] = {
		"1a2b010000010000000000000765786d616d706c6503636f6d0000010001",
		"c300000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
		"474554202f20485454502f312e310d0a0d0a0d0a",
		"ffffffffffffffffffffffffffffffffffffffff",
	};
	struct urxe_pkt got;
	uint8_t data[64];

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		size_t len = hex_decode(foreign[i], data, sizeof(data));

		assert_true(parse_copy(data, len, &got) < 0);
	}
}

/* Byte positions, from IBA chapter 9's figures: one packet for each extension header. */
static void headers_lie_where_iba_puts_them(void **state)
{
	static const struct {
		const char *hex;
		struct urxe_pkt pkt;
	} cases[] = {
		{"04f0abcdc0010203800405060000000000000000",
		 {.opcode = 0x04,
		  .se = true,
		  .migreq = true,
		  .pad = 3,
		  .pkey = 0xabcd,
		  .fecn = true,
		  .becn = true,
		  .dqpn = 0x010203,
		  .ack_req = true,
		  .psn = 0x040506}},
		{"640000000000000000000000 80010203 00040506",
		 {.opcode = 0x64, .qkey = 0x80010203, .sqpn = 0x040506}},
		{"0c0000000000000000000000 0102030405060708 090a0b0c 0d0e0f10",
		 {.opcode = 0x0c,
		  .va = 0x0102030405060708,
		  .rkey = 0x090a0b0c,
		  .dma_len = 0x0d0e0f10}},
		{"130000000000000000000000 0102030405060708 090a0b0c 1112131415161718"
		 "2122232425262728",
		 {.opcode = 0x13,
		  .va = 0x0102030405060708,
		  .rkey = 0x090a0b0c,
		  .swap_add = 0x1112131415161718,
		  .compare = 0x2122232425262728}},
		{"120000000000000000000000 60010203 1112131415161718",
		 {.opcode = 0x12, .syndrome = 0x60, .msn = 0x010203, .orig = 0x1112131415161718}},
		{"170000000000000000000000 01020304", {.opcode = 0x17, .inv_rkey = 0x01020304}},
		{"ac0000000000000000000000 00010203 0102030405060708 090a0b0c 0d0e0f10",
		 {.opcode = 0xac,
		  .srqn = 0x010203,
		  .va = 0x0102030405060708,
		  .rkey = 0x090a0b0c,
		  .dma_len = 0x0d0e0f10}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct urxe_pkt got = {0};
		uint8_t data[64], hdr[URXE_HDR_MAX];
		size_t len = hex_decode(cases[i].hex, data, sizeof(data)), hdr_len;

		assert_int_equal(urxe_pkt_parse(data, len, &got), 0);
		hdr_len = urxe_pkt_build(&got, hdr);
		assert_ptr_equal(got.payload, data + hdr_len);
		assert_memory_equal(hdr, data, hdr_len);
		got.payload = NULL;
		got.payload_len = 0;
		assert_pkt_equal(&got, &cases[i].pkt);
	}
}

/* Immediate data is opaque: verbs hands the program the bytes of the wire. */
static void immediate_data_keeps_its_bytes(void **state)
{
	static const uint8_t data[16] = {OP_SEND_ONLY_IMM, [12] = 1, 2, 3, 4};
	struct urxe_pkt got;

	assert_int_equal(urxe_pkt_parse(data, sizeof(data), &got), 0);
	assert_memory_equal(&got.imm_be, data + 12, 4);
}

static void golden_packets_survive_parse_and_build(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		uint8_t data[512], hdr[URXE_HDR_MAX];
		struct ip_packet ip;
		struct urxe_pkt pkt;
		size_t hdr_len;

		assert_true(
			ip_packet_split(data, hex_decode(golden[i].hex, data, sizeof(data)), &ip));
		assert_int_equal(urxe_pkt_parse(ip.bth, ip.len - ICRC_LEN, &pkt), 0);
		assert_string_equal(urxe_opcodes[pkt.opcode].name, golden[i].opcode);
		hdr_len = urxe_pkt_build(&pkt, hdr);
		assert_memory_equal(hdr, ip.bth, hdr_len);
		assert_int_equal(hdr_len + pkt.payload_len + pkt.pad + ICRC_LEN, ip.len);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_built_parses_to_the_same),
		cmocka_unit_test(builder_cuts_fields_to_their_width),
		cmocka_unit_test(packets_cut_anywhere_in_their_headers_are_bad),
		cmocka_unit_test(pad_larger_than_the_body_is_bad),
		cmocka_unit_test(unknown_opcodes_and_versions_are_refused),
		cmocka_unit_test(failure_leaves_the_packet_alone),
		cmocka_unit_test(foreign_traffic_is_refused),
		cmocka_unit_test(headers_lie_where_iba_puts_them),
		cmocka_unit_test(immediate_data_keeps_its_bytes),
		cmocka_unit_test(golden_packets_survive_parse_and_build),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
