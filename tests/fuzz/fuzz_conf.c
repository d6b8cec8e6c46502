/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A configuration file, and the same bytes as an environment variable and an address. Whatever is
 * loaded reads back as values that are accepted.
 */
#include "xrdma/address.h"
#include "xrdma/conf_priv.h"
#include "xrdma/xrdma.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_values(const struct xrdma_conf *conf)
{
	struct xrdma_conf copy = {.values = conf->values};

	for (unsigned i = 0; i < xr_n_options; i++) {
		char value[XR_PATH_BYTES];

		assert(xrdma_conf_get(conf, xr_options[i].name, value, sizeof(value)) == 0);
		assert(xrdma_conf_set(&copy, xr_options[i].name, value) == 0);
	}
	assert(memcmp(&copy.values, &conf->values, sizeof(copy.values)) == 0);
}

static void load_file(struct xrdma_conf *conf, const uint8_t *data, size_t len)
{
	FILE *in = fmemopen((void *)(uintptr_t)data, len, "r");

	assert(in);
	if (xr_conf_load_stream(conf, "fuzz", in) == 0)
		check_values(conf);
	fclose(in);
}

static void load_variable(struct xrdma_conf *conf, const uint8_t *data, size_t len)
{
	char *var = malloc(len + sizeof("XRDMA_"));
	char *env[] = {var, NULL};

	assert(var);
	memcpy(var, "XRDMA_", 6);
	memcpy(var + 6, data, len);
	var[6 + len] = '\0';
	if (xr_conf_load_env(conf, env) == 0)
		check_values(conf);
	free(var);
}

static void parse_address(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len);
	struct xr_address address;

	assert(text);
	if (xr_address_parse(text, &address) == 0)
		assert(strlen(address.host) < sizeof(address.host));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xrdma_conf conf = {.source = {0}};

	xr_conf_defaults(&conf.values);
	if (len > 0)
		load_file(&conf, data, len);
	load_variable(&conf, data, len);
	parse_address(data, len);
	return 0;
}
