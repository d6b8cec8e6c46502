/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/address.h"

#include "xrdma/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int bad_address(const char *text, const char *what)
{
	return xr_error(-EINVAL,
			"address %.300s: %s: expected host:port, [IPv6]:port or *:port, for "
			"example 192.0.2.1:7471",
			text, what);
}

static int parse_port(const char *text, uint16_t *ret_port)
{
	uint32_t port = 0;
	size_t len = strlen(text);

	if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
		return -EINVAL;
	for (; *text; text++)
		port = port * 10 + (uint32_t)(*text - '0');
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

int xr_address_parse(const char *text, struct xr_address *ret_address)
{
	const char *host = text, *colon = text ? strrchr(text, ':') : NULL;
	struct xr_address address = {.port = 0};
	size_t len;

	if (!text)
		return bad_address("NULL", "it is missing");
	if (!colon)
		return bad_address(text, "there is no port");
	if (parse_port(colon + 1, &address.port))
		return bad_address(text, "the port is not a number from 0 to 65535");
	len = (size_t)(colon - host);
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	} else if (memchr(host, ':', len)) {
		return bad_address(text, "an IPv6 address needs brackets");
	}
	if (len == 0)
		return bad_address(text, "there is no host");
	if (len >= sizeof(address.host))
		return bad_address(text, "the host is too long");
	if (len != 1 || host[0] != '*')
		memcpy(address.host, host, len);
	*ret_address = address;
	return 0;
}

struct in6_addr xr_address_raw(const struct sockaddr *addr)
{
	struct in6_addr raw = IN6ADDR_ANY_INIT;
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	if (addr->sa_family == AF_INET6) {
		memcpy(&v6, addr, sizeof(v6));
		raw = v6.sin6_addr;
	} else if (addr->sa_family == AF_INET) {
		memcpy(&v4, addr, sizeof(v4));
		raw.s6_addr[10] = raw.s6_addr[11] = 0xff;
		memcpy(&raw.s6_addr[12], &v4.sin_addr, sizeof(v4.sin_addr));
	}
	return raw;
}

bool xr_address_is_loopback(const struct in6_addr *raw)
{
	return IN6_IS_ADDR_LOOPBACK(raw) || (IN6_IS_ADDR_V4MAPPED(raw) && raw->s6_addr[12] == 127);
}

void xr_address_text(const struct in6_addr *raw, char text[static XR_HOST_BYTES])
{
	if (IN6_IS_ADDR_V4MAPPED(raw))
		inet_ntop(AF_INET, &raw->s6_addr[12], text, XR_HOST_BYTES);
	else
		inet_ntop(AF_INET6, raw, text, XR_HOST_BYTES);
}

void xr_address_format(const struct sockaddr *addr, char text[static XR_ADDRESS_BYTES])
{
	struct in6_addr raw = xr_address_raw(addr);
	char host[XR_HOST_BYTES];
	struct sockaddr_in v4; /* sockaddr_in6 has its port in the same place */

	memcpy(&v4, addr, sizeof(v4));
	xr_address_text(&raw, host);
	snprintf(text, XR_ADDRESS_BYTES, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		 ntohs(v4.sin_port));
}
