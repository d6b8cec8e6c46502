/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/conf_priv.h"
#include "xrdma/error.h"
#include "xrdma/xrdma.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#define ENV_PREFIX "XRDMA_"

struct loading {
	struct xrdma_conf *conf; /* a copy, so that an error changes nothing */
	const char *name;
	FILE *in;
	unsigned line;
	int err; /* the first */
	bool seen[XR_OPTIONS_MAX];
};

/* inih cuts lines that are too long for its buffer and takes the rest for a new one: refuse. */
static char *read_line(char *buf, int size, void *stream)
{
	struct loading *l = stream;
	int len = 0, c = EOF;

	while (!l->err && len + 1 < size && c != '\n' && (c = getc(l->in)) != EOF) {
		if (c == '\0')
			l->err = xr_error(-EINVAL, "%s:%u: not a text file", l->name, l->line + 1);
		buf[len++] = (char)c;
	}
	if (l->err || len == 0)
		return NULL;
	buf[len] = '\0';
	l->line++;
	if (len + 1 == size && c != '\n') {
		l->err = xr_error(-EINVAL, "%s:%u: the line is longer than %d characters", l->name,
				  l->line, size - 2);
		return NULL;
	}
	return buf;
}

static bool seen_before(struct loading *l, const char *name)
{
	for (unsigned i = 0; i < xr_n_options; i++) {
		if (strcmp(xr_options[i].name, name) == 0) {
			bool seen = l->seen[i];

			l->seen[i] = true;
			return seen;
		}
	}
	return false;
}

/* Returns non-zero for success, as inih wants it. */
static int take_line(void *user, const char *section, const char *name, const char *value)
{
	struct loading *l = user;
	char where[XR_NAME_BYTES];

	snprintf(where, sizeof(where), "%.200s:%u: ", l->name, l->line);
	if (section[0] != '\0')
		l->err = xr_error(-EINVAL,
				  "%s[%s]: there are no sections: expected lines such as "
				  "window = 64",
				  where, section);
	else if (seen_before(l, name))
		l->err = xr_error(-EINVAL, "%s%s is set for the second time", where, name);
	else
		l->err = xr_conf_apply(l->conf, name, value, XR_FROM_FILE, where);
	return l->err == 0;
}

int xr_conf_load_stream(struct xrdma_conf *conf, const char *name, FILE *in)
{
	struct xrdma_conf copy = *conf;
	struct loading l = {.conf = &copy, .name = name, .in = in};
	int line;

	errno = 0;
	line = ini_parse_stream(read_line, &l, take_line, &l);
	if (!l.err && ferror(in))
		l.err = xr_error(-EIO, "%s: cannot be read: %s", name, strerror(errno));
	if (!l.err && line != 0)
		l.err = xr_error(-EINVAL, "%s:%d: expected a line such as window = 64", name, line);
	if (!l.err)
		*conf = copy;
	return l.err;
}

int xrdma_conf_load(struct xrdma_conf *conf, const char *path)
{
	FILE *in = fopen(path, "re");
	int err;

	if (!in)
		return xr_error(-errno, "%s: cannot be opened: %s", path, strerror(errno));
	err = xr_conf_load_stream(conf, path, in);
	fclose(in);
	return err;
}

/* XRDMA_NAME=value is the option name. */
static int take_variable(struct xrdma_conf *conf, const char *var)
{
	const char *name = var + strlen(ENV_PREFIX), *equals = strchr(name, '=');
	char lower[64];
	size_t len;

	if (!equals || strncmp(var, "XRDMA_CONFIG=", strlen("XRDMA_CONFIG=")) == 0)
		return 0;
	len = (size_t)(equals - name);
	if (len >= sizeof(lower))
		len = sizeof(lower) - 1;
	for (size_t i = 0; i < len; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	lower[len] = '\0';
	return xr_conf_apply(conf, lower, equals + 1, XR_FROM_ENV, "environment " ENV_PREFIX "*: ");
}

int xr_conf_load_env(struct xrdma_conf *conf, char *const *env)
{
	struct xrdma_conf copy = *conf;

	for (; *env; env++) {
		int err = 0;

		if (strncmp(*env, ENV_PREFIX, strlen(ENV_PREFIX)) == 0)
			err = take_variable(&copy, *env);
		if (err)
			return err;
	}
	*conf = copy;
	return 0;
}
