/* SPDX-License-Identifier: BSD-2-Clause */
/* TLS of the bootstrap connection: who gets in, who does not, and what each side is told (K11). */
#include "test_boot_rig.h"
#include "test_tls_certs.h"

#include "xrdma/tls.h"
#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PSK   "000102030405060708090a0b0c0d0e0f"
#define PSK_2 "ff0102030405060708090a0b0c0d0e0f"

static struct certs certs;

/* tls = on: so that loopback does too. */
static void conf_tls(struct rig *r)
{
	rig_conf(r);
	r->server_conf.tls = r->client_conf.tls = XR_CHOICE_ON;
}

static void conf_certificates(struct rig *r)
{
	conf_tls(r);
	strcpy(r->server_conf.tls_cert, certs.cert);
	strcpy(r->server_conf.tls_key, certs.key);
	strcpy(r->client_conf.tls_ca, certs.ca);
}

static void conf_psk(struct rig *r)
{
	conf_tls(r);
	strcpy(r->server_conf.tls_psk, PSK);
	strcpy(r->client_conf.tls_psk, PSK);
}

static void settle(struct rig *r)
{
	rig_listen(r, "127.0.0.1:0");
	rig_connect(r);
	rig_settle(r);
}

/* One block each way: only then both have checked each other. */
static void exchange(struct rig *r)
{
	const uint8_t *data;
	uint8_t type;
	size_t len;

	assert_int_equal(xr_boot_send(r->client, 1, "ping", 4, r->now), 0);
	while (!r->server_err && xr_boot_next(r->server, &type, &data, &len) == 0)
		rig_step(r);
	assert_int_equal(r->server_err, 0);
	assert_memory_equal(data, "ping", 4);
	assert_int_equal(xr_boot_send(r->server, 2, "pong", 4, r->now), 0);
	while (!r->client_err && xr_boot_next(r->client, &type, &data, &len) == 0)
		rig_step(r);
	assert_int_equal(r->client_err, 0);
	assert_memory_equal(data, "pong", 4);
}

static void expect_success(struct rig *r)
{
	settle(r);
	if (r->server_err)
		fail_msg("server: %s", xr_boot_why(r->server));
	if (r->client_err)
		fail_msg("client: %s", xr_boot_why(r->client));
	assert_true(xr_boot_uses_tls(r->client) && xr_boot_uses_tls(r->server));
	exchange(r);
	rig_close(r);
}

/* Both fail, and are told so. NULL: whatever it says. */
static void expect_refusal(struct rig *r, int server_err, const char *server_said, int client_err,
			   const char *client_said)
{
	rig_listen(r, "127.0.0.1:0");
	rig_connect(r);
	xr_boot_send(r->client, 1, "key", 3, r->now);
	while (!r->server_err || !r->client_err) {
		rig_step(r);
		if (r->server_err && r->server) { /* as a caller would */
			if (server_said)
				assert_said(xr_boot_why(r->server), server_said);
			xr_boot_close(r->server);
			r->server = NULL;
		}
		if (r->client_err && r->client) {
			if (client_said)
				assert_said(xr_boot_why(r->client), client_said);
			xr_boot_close(r->client);
			r->client = NULL;
		}
	}
	assert_int_equal(r->server_err, server_err);
	assert_int_equal(r->client_err, client_err);
	rig_close(r);
}

static void certificate_of_the_server(void **state)
{
	struct rig r;

	conf_certificates(&r);
	expect_success(&r);
	conf_certificates(&r);
	strcpy(r.client_conf.tls_name, "server.example");
	expect_success(&r);
}

static void certificates_of_both(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_ca, certs.ca);
	strcpy(r.client_conf.tls_cert, certs.cert);
	strcpy(r.client_conf.tls_key, certs.key);
	expect_success(&r);
}

static void key_that_both_know(void **state)
{
	struct rig r;

	conf_psk(&r);
	expect_success(&r);
	conf_psk(&r); /* beside certificates */
	strcpy(r.server_conf.tls_cert, certs.cert);
	strcpy(r.server_conf.tls_key, certs.key);
	strcpy(r.client_conf.tls_ca, certs.ca);
	expect_success(&r);
}

static void unknown_authority(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.client_conf.tls_ca, certs.other_ca);
	expect_refusal(&r, -EACCES, "refused our certificate: its tls_ca does not have", -EACCES,
		       "certificate of the server is signed by an unknown authority: add it to "
		       "tls_ca");
}

static void expired_certificate(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_cert, certs.expired);
	expect_refusal(&r, -EACCES, "refused our certificate: it has expired", -EACCES,
		       "certificate of the server has expired");
}

static void wrong_name(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_cert, certs.elsewhere);
	expect_refusal(&r, -EACCES, "refused our certificate", -EACCES,
		       "certificate of the server is not for 127.0.0.1: connect to the name");
	conf_certificates(&r);
	strcpy(r.client_conf.tls_name, "elsewhere.example");
	expect_refusal(&r, -EACCES, NULL, -EACCES, "is not for elsewhere.example");
}

static void client_without_certificate(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_ca, certs.ca);
	expect_refusal(&r, -EACCES, "the client has no certificate, which our tls_ca demands",
		       -EACCES, "the server demands a certificate of us: set tls_cert");
}

static void client_with_a_foreign_certificate(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_ca, certs.ca);
	strcpy(r.client_conf.tls_cert, certs.foreign);
	strcpy(r.client_conf.tls_key, certs.key);
	expect_refusal(&r, -EACCES, "certificate of the client is signed by an unknown", -EACCES,
		       "refused our certificate: its tls_ca does not have");
}

static void another_key(void **state)
{
	struct rig r;

	conf_psk(&r);
	strcpy(r.client_conf.tls_psk, PSK_2);
	expect_refusal(&r, -EACCES, "the peer has another tls_psk", -EACCES,
		       "the peer has another tls_psk");
	conf_psk(&r);
	strcpy(r.client_conf.tls_psk_identity, "somebody");
	expect_refusal(&r, -EACCES, "tls_psk_identity", -EACCES, "tls_psk");
}

/* A server with a key does not let in those who only know its authority, */
static void certificate_instead_of_the_key(void **state)
{
	struct rig r;

	conf_psk(&r);
	strcpy(r.server_conf.tls_cert, certs.cert);
	strcpy(r.server_conf.tls_key, certs.key);
	r.client_conf.tls_psk[0] = '\0';
	strcpy(r.client_conf.tls_ca, certs.ca);
	expect_refusal(&r, -EACCES, "the client did not prove that it knows tls_psk", -ECONNRESET,
		       "closed");
	/* and a client with a key takes no certificate for it. */
	conf_certificates(&r);
	r.client_conf.tls_ca[0] = '\0';
	strcpy(r.client_conf.tls_psk, PSK);
	expect_refusal(&r, -EACCES, NULL, -EACCES, "unknown authority");
}

static void plain_tcp_against_tls(void **state)
{
	struct rig r;

	conf_certificates(&r);
	r.client_conf.tls = XR_CHOICE_OFF;
	expect_refusal(&r, -EPROTO, "does not speak TLS: set the option tls alike", -ECONNRESET,
		       "it may demand TLS (set the option tls alike on both sides)");
	conf_certificates(&r);
	r.server_conf.tls = XR_CHOICE_OFF;
	expect_refusal(&r, -EPROTO, "speaks TLS and this side plain TCP", -ECONNRESET,
		       "set the option tls alike on both sides");
}

/* ---- before any connection ------------------------------------------------------------------- */

static void files_are_checked_at_once(void **state)
{
	static const char *const missing = "/nonexistent/x.pem";
	struct xr_tls_world *world = NULL;
	struct xr_conf conf;

	xr_conf_defaults(&conf);
	strcpy(conf.tls_cert, certs.cert);
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	assert_said(xrdma_last_error(), "go together: only tls_cert is set");
	conf.tls_cert[0] = '\0';
	strcpy(conf.tls_key, certs.key);
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	assert_said(xrdma_last_error(), "go together: only tls_key is set");
	strcpy(conf.tls_cert, missing);
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	assert_said(xrdma_last_error(), "tls_cert = /nonexistent/x.pem: cannot be used: ");
	strcpy(conf.tls_cert, certs.ca); /* not for this key */
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	assert_said(xrdma_last_error(), "it is not the key of tls_cert");
	strcpy(conf.tls_cert, certs.cert);
	strcpy(conf.tls_key, certs.locked_key); /* no prompt: this returns */
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	strcpy(conf.tls_key, certs.key);
	strcpy(conf.tls_ca, missing);
	assert_int_equal(xr_tls_world_new(&conf, &world), -EINVAL);
	assert_said(xrdma_last_error(), "tls_ca = ");
	assert_null(world);
}

static bool decide(enum xr_choice tls, bool keys, const char *local, const char *peer, int *ret_err)
{
	struct in6_addr addrs[2];
	struct xr_tls_world *world;
	struct xr_conf conf;
	bool use = false;

	xr_conf_defaults(&conf);
	conf.tls = tls;
	if (keys)
		strcpy(conf.tls_psk, PSK);
	assert_int_equal(inet_pton(AF_INET6, local, &addrs[0]), 1);
	assert_int_equal(inet_pton(AF_INET6, peer, &addrs[1]), 1);
	assert_int_equal(xr_tls_world_new(&conf, &world), 0);
	*ret_err = xr_tls_decide(world, XR_TLS_SERVER, &addrs[0], &addrs[1], &use);
	xr_tls_world_free(world);
	return use;
}

static void plain_only_on_loopback_or_on_request(void **state)
{
	static const struct {
		enum xr_choice tls;
		bool keys;
		const char *local, *peer;
		int err;
		bool use;
	} rows[] = {
		{XR_CHOICE_AUTO, false, "::1", "::1", 0, false},
		{XR_CHOICE_AUTO, true, "::ffff:127.0.0.1", "::ffff:127.0.0.2", 0, false},
		{XR_CHOICE_AUTO, true, "::ffff:192.0.2.1", "::ffff:192.0.2.2", 0, true},
		{XR_CHOICE_AUTO, false, "::ffff:192.0.2.1", "::ffff:192.0.2.2", -ENOKEY, false},
		{XR_CHOICE_AUTO, false, "::ffff:127.0.0.1", "::ffff:192.0.2.2", -ENOKEY, false},
		{XR_CHOICE_AUTO, false, "::ffff:192.0.2.1", "::ffff:127.0.0.1", -ENOKEY, false},
		{XR_CHOICE_ON, false, "::1", "::1", -ENOKEY, false},
		{XR_CHOICE_ON, true, "::1", "::1", 0, true},
		{XR_CHOICE_OFF, true, "fd00::1", "fd00::2", 0, false},
		{XR_CHOICE_OFF, false, "::1", "::1", 0, false},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		int err;
		bool use = decide(rows[i].tls, rows[i].keys, rows[i].local, rows[i].peer, &err);

		assert_int_equal(err, rows[i].err);
		assert_int_equal(use, rows[i].use);
	}
}

static void no_keys_names_the_three_ways_out(void **state)
{
	struct xr_boot_listener *l;
	struct rig r;
	int err;

	decide(XR_CHOICE_AUTO, false, "fd00::1", "fd00::2", &err);
	assert_int_equal(err, -ENOKEY);
	assert_said(xrdma_last_error(), "set tls_cert and tls_key for certificates; or tls_psk");
	assert_said(xrdma_last_error(), "openssl rand -hex 32");
	assert_said(xrdma_last_error(), "or tls = off on both sides");

	/* A server is told when it begins to listen, not when the first client comes. */
	rig_conf(&r);
	r.server_conf.tls = XR_CHOICE_ON;
	assert_int_equal(xr_boot_world_init(&r.server_world, &r.server_conf), 0);
	assert_int_equal(xr_boot_listen(&r.server_world, "127.0.0.1:0", &l), -ENOKEY);
	xr_boot_world_fini(&r.server_world);
	/* A client when it is connected. */
	r.server_conf.tls = XR_CHOICE_OFF;
	r.client_conf.tls = XR_CHOICE_ON;
	rig_listen(&r, "127.0.0.1:0");
	rig_connect(&r);
	while (!r.client_err)
		rig_step(&r);
	assert_int_equal(r.client_err, -ENOKEY);
	assert_said(xr_boot_why(r.client), "set tls_ca for certificates");
	rig_close(&r);
}

/* ---- resumption ------------------------------------------------------------------------------ */

static void reconnect(struct rig *r)
{
	rig_connect(r);
	rig_settle(r);
	assert_int_equal(r->client_err, 0);
	exchange(r);
}

static void disconnect(struct rig *r)
{
	xr_boot_close(r->client);
	xr_boot_close(r->server);
	r->client = r->server = NULL;
}

static void who_comes_back_resumes(void **state)
{
	struct rig r;

	conf_certificates(&r);
	strcpy(r.server_conf.tls_ca, certs.ca);
	strcpy(r.client_conf.tls_cert, certs.cert);
	strcpy(r.client_conf.tls_key, certs.key);
	rig_listen(&r, "127.0.0.1:0");
	for (unsigned i = 0; i < 5; i++) {
		reconnect(&r);
		assert_int_equal(xr_boot_tls_resumed(r.client), i > 0);
		assert_int_equal(xr_boot_tls_resumed(r.server), i > 0);
		disconnect(&r);
	}
	assert_int_equal(r.client_world.n_tls, 5);
	assert_int_equal(r.client_world.n_tls_resumed, 4);
	assert_int_equal(r.server_world.n_tls_resumed, 4);

	/* A server that restarted knows no ticket of before, and that is no error. */
	xr_boot_listener_close(r.listener);
	xr_boot_world_fini(&r.server_world);
	assert_int_equal(xr_boot_world_init(&r.server_world, &r.server_conf), 0);
	assert_int_equal(xr_boot_listen(&r.server_world, r.address, &r.listener), 0);
	reconnect(&r);
	assert_false(xr_boot_tls_resumed(r.client));
	rig_close(&r);
}

static void tickets_are_kept_for_few_peers(void **state)
{
	enum { PEERS = 70 };
	char addresses[PEERS][64];
	struct rig r;

	conf_certificates(&r);
	rig_listen(&r, "*:0");
	strcpy(r.client_conf.tls_name, "server.example");
	xr_boot_world_fini(&r.client_world);
	assert_int_equal(xr_boot_world_init(&r.client_world, &r.client_conf), 0);
	for (unsigned i = 0; i < 2 * PEERS; i++) {
		unsigned peer = i % PEERS;

		snprintf(addresses[peer], sizeof(addresses[peer]), "127.0.0.%u:%u", peer + 1,
			 xr_boot_listener_port(r.listener));
		strcpy(r.address, addresses[peer]);
		reconnect(&r);
		disconnect(&r);
	}
	/* The oldest went first: by the time a peer comes back, its ticket is gone. */
	assert_int_equal(r.client_world.n_tls_resumed, 0);
	reconnect(&r); /* but the last is there */
	assert_true(xr_boot_tls_resumed(r.client));
	rig_close(&r);
}

static int make_certs(void **state)
{
	certs_make(&certs);
	return 0;
}

static int remove_certs(void **state)
{
	certs_remove(&certs);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(certificate_of_the_server),
		cmocka_unit_test(certificates_of_both),
		cmocka_unit_test(key_that_both_know),
		cmocka_unit_test(unknown_authority),
		cmocka_unit_test(expired_certificate),
		cmocka_unit_test(wrong_name),
		cmocka_unit_test(client_without_certificate),
		cmocka_unit_test(client_with_a_foreign_certificate),
		cmocka_unit_test(another_key),
		cmocka_unit_test(certificate_instead_of_the_key),
		cmocka_unit_test(plain_tcp_against_tls),
		cmocka_unit_test(files_are_checked_at_once),
		cmocka_unit_test(plain_only_on_loopback_or_on_request),
		cmocka_unit_test(no_keys_names_the_three_ways_out),
		cmocka_unit_test(who_comes_back_resumes),
		cmocka_unit_test(tickets_are_kept_for_few_peers),
	};

	return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
