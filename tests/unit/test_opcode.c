/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "wire/opcode.h"

#include <stdio.h>
#include <string.h>

/*
 * IBA table 38 in the words of this test: headers behind the BTH by letter, in the order of the
 * wire. D DETH, R RETH, T AtomicETH, A AETH, C AtomicAckETH, I ImmDt, V IETH.
 */
struct row {
	const char *name;
	const char *ext;
	const char *traits; /* f first, l last, r response, d may carry data */
	enum urxe_kind kind;
	uint8_t op;
	bool uc; /* unreliable connections have it too */
};

static const struct row rows[] = {
	{"SEND_FIRST", "", "fd", KIND_SEND, 0, true},
	{"SEND_MIDDLE", "", "d", KIND_SEND, 1, true},
	{"SEND_LAST", "", "ld", KIND_SEND, 2, true},
	{"SEND_LAST_IMM", "I", "ld", KIND_SEND, 3, true},
	{"SEND_ONLY", "", "fld", KIND_SEND, 4, true},
	{"SEND_ONLY_IMM", "I", "fld", KIND_SEND, 5, true},
	{"WRITE_FIRST", "R", "fd", KIND_WRITE, 6, true},
	{"WRITE_MIDDLE", "", "d", KIND_WRITE, 7, true},
	{"WRITE_LAST", "", "ld", KIND_WRITE, 8, true},
	{"WRITE_LAST_IMM", "I", "ld", KIND_WRITE, 9, true},
	{"WRITE_ONLY", "R", "fld", KIND_WRITE, 10, true},
	{"WRITE_ONLY_IMM", "RI", "fld", KIND_WRITE, 11, true},
	{"READ_REQ", "R", "fl", KIND_READ, 12, false},
	{"READ_RESP_FIRST", "A", "frd", KIND_READ_RESP, 13, false},
	{"READ_RESP_MIDDLE", "", "rd", KIND_READ_RESP, 14, false},
	{"READ_RESP_LAST", "A", "lrd", KIND_READ_RESP, 15, false},
	{"READ_RESP_ONLY", "A", "flrd", KIND_READ_RESP, 16, false},
	{"ACK", "A", "flr", KIND_ACK, 17, false},
	{"ATOMIC_ACK", "AC", "flr", KIND_ATOMIC_ACK, 18, false},
	{"CMP_SWAP", "T", "fl", KIND_ATOMIC, 19, false},
	{"FETCH_ADD", "T", "fl", KIND_ATOMIC, 20, false},
	{"SEND_LAST_INV", "V", "ld", KIND_SEND, 22, false},
	{"SEND_ONLY_INV", "V", "fld", KIND_SEND, 23, false},
};

static int known; /* opcodes that the tests have looked at */

/* Walk the headers of ext and compare presence, offsets and total with the table's. */
static void check_headers(const struct urxe_opcode *op, const char *ext)
{
	const struct {
		char letter;
		uint8_t len;
		bool has;
		uint8_t off;
	} all[] = {
		{'X', 4, op->xrceth, op->off_xrceth}, {'D', 8, op->deth, op->off_deth},
		{'R', 16, op->reth, op->off_reth},    {'T', 28, op->atomiceth, op->off_atomiceth},
		{'A', 4, op->aeth, op->off_aeth},     {'C', 8, op->atomicack, op->off_atomicack},
		{'I', 4, op->immdt, op->off_immdt},   {'V', 4, op->ieth, op->off_ieth},
	};
	uint8_t off = 12;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(all[i].has, strchr(ext, all[i].letter) != NULL);
		if (!all[i].has)
			continue;
		assert_int_equal(all[i].off, off);
		off += all[i].len;
	}
	if (strchr(ext, 'N'))
		off += 16;
	assert_int_equal(op->hdr_len, off);
	assert_in_range(op->hdr_len, BTH_LEN, URXE_HDR_MAX);
}

static void check(int opcode, const char *name, enum urxe_kind kind, const char *traits,
		  const char *ext)
{
	const struct urxe_opcode *op = &urxe_opcodes[opcode];

	assert_non_null(op->name);
	assert_string_equal(op->name, name);
	assert_int_equal(urxe_opcode_by_name(name), opcode);
	assert_int_equal(op->kind, kind);
	assert_int_equal(op->first, strchr(traits, 'f') != NULL);
	assert_int_equal(op->last, strchr(traits, 'l') != NULL);
	assert_int_equal(op->response, strchr(traits, 'r') != NULL);
	assert_int_equal(op->payload, strchr(traits, 'd') != NULL);
	check_headers(op, ext);
	known++;
}

static void check_service(int service, const char *prefix, const struct row *row, bool xrceth)
{
	char name[32], ext[8];

	snprintf(name, sizeof(name), "%s_%s", prefix, row->name);
	snprintf(ext, sizeof(ext), "%s%s", xrceth ? "X" : "", row->ext);
	check(service | row->op, name, row->kind, row->traits, ext);
}

static void table_says_what_iba_table_38_says(void **state)
{
	for (const struct row *row = rows; row < rows + ARRAY_SIZE(rows); row++) {
		check_service(0x00, "RC", row, false);
		if (row->uc)
			check_service(0x20, "UC", row, false);
		check_service(0xa0, "XRC", row, !strchr(row->traits, 'r'));
	}
	check(0x1d, "RC_ATOMIC_WRITE", KIND_ATOMIC_WRITE, "fld", "R"); /* IBA 1.5 */
	check(0x64, "UD_SEND_ONLY", KIND_SEND, "fld", "D");
	check(0x65, "UD_SEND_ONLY_IMM", KIND_SEND, "fld", "DI");
	check(0x81, "CNP", KIND_CNP, "fl", "N");
}

static void nothing_else_is_an_opcode(void **state)
{
	int named = 0;

	for (int i = 0; i < 256; i++) {
		if (urxe_opcodes[i].name)
			named++;
		else
			assert_int_equal(urxe_opcodes[i].kind, KIND_NONE);
	}
	assert_int_equal(named, known);
	assert_int_equal(named, 2 * 23 + 12 + 1 + 2 + 1);
}

static void unknown_names_have_no_opcode(void **state)
{
	static const char *const names[] = {
		"",           "RC", "RC_SEND", "rc_send_only", "RC_SEND_ONLY ", "RD_SEND_ONLY",
		"UC_READ_REQ"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(urxe_opcode_by_name(names[i]), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_says_what_iba_table_38_says),
		cmocka_unit_test(nothing_else_is_an_opcode),
		cmocka_unit_test(unknown_names_have_no_opcode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
