/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/filter.h"

#include "xrdma/error.h"

#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

static const char *const actions[] = {
	[XR_FAULT_DROP] = "drop",           [XR_FAULT_DELAY] = "delay",
	[XR_FAULT_DUPLICATE] = "duplicate", [XR_FAULT_CORRUPT] = "corrupt",
	[XR_FAULT_FAIL] = "fail",
};

static const struct {
	const char *name;
	enum ibv_wc_status status;
} statuses[] = {
	{"RETRY_EXC", IBV_WC_RETRY_EXC_ERR},     {"RNR_RETRY_EXC", IBV_WC_RNR_RETRY_EXC_ERR},
	{"REM_ACCESS", IBV_WC_REM_ACCESS_ERR},   {"REM_OP", IBV_WC_REM_OP_ERR},
	{"REM_INV_REQ", IBV_WC_REM_INV_REQ_ERR}, {"LOC_LEN", IBV_WC_LOC_LEN_ERR},
	{"LOC_PROT", IBV_WC_LOC_PROT_ERR},       {"LOC_QP_OP", IBV_WC_LOC_QP_OP_ERR},
	{"WR_FLUSH", IBV_WC_WR_FLUSH_ERR},       {"FATAL", IBV_WC_FATAL_ERR},
};

enum {
	N_ACTIONS = sizeof(actions) / sizeof(actions[0]),
	N_STATUSES = sizeof(statuses) / sizeof(statuses[0]),
	MAX_TEXT = 512,
	MAX_DELAY_US = 60000000,
	DEFAULT_SEED = 1,
};

#define EXAMPLE "for example drop:out:type=REQ:p=0.01:n=3,delay=500:in"

static bool number(const char *text, uint64_t max, uint64_t *ret_value)
{
	char *end;

	if (!text || !isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *ret_value <= max;
}

/* "0.25" without the locale's decimal point: up to nine digits after it. */
static bool fraction(const char *text, uint64_t *ret_odds)
{
	uint64_t value = 0, unit = 1;

	if (text[0] != '0' && text[0] != '1')
		return false;
	value = (uint64_t)(text[0] - '0');
	if (text[1] == '.') {
		size_t digits = strspn(text + 2, "0123456789");

		if (digits == 0 || digits > 9 || text[2 + digits] != '\0')
			return false;
		for (size_t i = 0; i < digits; i++) {
			value = value * 10 + (uint64_t)(text[2 + i] - '0');
			unit *= 10;
		}
	} else if (text[1] != '\0') {
		return false;
	}
	if (value > unit)
		return false;
	*ret_odds = (value << 32) / unit;
	return true;
}

static int type_bits(char *names, unsigned *types)
{
	*types = 0;
	for (char *save = NULL, *name = strtok_r(names, "+", &save); name;
	     name = strtok_r(NULL, "+", &save)) {
		int t = XR_MSG;

		while (t < XR_FILTER_PROBE && strcmp(xr_type_name((enum xr_type)t), name) != 0)
			t++;
		if (t == XR_FILTER_PROBE && strcmp(name, "PROBE") != 0)
			return -EINVAL;
		*types |= 1U << t;
	}
	return *types ? 0 : -EINVAL;
}

static int parse_condition(struct xr_rule *r, const char *word, char *value)
{
	uint64_t v = 0;
	bool good;

	if (!value) {
		good = strcmp(word, "in") == 0 || strcmp(word, "out") == 0;
		if (good)
			r->directions |= word[0] == 'i' ? XR_DIR_IN : XR_DIR_OUT;
		return good ? 0
			    : xr_error(-EINVAL,
				       "filter: \"%.40s\" is no condition: expected in, out, ch=, "
				       "type=, p=, n= or after=, " EXAMPLE,
				       word);
	}
	if (strcmp(word, "ch") == 0) {
		good = number(value, UINT32_MAX, &v);
		r->one_channel = true;
		r->channel = (uint32_t)v;
	} else if (strcmp(word, "type") == 0) {
		if (type_bits(value, &r->types) == 0)
			return 0;
		return xr_error(-EINVAL, "filter: type= takes MSG, REQ, RSP, ERR_RSP, REGION, "
					 "SLOT, ACK, BYE or PROBE, several joined by +, " EXAMPLE);
	} else if (strcmp(word, "p") == 0) {
		good = fraction(value, &r->odds);
	} else if (strcmp(word, "n") == 0) {
		good = number(value, UINT64_MAX, &r->left);
	} else if (strcmp(word, "after") == 0) {
		good = number(value, UINT64_MAX, &r->after);
	} else {
		return xr_error(-EINVAL,
				"filter: \"%.40s=\" is no condition: expected in, out, ch=, "
				"type=, p=, n= or after=, " EXAMPLE,
				word);
	}
	return good ? 0
		    : xr_error(-EINVAL, "filter: %s=%.40s: expected %s, " EXAMPLE, word, value,
			       word[0] == 'p' ? "a probability from 0 to 1" : "a number");
}

static int parse_status(struct xr_rule *r, const char *name)
{
	for (unsigned i = 0; name && i < N_STATUSES; i++) {
		if (strcmp(statuses[i].name, name) == 0) {
			r->argument = statuses[i].status;
			return 0;
		}
	}
	return xr_error(-EINVAL,
			"filter: fail= takes the status of a completion: RETRY_EXC, "
			"RNR_RETRY_EXC, REM_ACCESS, REM_OP, REM_INV_REQ, LOC_LEN, LOC_PROT, "
			"LOC_QP_OP, WR_FLUSH or FATAL; not \"%.40s\"",
			name ? name : "");
}

static int parse_action(struct xr_rule *r, const char *word, const char *value)
{
	uint64_t us;
	unsigned i = 0;

	while (i < N_ACTIONS && strcmp(actions[i], word) != 0)
		i++;
	if (i == N_ACTIONS)
		return xr_error(-EINVAL,
				"filter: \"%.40s\" is no action: expected drop, delay=, "
				"duplicate, corrupt, fail= or seed=, " EXAMPLE,
				word);
	r->fault = (enum xr_fault)i;
	if (r->fault == XR_FAULT_FAIL)
		return parse_status(r, value);
	if (r->fault == XR_FAULT_DELAY) {
		if (!number(value, MAX_DELAY_US, &us))
			return xr_error(-EINVAL,
					"filter: delay= takes microseconds up to %d, " EXAMPLE,
					MAX_DELAY_US);
		r->argument = (uint32_t)us;
		return 0;
	}
	return value ? xr_error(-EINVAL, "filter: %s takes no value", word) : 0;
}

static char *cut_value(char *word)
{
	char *value = strchr(word, '=');

	if (value)
		*value++ = '\0';
	return value;
}

static unsigned windowed_types(void)
{
	unsigned types = 0;

	for (int t = XR_MSG; t < XR_N_TYPES; t++)
		types |= (unsigned)xr_type_windowed((enum xr_type)t) << t;
	return types;
}

static int parse_rule(struct xr_filter *f, char *text)
{
	struct xr_rule r = {
		.types = windowed_types(), .odds = UINT64_C(1) << 32, .left = UINT64_MAX};
	char *save = NULL, *word = strtok_r(text, ":", &save), *value;
	int ret;

	if (!word)
		return xr_error(-EINVAL, "filter: an empty rule; " EXAMPLE);
	value = cut_value(word);
	if (strcmp(word, "seed") == 0)
		return number(value, UINT64_MAX, &f->rng.state)
			       ? 0
			       : xr_error(-EINVAL, "filter: seed= takes a number");
	if (f->n == XR_RULES_MAX)
		return xr_error(-EINVAL, "filter: more than %d rules", XR_RULES_MAX);
	ret = parse_action(&r, word, value);
	while (!ret && (word = strtok_r(NULL, ":", &save)))
		ret = parse_condition(&r, word, cut_value(word));
	if (!ret && r.fault != XR_FAULT_FAIL && (r.types & 1U << XR_FILTER_PROBE))
		ret = xr_error(-EINVAL, "filter: a PROBE can only fail, for example "
					"fail=RETRY_EXC:type=PROBE");
	if (ret)
		return ret;
	if (r.directions == 0)
		r.directions = XR_DIR_IN | XR_DIR_OUT;
	f->rules[f->n++] = r;
	return 0;
}

int xr_filter_parse(const char *text, struct xr_filter *ret_filter)
{
	struct xr_filter f = {.rng = {DEFAULT_SEED}};
	char copy[MAX_TEXT], *rest = copy;

	if (strlen(text) >= sizeof(copy))
		return xr_error(-EINVAL, "filter: longer than %d characters", MAX_TEXT - 1);
	strcpy(copy, text);
	while (*text && rest) {
		int ret = parse_rule(&f, strsep(&rest, ","));

		if (ret)
			return ret;
	}
	*ret_filter = f;
	return 0;
}

int xr_filter_check(const char *text)
{
	struct xr_filter ignored;

	return xr_filter_parse(text, &ignored);
}

static bool strikes(struct xr_filter *f, struct xr_rule *r)
{
	if (r->left == 0)
		return false;
	if (r->after) {
		r->after--;
		return false;
	}
	if (rng_next(&f->rng) >> 32 >= r->odds)
		return false;
	r->left--;
	return true;
}

const struct xr_rule *xr_filter_match(struct xr_filter *f, enum xr_direction direction,
				      uint32_t channel, unsigned type)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct xr_rule *r = &f->rules[i];

		if ((r->directions & direction) && (r->types & 1U << type) &&
		    (!r->one_channel || r->channel == channel) && strikes(f, r))
			return r;
	}
	return NULL;
}
