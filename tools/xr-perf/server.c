/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One service for each thread: a context with a port of its own, so that services share nothing.
 * INFO tells clients the ports. A client's channels may be in any of them.
 */
#include "server.h"

#include "guest.h"
#include "loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than the default: the smaller of both sides counts, and the client knows what it wants. */
static const char *const generous[][2] = {
	{"window", "256"}, {"max_calls", "65536"}, {"max_channels", "65536"}, {"srq_max", "65536"}};

struct server {
	const struct xr_options *options;
	struct xr_perf_info info;
	struct xr_service services[XR_PERF_MAX_THREADS];
	pthread_t threads[XR_PERF_MAX_THREADS];
	atomic_bool stop;
	atomic_bool failed;
};

static struct server server;

void xr_server_stop(void)
{
	atomic_store(&server.stop, true);
	for (uint32_t i = 0; i < server.info.n_threads; i++)
		xrdma_stop(server.services[i].ctx);
}

static void on_signal(int signal)
{
	xr_server_stop();
}

static int complain(const char *what)
{
	fprintf(stderr, "xr-perf: %s: %s\n", what, xrdma_last_error());
	return -1;
}

/* ---- start ---- */

static int open_context(struct xr_service *s)
{
	struct xrdma_conf *conf;
	int ret = xrdma_conf_new(&conf);

	if (ret)
		return complain("configuration");
	for (unsigned i = 0; !ret && i < sizeof(generous) / sizeof(generous[0]); i++)
		ret = xrdma_conf_set(conf, generous[i][0], generous[i][1]);
	if (!ret)
		ret = xr_confs_apply(&s->options->confs, conf);
	if (!ret)
		ret = xrdma_open(conf, &s->ctx);
	xrdma_conf_free(conf);
	return ret ? complain("cannot start") : 0;
}

static int listen_on(struct xr_service *s, uint32_t port)
{
	const char *host = s->options->listen;
	char address[XR_ADDRESS_BYTES];
	int ret;

	xr_address_join(host, port, address);
	ret = xrdma_listen(s->ctx, address, &xr_guest_handlers, s, &s->listener);
	if (!ret)
		return 0;
	complain("cannot start");
	if (ret == -EADDRINUSE)
		fprintf(stderr,
			"xr-perf: another server may have port %u: end it, or choose "
			"another by -p here and HOST:PORT at the client\n",
			port);
	return ret;
}

static int start(struct server *s, uint32_t i)
{
	struct xr_service *service = &s->services[i];
	uint32_t port = s->options->port ? s->options->port + i : 0;
	int ret;

	service->options = s->options;
	service->info = &s->info;
	ret = open_context(service);
	if (!ret)
		ret = listen_on(service, port);
	if (ret)
		return ret;
	s->info.ports[i] = (uint16_t)xrdma_listener_port(service->listener);
	return 0;
}

static int start_all(struct server *s)
{
	uint32_t n = s->options->threads ? s->options->threads : 1;

	if (s->options->port + n - 1 > UINT16_MAX) {
		fprintf(stderr, "xr-perf: %u threads from port %u upwards: there are only 65535\n",
			n, s->options->port);
		return -1;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (start(s, i)) {
			xrdma_close(s->services[i].ctx);
			return -1;
		}
		s->info.n_threads++;
	}
	snprintf(s->info.device, sizeof(s->info.device), "%s", xrdma_device(s->services[0].ctx));
	return 0;
}

/* ---- run ---- */

static int run_loop(struct xr_service *s)
{
	struct xr_loop loop;
	int ret = xr_loop_init(&loop, 1, s->options->wait == XR_WAIT_EVENT);

	if (!ret)
		ret = xr_loop_add(&loop, s->ctx);
	while (ret >= 0 && !atomic_load_explicit(&server.stop, memory_order_relaxed))
		ret = xr_loop_turn(&loop, -1);
	xr_loop_fini(&loop);
	return ret;
}

static void *run(void *arg)
{
	struct xr_service *s = arg;
	int ret;

	ret = s->options->wait == XR_WAIT_DEFAULT ? xrdma_run(s->ctx, -1) : run_loop(s);
	if (ret < 0) {
		complain("the server ends");
		atomic_store(&server.failed, true);
		xr_server_stop();
	}
	return NULL;
}

static void run_all(struct server *s)
{
	struct sigaction action = {.sa_handler = on_signal};
	uint32_t n = s->info.n_threads, started = 1;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	for (; started < n; started++) {
		if (pthread_create(&s->threads[started], NULL, run, &s->services[started])) {
			fprintf(stderr, "xr-perf: no more threads than %u: %s\n", started,
				strerror(errno));
			atomic_store(&s->failed, true);
			xr_server_stop();
			break;
		}
	}
	run(&s->services[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(s->threads[i], NULL);
}

int xr_server_run(const struct xr_options *options)
{
	server.options = options;
	if (start_all(&server)) {
		atomic_store(&server.failed, true);
	} else {
		printf("xr-perf %s: listening on port %u", XR_VERSION, server.info.ports[0]);
		if (server.info.n_threads > 1)
			printf(" and %u more", server.info.n_threads - 1);
		printf(", device %s\n", server.info.device);
		fflush(stdout);
		run_all(&server);
	}
	for (uint32_t i = 0; i < server.info.n_threads; i++)
		xrdma_close(server.services[i].ctx);
	return atomic_load(&server.failed) ? XR_STATUS_FAILED : 0;
}
