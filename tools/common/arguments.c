/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/arguments.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_MAX = XR_ADDRESS_BYTES - 9 /* brackets, a colon, five digits */ };

int xr_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char suffixes[] = "KMG";
	unsigned long long value;
	const char *suffix;
	unsigned shift = 0;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
	if (*end && (!suffix || end[1]))
		return -EINVAL;
	if (suffix)
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	if (value << shift >> shift != value)
		return -ERANGE;
	*ret_bytes = value << shift;
	return 0;
}

uint32_t xr_arg_number(struct argp_state *state, const char *what, const char *text, uint32_t min,
		       uint32_t max)
{
	uint64_t value = 0;

	if (xr_parse_bytes(text, &value) || value < min || value > max)
		argp_error(state, "%s %s: expected a number from %u to %u", what, text, min, max);
	return (uint32_t)value;
}

uint64_t xr_arg_seconds(struct argp_state *state, const char *what, const char *text, double min)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= 86400))
		argp_error(state, "%s %s: expected seconds from %g to 86400", what, text, min);
	return (uint64_t)llround(value * 1e9);
}

void xr_arg_conf(struct argp_state *state, struct xr_confs *confs, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		argp_error(state, "-o %s: expected NAME=VALUE, for example -o tls=off", text);
	if (confs->n == XR_MAX_CONFS)
		argp_error(state, "-o: at most %d times", XR_MAX_CONFS);
	*equals = '\0';
	confs->of[confs->n].name = text;
	confs->of[confs->n++].value = equals + 1;
}

int xr_confs_apply(const struct xr_confs *confs, struct xrdma_conf *conf)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < confs->n; i++)
		ret = xrdma_conf_set(conf, confs->of[i].name, confs->of[i].value);
	return ret;
}

int xr_address_split(const char *text, char ret_host[static XR_ADDRESS_BYTES], uint32_t *ret_port)
{
	const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
	bool bare_v6 = colon && strchr(text, ':') != colon && text[0] != '[';
	size_t len = strlen(text);
	uint64_t port = 0;

	if (colon && !bare_v6 && (!bracket || colon > bracket)) {
		len = (size_t)(colon - text);
		if (xr_parse_bytes(colon + 1, &port) || port < 1 || port > UINT16_MAX)
			return -EINVAL;
		*ret_port = (uint32_t)port;
	}
	if (len == 0 || len > HOST_MAX)
		return -EINVAL;
	snprintf(ret_host, XR_ADDRESS_BYTES, "%.*s", (int)len, text);
	return 0;
}

void xr_address_join(const char *host, uint32_t port, char ret_text[static XR_ADDRESS_BYTES])
{
	bool bare_v6 = strchr(host, ':') && host[0] != '[';

	snprintf(ret_text, XR_ADDRESS_BYTES, bare_v6 ? "[%.*s]:%u" : "%.*s:%u", HOST_MAX, host,
		 port);
}
