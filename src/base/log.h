/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for a person, on standard error, one line each: "NAME: LEVEL: text". Who first decides
 * that something is an error logs it, once. Any thread may call; errno is preserved.
 *
 * Each library speaks by its own name and has its own threshold, also where two are linked into
 * one: who is not urxe defines LOG_SOURCE before including this.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>

enum log_level {
	LOG_ERROR,
	LOG_WARN, /* the default threshold */
	LOG_INFO,
	LOG_DEBUG,
};

struct log_source {
	const char *name;
	atomic_int threshold; /* enum log_level: what is above it is not written */
};

#ifndef LOG_SOURCE
#define LOG_SOURCE log_urxe
#endif
extern struct log_source LOG_SOURCE;

/* Returns 0 and sets *ret_level, or -EINVAL for a name that is not error, warn, info or debug. */
int log_level_parse(const char *name, enum log_level *ret_level);

void log_write(const struct log_source *source, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Of the library that calls. */
#define log_set_threshold(level)                                                                   \
	atomic_store_explicit(&LOG_SOURCE.threshold, (int)(level), memory_order_relaxed)

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if ((int)(level) <=                                                                \
		    atomic_load_explicit(&LOG_SOURCE.threshold, memory_order_relaxed))             \
			log_write(&LOG_SOURCE, level, __VA_ARGS__);                                \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
