/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/conf.h"

#include "xrdma/conf_priv.h"
#include "xrdma/error.h"
#include "xrdma/xrdma.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const bools[] = {"off", "on", NULL};

static bool is_string(const struct xr_option *o)
{
	return o->type == XR_STRING || o->type == XR_HEX;
}

static const char *const *choices_of(const struct xr_option *o)
{
	return o->type == XR_BOOL ? bools : o->choices;
}

/* ---- values in struct xr_conf ---------------------------------------------------------------- */

static void store(const struct xr_option *o, uint64_t value, struct xr_conf *values)
{
	char *field = (char *)values + o->offset;
	uint32_t narrow = (uint32_t)value;
	uint8_t byte = (uint8_t)value;

	if (o->size == sizeof(value))
		memcpy(field, &value, sizeof(value));
	else if (o->size == sizeof(narrow))
		memcpy(field, &narrow, sizeof(narrow));
	else
		memcpy(field, &byte, sizeof(byte));
}

static uint64_t fetch(const struct xr_option *o, const struct xr_conf *values)
{
	const char *field = (const char *)values + o->offset;
	uint64_t value;
	uint32_t narrow;
	uint8_t byte;

	if (o->size == sizeof(value)) {
		memcpy(&value, field, sizeof(value));
		return value;
	}
	if (o->size == sizeof(narrow)) {
		memcpy(&narrow, field, sizeof(narrow));
		return narrow;
	}
	memcpy(&byte, field, sizeof(byte));
	return byte;
}

static void format_bytes(uint64_t value, char *text, size_t size)
{
	static const char units[] = {'\0', 'K', 'M', 'G'};
	unsigned unit = 0;

	while (value != 0 && value % 1024 == 0 && unit + 1 < sizeof(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(text, size, "%" PRIu64 "%.1s", value, &units[unit]);
}

static void format_number(const struct xr_option *o, uint64_t value, char *text, size_t size)
{
	if (choices_of(o))
		snprintf(text, size, "%s", choices_of(o)[value]);
	else if (o->or_auto && value == XR_AUTO)
		snprintf(text, size, "auto");
	else if (o->type == XR_BYTES)
		format_bytes(value, text, size);
	else
		snprintf(text, size, "%" PRIu64, value);
}

/* ---- what an option accepts ------------------------------------------------------------------ */

/* Append to "a, b or c". */
static void append_item(char text[static XR_OPTION_TEXT], const char *item, bool last)
{
	size_t len = strlen(text);
	const char *glue = len == 0 ? "" : last ? " or " : ", ";

	snprintf(text + len, XR_OPTION_TEXT - len, "%s%s", glue, item);
}

static void append_unit(const struct xr_option *o, char text[static XR_OPTION_TEXT])
{
	size_t len = strlen(text);

	if (o->unit)
		snprintf(text + len, XR_OPTION_TEXT - len, " %s", o->unit);
}

void xr_option_range(const struct xr_option *o, char text[static XR_OPTION_TEXT])
{
	char low[32], high[32];

	text[0] = '\0';
	if (is_string(o)) {
		snprintf(text, XR_OPTION_TEXT, "%s (%" PRIu64 "..%" PRIu64 " characters)", o->unit,
			 o->min, o->max);
	} else if (choices_of(o)) {
		for (const char *const *c = choices_of(o); *c; c++)
			append_item(text, *c, !c[1]);
	} else if (o->type == XR_POWER2) {
		for (uint64_t v = o->min; v <= o->max; v *= 2) {
			snprintf(low, sizeof(low), "%" PRIu64, v);
			append_item(text, low, v == o->max);
		}
		append_unit(o, text);
	} else {
		format_number(o, o->min, low, sizeof(low));
		format_number(o, o->max, high, sizeof(high));
		snprintf(text, XR_OPTION_TEXT, "%s..%s", low, high);
		append_unit(o, text);
		if (o->or_auto)
			append_item(text, "auto", true);
	}
}

void xr_option_default(const struct xr_option *o, char text[static XR_OPTION_TEXT])
{
	if (is_string(o))
		snprintf(text, XR_OPTION_TEXT, "%s", o->text);
	else
		format_number(o, o->or_auto ? XR_AUTO : o->def, text, XR_OPTION_TEXT);
}

void xr_option_example(const struct xr_option *o, char text[static XR_OPTION_TEXT])
{
	if (is_string(o))
		snprintf(text, XR_OPTION_TEXT, "%s", o->example);
	else
		xr_option_default(o, text);
}

/* ---- parsing: 0, -EINVAL not a value of it, -EBADMSG the same explained, -ERANGE out of its range
 * ------------------------- */

static int parse_digits(const char *text, const char **ret_end, uint64_t *ret_value)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	*ret_end = end;
	return -errno;
}

static int parse_number(const struct xr_option *o, const char *text, uint64_t *ret_value)
{
	static const char units[] = "KMG";
	const char *end, *unit;
	uint64_t value;
	int err;

	if (o->or_auto && strcmp(text, "auto") == 0) {
		*ret_value = XR_AUTO;
		return 0;
	}
	err = parse_digits(text, &end, &value);
	if (err)
		return err;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (o->type == XR_BYTES && unit) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (value > UINT64_MAX >> shift)
			return -ERANGE;
		value <<= shift;
		end++;
	}
	if (*end != '\0')
		return -EINVAL;
	if (value < o->min || value > o->max)
		return -ERANGE;
	if (o->type == XR_POWER2 && (value & (value - 1)) != 0)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

static int parse_choice(const struct xr_option *o, const char *text, uint64_t *ret_value)
{
	for (unsigned i = 0; choices_of(o)[i]; i++) {
		if (strcmp(choices_of(o)[i], text) == 0) {
			*ret_value = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_string(const struct xr_option *o, const char *text, struct xr_conf *values)
{
	size_t len = strlen(text);

	/* The empty default is a value too: it takes back what a weaker source has set. */
	if (len > o->max || (len < o->min && strcmp(text, o->text) != 0))
		return -ERANGE;
	if (o->type == XR_HEX && (len % 2 != 0 || strspn(text, "0123456789abcdefABCDEF") != len))
		return -EINVAL;
	if (o->check && o->check(text))
		return -EBADMSG;
	memset((char *)values + o->offset, 0, o->size);
	memcpy((char *)values + o->offset, text, len);
	return 0;
}

static int parse_value(const struct xr_option *o, const char *text, struct xr_conf *values)
{
	uint64_t value;
	int err;

	if (is_string(o))
		return parse_string(o, text, values);
	err = choices_of(o) ? parse_choice(o, text, &value) : parse_number(o, text, &value);
	if (!err)
		store(o, value, values);
	return err;
}

/* ---- by name --------------------------------------------------------------------------------- */

static const struct xr_option *find(const char *name)
{
	for (unsigned i = 0; i < xr_n_options; i++) {
		if (strcmp(xr_options[i].name, name) == 0)
			return &xr_options[i];
	}
	return NULL;
}

static int unknown(const char *name, const char *where)
{
	return xr_error(-ENOENT,
			"%s%.64s: there is no such option; xrdma(7) lists them, for example "
			"window = 64",
			where, name);
}

static int refuse(const struct xr_option *o, const char *value, int err, const char *where)
{
	char range[XR_OPTION_TEXT], example[XR_OPTION_TEXT];

	if (err == -EBADMSG) /* the option has said more than its range would */
		return xr_error(-EINVAL, "%s%s", where, xrdma_last_error());
	xr_option_range(o, range);
	xr_option_example(o, example);
	return xr_error(err, "%s%s = %.64s: %s: expected %s, for example %s = %s", where, o->name,
			o->type == XR_HEX ? "(secret)" : value,
			err == -ERANGE ? "out of range" : "not a value of this option", range,
			o->name, example);
}

static int none_given(void)
{
	return xr_error(-EINVAL, "NULL: expected the name of an option and a value, for example "
				 "\"window\", \"64\"");
}

int xr_conf_apply(struct xrdma_conf *conf, const char *name, const char *value,
		  enum xr_conf_source source, const char *where)
{
	const struct xr_option *o;
	struct xr_conf ignored;
	bool counts;
	int err;

	if (!name || !value)
		return none_given();
	o = find(name);
	if (!o)
		return unknown(name, where);
	/* A value that is not used must be right nevertheless. */
	counts = conf->source[o - xr_options] <= source;
	err = parse_value(o, value, counts ? &conf->values : &ignored);
	if (err)
		return refuse(o, value, err, where);
	if (counts)
		conf->source[o - xr_options] = (uint8_t)source;
	return 0;
}

int xr_conf_change(struct xr_conf *values, const char *name, const char *value)
{
	const struct xr_option *o;
	int err;

	if (!name || !value)
		return none_given();
	o = find(name);
	if (!o)
		return unknown(name, "");
	if (!o->runtime)
		return xr_error(-EPERM,
				"%s cannot be changed while a context runs: set it before "
				"xrdma_open()",
				name);
	err = parse_value(o, value, values);
	return err ? refuse(o, value, err, "") : 0;
}

void xr_conf_defaults(struct xr_conf *ret_values)
{
	memset(ret_values, 0, sizeof(*ret_values));
	for (unsigned i = 0; i < xr_n_options; i++) {
		const struct xr_option *o = &xr_options[i];

		if (is_string(o))
			memcpy((char *)ret_values + o->offset, o->text, strlen(o->text));
		else
			store(o, o->or_auto ? XR_AUTO : o->def, ret_values);
	}
}

const struct xr_conf *xr_conf_values(const struct xrdma_conf *conf)
{
	return &conf->values;
}

/* ---- public ---------------------------------------------------------------------------------- */

int xrdma_conf_new(struct xrdma_conf **ret_conf)
{
	struct xrdma_conf *conf = calloc(1, sizeof(*conf));
	const char *path = getenv("XRDMA_CONFIG");
	int err = 0;

	if (!conf)
		return xr_error(-ENOMEM, "no memory for a configuration");
	xr_conf_defaults(&conf->values);
	if (path)
		err = xrdma_conf_load(conf, path);
	if (!err)
		err = xr_conf_load_env(conf, environ);
	if (err) {
		xrdma_conf_free(conf);
		return err;
	}
	*ret_conf = conf;
	return 0;
}

void xrdma_conf_free(struct xrdma_conf *conf)
{
	if (conf)
		explicit_bzero(conf, sizeof(*conf)); /* tls_psk */
	free(conf);
}

int xrdma_conf_set(struct xrdma_conf *conf, const char *name, const char *value)
{
	return xr_conf_apply(conf, name, value, XR_FROM_API, "");
}

int xrdma_conf_get(const struct xrdma_conf *conf, const char *name, char *value, size_t size)
{
	const struct xr_option *o = find(name);
	const char *string;
	char number[32];

	if (!o)
		return unknown(name, "");
	string = number;
	if (is_string(o))
		string = (const char *)&conf->values + o->offset;
	else
		format_number(o, fetch(o, &conf->values), number, sizeof(number));
	if (strlen(string) >= size)
		return xr_error(-ENOSPC, "%s needs %zu bytes, %zu were given", name,
				strlen(string) + 1, size);
	memcpy(value, string, strlen(string) + 1);
	return 0;
}
