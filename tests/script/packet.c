/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include "../sim/connect.h"
#include "wire/aeth.h"

#include <stdlib.h>
#include <string.h>

/* Fields by name, the same ones for what is injected and for what is expected. */
struct field {
	const char *name;
	size_t off;
	size_t size;
};

#define FIELD(n, member)                                                                           \
	{                                                                                          \
		n, offsetof(struct urxe_pkt, member), sizeof(((struct urxe_pkt *)0)->member)       \
	}

static const struct field fields[] = {
	FIELD("psn", psn),   FIELD("a", ack_req),     FIELD("se", se),
	FIELD("m", migreq),  FIELD("fecn", fecn),     FIELD("becn", becn),
	FIELD("pkey", pkey), FIELD("dqpn", dqpn),     FIELD("pad", pad),
	FIELD("va", va),     FIELD("rkey", rkey),     FIELD("dlen", dma_len),
	FIELD("msn", msn),   FIELD("swap", swap_add), FIELD("compare", compare),
	FIELD("orig", orig), FIELD("inv", inv_rkey),  FIELD("qkey", qkey),
	FIELD("sqpn", sqpn), FIELD("srqn", srqn),
};

static const struct field *find_field(const char *name)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	}
	return NULL;
}

static void set_field(struct urxe_pkt *pkt, const struct field *f, uint64_t v)
{
	uint8_t *p = (uint8_t *)pkt + f->off;

	/* Integers of the host, which is little-endian or takes the last bytes. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(p, &v, f->size);
#else
	memcpy(p, (uint8_t *)&v + sizeof(v) - f->size, f->size);
#endif
}

static uint64_t get_field(const struct urxe_pkt *pkt, const struct field *f)
{
	const uint8_t *p = (const uint8_t *)pkt + f->off;
	uint64_t v = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(&v, p, f->size);
#else
	memcpy((uint8_t *)&v + sizeof(v) - f->size, p, f->size);
#endif
	return v;
}

/* ack, ack:CREDITS, rnr:TIMER, nak:CODE. *ret_mask: which bits count when it is expected. */
static uint8_t next_syndrome(struct stage *s, uint8_t *ret_mask)
{
	static const char *const codes[] = {"seq", "inv", "access", "op", "rd"};
	const char *token = next_token(s);
	const char *value = strchr(token, ':');
	uint8_t class = AETH_ACK;
	unsigned long v = AETH_CREDIT_INVALID;

	if (!strncmp(token, "rnr", 3))
		class = AETH_RNR;
	else if (!strncmp(token, "nak", 3))
		class = AETH_NAK;
	else if (strncmp(token, "ack", 3)) {
		*ret_mask = 0xff;
		return (uint8_t)strtoul(token, NULL, 0);
	}
	*ret_mask = value ? 0xff : 0xe0;
	if (value && class == AETH_NAK) {
		for (v = 0; v < 5 && strcmp(codes[v], value + 1); v++)
			;
		if (v == 5)
			fail(s, "script error: no NAK code %s", value + 1);
	} else if (value) {
		v = strtoul(value + 1, NULL, 0);
	}
	return (uint8_t)(class | v);
}

/* ---- injection ------------------------------------------------------------------------------- */

static void deliver(struct stage *s, const uint8_t *bytes, uint32_t len, bool ce)
{
	struct urxe_path path;
	/* Of exactly that size, so that a sanitizer sees an overread. */
	uint8_t *copy = malloc(len ? len : 1);
	struct urxe_rx rx = {.data = copy, .len = len, .path = &path, .ce = ce};

	connect_path(&path, 1, 0, true);
	memcpy(copy, bytes, len);
	urxe_engine_rx(s->engine, s->now, &rx);
	memset(copy, 0x5b, len);
	free(copy);
	stage_pump(s);
}

struct injected {
	struct urxe_pkt pkt;
	uint8_t payload[MAX_PAYLOAD];
	uint8_t bytes[MAX_PAYLOAD + URXE_HDR_MAX + 4];
	uint32_t payload_len;
	uint32_t cut; /* bytes missing at the end */
	int tver;
	int opcode; /* to overwrite the right one with */
	bool pad_given;
	bool ce;
};

static void read_injected(struct stage *s, struct injected *in)
{
	while (more(s)) {
		const char *key = s->line.token[s->line.at];
		const struct field *f = find_field(key);
		uint8_t mask;

		if (f) {
			s->line.at++;
			set_field(&in->pkt, f, next_number(s));
			in->pad_given |= !strcmp(key, "pad");
		} else if (accept(s, "syndrome")) {
			in->pkt.syndrome = next_syndrome(s, &mask);
		} else if (accept(s, "imm")) {
			in->pkt.imm_be = htobe32((uint32_t)next_number(s));
		} else if (accept(s, "cut")) {
			in->cut = (uint32_t)next_number(s);
		} else if (accept(s, "tver")) {
			in->tver = (int)next_number(s);
		} else if (accept(s, "opcode")) {
			in->opcode = (int)next_number(s);
		} else if (accept(s, "ce")) {
			in->ce = true;
		} else {
			in->payload_len = next_bytes(s, in->payload, MAX_PAYLOAD);
		}
	}
}

static void inject_packet(struct stage *s, struct injected *in)
{
	uint32_t len;

	in->opcode = -1;
	read_injected(s, in);
	if (!in->pad_given)
		in->pkt.pad = (uint8_t)(-in->payload_len & 3);
	len = (uint32_t)urxe_pkt_build(&in->pkt, in->bytes);
	if (in->opcode >= 0)
		in->bytes[0] = (uint8_t)in->opcode;
	in->bytes[1] |= (uint8_t)(in->tver & 0xf);
	memcpy(in->bytes + len, in->payload, in->payload_len);
	len += in->payload_len;
	memset(in->bytes + len, 0, in->pkt.pad);
	len += in->pkt.pad;
	deliver(s, in->bytes, len > in->cut ? len - in->cut : 0, in->ce);
}

void cmd_inject(struct stage *s)
{
	struct injected *in = calloc(1, sizeof(*in));
	const char *name = next_token(s);
	int opcode = urxe_opcode_by_name(name);

	if (!strcmp(name, "raw")) {
		uint32_t len = more(s) ? next_bytes(s, in->bytes, sizeof(in->bytes)) : 0;

		deliver(s, in->bytes, len, false);
	} else {
		if (opcode < 0)
			fail(s, "script error: no opcode %s", name);
		in->pkt.opcode = (uint8_t)opcode;
		in->pkt.pkey = 0xffff;
		in->pkt.dqpn = urxe_qp_num(stage_qp(s));
		inject_packet(s, in);
	}
	free(in);
}

/* ---- expectation ----------------------------------------------------------------------------- */

static void describe(const struct sent *sent, char *ret_text, size_t cap)
{
	struct urxe_pkt p;
	const struct urxe_opcode *op;
	int n;

	if (urxe_pkt_parse(sent->bytes, sent->len, &p)) {
		snprintf(ret_text, cap, "a packet that does not parse");
		return;
	}
	op = &urxe_opcodes[p.opcode];
	n = snprintf(ret_text, cap, "%s psn %u a %d se %d dqpn 0x%x len %u", op->name, p.psn,
		     p.ack_req, p.se, p.dqpn, p.payload_len);
	if (op->reth || op->atomiceth)
		n += snprintf(ret_text + n, cap - (size_t)n, " va 0x%llx rkey 0x%x dlen %u",
			      (unsigned long long)p.va, p.rkey, op->reth ? p.dma_len : 8);
	if (op->aeth)
		n += snprintf(ret_text + n, cap - (size_t)n, " syndrome 0x%02x msn %u", p.syndrome,
			      p.msn);
	if (op->atomicack)
		n += snprintf(ret_text + n, cap - (size_t)n, " orig %llu",
			      (unsigned long long)p.orig);
	snprintf(ret_text + n, cap - (size_t)n, " (sent at %.3f us)", (double)sent->at_ns / 1e3);
}

static _Noreturn void mismatch(struct stage *s, const struct sent *sent, const char *what,
			       uint64_t want, uint64_t got)
{
	char text[512];

	describe(sent, text, sizeof(text));
	fail(s, "got %s\n  %s: expected %llu (0x%llx), got %llu (0x%llx)", text, what,
	     (unsigned long long)want, (unsigned long long)want, (unsigned long long)got,
	     (unsigned long long)got);
}

static void check_payload(struct stage *s, const struct sent *sent, const struct urxe_pkt *pkt)
{
	uint8_t want[MAX_PAYLOAD];
	uint32_t len = next_bytes(s, want, sizeof(want));

	if (pkt->payload_len != len)
		mismatch(s, sent, "payload length", len, pkt->payload_len);
	for (uint32_t i = 0; i < len; i++) {
		if (pkt->payload[i] != want[i])
			mismatch(s, sent, "payload differs", want[i], pkt->payload[i]);
	}
}

/* len alone leaves the content open; len N from K does not. */
static bool length_only(const struct stage *s)
{
	const struct line *l = &s->line;

	return !strcmp(l->token[l->at], "len") &&
	       (l->at + 2 >= l->n || strcmp(l->token[l->at + 2], "from"));
}

static void check_field(struct stage *s, const struct sent *sent, const struct urxe_pkt *pkt)
{
	const char *key = s->line.token[s->line.at];
	const struct field *f = find_field(key);
	uint64_t want, got;
	uint8_t mask;

	if (f) {
		s->line.at++;
		want = next_number(s);
		got = get_field(pkt, f);
	} else if (accept(s, "syndrome")) {
		want = next_syndrome(s, &mask) & mask;
		got = pkt->syndrome & mask;
	} else if (accept(s, "imm")) {
		want = next_number(s);
		got = be32toh(pkt->imm_be);
	} else if (accept(s, "tclass")) {
		want = next_number(s);
		got = sent->tclass;
	} else if (length_only(s)) {
		s->line.at++;
		want = next_number(s);
		got = pkt->payload_len;
	} else {
		check_payload(s, sent, pkt);
		return;
	}
	if (want != got)
		mismatch(s, sent, key, want, got);
}

static bool is_plain_ack(const struct sent *sent)
{
	struct urxe_pkt pkt;

	return !urxe_pkt_parse(sent->bytes, sent->len, &pkt) &&
	       urxe_opcodes[pkt.opcode].kind == KIND_ACK &&
	       (pkt.syndrome & AETH_CLASS_MASK) == AETH_ACK;
}

static bool names_a_nak(const struct line *l)
{
	for (unsigned i = l->at; i < l->n; i++) {
		if (!strncmp(l->token[i], "nak", 3) || !strncmp(l->token[i], "rnr", 3))
			return true;
	}
	return false;
}

static void check_none(struct stage *s)
{
	char text[512];

	if (s->n_seen == s->n_sent)
		return;
	describe(&s->sent[s->n_seen], text, sizeof(text));
	fail(s, "expected no packet\n  got      %s", text);
}

static void check_sent(struct stage *s)
{
	struct urxe_pkt pkt;
	const char *name;
	struct sent *sent;

	if (accept(s, "none")) {
		check_none(s);
		return;
	}
	name = next_token(s);
	if (urxe_opcode_by_name(name) < 0)
		fail(s, "script error: no opcode %s", name);
	if (s->n_seen == s->n_sent)
		fail(s, "expected a packet\n  got      none");
	sent = &s->sent[s->n_seen++];
	if (urxe_pkt_parse(sent->bytes, sent->len, &pkt))
		fail(s, "got a packet that does not parse");
	if (pkt.opcode != urxe_opcode_by_name(name))
		mismatch(s, sent, "opcode", (uint64_t)urxe_opcode_by_name(name), pkt.opcode);
	while (more(s))
		check_field(s, sent, &pkt);
}

void cmd_sent(struct stage *s)
{
	check_sent(s);
}

/* Responders may answer several requests by one ACK, or each by its own: look at the newest. */
void cmd_sent_after_acks(struct stage *s)
{
	const char *name = more(s) ? s->line.token[s->line.at] : "";
	bool want_ack = !strcmp(name, "RC_ACK") && !names_a_nak(&s->line);

	while (s->n_seen < s->n_sent && is_plain_ack(&s->sent[s->n_seen])) {
		if (want_ack &&
		    (s->n_seen + 1 == s->n_sent || !is_plain_ack(&s->sent[s->n_seen + 1])))
			break;
		s->n_seen++;
	}
	check_sent(s);
}
