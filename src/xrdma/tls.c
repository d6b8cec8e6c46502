/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys, certificates and tickets of a context, and whether a connection needs them. */
#include "xrdma/tls.h"

#include "xrdma/address.h"
#include "xrdma/error.h"
#include "xrdma/tls_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Of one hash, SHA-256, so that any of them goes with any key both sides know (RFC 8446, 4.2.11).
 */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

static const unsigned char psk_cipher[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

/* ---- tickets --------------------------------------------------------------------------------- */

static struct xr_ticket *ticket_of(struct xr_tls_world *world, const char *peer)
{
	for (unsigned i = 0; i < XR_TICKETS; i++) {
		struct xr_ticket *t = &world->tickets[i];

		if (t->session && strcmp(t->peer, peer) == 0)
			return t;
	}
	return NULL;
}

static struct xr_ticket *oldest_ticket(struct xr_tls_world *world)
{
	struct xr_ticket *oldest = &world->tickets[0];

	for (unsigned i = 1; i < XR_TICKETS; i++) {
		if (world->tickets[i].age < oldest->age)
			oldest = &world->tickets[i];
	}
	return oldest;
}

void xr_ticket_put(struct xr_tls_world *world, const char *peer, SSL_SESSION *session)
{
	struct xr_ticket *t = ticket_of(world, peer);

	if (!session)
		return;
	if (!t)
		t = oldest_ticket(world);
	SSL_SESSION_free(t->session);
	snprintf(t->peer, sizeof(t->peer), "%s", peer);
	t->session = session;
	t->age = ++world->ticket_clock;
}

SSL_SESSION *xr_ticket_get(struct xr_tls_world *world, const char *peer)
{
	const struct xr_ticket *t = ticket_of(world, peer);

	return t ? SSL_SESSION_dup(t->session) : NULL;
}

void xr_ticket_drop(struct xr_tls_world *world, const char *peer)
{
	struct xr_ticket *t = ticket_of(world, peer);

	if (t) {
		SSL_SESSION_free(t->session);
		*t = (struct xr_ticket){0};
	}
}

/* Returns 0: the session stays OpenSSL's. */
static int on_ticket(SSL *ssl, SSL_SESSION *session)
{
	struct xr_tls *tls = SSL_get_app_data(ssl);

	xr_ticket_put(tls->world, tls->ticket_peer, SSL_SESSION_dup(session));
	return 0;
}

/* ---- a key that both sides know -------------------------------------------------------------- */

static SSL_SESSION *psk_session(SSL *ssl, const struct xr_tls_world *world)
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, psk_cipher);
	SSL_SESSION *session = SSL_SESSION_new();

	if (!session || !cipher ||
	    !SSL_SESSION_set1_master_key(session, world->psk, world->psk_len) ||
	    !SSL_SESSION_set_cipher(session, cipher) ||
	    !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
		SSL_SESSION_free(session);
		return NULL;
	}
	return session;
}

static int use_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
		   SSL_SESSION **session)
{
	const struct xr_tls *tls = SSL_get_app_data(ssl);

	*session = psk_session(ssl, tls->world);
	*id = (const unsigned char *)tls->world->conf.tls_psk_identity;
	*id_len = strlen(tls->world->conf.tls_psk_identity);
	return *session != NULL;
}

static int find_psk(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **session)
{
	const struct xr_tls *tls = SSL_get_app_data(ssl);
	const char *ours = tls->world->conf.tls_psk_identity;

	*session = NULL;
	if (id_len != strlen(ours) || memcmp(id, ours, id_len) != 0)
		return 1;
	*session = psk_session(ssl, tls->world);
	return *session != NULL;
}

static uint8_t hex_digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* conf.c has seen to it that these are pairs of hexadecimal digits. */
static void read_psk(struct xr_tls_world *world)
{
	const char *hex = world->conf.tls_psk;

	for (; hex[0] != '\0'; hex += 2)
		world->psk[world->psk_len++] =
			(uint8_t)(hex_digit(hex[0]) << 4 | hex_digit(hex[1]));
}

/* ---- certificates ---------------------------------------------------------------------------- */

static int bad_file(const char *option, const char *path)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_GET_LIB(code) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(code))
							      : ERR_reason_error_string(code);

	ERR_clear_error();
	if (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
		return xr_error(-EINVAL, "%s = %s: it is not the key of tls_cert", option, path);
	return xr_error(-EINVAL, "%s = %s: cannot be used: %s: expected a readable PEM file",
			option, path, reason ? reason : "unknown reason");
}

static int load_files(SSL_CTX *ctx, const struct xr_conf *conf)
{
	if ((conf->tls_cert[0] == '\0') != (conf->tls_key[0] == '\0'))
		return xr_error(-EINVAL, "tls_cert and tls_key go together: only %s is set",
				conf->tls_cert[0] != '\0' ? "tls_cert" : "tls_key");
	ERR_clear_error();
	if (conf->tls_cert[0] != '\0' && !SSL_CTX_use_certificate_chain_file(ctx, conf->tls_cert))
		return bad_file("tls_cert", conf->tls_cert);
	if (conf->tls_key[0] != '\0' &&
	    !SSL_CTX_use_PrivateKey_file(ctx, conf->tls_key, SSL_FILETYPE_PEM))
		return bad_file("tls_key", conf->tls_key);
	if (conf->tls_ca[0] != '\0' && !SSL_CTX_load_verify_file(ctx, conf->tls_ca))
		return bad_file("tls_ca", conf->tls_ca);
	return 0;
}

/* An encrypted key would have OpenSSL ask at the terminal. */
static int no_password(char *buf, int size, int writing, void *arg)
{
	return -1;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static void set_up_client(SSL_CTX *ctx, const struct xr_tls_world *world)
{
	/* Also with a key alone: a server that does not know it must not pass with a certificate.
	 */
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(ctx,
				       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
	if (world->psk_len) /* nothing for a ticket to save */
		SSL_CTX_set_psk_use_session_callback(ctx, use_psk);
	else
		SSL_CTX_sess_set_new_cb(ctx, on_ticket);
}

static void set_up_server(SSL_CTX *ctx, const struct xr_tls_world *world)
{
	static const unsigned char id[] = "xrdma";

	if (world->conf.tls_ca[0] != '\0')
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets carry it all */
	SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
	SSL_CTX_set_num_tickets(ctx, world->psk_len ? 0 : 1);
	if (world->psk_len)
		SSL_CTX_set_psk_find_session_callback(ctx, find_psk);
}

static int make_context(struct xr_tls_world *world, enum xr_tls_role role)
{
	SSL_CTX *ctx =
		SSL_CTX_new(role == XR_TLS_SERVER ? TLS_server_method() : TLS_client_method());
	int err;

	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ctx, CIPHERS)) {
		SSL_CTX_free(ctx);
		ERR_clear_error();
		return xr_error(-ENOMEM, "OpenSSL cannot set up TLS 1.3");
	}
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	err = load_files(ctx, &world->conf);
	if (err) {
		SSL_CTX_free(ctx);
		return err;
	}
	if (role == XR_TLS_SERVER)
		set_up_server(ctx, world);
	else
		set_up_client(ctx, world);
	world->contexts[role] = ctx;
	return 0;
}

int xr_tls_world_new(const struct xr_conf *conf, struct xr_tls_world **ret_world)
{
	struct xr_tls_world *world = calloc(1, sizeof(*world));
	int err = 0;

	if (!world)
		return xr_error(-ENOMEM, "no memory for TLS");
	world->conf = *conf;
	read_psk(world);
	/* A server proves itself by a certificate, a client checks by the authorities; or the key.
	 */
	if (conf->tls != XR_CHOICE_OFF) {
		if (world->psk_len || conf->tls_cert[0] != '\0' || conf->tls_key[0] != '\0')
			err = make_context(world, XR_TLS_SERVER);
		if (!err && (world->psk_len || conf->tls_ca[0] != '\0'))
			err = make_context(world, XR_TLS_CLIENT);
	}
	if (err) {
		xr_tls_world_free(world);
		return err;
	}
	*ret_world = world;
	return 0;
}

void xr_tls_world_free(struct xr_tls_world *world)
{
	if (!world)
		return;
	for (unsigned i = 0; i < XR_TICKETS; i++)
		SSL_SESSION_free(world->tickets[i].session);
	SSL_CTX_free(world->contexts[XR_TLS_CLIENT]);
	SSL_CTX_free(world->contexts[XR_TLS_SERVER]);
	explicit_bzero(world, sizeof(*world));
	free(world);
}

/* ---- whether to use it ----------------------------------------------------------------------- */

int xr_tls_has_keys(const struct xr_tls_world *world, enum xr_tls_role role)
{
	if (world->contexts[role])
		return 0;
	return xr_error(-ENOKEY,
			"TLS is required (tls = %s) and has no keys: set %s for certificates; or "
			"tls_psk, the same on both sides (`openssl rand -hex 32`); or tls = off "
			"on both sides, for plain TCP that exposes the memory keys",
			world->conf.tls == XR_CHOICE_ON ? "on" : "auto",
			role == XR_TLS_SERVER ? "tls_cert and tls_key" : "tls_ca");
}

static void warn_plain_once(void)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&warned))
		log_warn("tls = off: memory keys cross the network in plain TCP");
}

int xr_tls_decide(const struct xr_tls_world *world, enum xr_tls_role role,
		  const struct in6_addr *local, const struct in6_addr *peer, bool *ret_use)
{
	bool loopback = xr_address_is_loopback(local) && xr_address_is_loopback(peer);
	bool use =
		world->conf.tls == XR_CHOICE_ON || (world->conf.tls == XR_CHOICE_AUTO && !loopback);
	int err = use ? xr_tls_has_keys(world, role) : 0;

	if (!err && !use && !loopback)
		warn_plain_once();
	if (!err)
		*ret_use = use;
	return err;
}
