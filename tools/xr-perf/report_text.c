/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

const char *xr_format_bytes(uint64_t bytes, char text[24])
{
	static const char units[] = "KMG";
	int unit = -1;

	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 2) {
		bytes /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(text, 24, "%llu", (unsigned long long)bytes);
	else
		snprintf(text, 24, "%llu%c", (unsigned long long)bytes, units[unit]);
	return text;
}

void xr_text_head(const struct xr_bench *bench)
{
	const struct xr_options *o = bench->options;

	if (!o->quiet)
		printf("xr-perf %s: %s here, %s at %s, %s%s%s\n\n", XR_VERSION, bench->device,
		       bench->info.device, o->address,
		       o->wait == XR_WAIT_EVENT ? "sleeping" : "polling",
		       bench->by_tcp ? ", by TCP in place of RDMA" : "",
		       o->verify ? ", every byte verified" : "");
	printf("%-9s %5s %9s %8s %7s %10s %8s %9s %9s %9s %9s\n", "test", "bytes", "in flight",
	       "channels", "threads", "messages/s", "GB/s", "us: p50", "p99", "p99.9", "max");
	fflush(stdout);
}

static double us(const struct hist *h, double share)
{
	return (double)hist_percentile(h, share) / 1e3;
}

static void extras(const struct xr_result *r)
{
	const struct xr_job *job = &r->job;

	if (job->kind == XR_JOB_CONNECT)
		printf("          connections set up and closed; the times are of set-up\n");
	else if (job->channels > 1 && job->contexts == 1)
		printf("          set-up of %.0f channels/s; each takes %.1f KiB, and %.1f KiB "
		       "registered\n",
		       r->setups_per_s, r->bytes_per_channel / 1024,
		       r->registered_per_channel / 1024);
	else if (job->contexts > job->threads)
		printf("          %u contexts; a fair share being 1, the smallest is %.2f and the "
		       "largest %.2f\n",
		       job->contexts, r->share_min, r->share_max);
}

void xr_text_result(const struct xr_result *r)
{
	const struct xr_job *job = &r->job;
	char bytes[24];

	if (r->messages == 0 && r->problem[0])
		return;
	printf("%-9s %5s %9u %8u %7u %10.0f %8.3f", job->test,
	       job->kind == XR_JOB_CONNECT
		       ? "-"
		       : xr_format_bytes(job->request_bytes > job->reply_bytes ? job->request_bytes
									       : job->reply_bytes,
					 bytes),
	       job->in_flight, job->channels, job->threads, r->messages_per_s, r->gb_per_s);
	if (r->times.n)
		printf(" %9.2f %9.2f %9.2f %9.2f\n", us(&r->times, 0.5), us(&r->times, 0.99),
		       us(&r->times, 0.999), us(&r->times, 1));
	else
		printf(" %9s %9s %9s %9s\n", "-", "-", "-", "-");
	extras(r);
	fflush(stdout);
}
