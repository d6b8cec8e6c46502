/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of options, shared by the parts that parse, load and print. */
#ifndef XRDMA_CONF_PRIV_H
#define XRDMA_CONF_PRIV_H

#include "xrdma/conf.h"

#include <stddef.h>

enum xr_option_type {
	XR_U32,
	XR_BYTES, /* uint32_t or uint64_t by its field; K, M, G of 1024 are understood */
	XR_POWER2,
	XR_BOOL,
	XR_ENUM, /* numbered by choices */
	XR_STRING,
	XR_HEX, /* a secret: never shown */
};

struct xr_option {
	const char *name;
	enum xr_option_type type;
	const char *unit;
	uint64_t min, max;               /* of strings: length */
	uint64_t def;                    /* of XR_ENUM and XR_BOOL: its number */
	const char *text;                /* default of strings */
	const char *example;             /* of strings */
	const char *const *choices;      /* XR_ENUM, NULL-terminated */
	bool or_auto;                    /* XR_U32: `auto` is a value, and the default */
	bool runtime;                    /* may be changed while a context runs */
	int (*check)(const char *value); /* of strings, may be NULL: 0, or an error explained */
	const char *doc;
	size_t offset, size; /* in struct xr_conf */
};

extern const struct xr_option xr_options[];
extern const unsigned xr_n_options;

enum { XR_OPTIONS_MAX = 128, XR_OPTION_TEXT = 320 };

/* Later wins. */
enum xr_conf_source {
	XR_FROM_DEFAULT,
	XR_FROM_FILE,
	XR_FROM_ENV,
	XR_FROM_API,
};

struct xrdma_conf {
	struct xr_conf values;
	uint8_t source[XR_OPTIONS_MAX]; /* enum xr_conf_source of each option */
};

/*
 * Set an option unless a stronger source has. where begins the message if the value is refused:
 * "xrdma.conf:3: ", or "".
 */
int xr_conf_apply(struct xrdma_conf *conf, const char *name, const char *value,
		  enum xr_conf_source source, const char *where);

/* What the option accepts: "1..4096 messages", "auto, on or off". */
void xr_option_range(const struct xr_option *o, char text[static XR_OPTION_TEXT]);
void xr_option_example(const struct xr_option *o, char text[static XR_OPTION_TEXT]);
void xr_option_default(const struct xr_option *o, char text[static XR_OPTION_TEXT]);

#endif
