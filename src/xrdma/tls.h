/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 over a non-blocking socket, by OpenSSL: certificates, or a key that both sides know.
 * Never raises SIGPIPE, never prompts. Errors are explained in xrdma_last_error().
 */
#ifndef XRDMA_TLS_H
#define XRDMA_TLS_H

#include "xrdma/conf.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xr_tls_world; /* keys, certificates and tickets of a context */
struct xr_tls;       /* a connection */

enum xr_tls_role {
	XR_TLS_CLIENT,
	XR_TLS_SERVER,
};

/* Reads certificates and keys, so that what is wrong with them is known early. */
int xr_tls_world_new(const struct xr_conf *conf, struct xr_tls_world **ret_world);
void xr_tls_world_free(struct xr_tls_world *world);

/* 0 if the options say how to prove who we are in this role; else -ENOKEY, naming the ways out. */
int xr_tls_has_keys(const struct xr_tls_world *world, enum xr_tls_role role);

/* Whether a connection between these addresses uses TLS; -ENOKEY: it must, and cannot. */
int xr_tls_decide(const struct xr_tls_world *world, enum xr_tls_role role,
		  const struct in6_addr *local, const struct in6_addr *peer, bool *ret_use);

/*
 * fd stays the caller's. Of a client: host is the name or address that the certificate must have
 * (unless tls_name says otherwise), peer the name under which tickets for a quick reconnect are
 * kept.
 */
int xr_tls_new(struct xr_tls_world *world, enum xr_tls_role role, int fd, const char *host,
	       const char *peer, struct xr_tls **ret_tls);
void xr_tls_free(struct xr_tls *tls); /* tells the peer, if that can be done at once */

/* 0: done; -EAGAIN: wait for the socket (xr_tls_wants_write); else it has failed. */
int xr_tls_handshake(struct xr_tls *tls);
bool xr_tls_wants_write(const struct xr_tls *tls);
bool xr_tls_resumed(const struct xr_tls *tls);

/* Bytes; -EAGAIN; another negative errno value; -ECONNRESET also for an orderly end. */
ssize_t xr_tls_read(struct xr_tls *tls, void *buf, size_t len);
ssize_t xr_tls_write(struct xr_tls *tls, const void *buf, size_t len);

#endif
