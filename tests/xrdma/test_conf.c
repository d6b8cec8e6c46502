/* SPDX-License-Identifier: BSD-2-Clause */
/* Options: what is accepted, who wins, and what a wrong value is told. */
#include "../unit/unit.h"

#include "xrdma/conf_priv.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct xrdma_conf *fresh(void)
{
	struct xrdma_conf *conf;

	assert_int_equal(xrdma_conf_new(&conf), 0);
	return conf;
}

static int load_text(struct xrdma_conf *conf, const char *text)
{
	FILE *in = fmemopen((void *)text, strlen(text), "r");
	int err;

	assert_non_null(in);
	err = xr_conf_load_stream(conf, "x.conf", in);
	fclose(in);
	return err;
}

static void assert_explained(const char *part)
{
	if (!strstr(xrdma_last_error(), part))
		fail_msg("\"%s\" does not say \"%s\"", xrdma_last_error(), part);
}

static void assert_value(const struct xrdma_conf *conf, const char *name, const char *expected)
{
	char value[XR_PATH_BYTES];

	assert_int_equal(xrdma_conf_get(conf, name, value, sizeof(value)), 0);
	assert_string_equal(value, expected);
}

/* The table itself: every default and example is a value of its option, and docs are there. */
static void table_is_consistent(void **state)
{
	for (unsigned i = 0; i < xr_n_options; i++) {
		const struct xr_option *o = &xr_options[i];
		struct xrdma_conf *conf = fresh();
		char text[XR_OPTION_TEXT], value[XR_PATH_BYTES];

		assert_true(strlen(o->doc) > 10);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(xr_options[k].name, o->name);
		xr_option_default(o, text);
		assert_value(conf, o->name, text);
		assert_int_equal(xrdma_conf_set(conf, o->name, text), 0);
		assert_int_equal(xrdma_conf_get(conf, o->name, value, sizeof(value)), 0);
		assert_string_equal(value, text);
		xr_option_example(o, text);
		if (o->type != XR_HEX)
			assert_int_equal(xrdma_conf_set(conf, o->name, text), 0);
		xrdma_conf_free(conf);
	}
}

static void defaults_are_those_of_the_design(void **state)
{
	struct xr_conf c;

	xr_conf_defaults(&c);
	assert_string_equal(c.device, "auto");
	assert_int_equal(c.port, XR_AUTO);
	assert_int_equal(c.window, 64);
	assert_int_equal(c.control, 8);
	assert_int_equal(c.small_bytes, 4096);
	assert_int_equal(c.frag_bytes, 65536);
	assert_int_equal(c.timeout, 14);
	assert_int_equal(c.rnr_retry, 7);
	assert_int_equal(c.min_rnr_timer, 12);
	assert_int_equal(c.slab_bytes, 4 << 20);
	assert_int_equal(c.tls, XR_CHOICE_AUTO);
	assert_int_equal(c.log, LOG_WARN);
	assert_false(c.guard);
}

static void values_of_every_type(void **state)
{
	static const struct {
		const char *name, *value;
		int err;
		const char *shown;
	} rows[] = {
		{"window", "1", 0, "1"},
		{"window", "4096", 0, "4096"},
		{"window", "0", -ERANGE, NULL},
		{"window", "4097", -ERANGE, NULL},
		{"window", "", -EINVAL, NULL},
		{"window", "-1", -EINVAL, NULL},
		{"window", " 1", -EINVAL, NULL},
		{"window", "1 ", -EINVAL, NULL},
		{"window", "0x10", -EINVAL, NULL},
		{"window", "1K", -EINVAL, NULL}, /* not an option of bytes */
		{"window", "99999999999999999999", -ERANGE, NULL},
		{"window", "auto", -EINVAL, NULL},
		{"port", "auto", 0, "auto"},
		{"port", "2", 0, "2"},
		{"port", "256", -ERANGE, NULL},
		{"numa", "1023", 0, "1023"},
		{"mtu", "1024", 0, "1024"},
		{"mtu", "1500", -ERANGE, NULL},
		{"mtu", "8192", -ERANGE, NULL},
		{"small_bytes", "8192", 0, "8K"},
		{"small_bytes", "8K", 0, "8K"},
		{"small_bytes", "100", 0, "100"},
		{"small_bytes", "8KB", -EINVAL, NULL},
		{"small_bytes", "8k", 0, "8K"},
		{"max_inline", "0", 0, "0"},
		{"tx_budget_bytes", "1G", 0, "1G"},
		{"tx_budget_bytes", "1024G", 0, "1024G"},
		{"tx_budget_bytes", "1025G", -ERANGE, NULL},
		{"tx_budget_bytes", "18446744073709551615G", -ERANGE, NULL},
		{"max_msg", "4294967295", 0, "4294967295"},
		{"max_msg", "4G", -ERANGE, NULL},
		{"guard", "on", 0, "on"},
		{"guard", "off", 0, "off"},
		{"guard", "yes", -EINVAL, NULL},
		{"srq", "auto", 0, "auto"},
		{"srq", "ON", -EINVAL, NULL},
		{"log", "debug", 0, "debug"},
		{"device", "mlx5_0", 0, "mlx5_0"},
		{"device", "", -ERANGE, NULL},
		{"tls_ca", "", 0, ""},
		{"tls_psk", "", 0, ""},
		{"tls_psk", "0123456789abcdefABCDEF0123456789", 0,
		 "0123456789abcdefABCDEF0123456789"},
		{"tls_psk", "0123456789abcdefABCDEF01234567890", -EINVAL, NULL},
		{"tls_psk", "0123456789abcdefABCDEF012345678g", -EINVAL, NULL},
		{"tls_psk", "0123", -ERANGE, NULL},
		{"no_such", "1", -ENOENT, NULL},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct xrdma_conf *conf = fresh();
		int err = xrdma_conf_set(conf, rows[i].name, rows[i].value);

		if (err != rows[i].err)
			fail_msg("%s = %s: %d", rows[i].name, rows[i].value, err);
		if (rows[i].shown)
			assert_value(conf, rows[i].name, rows[i].shown);
		xrdma_conf_free(conf);
	}
}

static void strings_have_a_longest_length(void **state)
{
	struct xrdma_conf *conf = fresh();
	char path[XR_PATH_BYTES + 1];

	memset(path, 'p', sizeof(path));
	path[XR_PATH_BYTES] = '\0';
	assert_int_equal(xrdma_conf_set(conf, "tls_cert", path), -ERANGE);
	path[XR_PATH_BYTES - 1] = '\0';
	assert_int_equal(xrdma_conf_set(conf, "tls_cert", path), 0);
	assert_string_equal(xr_conf_values(conf)->tls_cert, path);
	assert_int_equal(xrdma_conf_get(conf, "tls_cert", path, 10), -ENOSPC);
	assert_explained("512 bytes");
	assert_int_equal(xrdma_conf_get(conf, "tls_cart", path, 10), -ENOENT);
	/* A shorter value leaves nothing of the longer. */
	assert_int_equal(xrdma_conf_set(conf, "tls_cert", "p"), 0);
	assert_value(conf, "tls_cert", "p");
	xrdma_conf_free(conf);
	xrdma_conf_free(NULL);
}

static void wrong_values_are_told_what_is_expected(void **state)
{
	struct xrdma_conf *conf = fresh();

	xrdma_conf_set(conf, "window", "0");
	assert_string_equal(xrdma_last_error(), "window = 0: out of range: expected 1..4096 "
						"messages, for example window = 64");
	xrdma_conf_set(conf, "numa", "x");
	assert_string_equal(xrdma_last_error(),
			    "numa = x: not a value of this option: expected 0..1023 NUMA node or "
			    "auto, for example numa = auto");
	xrdma_conf_set(conf, "mtu", "1500");
	assert_explained("expected 256, 512, 1024, 2048 or 4096 bytes, for example mtu = 4096");
	xrdma_conf_set(conf, "frag_bytes", "1");
	assert_explained("expected 4K..1G bytes, for example frag_bytes = 64K");
	xrdma_conf_set(conf, "guard", "maybe");
	assert_explained("expected off or on, for example guard = off");
	xrdma_conf_set(conf, "device", "");
	assert_explained("expected a device name, or auto (1..255 characters), for example device");
	xrdma_conf_set(conf, "tls_psk", "feedfacefeedfacefeedfacefeedfacex");
	assert_null(strstr(xrdma_last_error(), "feedface")); /* a secret stays one */
	xrdma_conf_set(conf, "windows", "1");
	assert_explained("windows: there is no such option; xrdma(7) lists them");
	xrdma_conf_free(conf);
}

static void file_is_read(void **state)
{
	struct xrdma_conf *conf = fresh();

	assert_int_equal(load_text(conf, "# a comment\n\n; another\n"
					 "window = 128   ; as much\n"
					 "device=urxe0\nsmall_bytes: 2K\n"),
			 0);
	assert_value(conf, "window", "128");
	assert_value(conf, "device", "urxe0");
	assert_value(conf, "small_bytes", "2K");
	assert_int_equal(load_text(conf, "window = 32"), 0); /* no end of line */
	assert_value(conf, "window", "32");
	xrdma_conf_free(conf);
}

static void bad_files_say_where_and_change_nothing(void **state)
{
	static const struct {
		const char *text, *said;
		int err;
	} rows[] = {
		{"window = 1\nwindow = 2\n", "x.conf:2: window is set for the second time",
		 -EINVAL},
		{"window = 1\n\nwundow = 2\n", "x.conf:3: wundow: there is no such", -ENOENT},
		{"window = 1\ncontrol = 1\n", "x.conf:2: control = 1: out of range", -ERANGE},
		{"window = 1\nnonsense\n", "x.conf:2: expected a line such as", -EINVAL},
		{"[tls]\nwindow = 1\n", "x.conf:2: [tls]: there are no sections", -EINVAL},
		{"window = 1\n  2\n", "x.conf:2: window is set for the second time", -EINVAL},
		/* The first error is the one told. */
		{"nonsense\nwundow = 2\n", "x.conf:", 0},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct xrdma_conf *conf = fresh();
		int err = load_text(conf, rows[i].text);

		assert_true(err < 0);
		if (rows[i].err)
			assert_int_equal(err, rows[i].err);
		assert_explained(rows[i].said);
		assert_value(conf, "window", "64");
		xrdma_conf_free(conf);
	}
}

/* Not taken for an empty one. */
static void what_is_no_text_file_is_refused(void **state)
{
	static char binary[] = "window = 7\n\0\1\2";
	FILE *in = fmemopen(binary, sizeof(binary), "r");
	struct xrdma_conf *conf = fresh();

	assert_int_equal(xr_conf_load_stream(conf, "x.conf", in), -EINVAL);
	assert_explained("x.conf:2: not a text file");
	fclose(in);
	assert_int_equal(xrdma_conf_load(conf, "/"), -EIO);
	assert_explained("/: cannot be read: Is a directory");
	assert_value(conf, "window", "64");
	assert_int_equal(xrdma_conf_set(conf, "window", NULL), -EINVAL); /* of getenv(), maybe */
	assert_explained("expected the name of an option and a value");
	assert_int_equal(xrdma_conf_set(conf, NULL, "7"), -EINVAL);
	xrdma_conf_free(conf);
}

static void long_lines_are_refused_not_cut(void **state)
{
	struct xrdma_conf *conf = fresh();
	char text[400] = "tls_ca = ";
	size_t len = strlen(text);

	/* What inih would take for a second line sets another option. */
	memset(text + len, 'x', 250);
	memset(text + len + 150, ' ', 100);
	strcpy(text + 199, "window = 7\n");
	assert_int_equal(load_text(conf, text), -EINVAL);
	assert_explained("x.conf:1: the line is longer than 198 characters");
	assert_value(conf, "window", "64");
	assert_value(conf, "tls_ca", "");

	/* One that just fits. */
	memset(text + len, 'x', 200);
	text[198] = '\n';
	text[199] = '\0';
	assert_int_equal(load_text(conf, text), 0);
	assert_int_equal(strlen(xr_conf_values(conf)->tls_ca), 198 - len);
	xrdma_conf_free(conf);
}

static ssize_t fail_to_read(void *cookie, char *buf, size_t size)
{
	errno = EIO;
	return -1;
}

static void unreadable_files(void **state)
{
	struct xrdma_conf *conf = fresh();
	FILE *in = fopencookie(NULL, "r", (cookie_io_functions_t){.read = fail_to_read});

	assert_int_equal(xr_conf_load_stream(conf, "tape", in), -EIO);
	fclose(in);
	assert_int_equal(xrdma_conf_load(conf, "/nonexistent/x.conf"), -ENOENT);
	assert_explained("/nonexistent/x.conf: cannot be opened: No such file");
	xrdma_conf_free(conf);
}

static void environment_is_read(void **state)
{
	static char *const good[] = {"HOME=/", "XRDMA_WINDOW=16", "XRDMA_CONFIG=/x", "XRDMA_x",
				     NULL};
	static char *const bad[] = {"XRDMA_WINDOW=8", "XRDMA_WINDOW=many", NULL};
	static char *const unknown[] = {"XRDMA_WINDOWS=8", NULL};
	char long_name[200] = "XRDMA_";
	char *const too_long[] = {long_name, NULL};
	struct xrdma_conf *conf = fresh();

	assert_int_equal(xr_conf_load_env(conf, good), 0);
	assert_value(conf, "window", "16");
	assert_int_equal(xr_conf_load_env(conf, bad), -EINVAL);
	assert_explained("environment XRDMA_*: window = many: not a value");
	assert_value(conf, "window", "16");
	assert_int_equal(xr_conf_load_env(conf, unknown), -ENOENT);
	memset(long_name + 6, 'A', 150);
	strcpy(long_name + 156, "=1");
	assert_int_equal(xr_conf_load_env(conf, too_long), -ENOENT);
	xrdma_conf_free(conf);
}

/* Defaults, file, environment, API: whatever the order in which they are asked. */
static void later_sources_win(void **state)
{
	static char *const env[] = {"XRDMA_WINDOW=2", "XRDMA_CONTROL=16", NULL};
	struct xrdma_conf *conf = fresh();

	assert_int_equal(xrdma_conf_set(conf, "window", "3"), 0);
	assert_int_equal(xr_conf_load_env(conf, env), 0);
	assert_int_equal(load_text(conf, "window = 1\ncontrol = 32\nmtu = 512\n"), 0);
	assert_value(conf, "window", "3");
	assert_value(conf, "control", "16");
	assert_value(conf, "mtu", "512");
	assert_int_equal(xrdma_conf_set(conf, "window", "4"), 0);
	assert_value(conf, "window", "4");
	/* A weaker source must be right all the same. */
	assert_int_equal(load_text(conf, "window = 0\n"), -ERANGE);
	xrdma_conf_free(conf);
}

static void new_configurations_start_from_file_and_environment(void **state)
{
	char path[] = "/tmp/xrdma-test-XXXXXX";
	int fd = mkstemp(path);
	struct xrdma_conf *conf;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "window = 5\ncontrol = 16\n", 24), 24);
	close(fd);
	setenv("XRDMA_CONFIG", path, 1);
	setenv("XRDMA_CONTROL", "32", 1);
	conf = fresh();
	assert_value(conf, "window", "5");
	assert_value(conf, "control", "32");
	xrdma_conf_free(conf);
	setenv("XRDMA_CONTROL", "none", 1);
	assert_int_equal(xrdma_conf_new(&conf), -EINVAL);
	unsetenv("XRDMA_CONTROL");
	unlink(path);
	assert_int_equal(xrdma_conf_new(&conf), -ENOENT);
	unsetenv("XRDMA_CONFIG");
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
static bool no_memory;

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __real_calloc(n, size);
}

static void no_memory_is_an_error(void **state)
{
	struct xrdma_conf *conf;
	int err;

	no_memory = true;
	err = xrdma_conf_new(&conf);
	no_memory = false;
	assert_int_equal(err, -ENOMEM);
}

static void some_options_change_at_run_time(void **state)
{
	struct xr_conf values;

	xr_conf_defaults(&values);
	assert_int_equal(xr_conf_change(&values, "idle_us", "7"), 0);
	assert_int_equal(values.idle_us, 7);
	assert_int_equal(xr_conf_change(&values, "idle_us", "x"), -EINVAL);
	assert_int_equal(xr_conf_change(&values, "window", "7"), -EPERM);
	assert_explained("window cannot be changed while a context runs");
	assert_int_equal(values.window, 64);
	assert_int_equal(xr_conf_change(&values, "windows", "7"), -ENOENT);
	assert_int_equal(xr_conf_change(&values, NULL, "7"), -EINVAL);
	assert_int_equal(xr_conf_change(&values, "idle_us", NULL), -EINVAL);
}

static void the_table_prints(void **state)
{
	char *text;
	size_t len;

	for (int format = XR_CONF_SCDOC; format <= XR_CONF_MARKDOWN; format++) {
		FILE *out = open_memstream(&text, &len);

		xr_conf_print(out, (enum xr_conf_format)format);
		fclose(out);
		for (unsigned i = 0; i < xr_n_options; i++)
			assert_non_null(strstr(text, xr_options[i].name));
		assert_non_null(strstr(text, format == XR_CONF_SCDOC
						     ? "*window* = 1..4096 messages\n\tMessages"
						     : "| `window` | 1..4096 messages | 64 |  |"));
		free(text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_consistent),
		cmocka_unit_test(defaults_are_those_of_the_design),
		cmocka_unit_test(values_of_every_type),
		cmocka_unit_test(strings_have_a_longest_length),
		cmocka_unit_test(wrong_values_are_told_what_is_expected),
		cmocka_unit_test(file_is_read),
		cmocka_unit_test(bad_files_say_where_and_change_nothing),
		cmocka_unit_test(what_is_no_text_file_is_refused),
		cmocka_unit_test(long_lines_are_refused_not_cut),
		cmocka_unit_test(unreadable_files),
		cmocka_unit_test(environment_is_read),
		cmocka_unit_test(later_sources_win),
		cmocka_unit_test(new_configurations_start_from_file_and_environment),
		cmocka_unit_test(no_memory_is_an_error),
		cmocka_unit_test(some_options_change_at_run_time),
		cmocka_unit_test(the_table_prints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
