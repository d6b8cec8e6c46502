/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for a person, on standard error, one line each: "urxe: LEVEL: text". Who first decides
 * that something is an error logs it, once. Any thread may call; errno is preserved.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level {
	LOG_ERROR,
	LOG_WARN, /* the default threshold */
	LOG_INFO,
	LOG_DEBUG,
};

extern enum log_level log_threshold;

/* Returns 0 and sets *ret_level, or -EINVAL for a name that is not error, warn, info or debug. */
int log_level_parse(const char *name, enum log_level *ret_level);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if ((level) <= log_threshold)                                                      \
			log_write(level, __VA_ARGS__);                                             \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
