/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include "base/clock.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 7481, DEFAULT_SIZE = 56, MESH_COUNT = 10, MESH_INTERVAL_MS = 10 };
enum key { KEY_JSON = 256, KEY_MESH, KEY_POLL };

const char *argp_program_version = "xr-ping " XR_VERSION;

static const struct argp_option known[] = {
	{.doc = "Who"},
	{"listen", 'l', NULL, 0, "Answer probes, and ping others when a --mesh asks, until killed",
	 0},
	{"address", 'a', "ADDRESS", 0, "Listen on this address only; default: all", 0},
	{"mesh", KEY_MESH, "FILE|HOST,HOST...", 0,
	 "Let each of these hosts, on which xr-ping -l runs, ping all others; a file has one a "
	 "line",
	 0},
	{.doc = "Probes"},
	{"count", 'c', "N", 0, "End after so many; default: when interrupted, of --mesh 10", 0},
	{"interval", 'i', "SECONDS", 0,
	 "From one to the next; 0: as soon as one is answered; default: 1, of --mesh 0.01", 0},
	{"size", 's', "BYTES", 0, "Payload, of 8 to 1048576 bytes; default: 56", 0},
	{"timeout", 'W', "SECONDS", 0, "A probe not answered by then is lost; default: 1", 0},
	{.doc = "Both sides"},
	{"port", 'p', "PORT", 0, "TCP port where none is named; default: 7481", 0},
	{NULL, 'o', "NAME=VALUE", 0, "Set an option of xrdma, for example tls=off", 0},
	{"poll", KEY_POLL, NULL, 0, "Poll without a rest: what waking up costs is not wire time",
	 0},
	{.doc = "Output"},
	{"json", KEY_JSON, NULL, 0, "Results as JSON, when all is done", 0},
	{"quiet", 'q', NULL, 0, "The summary only", 0},
	{0},
};

/* The port comes later, where none is named. */
static void add_host(struct argp_state *state, struct xr_options *o, const char *text)
{
	char host[XR_ADDRESS_BYTES];
	uint32_t port;

	if (xr_address_split(text, host, &port))
		argp_error(state, "\"%s\": expected HOST or HOST:PORT", text);
	if (o->n_hosts == XR_MAX_HOSTS)
		argp_error(state, "at most %d hosts", XR_MAX_HOSTS);
	strcpy(o->hosts[o->n_hosts++], text);
}

static void add_port(char text[static XR_ADDRESS_BYTES], uint32_t port)
{
	char host[XR_ADDRESS_BYTES];

	if (xr_address_split(text, host, &port) == 0)
		xr_address_join(host, port, text);
}

static void parse_mesh(struct argp_state *state, struct xr_options *o, char *text)
{
	FILE *file = fopen(text, "re");
	char line[XR_ADDRESS_BYTES + 2];

	o->mesh = true;
	if (!file && strchr(text, '/'))
		argp_failure(state, XR_STATUS_USAGE, errno, "--mesh %s", text);
	if (!file) {
		for (char *save, *host = strtok_r(text, ",", &save); host;
		     host = strtok_r(NULL, ",", &save))
			add_host(state, o, host);
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		char *word = line + strspn(line, " \t");

		word[strcspn(word, " \t\r\n#")] = '\0';
		if (*word)
			add_host(state, o, word);
	}
	fclose(file);
}

static void check(struct argp_state *state, const struct xr_options *o)
{
	if (o->listen && (o->n_hosts || o->mesh))
		argp_error(state, "-l takes no HOST; to listen on one address: -a");
	if (!o->listen && o->listen_on)
		argp_error(state, "--address is of the side that listens (-l)");
	if (o->mesh && o->n_hosts < 2)
		argp_error(state, "--mesh needs two hosts at least");
	if (!o->listen && !o->mesh && o->n_hosts != 1)
		argp_error(state, "expected one HOST to ping, or -l, or --mesh");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct xr_options *o = state->input;

	switch (key) {
	case 'l':
		o->listen = true;
		return 0;
	case 'a':
		o->listen_on = arg;
		return 0;
	case KEY_MESH:
		parse_mesh(state, o, arg);
		return 0;
	case 'c':
		o->probing.count = xr_arg_number(state, "--count", arg, 1, UINT32_MAX);
		return 0;
	case 'i':
		o->probing.interval_ns = xr_arg_seconds(state, "--interval", arg, 0);
		return 0;
	case 's':
		o->probing.size = xr_arg_number(state, "--size", arg, XR_PROBE_MIN, XR_PROBE_MAX);
		return 0;
	case 'W':
		o->probing.timeout_ns = xr_arg_seconds(state, "--timeout", arg, 0.000001);
		return 0;
	case 'p':
		o->port = xr_arg_number(state, "--port", arg, 0, UINT16_MAX);
		return 0;
	case 'o':
		xr_arg_conf(state, &o->confs, arg);
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case KEY_POLL:
		o->poll = true;
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		add_host(state, o, arg);
		return 0;
	case ARGP_KEY_END:
		check(state, o);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

void xr_options_parse(int argc, char **argv, struct xr_options *ret_options)
{
	static const struct argp argp = {
		.options = known,
		.parser = parse,
		.args_doc = "HOST[:PORT]\n-l\n--mesh FILE|HOST,HOST...",
		.doc = "Pings over RDMA, and tells where the time goes.",
	};
	struct xr_options *o = ret_options;

	*o = (struct xr_options){.port = DEFAULT_PORT,
				 .probing = {.interval_ns = UINT64_MAX,
					     .timeout_ns = NSEC_PER_SEC,
					     .size = DEFAULT_SIZE}};
	argp_err_exit_status = XR_STATUS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	if (!o->listen_on)
		o->listen_on = "*";
	if (o->mesh && o->probing.count == 0)
		o->probing.count = MESH_COUNT;
	if (o->probing.interval_ns == UINT64_MAX)
		o->probing.interval_ns = o->mesh ? MESH_INTERVAL_MS * NSEC_PER_MSEC : NSEC_PER_SEC;
	for (unsigned i = 0; i < o->n_hosts; i++)
		add_port(o->hosts[i], o->port);
}

int xr_open(const struct xr_options *options, struct xrdma_context **ret_ctx)
{
	struct xrdma_conf *conf = NULL;
	int ret = xrdma_conf_new(&conf);

	if (!ret)
		ret = xrdma_conf_set(conf, "trace", "on");
	if (!ret)
		ret = xrdma_conf_set(conf, "trace_sample", "1");
	if (!ret)
		ret = xr_confs_apply(&options->confs, conf);
	if (!ret)
		ret = xrdma_open(conf, ret_ctx);
	xrdma_conf_free(conf);
	if (ret)
		fprintf(stderr, "xr-ping: cannot start: %s\n", xrdma_last_error());
	return ret;
}
