/* SPDX-License-Identifier: BSD-2-Clause */
/* OpenSSL's reasons in words that name the option to look at. */
#include "xrdma/error.h"
#include "xrdma/tls_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

struct reason {
	int code;
	int err;
	const char *text;
};

#define NOT_TLS      "the peer does not speak TLS: set the option tls alike on both sides"
#define OTHER_PSK    "the peer has another tls_psk or tls_psk_identity: set both alike on both sides"
#define PEER_REFUSES "the peer refused our certificate: "

/* Found here, or told by the peer in an alert (RFC 8446, 6.2). */
static const struct reason reasons[] = {
	{SSL_R_WRONG_VERSION_NUMBER, -EPROTO, NOT_TLS},
	{SSL_R_HTTP_REQUEST, -EPROTO, NOT_TLS},
	{SSL_R_PACKET_LENGTH_TOO_LONG, -EPROTO, NOT_TLS},
	{SSL_R_UNSUPPORTED_PROTOCOL, -EPROTO, "the peer does not speak TLS 1.3"},
	{SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, -EPROTO,
	 "the peer refused: it does not speak TLS 1.3"},
	{SSL_R_UNEXPECTED_EOF_WHILE_READING, -ECONNRESET,
	 "the peer closed the connection during TLS; if it is in its handshake, the peer may speak "
	 "plain TCP: set the option tls alike on both sides"},
	{SSL_R_BINDER_DOES_NOT_VERIFY, -EACCES, OTHER_PSK},
	{SSL_R_TLSV1_ALERT_DECRYPT_ERROR, -EACCES, OTHER_PSK},
	{SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, -EACCES, OTHER_PSK},
	{SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, -EACCES, OTHER_PSK},
	{SSL_R_NO_SHARED_CIPHER, -EACCES, OTHER_PSK},
	{SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, -EACCES,
	 "the peer refused: it knows no tls_psk of our tls_psk_identity, or has no certificate"},
	{SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, -EACCES,
	 "the client has no certificate, which our tls_ca demands: set its tls_cert and tls_key"},
	{SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, -EACCES,
	 "the server demands a certificate of us: set tls_cert and tls_key"},
	{SSL_R_TLSV1_ALERT_UNKNOWN_CA, -EACCES,
	 PEER_REFUSES "its tls_ca does not have the authority that signed it"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, -EACCES, PEER_REFUSES "it has expired"},
	{SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, -EACCES,
	 PEER_REFUSES "it is not for the name that was asked for, or damaged"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, -EACCES, PEER_REFUSES "it is not valid"},
	{SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, -EACCES,
	 PEER_REFUSES "it is not meant for this use"},
};

static int explain_certificate(const struct xr_tls *tls, long verdict)
{
	const char *what = tls->role == XR_TLS_CLIENT ? "server" : "client";

	switch (verdict) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return xr_error(-EACCES,
				"the certificate of the %s has expired: renew it, or set "
				"this machine's clock",
				what);
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return xr_error(-EACCES,
				"the certificate of the %s is not valid yet: set this "
				"machine's clock",
				what);
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		return xr_error(-EACCES,
				"the certificate of the %s is signed by an unknown authority: "
				"add it to tls_ca, or set tls_psk alike on both sides",
				what);
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return xr_error(-EACCES,
				"the certificate of the %s is not for %s: connect to the name it "
				"has, or set tls_name",
				what, tls->name);
	default:
		return xr_error(-EACCES, "the certificate of the %s is refused: %s", what,
				X509_verify_cert_error_string(verdict));
	}
}

static int explain_reason(const struct xr_tls *tls, unsigned long code)
{
	long verdict = SSL_get_verify_result(tls->ssl);
	const char *text = ERR_reason_error_string(code);

	if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
		return explain_certificate(tls, verdict);
	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (ERR_GET_REASON(code) == reasons[i].code)
			return xr_error(reasons[i].err, "%s", reasons[i].text);
	}
	return xr_error(-EPROTO, "TLS failed: %s", text ? text : "unknown reason");
}

int xr_tls_explain(struct xr_tls *tls, int ret)
{
	int kind = SSL_get_error(tls->ssl, ret);
	unsigned long code = ERR_peek_error();
	int err;

	if (kind == SSL_ERROR_ZERO_RETURN)
		err = xr_error(-ECONNRESET, "the peer closed the connection");
	else if (code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL)
		err = explain_reason(tls, code);
	else if (tls->socket_errno != 0)
		err = xr_error(-tls->socket_errno, "the connection broke: %s",
			       strerror(tls->socket_errno));
	else
		err = xr_error(-EPROTO, "TLS failed");
	ERR_clear_error();
	return err;
}
