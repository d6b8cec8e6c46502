/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void fail(struct stage *s, const char *fmt, ...)
{
	va_list ap;

	printf("%s:%u: %s\n  ", s->line.file, s->line.number, s->line.text);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n  at %.3f us\n", (double)s->now / 1e3);
	longjmp(s->on_failure, 1);
}

bool line_split(struct line *l)
{
	char *p = l->buf;

	strcpy(l->buf, l->text);
	l->n = l->at = 0;
	while (l->n < MAX_TOKENS) {
		while (isspace((unsigned char)*p))
			*p++ = '\0';
		if (!*p || *p == '#')
			break;
		l->token[l->n++] = p;
		if (*p == '"')
			p += 1 + strcspn(p + 1, "\"");
		while (*p && !isspace((unsigned char)*p))
			p++;
	}
	*p = '\0';
	return l->n > 0;
}

bool more(const struct stage *s)
{
	return s->line.at < s->line.n;
}

const char *next_token(struct stage *s)
{
	if (!more(s))
		fail(s, "script error: something is missing at the end of the line");
	return s->line.token[s->line.at++];
}

bool accept(struct stage *s, const char *word)
{
	if (!more(s) || strcmp(s->line.token[s->line.at], word))
		return false;
	s->line.at++;
	return true;
}

static struct region *find_region(struct stage *s, const char *token, size_t name_len)
{
	for (unsigned i = 0; i < s->n_regions; i++) {
		struct region *r = &s->region[i];

		if (strlen(r->name) == name_len && !strncmp(r->name, token, name_len))
			return r;
	}
	fail(s, "script error: no region %s", token);
}

struct region *next_place(struct stage *s, uint64_t *ret_off)
{
	const char *token = next_token(s);
	size_t name_len = strcspn(token, "+");

	*ret_off = token[name_len] ? strtoull(token + name_len + 1, NULL, 0) : 0;
	return find_region(s, token, name_len);
}

static struct window *find_window(struct stage *s, const char *name, size_t len)
{
	for (unsigned i = 0; i < s->n_windows; i++) {
		struct window *w = &s->window[i];

		if (strlen(w->name) == len && !strncmp(w->name, name, len))
			return w;
	}
	return NULL;
}

struct window *next_window(struct stage *s)
{
	const char *name = next_token(s);
	struct window *w = find_window(s, name, strlen(name));

	if (!w)
		fail(s, "script error: no window %s", name);
	return w;
}

uint64_t next_number(struct stage *s)
{
	const char *token = next_token(s);
	size_t name_len = strcspn(token, "+.");
	const struct window *w;
	struct region *r;
	char *end;
	uint64_t v;

	if (isdigit((unsigned char)token[0]) || token[0] == '-') {
		v = strtoull(token, &end, 0);
		if (*end)
			fail(s, "script error: %s is no number", token);
		return v;
	}
	if (!strcmp(token, "qpn"))
		return urxe_qp_num(stage_qp(s));
	w = find_window(s, token, name_len);
	if (w && !strncmp(token + name_len, ".rkey", 5))
		return urxe_mw_rkey(w->mw) + (uint64_t)strtoll(token + name_len + 5, NULL, 0);
	r = find_region(s, token, name_len);
	if (!strcmp(token + name_len, ".rkey"))
		return urxe_mr_rkey(r->mr);
	if (!strcmp(token + name_len, ".lkey"))
		return urxe_mr_lkey(r->mr);
	return r->iova + (token[name_len] ? strtoull(token + name_len + 1, NULL, 0) : 0);
}

uint64_t next_duration(struct stage *s, const char *token)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double v = strtod(token, &end);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(end, units[i].unit))
			return (uint64_t)(v * units[i].ns + 0.5);
	}
	fail(s, "script error: %s is no duration", token);
}

unsigned next_rights(struct stage *s)
{
	static const struct {
		const char *name;
		unsigned bit;
	} rights[] = {
		{"lw", IBV_ACCESS_LOCAL_WRITE}, {"rw", IBV_ACCESS_REMOTE_WRITE},
		{"rr", IBV_ACCESS_REMOTE_READ}, {"ra", IBV_ACCESS_REMOTE_ATOMIC},
		{"mw", IBV_ACCESS_MW_BIND},     {"zb", IBV_ACCESS_ZERO_BASED},
		{"od", IBV_ACCESS_ON_DEMAND},   {"none", 0},
	};
	const char *token = next_token(s);
	unsigned mask = 0;

	while (*token) {
		size_t len = strcspn(token, ","), i = 0, n = sizeof(rights) / sizeof(rights[0]);

		while (i < n &&
		       (strlen(rights[i].name) != len || strncmp(rights[i].name, token, len)))
			i++;
		if (i == n)
			fail(s, "script error: no right %s", token);
		mask |= rights[i].bit;
		token += len + (token[len] == ',');
	}
	return mask;
}

/* No two packets of a message look alike, whatever the MTU. */
uint8_t pattern(uint64_t index)
{
	return (uint8_t)(index * 7 + (index >> 8) * 31 + 1);
}

static uint32_t hex_bytes(struct stage *s, uint8_t *ret_bytes, uint32_t cap)
{
	const char *token = next_token(s);
	uint32_t n = 0;

	for (; isxdigit((unsigned char)token[0]) && isxdigit((unsigned char)token[1]); token += 2) {
		unsigned v;

		sscanf(token, "%2x", &v);
		if (n == cap)
			break;
		ret_bytes[n++] = (uint8_t)v;
	}
	if (*token)
		fail(s, "script error: bad hex at %s", token);
	return n;
}

static uint32_t pattern_bytes(struct stage *s, uint8_t *ret_bytes, uint32_t cap)
{
	uint32_t n = (uint32_t)next_number(s);
	uint64_t from = accept(s, "from") ? next_number(s) : 0;

	if (n > cap)
		fail(s, "script error: more than %u bytes", cap);
	for (uint32_t i = 0; i < n; i++)
		ret_bytes[i] = pattern(from + i);
	return n;
}

uint32_t next_bytes(struct stage *s, uint8_t *ret_bytes, uint32_t cap)
{
	const char *token = next_token(s);
	uint32_t n;
	uint64_t v;

	if (token[0] == '"') {
		n = (uint32_t)strcspn(token + 1, "\"");
		memcpy(ret_bytes, token + 1, n);
		return n;
	}
	if (!strcmp(token, "hex"))
		return hex_bytes(s, ret_bytes, cap);
	if (!strcmp(token, "len"))
		return pattern_bytes(s, ret_bytes, cap);
	if (!strcmp(token, "u64")) {
		v = next_number(s);
		memcpy(ret_bytes, &v, sizeof(v));
		return sizeof(v);
	}
	if (strcmp(token, "zero"))
		fail(s, "script error: bytes cannot start with %s", token);
	n = (uint32_t)next_number(s);
	if (n > cap)
		fail(s, "script error: more than %u bytes", cap);
	memset(ret_bytes, 0, n);
	return n;
}
