/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *man_page; /* the program's argument */

struct parsed {
	struct urxe_settings settings;
	int err;
	char log[4096];
};

/* Parse env, and take what was logged. */
static struct parsed parse(char **env)
{
	struct parsed p;
	FILE *log = tmpfile();
	int saved = dup(STDERR_FILENO);
	size_t len;

	assert_non_null(log);
	dup2(fileno(log), STDERR_FILENO);
	p.err = urxe_settings_parse(env, &p.settings);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(log);
	len = fread(p.log, 1, sizeof(p.log) - 1, log);
	p.log[len] = '\0';
	fclose(log);
	return p;
}

/* For settings that are no text: those would point into what is freed here. */
static struct parsed parse_one(const char *var)
{
	char *copy = strdup(var);
	char *env[] = {copy, NULL};
	struct parsed p = parse(env);

	free(copy);
	return p;
}

static void defaults_are_the_engines_limits(void **state)
{
	char *env[] = {"HOME=/root", "XURXE_MTU=1", "URXE_LIB=/x", "URXE_HELP=0", NULL};
	struct parsed p = parse(env);
	struct ibv_device_attr limits;

	urxe_limits_default(&limits);
	assert_int_equal(p.err, 0);
	assert_string_equal(p.log, "");
	assert_null(p.settings.netdev);
	assert_int_equal(p.settings.real, URXE_REAL_BESIDE);
	assert_int_equal(p.settings.link, URXE_LINK_AUTO);
	assert_int_equal(p.settings.keys, URXE_KEYS_FRESH);
	assert_int_equal(p.settings.log, LOG_WARN);
	assert_int_equal(p.settings.mtu, 4096);
	assert_int_equal(p.settings.udp_port, 4791);
	assert_int_equal(p.settings.max_qp, limits.max_qp);
	assert_int_equal(p.settings.max_cq, limits.max_cq);
	assert_int_equal(p.settings.max_mr, limits.max_mr);
	assert_int_equal(p.settings.max_pd, limits.max_pd);
	assert_int_equal(p.settings.max_srq, limits.max_srq);
	assert_int_equal(p.settings.max_ah, limits.max_ah);
	assert_int_equal(p.settings.max_qp_wr, limits.max_qp_wr);
	assert_int_equal(p.settings.max_cqe, limits.max_cqe);
	assert_int_equal(p.settings.max_sge, limits.max_sge);
	assert_int_equal(p.settings.max_rd_atomic, limits.max_qp_rd_atom);
}

static void good_values_are_taken(void **state)
{
	char *env[] = {"URXE_NETDEV=eth0,lo",
		       "URXE_REAL=hide",
		       "URXE_LINK=udp",
		       "URXE_MTU=256",
		       "URXE_SEED=18446744073709551615",
		       "URXE_KEYS=reuse",
		       "URXE_LOG=debug",
		       "URXE_MAX_INLINE=0",
		       "URXE_SPIN=1000000",
		       "URXE_MAX_QP=1",
		       NULL};
	struct parsed p = parse(env);

	assert_int_equal(p.err, 0);
	assert_string_equal(p.log, "");
	assert_string_equal(p.settings.netdev, "eth0,lo");
	assert_int_equal(p.settings.real, URXE_REAL_HIDE);
	assert_int_equal(p.settings.link, URXE_LINK_UDP);
	assert_int_equal(p.settings.mtu, 256);
	assert_true(p.settings.seed == UINT64_MAX);
	assert_int_equal(p.settings.keys, URXE_KEYS_REUSE);
	assert_int_equal(p.settings.log, LOG_DEBUG);
	assert_int_equal(p.settings.max_inline, 0);
	assert_int_equal(p.settings.spin_us, 1000000);
	assert_int_equal(p.settings.max_qp, 1);
}

static void bad_values_are_one_clear_line_each(void **state)
{
	static const struct {
		const char *var;
		const char *expected;
	} cases[] = {
		{"URXE_MTU=1500", "expected 256, 512, 1024, 2048 or 4096 bytes, for example "
				  "URXE_MTU=4096"},
		{"URXE_MTU=8192", "4096"},
		{"URXE_MTU=128", "256"},
		{"URXE_MTU=", "256"},
		{"URXE_UDP_PORT=0", "expected 1..65535, for example URXE_UDP_PORT=4791"},
		{"URXE_UDP_PORT=65536", "1..65535"},
		{"URXE_UDP_PORT=4791 ", "1..65535"},
		{"URXE_UDP_PORT= 4791", "1..65535"},
		{"URXE_UDP_PORT=+4791", "1..65535"},
		{"URXE_UDP_PORT=0x12b7", "1..65535"},
		{"URXE_SEED=-1", "0..18446744073709551615"},
		{"URXE_SEED=18446744073709551616", "0..18446744073709551615"},
		{"URXE_RCVBUF=4M", "65536..1073741824 bytes"},
		{"URXE_MAX_QP=0", "1.."},
		{"URXE_LINK=tcp", "expected auto or udp, for example URXE_LINK=auto"},
		{"URXE_LINK=AUTO", "auto or udp"},
		{"URXE_LOG=", "error, warn, info or debug"},
		{"URXE_NETDEV=", "interface names, comma-separated, for example "
				 "URXE_NETDEV=eth0,lo"},
		{"URXE_MUT=1024", "there is no such setting"},
		{"URXE_=", "there is no such setting"},
		{"URXE_MTU_=1024", "there is no such setting"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct parsed p = parse_one(cases[i].var), none = parse_one("HOME=/");
		const char *newline = strchr(p.log, '\n');

		assert_int_equal(p.err, -EINVAL);
		assert_non_null(strstr(p.log, cases[i].var));
		assert_non_null(strstr(p.log, cases[i].expected));
		assert_non_null(strstr(p.log, "no urxe device is offered"));
		assert_true(newline && newline[1] == '\0');
		assert_memory_equal(&p.settings, &none.settings, sizeof(p.settings));
	}
}

static void each_bad_value_is_reported(void **state)
{
	char *env[] = {"URXE_MTU=1", "URXE_SPIN=5", "URXE_LINK=x", NULL};
	struct parsed p = parse(env);

	assert_int_equal(p.err, -EINVAL);
	assert_non_null(strstr(p.log, "URXE_MTU=1:"));
	assert_non_null(strstr(p.log, "URXE_LINK=x:"));
	assert_int_equal(p.settings.spin_us, 5);
}

static char *read_all(FILE *f)
{
	static char text[65536];
	size_t len = fread(text, 1, sizeof(text) - 1, f);

	text[len] = '\0';
	fclose(f);
	return strdup(text);
}

static void the_man_page_has_the_same_table(void **state)
{
	FILE *out = tmpfile(), *page = fopen(man_page, "r");
	char *table, *man;

	assert_non_null(out);
	assert_non_null(page);
	urxe_settings_print(out);
	rewind(out);
	table = read_all(out);
	man = read_all(page);
	assert_true(strlen(table) > 1000);
	assert_non_null(strstr(man, table));
	free(table);
	free(man);
}

/* What the table prints as the default must be accepted. */
static void printed_defaults_are_valid(void **state)
{
	char line[512], var[512], name[64];
	FILE *out = tmpfile();

	assert_non_null(out);
	urxe_settings_print(out);
	rewind(out);
	while (fgets(line, sizeof(line), out)) {
		char *value = strstr(line, "default: ");

		if (!value)
			continue;
		value += strlen("default: ");
		value[strcspn(value, ")")] = '\0';
		assert_int_equal(sscanf(line, "%63s", name), 1);
		snprintf(var, sizeof(var), "%s=%s", name, value);
		assert_int_equal(parse_one(var).err, 0);
	}
	fclose(out);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_the_engines_limits),
		cmocka_unit_test(good_values_are_taken),
		cmocka_unit_test(bad_values_are_one_clear_line_each),
		cmocka_unit_test(each_bad_value_is_reported),
		cmocka_unit_test(printed_defaults_are_valid),
		cmocka_unit_test(the_man_page_has_the_same_table),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s MAN-PAGE\n", argv[0]);
		return 2;
	}
	man_page = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
