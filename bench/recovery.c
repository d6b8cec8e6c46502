/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What it takes to come back, and to wait. One line of JSON for each; medians.
 *
 * recovery reconnect CERTS: a channel set up, both sides in this thread, with and without queue
 * pairs kept, in plain TCP and TLS, with certificates and resumed. CERTS: a directory with ca.pem,
 * cert.pem and key.pem for server.example.
 * recovery break CERTS: from the break of a channel until both sides are whole again.
 * recovery idle: processor time of both sides of 1,000 channels that have nothing to say.
 * recovery server PORT, recovery client HOST:PORT SECONDS: round trips, one after the other; each
 * that took long, as nanoseconds of the monotonic clock when it began and ended.
 */
#include "base/clock.h"
#include "xrdma/channel.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
	SAMPLES = 25,
	BREAKS = 15,
	IDLE_CHANNELS = 1000,
	IDLE_MS = 2000,
	PATIENCE_MS = 10000,
	LONG_NS = 50000000,
};

struct pair {
	struct xrdma_context *client, *server;
	int port;
	unsigned connected, recovered, closed; /* events, of both sides */
	struct xrdma_channel *accepted;        /* the last */
};

static const char *certs;

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "recovery: %s: %s\n", what, xrdma_last_error());
	exit(1);
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct pair *p = arg;

	if (event == XRDMA_CONNECTED && ch->ctx == p->server)
		p->accepted = ch;
	p->connected += event == XRDMA_CONNECTED;
	p->recovered += event == XRDMA_RECOVERED;
	p->closed += event == XRDMA_CLOSED;
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *request, void *arg)
{
	struct xrdma_msg *reply;

	require(!xrdma_msg_new(ch, 8, &reply), "reply");
	require(!xrdma_reply(request, reply), "reply");
}

static const struct xrdma_handlers handlers = {.on_event = on_event, .on_msg = on_msg};

static void set_file(struct xrdma_conf *conf, const char *name, const char *file)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", certs, file);
	require(!xrdma_conf_set(conf, name, path), name);
}

/* options: name, value..., NULL */
static struct xrdma_context *open_context(bool tls, const char *const *options)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;

	require(!xrdma_conf_new(&conf), "options");
	require(!xrdma_conf_set(conf, "tls", tls ? "on" : "off"), "tls");
	require(!xrdma_conf_set(conf, "log", "error"), "log"); /* plain TCP is what was asked for */
	if (tls) {
		set_file(conf, "tls_ca", "ca.pem");
		set_file(conf, "tls_cert", "cert.pem");
		set_file(conf, "tls_key", "key.pem");
		require(!xrdma_conf_set(conf, "tls_name", "server.example"), "tls_name");
	}
	for (; options && *options; options += 2)
		require(!xrdma_conf_set(conf, options[0], options[1]), options[0]);
	require(!xrdma_open(conf, &ctx), "open");
	xrdma_conf_free(conf);
	return ctx;
}

static void pair_open(struct pair *p, bool tls, const char *const *options)
{
	struct xrdma_listener *listener;

	*p = (struct pair){0};
	p->client = open_context(tls, options);
	p->server = open_context(tls, options);
	require(!xrdma_listen(p->server, "*:0", &handlers, p, &listener), "listen");
	p->port = xrdma_listener_port(listener);
}

static void pair_close(struct pair *p)
{
	xrdma_close(p->client);
	xrdma_close(p->server);
}

/* Until both sides have seen it so often. */
static void until(struct pair *p, const unsigned *count, unsigned n)
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * NSEC_PER_MSEC;

	while (*count < n) {
		xrdma_poll(p->client);
		xrdma_poll(p->server);
		require(clock_now_ns() < end, "it takes too long");
	}
}

static struct xrdma_channel *dial(struct pair *p, unsigned host)
{
	unsigned n = p->connected + 2;
	struct xrdma_channel *ch;
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.%u:%d", host, p->port);
	require(!xrdma_connect(p->client, address, &handlers, p, &ch), "connect");
	until(p, &p->connected, n);
	return ch;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *samples, unsigned n)
{
	qsort(samples, n, sizeof(samples[0]), compare);
	return samples[n / 2];
}

/* ---- set-up ---- */

enum way { PLAIN, FULL, RESUMED, WAYS };

static const char *const way_names[WAYS] = {"plain", "full", "resumed"};

/* Of hosts never seen before there is no ticket: only the latest 64 are kept. */
static double reconnect_us(struct pair *p, enum way way, unsigned i)
{
	uint64_t start = clock_now_ns(), took;
	struct xrdma_channel *ch = dial(p, way == FULL ? 2 + i : 1);

	took = clock_now_ns() - start;
	xrdma_channel_close(ch);
	until(p, &p->closed, p->connected);
	return (double)took / 1e3;
}

static void reconnect(void)
{
	static const char *const caches[] = {"0", "64"};
	double us[2][WAYS][SAMPLES];
	struct pair pairs[2][2];

	for (unsigned c = 0; c < 2; c++) {
		const char *options[] = {"qp_cache", caches[c], NULL};

		for (unsigned tls = 0; tls < 2; tls++) {
			pair_open(&pairs[c][tls], tls, options);
			reconnect_us(&pairs[c][tls], PLAIN, 0); /* and the first ticket */
		}
	}
	for (unsigned i = 0; i < SAMPLES; i++) {
		for (unsigned c = 0; c < 2; c++) {
			for (enum way w = 0; w < WAYS; w++)
				us[c][w][i] = reconnect_us(&pairs[c][w != PLAIN], w, i);
		}
	}
	for (unsigned c = 0; c < 2; c++) {
		for (enum way w = 0; w < WAYS; w++)
			printf("{\"bench\": \"reconnect\", \"way\": \"%s\", \"cache\": %s, "
			       "\"us\": %.1f}\n",
			       way_names[w], caches[c], median(us[c][w], SAMPLES));
		require(pairs[c][1].client->boot.n_tls_resumed == SAMPLES, "resumption");
		pair_close(&pairs[c][0]);
		pair_close(&pairs[c][1]);
	}
}

/* ---- recovery ---- */

static double break_ms(struct pair *p, struct xrdma_channel *ch, bool cut)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned n = p->recovered + 2;
	uint64_t start = clock_now_ns();

	require(!ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE), "break");
	if (cut)
		shutdown(xr_boot_fd(ch->boot), SHUT_RDWR);
	until(p, &p->recovered, n);
	return (double)(clock_now_ns() - start) / 1e6;
}

static void break_all(void)
{
	static const struct {
		const char *name;
		bool cut, tls;
	} ways[] = {{"queue pair", false, false},
		    {"queue pair, TCP", true, false},
		    {"queue pair, TCP with TLS", true, true}};
	/* One that breaks again at once waits before it tries, longer each time. */
	const char *options[] = {"backoff_max_ms", "10", NULL};
	enum { N = sizeof(ways) / sizeof(ways[0]) };
	struct xrdma_channel *ch[N];
	double ms[N][BREAKS];
	struct pair pairs[N];

	for (unsigned w = 0; w < N; w++) {
		pair_open(&pairs[w], ways[w].tls, options);
		ch[w] = dial(&pairs[w], 1);
	}
	for (unsigned i = 0; i < BREAKS; i++) {
		for (unsigned w = 0; w < N; w++) {
			poll(NULL, 0, 15);
			ms[w][i] = break_ms(&pairs[w], ch[w], ways[w].cut);
		}
	}
	for (unsigned w = 0; w < N; w++) {
		printf("{\"bench\": \"break\", \"way\": \"%s\", \"ms\": %.3f}\n", ways[w].name,
		       median(ms[w], BREAKS));
		pair_close(&pairs[w]);
	}
}

/* ---- idle ---- */

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

/* Both sides asleep until there is something. Milliseconds. */
static uint64_t sleep_on_both(struct pair *p, uint64_t ms)
{
	struct pollfd fds[2] = {{.fd = xrdma_get_event_fd(p->client), .events = POLLIN},
				{.fd = xrdma_get_event_fd(p->server), .events = POLLIN}};
	uint64_t start = clock_now_ns(), end = start + ms * NSEC_PER_MSEC;

	while (clock_now_ns() < end) {
		poll(fds, 2, (int)((end - clock_now_ns()) / NSEC_PER_MSEC) + 1);
		if (fds[0].revents)
			xrdma_process_event(p->client);
		if (fds[1].revents)
			xrdma_process_event(p->server);
	}
	return (clock_now_ns() - start) / NSEC_PER_MSEC;
}

static void idle(void)
{
	static const char *const every[] = {"0", "1000"};
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (unsigned e = 0; e < 2; e++) {
		/* Windows are small: thousands of them are promised receives. */
		const char *options[] = {"keepalive_ms", every[e], "window", "4", "control", "4",
					 "srq_max",      "65536",  NULL};
		struct pair p;
		double before;
		uint64_t ms;

		pair_open(&p, false, options);
		for (unsigned i = 0; i < IDLE_CHANNELS; i++)
			dial(&p, 1);
		sleep_on_both(&p, IDLE_MS / 4);
		before = cpu_ms();
		ms = sleep_on_both(&p, IDLE_MS);
		printf("{\"bench\": \"idle\", \"keepalive_ms\": %s, \"cpu_ms_per_s\": %.3f}\n",
		       every[e], (cpu_ms() - before) * 1e3 / (double)ms);
		pair_close(&p);
	}
}

/* ---- across a link ---- */

static void serve(const char *port)
{
	struct xrdma_context *ctx = open_context(false, NULL);
	struct xrdma_listener *listener;
	struct pair p = {.server = ctx};
	char address[32];

	snprintf(address, sizeof(address), "*:%s", port);
	require(!xrdma_listen(ctx, address, &handlers, &p, &listener), "listen");
	xrdma_run(ctx, -1);
}

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	require(!status, "a call");
	xrdma_msg_free(reply);
	*(bool *)arg = true;
}

static void call_for(const char *address, double seconds)
{
	struct xrdma_context *ctx = open_context(false, NULL);
	struct pair p = {.client = ctx};
	struct xrdma_channel *ch;
	uint64_t end;

	require(!xrdma_connect(ctx, address, &handlers, &p, &ch), "connect");
	while (!p.connected && !p.closed)
		xrdma_poll(ctx);
	for (end = clock_now_ns() + (uint64_t)(seconds * 1e9); clock_now_ns() < end;) {
		uint64_t start = clock_now_ns();
		struct xrdma_msg *request;
		bool ended = false;

		require(!xrdma_msg_new(ch, 8, &request), "request");
		require(!xrdma_call(ch, request, 0, done, &ended, NULL), "call");
		while (!ended)
			xrdma_run(ctx, 1);
		if (clock_now_ns() - start > LONG_NS)
			printf("{\"bench\": \"gap\", \"from_ns\": %llu, \"to_ns\": %llu}\n",
			       (unsigned long long)start, (unsigned long long)clock_now_ns());
	}
	xrdma_close(ctx);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	certs = argc > 2 ? argv[2] : "";
	if (!strcmp(what, "reconnect") && argc == 3)
		reconnect();
	else if (!strcmp(what, "break") && argc == 3)
		break_all();
	else if (!strcmp(what, "idle") && argc == 2)
		idle();
	else if (!strcmp(what, "server") && argc == 3)
		serve(argv[2]);
	else if (!strcmp(what, "client") && argc == 4)
		call_for(argv[2], strtod(argv[3], NULL));
	else
		return fputs("recovery reconnect|break CERTS, recovery idle, recovery server PORT, "
			     "recovery client HOST:PORT SECONDS\n",
			     stderr),
		       1;
	return 0;
}
