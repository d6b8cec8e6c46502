/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <errno.h>
#include <jansson.h>

static json_t *times(const struct hist *h)
{
	static const struct {
		const char *name;
		double share;
	} rows[] = {{"min", 0},       {"p50", 0.5},       {"p90", 0.9}, {"p99", 0.99},
		    {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}};
	json_t *object = json_object();

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		json_object_set_new(object, rows[i].name,
				    json_real((double)hist_percentile(h, rows[i].share) / 1e3));
	json_object_set_new(object, "mean", json_real(hist_mean(h) / 1e3));
	return object;
}

static json_t *result(const struct xr_result *r)
{
	const struct xr_job *job = &r->job;
	uint32_t larger =
		job->request_bytes > job->reply_bytes ? job->request_bytes : job->reply_bytes;
	json_t *o = json_pack(
		"{s:s s:I s:I s:I s:I s:I s:I s:I s:I s:f s:f s:f s:b s:I}", "test", job->test,
		"size_bytes", (json_int_t)larger, "request_bytes", (json_int_t)job->request_bytes,
		"reply_bytes", (json_int_t)job->reply_bytes, "in_flight",
		(json_int_t)job->in_flight, "channels", (json_int_t)job->channels, "contexts",
		(json_int_t)job->contexts, "threads", (json_int_t)job->threads, "messages",
		(json_int_t)r->messages, "seconds", r->seconds, "messages_per_s", r->messages_per_s,
		"gb_per_s", r->gb_per_s, "verified", r->verified, "errors", (json_int_t)r->errors);

	if (r->times.n)
		json_object_set_new(o, job->kind == XR_JOB_CONNECT ? "setup_us" : "rtt_us",
				    times(&r->times));
	if (r->setups_per_s > 0) {
		json_object_set_new(o, "setups_per_s", json_real(r->setups_per_s));
		json_object_set_new(o, "memory_per_channel_bytes", json_real(r->bytes_per_channel));
		json_object_set_new(o, "registered_per_channel_bytes",
				    json_real(r->registered_per_channel));
	}
	if (job->contexts > 1)
		json_object_set_new(
			o, "share",
			json_pack("{s:f s:f}", "min", r->share_min, "max", r->share_max));
	if (r->problem[0])
		json_object_set_new(o, "problem", json_string(r->problem));
	return o;
}

int xr_json_write(const struct xr_bench *bench, const struct xr_result *const *results, unsigned n,
		  FILE *file)
{
	json_t *list = json_array(), *all;
	int ret;

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, result(results[i]));
	all = json_pack("{s:s s:s s:s s:s s:s s:o}", "tool", "xr-perf", "version", XR_VERSION,
			"device", bench->device, "peer", bench->options->address, "peer_device",
			bench->info.device, "results", list);
	if (!all)
		return -ENOMEM;
	ret = json_dumpf(all, file, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
	json_decref(all);
	return ret || fputc('\n', file) == EOF ? -EIO : 0;
}
