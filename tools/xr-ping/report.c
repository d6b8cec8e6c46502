/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static const char *const layers[] = {
	[XR_RTT] = "rtt", [XR_HANDLER] = "handler", [XR_QUEUE] = "queue", [XR_WIRE] = "wire"};
static const char *const json_names[] = {[XR_RTT] = "rtt_us",
					 [XR_HANDLER] = "handler_us",
					 [XR_QUEUE] = "queue_us",
					 [XR_WIRE] = "wire_us"};

static double us(double ns)
{
	return ns / 1000;
}

static double percent_lost(const struct xr_pinger *p)
{
	return p->sent ? 100.0 * (double)p->lost / (double)p->sent : 0;
}

void xr_report_probe(const struct xr_pinger *p, const struct xr_probe *probe)
{
	if (probe->status) {
		printf("no answer from %s: seq=%llu: %s%s%s\n", p->address,
		       (unsigned long long)probe->seq, strerror(-probe->status),
		       p->ch || !*p->why ? "" : ": ", p->ch ? "" : p->why);
		return;
	}
	printf("%u bytes from %s by %s: seq=%llu rtt=%.1f us", p->probing.size, p->address,
	       xr_transport_name(probe->transport), (unsigned long long)probe->seq,
	       us((double)probe->ns[XR_RTT]));
	if (probe->split)
		printf(" (handler %.1f, queue %.1f, wire %.1f)", us((double)probe->ns[XR_HANDLER]),
		       us((double)probe->ns[XR_QUEUE]), us((double)probe->ns[XR_WIRE]));
	putchar('\n');
}

struct figures {
	double min, avg, p50, p99, max, jitter;
};

/* In microseconds. Jitter: the mean step from one to the next. */
static struct figures figures(const struct xr_times *t)
{
	const struct hist *h = &t->hist;

	return (struct figures){
		.min = us((double)h->min),
		.avg = us(hist_mean(h)),
		.p50 = us((double)hist_percentile(h, 0.50)),
		.p99 = us((double)hist_percentile(h, 0.99)),
		.max = us((double)h->max),
		.jitter = h->n > 1 ? us(t->steps_ns / (double)(h->n - 1)) : 0,
	};
}

void xr_report_summary(const struct xr_pinger *p, uint64_t now)
{
	printf("\n--- %s ---\n%llu probes, %llu answered, %.3g %% lost, %.1f s\n", p->address,
	       (unsigned long long)p->sent, (unsigned long long)p->answered, percent_lost(p),
	       (double)(now - p->began_ns) / 1e9);
	if (p->answered == 0)
		return;
	printf("%-8s %9s %9s %9s %9s %9s %9s\n", "us", "min", "avg", "p50", "p99", "max", "jitter");
	for (unsigned i = 0; i < XR_N_LAYERS; i++) {
		struct figures f;

		if (p->times[i].hist.n == 0)
			continue;
		f = figures(&p->times[i]);
		printf("%-8s %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n", layers[i], f.min, f.avg, f.p50,
		       f.p99, f.max, f.jitter);
	}
	if (p->times[XR_WIRE].hist.n == 0)
		printf("The target does not trace: only the whole is known.\n");
	if (p->transport == XRDMA_TCP)
		printf("TCP stands in for RDMA: %s\n",
		       p->transport_reason ? strerror(-p->transport_reason) : "so one side wants");
	if (p->tcp_rtt_ns)
		printf("tcp      %9.1f     when the connection was made, as the system has it\n",
		       us((double)p->tcp_rtt_ns));
	if (p->clock_error_ns)
		printf("clock    %+9.1f     the target's to ours, right to %.1f us\n",
		       us((double)p->clock_offset_ns), us((double)p->clock_error_ns));
}

json_t *xr_report_probe_json(const struct xr_probe *probe)
{
	json_t *o = json_pack("{s:I}", "seq", (json_int_t)probe->seq);

	if (probe->status)
		json_object_set_new(o, "error", json_string(strerror(-probe->status)));
	else
		json_object_set_new(o, "transport",
				    json_string(xr_transport_name(probe->transport)));
	for (unsigned i = 0; !probe->status && i < (probe->split ? XR_N_LAYERS : 1); i++)
		json_object_set_new(o, json_names[i], json_real(us((double)probe->ns[i])));
	return o;
}

json_t *xr_report_json(const struct xr_pinger *p, uint64_t now)
{
	json_t *o = json_pack("{s:s, s:i, s:I, s:I, s:I, s:f, s:f}", "target", p->address, "size",
			      (int)p->probing.size, "sent", (json_int_t)p->sent, "answered",
			      (json_int_t)p->answered, "lost", (json_int_t)p->lost, "lost_percent",
			      percent_lost(p), "seconds", (double)(now - p->began_ns) / 1e9);

	for (unsigned i = 0; i < XR_N_LAYERS; i++) {
		struct figures f;

		if (p->times[i].hist.n == 0)
			continue;
		f = figures(&p->times[i]);
		json_object_set_new(o, json_names[i],
				    json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "min", f.min, "avg",
					      f.avg, "p50", f.p50, "p99", f.p99, "max", f.max,
					      "jitter", f.jitter));
	}
	if (p->was_connected)
		json_object_set_new(o, "transport", json_string(xr_transport_name(p->transport)));
	if (p->tcp_rtt_ns)
		json_object_set_new(o, "tcp_rtt_us", json_real(us((double)p->tcp_rtt_ns)));
	if (p->clock_error_ns) {
		json_object_set_new(o, "clock_offset_us",
				    json_real(us((double)p->clock_offset_ns)));
		json_object_set_new(o, "clock_error_us", json_real(us((double)p->clock_error_ns)));
	}
	if (p->status || p->why[0])
		json_object_set_new(o, "error", json_string(p->why));
	return o;
}
