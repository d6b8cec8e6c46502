/* SPDX-License-Identifier: BSD-2-Clause */
/* A TLS connection. */
#include "xrdma/error.h"
#include "xrdma/tls.h"
#include "xrdma/tls_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static bool is_ip(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1;
}

/* The name that the certificate must have; SNI carries no addresses (RFC 6066, 3). */
static bool set_name(struct xr_tls *tls)
{
	if (is_ip(tls->name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), tls->name);
	return SSL_set1_host(tls->ssl, tls->name) && SSL_set_tlsext_host_name(tls->ssl, tls->name);
}

static bool set_up_client(struct xr_tls *tls, const char *host, const char *peer)
{
	const char *wanted = tls->world->conf.tls_name;
	SSL_SESSION *session;
	bool ok;

	snprintf(tls->name, sizeof(tls->name), "%s", wanted[0] != '\0' ? wanted : host);
	snprintf(tls->ticket_peer, sizeof(tls->ticket_peer), "%s", peer);
	if (!set_name(tls))
		return false;
	session = xr_ticket_get(tls->world, tls->ticket_peer);
	ok = !session || SSL_set_session(tls->ssl, session);
	SSL_SESSION_free(session);
	SSL_set_connect_state(tls->ssl);
	return ok;
}

int xr_tls_new(struct xr_tls_world *world, enum xr_tls_role role, int fd, const char *host,
	       const char *peer, struct xr_tls **ret_tls)
{
	struct xr_tls *tls = calloc(1, sizeof(*tls));
	BIO *bio = NULL;

	if (!tls)
		return xr_error(-ENOMEM, "no memory for a TLS connection");
	*tls = (struct xr_tls){.world = world, .role = role, .fd = fd};
	tls->ssl = SSL_new(world->contexts[role]);
	if (tls->ssl)
		bio = xr_tls_bio_new(tls);
	if (bio) {
		SSL_set_bio(tls->ssl, bio, bio);
		SSL_set_app_data(tls->ssl, tls);
		if (role == XR_TLS_SERVER)
			SSL_set_accept_state(tls->ssl);
	}
	if (!bio || (role == XR_TLS_CLIENT && !set_up_client(tls, host, peer))) {
		xr_tls_free(tls);
		return xr_error(-ENOMEM, "OpenSSL cannot set up a connection");
	}
	*ret_tls = tls;
	return 0;
}

void xr_tls_free(struct xr_tls *tls)
{
	if (tls->done)
		SSL_shutdown(tls->ssl);
	ERR_clear_error();
	SSL_free(tls->ssl);
	free(tls);
}

/*
 * A server that has a key but no authorities to check certificates of clients with would let in
 * clients that know nothing: they must have used the key.
 */
static int check_client(struct xr_tls *tls)
{
	if (tls->role != XR_TLS_SERVER || tls->world->psk_len == 0 ||
	    SSL_session_reused(tls->ssl) || tls->world->conf.tls_ca[0] != '\0')
		return 0;
	return xr_error(-EACCES, "the client did not prove that it knows tls_psk: set tls_psk and "
				 "tls_psk_identity alike on both sides");
}

static int call_ended(struct xr_tls *tls, int ret)
{
	switch (SSL_get_error(tls->ssl, ret)) {
	case SSL_ERROR_WANT_WRITE:
		tls->wants_write = true;
		return -EAGAIN;
	case SSL_ERROR_WANT_READ:
		tls->wants_write = false;
		return -EAGAIN;
	case SSL_ERROR_SSL: /* maybe for the ticket */
		if (tls->role == XR_TLS_CLIENT && !tls->done)
			xr_ticket_drop(tls->world, tls->ticket_peer);
		__attribute__((fallthrough));
	default:
		tls->done = false; /* no farewell over a connection that failed */
		return xr_tls_explain(tls, ret);
	}
}

int xr_tls_handshake(struct xr_tls *tls)
{
	int ret;

	ERR_clear_error();
	ret = SSL_do_handshake(tls->ssl);
	if (ret != 1)
		return call_ended(tls, ret);
	tls->wants_write = false;
	tls->done = true;
	return check_client(tls);
}

bool xr_tls_wants_write(const struct xr_tls *tls)
{
	return tls->wants_write;
}

bool xr_tls_resumed(const struct xr_tls *tls)
{
	/* To OpenSSL a key that both sides know is a resumption too; it goes without tickets. */
	return SSL_session_reused(tls->ssl) && tls->world->psk_len == 0;
}

ssize_t xr_tls_read(struct xr_tls *tls, void *buf, size_t len)
{
	size_t n;
	int ret;

	ERR_clear_error();
	ret = SSL_read_ex(tls->ssl, buf, len, &n);
	return ret == 1 ? (ssize_t)n : call_ended(tls, ret);
}

ssize_t xr_tls_write(struct xr_tls *tls, const void *buf, size_t len)
{
	size_t n;
	int ret;

	ERR_clear_error();
	ret = SSL_write_ex(tls->ssl, buf, len, &n);
	return ret == 1 ? (ssize_t)n : call_ended(tls, ret);
}
