/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char text[4096];
static int saved_stderr, pipe_fds[2];

/* Standard error goes into a pipe from begin() to end(), which leaves what was written in text. */
static void begin(void)
{
	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(saved_stderr >= 0);
	assert_true(dup2(pipe_fds[1], STDERR_FILENO) >= 0);
}

static ssize_t end(void)
{
	ssize_t n = read(pipe_fds[0], text, sizeof(text) - 1);

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

static void one_line_with_library_and_level(void **state)
{
	static const struct log_source other = {.name = "other"};

	begin();
	log_write(&log_urxe, LOG_ERROR, "no %s for %d", "room", 7);
	log_write(&log_urxe, LOG_DEBUG, "done");
	log_write(&other, LOG_INFO, "hello");
	end();
	assert_string_equal(text,
			    "urxe: error: no room for 7\nurxe: debug: done\nother: info: hello\n");
}

static void long_messages_are_cut_but_end_their_line(void **state)
{
	char big[3000];
	ssize_t n;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	begin();
	log_write(&log_urxe, LOG_WARN, "%s", big);
	n = end();
	assert_in_range(n, 1000, 1024);
	assert_int_equal(text[n - 1], '\n');
	assert_int_equal(text[n - 2], 'x');
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

static void threshold_silences_what_is_below(void **state)
{
	assert_int_equal(log_urxe.threshold, LOG_WARN);
	begin();
	log_error("e");
	log_warn("w");
	log_info("i");
	log_debug("d");
	log_set_threshold(LOG_DEBUG);
	log_info("I");
	log_debug("D");
	log_set_threshold(LOG_WARN);
	end();
	assert_string_equal(text, "urxe: error: e\nurxe: warn: w\nurxe: info: I\nurxe: debug: D\n");
}

static void errno_survives_even_a_closed_stderr(void **state)
{
	begin();
	close(STDERR_FILENO);
	errno = EXDEV;
	log_write(&log_urxe, LOG_ERROR, "lost");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(end(), -1);
}

static void levels_have_names(void **state)
{
	static const struct {
		const char *name;
		int ret;
		enum log_level level;
	} cases[] = {
		{"error", 0, LOG_ERROR},     {"warn", 0, LOG_WARN},
		{"info", 0, LOG_INFO},       {"debug", 0, LOG_DEBUG},
		{"", -EINVAL, LOG_INFO},     {"warning", -EINVAL, LOG_INFO},
		{"WARN", -EINVAL, LOG_INFO}, {"2", -EINVAL, LOG_INFO},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum log_level level = LOG_INFO; /* stays so on failure */

		assert_int_equal(log_level_parse(cases[i].name, &level), cases[i].ret);
		assert_int_equal(level, cases[i].level);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_with_library_and_level),
		cmocka_unit_test(long_messages_are_cut_but_end_their_line),
		cmocka_unit_test(threshold_silences_what_is_below),
		cmocka_unit_test(errno_survives_even_a_closed_stderr),
		cmocka_unit_test(levels_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
