/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct log_source log_urxe = {.name = "urxe", .threshold = LOG_WARN};

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

int log_level_parse(const char *name, enum log_level *ret_level)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_write(const struct log_source *source, enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[1024];
	va_list ap;
	int n;

	n = snprintf(line, sizeof(line), "%s: %s: ", source->name, level_names[level]);
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	/* One write a line, so that lines of several processes do not mix. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* Nowhere left to complain. */
	}
	errno = saved_errno;
}
