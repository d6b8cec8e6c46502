/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of the bootstrap: "host:port", "[v6]:port", "*:port". */
#ifndef XRDMA_ADDRESS_H
#define XRDMA_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { XR_HOST_BYTES = 256, XR_ADDRESS_BYTES = XR_HOST_BYTES + 16 };

struct xr_address {
	char host[XR_HOST_BYTES]; /* without brackets; "" for "*" */
	uint16_t port;
};

/* 0, or -EINVAL with an explanation. */
int xr_address_parse(const char *text, struct xr_address *ret_address);

/*
 * The IPv6 or IPv4-mapped form of a socket address: what GIDs are compared with. Zero for another
 * family.
 */
struct in6_addr xr_address_raw(const struct sockaddr *addr);

bool xr_address_is_loopback(const struct in6_addr *raw); /* 127/8 or ::1 */

/* "192.0.2.1", "2001:db8::1". */
void xr_address_text(const struct in6_addr *raw, char text[static XR_HOST_BYTES]);

/* "192.0.2.1:80", "[2001:db8::1]:80". */
void xr_address_format(const struct sockaddr *addr, char text[static XR_ADDRESS_BYTES]);

#endif
