/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorities, certificates and keys in files of a fresh directory, made by the openssl program. */
#ifndef TESTS_XRDMA_TEST_TLS_CERTS_H
#define TESTS_XRDMA_TEST_TLS_CERTS_H

struct certs {
	char dir[64];
	char ca[96], other_ca[96];       /* who signed the rest, and who did not */
	char cert[96], key[96];          /* of 127.0.0.1, ::1 and server.example; a client's too */
	char foreign[96];                /* of 127.0.0.1, for the same key, signed by other_ca */
	char expired[96], elsewhere[96]; /* the latter of another name, both for the same key */
	char locked_key[96];             /* with a password */
};

void certs_make(struct certs *c);
void certs_remove(const struct certs *c);

#endif
