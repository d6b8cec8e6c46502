/* SPDX-License-Identifier: BSD-2-Clause */
/* xr-ping HOST: one target. */
#include "base/clock.h"
#include "report.h"
#include "sides.h"

#include <stdio.h>

enum { PROBES_KEPT = 10000 /* of the report in JSON */ };

struct session {
	const struct xr_options *options;
	json_t *probes;
};

static void on_connected(struct xr_pinger *p)
{
	const struct session *s = p->arg;

	if (!s->options->json && p->sent == 0)
		printf("xr-ping %s: %u bytes, device %s, by %s\n", p->address, p->probing.size,
		       xrdma_device(p->ctx), xr_transport_name(p->transport));
}

static void on_probe(struct xr_pinger *p, const struct xr_probe *probe)
{
	const struct session *s = p->arg;

	if (s->options->json) {
		if (json_array_size(s->probes) < PROBES_KEPT)
			json_array_append_new(s->probes, xr_report_probe_json(probe));
	} else if (!s->options->quiet) {
		xr_report_probe(p, probe);
		fflush(stdout);
	}
}

static void report(const struct xr_pinger *p, const struct session *s)
{
	json_t *all;

	if (!s->options->json) {
		xr_report_summary(p, clock_now_ns());
		return;
	}
	all = xr_report_json(p, clock_now_ns());
	json_object_set(all, "probes", s->probes);
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(all);
}

int xr_ping_run(const struct xr_options *options)
{
	static struct xr_pinger pinger; /* its histograms are large */
	struct session session = {.options = options, .probes = json_array()};
	struct xr_pinger *p = &pinger;
	struct xrdma_context *ctx;
	int ret = XR_STATUS_FAILED;

	if (xr_open(options, &ctx)) {
		json_decref(session.probes);
		return ret;
	}
	*p = (struct xr_pinger){.ctx = ctx,
				.address = options->hosts[0],
				.probing = options->probing,
				.on_connected = on_connected,
				.on_probe = on_probe,
				.arg = &session};
	xr_catch_signals(ctx);
	xr_pinger_start(p, clock_now_ns());
	while (!p->ended && !xr_stopped) {
		uint64_t due = xr_pinger_step(p, clock_now_ns());

		if (!p->ended)
			xr_wait(ctx, due, p->in_flight ? p->last_sent_ns : 0, options->poll);
	}
	p->sent -= p->in_flight; /* interrupted: they are neither answered nor lost */
	if (p->status)
		fprintf(stderr, "xr-ping: %s: no connection: %s\n", p->address, p->why);
	else
		report(p, &session);
	if (!p->status)
		ret = p->answered ? 0 : XR_STATUS_FAILED;
	p->stopped = true;
	p->on_probe = NULL; /* what is still on its way is nobody's loss */
	xrdma_close(ctx);
	json_decref(session.probes);
	return ret;
}
