/* SPDX-License-Identifier: BSD-2-Clause */
#include "test_tls_certs.h"

#include "../unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

static const char script[] =
	"set -e; cd %s; exec 2>log\n"
	"ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
	"for ca in ca other_ca; do\n"
	"  openssl req -x509 $ec -subj /CN=$ca -days 2 -keyout $ca.key -out $ca.pem\n"
	"done\n"
	"openssl req -new $ec -subj /CN=server -keyout key.pem -out request.pem\n"
	"sign() {\n"
	"  echo \"subjectAltName=$3\" >ext\n"
	"  openssl x509 -req -in request.pem -CA $2.pem -CAkey $2.key -CAcreateserial \\\n"
	"    -extfile ext -days $4 -out $1.pem\n"
	"}\n"
	"sign cert ca IP:127.0.0.1,IP:::1,DNS:server.example 2\n"
	"sign foreign other_ca IP:127.0.0.1 2\n"
	"sign elsewhere ca DNS:elsewhere.example 2\n"
	"sign expired ca IP:127.0.0.1 -1\n"
	"openssl ec -in key.pem -aes128 -passout pass:secret -out locked_key.pem\n";

static void name(const struct certs *c, const char *file, char path[static 96])
{
	snprintf(path, 96, "%s/%s.pem", c->dir, file);
}

void certs_make(struct certs *c)
{
	char command[2048];

	snprintf(c->dir, sizeof(c->dir), "/tmp/xrdma-certs-XXXXXX");
	assert_non_null(mkdtemp(c->dir));
	snprintf(command, sizeof(command), script, c->dir);
	assert_int_equal(system(command), 0);
	name(c, "ca", c->ca);
	name(c, "other_ca", c->other_ca);
	name(c, "cert", c->cert);
	name(c, "key", c->key);
	name(c, "foreign", c->foreign);
	name(c, "expired", c->expired);
	name(c, "elsewhere", c->elsewhere);
	name(c, "locked_key", c->locked_key);
}

void certs_remove(const struct certs *c)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", c->dir);
	assert_int_equal(system(command), 0);
}
