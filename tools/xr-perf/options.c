/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include "base/clock.h"
#include "proto.h"
#include "tests.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_PORT = 7480, MOST_IN_FLIGHT = 65536, MOST_CHANNELS = 65536, MOST_CLIENTS = 1024 };

enum key {
	KEY_IN_FLIGHT = 256,
	KEY_CHANNELS,
	KEY_THREADS,
	KEY_CLIENTS,
	KEY_DIRECTION,
	KEY_VERIFY,
	KEY_CORRUPT,
	KEY_JSON,
	KEY_SVG,
	KEY_POLL,
	KEY_EVENT,
	KEY_PROGRESS,
	KEY_ONCE,
};

static const struct argp_option known[] = {
	{.doc = "Server"},
	{"server", 's', NULL, 0, "Serve clients until killed", 0},
	{"address", 'a', "ADDRESS", 0, "Listen on this address only; default: all", 0},
	{"once", KEY_ONCE, NULL, 0, "End when the first client is done", 0},
	{.doc = "What is measured"},
	{"size", 'S', "LIST", 0, "Payload bytes, for example 64,4K,1M; default: as the test likes",
	 0},
	{"seconds", 't', "SECONDS", 0, "How long each measurement takes; default: 1", 0},
	{"iterations", 'n', "N", 0, "Messages (connections) of each measurement, in place of -t",
	 0},
	{"in-flight", KEY_IN_FLIGHT, "N", 0,
	 "Messages on their way at once per channel; of sweep: the most", 0},
	{"channels", KEY_CHANNELS, "N", 0, "Channels per context; of channels: the most", 0},
	{"clients", KEY_CLIENTS, "N", 0, "incast: contexts that send to one; default: 8", 0},
	{"direction", KEY_DIRECTION, "out|in|both", 0,
	 "bandwidth: messages to the server, replies from it, or both; default: out", 0},
	{"verify", KEY_VERIFY, NULL, 0, "Both sides check every byte of every payload", 0},
	{"corrupt", KEY_CORRUPT, "N", 0,
	 "Damage one byte of message N of each channel, to see --verify notice", 0},
	{.doc = "Both sides"},
	{"port", 'p', "PORT", 0, "TCP port of the server; default: 7480", 0},
	{"threads", KEY_THREADS, "N", 0,
	 "Server: contexts, each with a thread and a port of its own, from PORT upwards; default: "
	 "1. "
	 "Client: threads of the tests threads (the most) and incast",
	 0},
	{NULL, 'o', "NAME=VALUE", 0, "Set an option of xrdma, for example tls=off", 0},
	{"poll", KEY_POLL, NULL, 0, "Poll without a rest; default of the client", 0},
	{"event", KEY_EVENT, NULL, 0,
	 "Sleep until there is something to do; default of the server: poll while there is traffic",
	 0},
	{.doc = "Output"},
	{"json", KEY_JSON, "FILE", 0, "Results as JSON; -: standard output, in place of the text",
	 0},
	{"svg", KEY_SVG, "FILE", 0, "Plot latencies, and what varies with a parameter", 0},
	{"progress", KEY_PROGRESS, NULL, 0, "A progress line although this is no terminal", 0},
	{"quiet", 'q', NULL, 0, "Results and errors only", 0},
	{0},
};

static void parse_sizes(struct argp_state *state, struct xr_options *o, char *text)
{
	char *rest = text;

	for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
		if (o->n_sizes == XR_MAX_SIZES)
			argp_error(state, "--size: at most %d sizes", XR_MAX_SIZES);
		o->sizes[o->n_sizes++] =
			xr_arg_number(state, "--size", word, XR_PERF_HEAD_BYTES, UINT32_MAX);
	}
}

static void parse_direction(struct argp_state *state, struct xr_options *o, const char *text)
{
	static const char *const names[] = {"out", "in", "both"};

	for (unsigned i = 0; i < 3; i++) {
		if (strcmp(text, names[i]) == 0) {
			o->direction = (enum xr_direction)i;
			return;
		}
	}
	argp_error(state, "--direction %s: expected out, in or both", text);
}

static void parse_server(struct argp_state *state, struct xr_options *o, const char *text)
{
	if (xr_address_split(text, o->host, &o->port))
		argp_error(state, "%s: expected HOST or HOST:PORT", text);
}

static void parse_test(struct argp_state *state, struct xr_options *o, const char *text)
{
	const struct xr_test *test = xr_test_find(text);

	if (!test)
		argp_error(state, "%s: there is no such test; --help lists them", text);
	if (o->n_tests == XR_MAX_TESTS)
		argp_error(state, "at most %d tests at once", XR_MAX_TESTS);
	o->tests[o->n_tests++] = test;
}

static error_t parse_number(int key, char *arg, struct argp_state *state)
{
	struct xr_options *o = state->input;

	switch (key) {
	case 'p':
		o->port = xr_arg_number(state, "--port", arg, 0, UINT16_MAX);
		return 0;
	case 'n':
		o->iterations = xr_arg_number(state, "--iterations", arg, 1, UINT32_MAX);
		return 0;
	case KEY_IN_FLIGHT:
		o->in_flight = xr_arg_number(state, "--in-flight", arg, 1, MOST_IN_FLIGHT);
		return 0;
	case KEY_CHANNELS:
		o->channels = xr_arg_number(state, "--channels", arg, 1, MOST_CHANNELS);
		return 0;
	case KEY_THREADS:
		o->threads = xr_arg_number(state, "--threads", arg, 1, XR_PERF_MAX_THREADS);
		return 0;
	case KEY_CLIENTS:
		o->clients = xr_arg_number(state, "--clients", arg, 1, MOST_CLIENTS);
		return 0;
	case KEY_CORRUPT:
		o->corrupt = xr_arg_number(state, "--corrupt", arg, 1, UINT32_MAX);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_word(int key, char *arg, struct argp_state *state)
{
	struct xr_options *o = state->input;

	switch (key) {
	case 'a':
		o->listen = arg;
		return 0;
	case 'S':
		parse_sizes(state, o, arg);
		return 0;
	case 't':
		o->seconds_ns = xr_arg_seconds(state, "--seconds", arg, 0.001);
		return 0;
	case 'o':
		xr_arg_conf(state, &o->confs, arg);
		return 0;
	case KEY_DIRECTION:
		parse_direction(state, o, arg);
		return 0;
	case KEY_JSON:
		o->json = arg;
		return 0;
	case KEY_SVG:
		o->svg = arg;
		return 0;
	}
	return parse_number(key, arg, state);
}

static void check(struct argp_state *state, const struct xr_options *o)
{
	if (o->serve && o->host[0])
		argp_error(state, "a server (-s) takes no HOST; to listen on one address: -a");
	if (!o->serve && !o->host[0])
		argp_error(state, "expected -s (server), or the HOST of one to measure to");
	if (!o->serve && (o->once || o->listen))
		argp_error(state, "--once and --address are of the server (-s)");
	if (o->serve && (o->json || o->svg || o->n_sizes))
		argp_error(state, "sizes and reports are the client's: the server is told by it");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct xr_options *o = state->input;

	switch (key) {
	case 's':
		o->serve = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case KEY_ONCE:
		o->once = true;
		return 0;
	case KEY_VERIFY:
		o->verify = true;
		return 0;
	case KEY_POLL:
		o->wait = XR_WAIT_POLL;
		return 0;
	case KEY_EVENT:
		o->wait = XR_WAIT_EVENT;
		return 0;
	case KEY_PROGRESS:
		o->progress = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->host[0])
			parse_test(state, o, arg);
		else
			parse_server(state, o, arg);
		return 0;
	case ARGP_KEY_END:
		check(state, o);
		return 0;
	}
	return parse_word(key, arg, state);
}

static char *help(int key, const char *text, void *input)
{
	size_t size;
	char *out;
	FILE *f;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fputs("Tests (default: latency, bandwidth, rate):\n", f);
	for (const struct xr_test *const *test = xr_tests; *test; test++)
		fprintf(f, "  %-10s %s\n", (*test)->name, (*test)->doc);
	fclose(f);
	return out;
}

static void defaults(struct xr_options *o)
{
	static const char *const names[] = {"latency", "bandwidth", "rate"};

	if (o->n_tests)
		return;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		o->tests[o->n_tests++] = xr_test_find(names[i]);
}

void xr_options_parse(int argc, char **argv, struct xr_options *ret_options)
{
	static const struct argp argp = {
		.options = known,
		.parser = parse,
		.args_doc = "-s\nHOST[:PORT] [TEST...]",
		.doc = "Measures xrdma between two hosts, or two processes of one.\v ",
		.help_filter = help,
	};
	struct xr_options *o = ret_options;

	*o = (struct xr_options){.port = DEFAULT_PORT, .listen = NULL, .seconds_ns = NSEC_PER_SEC};
	argp_program_version = "xr-perf " XR_VERSION;
	argp_err_exit_status = XR_STATUS_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	if (!o->listen)
		o->listen = "*";
	defaults(o);
	xr_address_join(o->host, o->port, o->address);
	o->progress = o->progress || (isatty(STDERR_FILENO) && !o->quiet);
}
