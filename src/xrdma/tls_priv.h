/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XRDMA_TLS_PRIV_H
#define XRDMA_TLS_PRIV_H

#include "xrdma/address.h"
#include "xrdma/tls.h"

#include <openssl/ssl.h>

enum {
	XR_TICKETS = 64,
	XR_TICKET_PEER_BYTES = XR_ADDRESS_BYTES + XR_NAME_BYTES,
	XR_PSK_MAX_BYTES = XR_PSK_BYTES,
};

/*
 * What lets a client that comes back skip the certificates. The latest of each peer, for as many
 * connections as come back at once: that an onlooker can tell that they belong together (RFC 8446,
 * C.4) their addresses tell him, too.
 */
struct xr_ticket {
	char peer[XR_TICKET_PEER_BYTES];
	SSL_SESSION *session; /* NULL: free */
	uint64_t age;         /* the lowest is the oldest */
};

struct xr_tls_world {
	struct xr_conf conf;
	SSL_CTX *contexts[2]; /* by role; NULL: no keys for it */
	uint8_t psk[XR_PSK_MAX_BYTES];
	size_t psk_len;
	struct xr_ticket tickets[XR_TICKETS];
	uint64_t ticket_clock;
};

struct xr_tls {
	struct xr_tls_world *world;
	SSL *ssl;
	enum xr_tls_role role;
	int fd;
	int socket_errno; /* of the last transfer that failed */
	bool wants_write;
	bool done; /* the handshake */
	char name[XR_NAME_BYTES];
	char ticket_peer[XR_TICKET_PEER_BYTES];
};

/* A BIO over tls->fd: OpenSSL's own writes without MSG_NOSIGNAL. NULL: no memory. */
BIO *xr_tls_bio_new(struct xr_tls *tls);

/* What went wrong in the last call on tls, which returned ret; explained. */
int xr_tls_explain(struct xr_tls *tls, int ret);

void xr_ticket_put(struct xr_tls_world *world, const char *peer, SSL_SESSION *session);
/* A copy, or NULL. OpenSSL spoils the session of a connection that breaks. */
SSL_SESSION *xr_ticket_get(struct xr_tls_world *world, const char *peer);
void xr_ticket_drop(struct xr_tls_world *world, const char *peer);

#endif
