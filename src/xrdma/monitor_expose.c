/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures in the Prometheus text exposition format: samples of a name stand together, under one
 * TYPE. */
#include "xrdma/monitor_read.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void put_escaped(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* Open: the caller may add labels, and closes. */
static void put_labels(const struct xr_monitor *m, FILE *out)
{
	const struct xr_monitor_info *info = xr_monitor_info(m);

	fprintf(out, "{pid=\"%d\",context=\"%u\",program=\"", (int)info->pid, info->context);
	put_escaped(info->program, out);
	fputs("\",device=\"", out);
	put_escaped(info->device, out);
	fputc('"', out);
}

/* Its index among the counters of m, or n_counters. Contexts of one version have it at `hint`. */
static uint32_t counter_called(const struct xr_monitor *m, const char *name, uint32_t hint)
{
	uint32_t n = xr_monitor_info(m)->n_counters;

	if (hint < n && strcmp(xr_monitor_counter_name(m, hint), name) == 0)
		return hint;
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(xr_monitor_counter_name(m, i), name) == 0)
			return i;
	}
	return n;
}

static bool counter_before(struct xr_monitor *const *list, int n, const char *name)
{
	for (int i = 0; i < n; i++) {
		if (counter_called(list[i], name, 0) < xr_monitor_info(list[i])->n_counters)
			return true;
	}
	return false;
}

static void expose_counter(struct xr_monitor *const *list, uint64_t *const *values, int first,
			   int n, uint32_t hint, FILE *out)
{
	const char *name = xr_monitor_counter_name(list[first], hint);
	bool gauge = xr_monitor_counter_kind(list[first], hint) == XR_KIND_GAUGE;
	const char *suffix = gauge ? "" : "_total";

	fprintf(out, "# TYPE xrdma_%s%s %s\n", name, suffix, gauge ? "gauge" : "counter");
	for (int i = first; i < n; i++) {
		uint32_t at = counter_called(list[i], name, hint);

		if (at == xr_monitor_info(list[i])->n_counters || !values[i])
			continue;
		fprintf(out, "xrdma_%s%s", name, suffix);
		put_labels(list[i], out);
		fprintf(out, "} %" PRIu64 "\n", values[i][at]);
	}
}

/* Buckets by powers of two, in seconds. */
static void expose_hist_of(const struct xr_monitor *m, const char *name,
			   const struct xr_hist_copy *h, FILE *out)
{
	uint64_t below = 0;

	for (unsigned i = 0; i < XR_HIST_BUCKETS; i++) {
		below += h->bucket[i];
		if ((i + 1) % XR_HIST_SUB || i + 1 < XR_HIST_SUB * 4 || i + 1 == XR_HIST_BUCKETS)
			continue;
		fprintf(out, "xrdma_%s_seconds_bucket", name);
		put_labels(m, out);
		fprintf(out, ",le=\"%.9g\"} %" PRIu64 "\n",
			(double)(hist_low(i + 1, XR_HIST_BITS) - 1) / 1e9, below);
	}
	fprintf(out, "xrdma_%s_seconds_bucket", name);
	put_labels(m, out);
	fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\nxrdma_%s_seconds_sum", h->count, name);
	put_labels(m, out);
	fprintf(out, "} %.9g\nxrdma_%s_seconds_count", (double)h->sum / 1e9, name);
	put_labels(m, out);
	fprintf(out, "} %" PRIu64 "\n", h->count);
}

static const char *hist_name_or_none(const struct xr_monitor *m, uint32_t i)
{
	return i < xr_monitor_info(m)->n_hists ? xr_monitor_hist_name(m, i) : "";
}

/* Those that the first context has; contexts of other versions join where names agree. */
static void expose_hists(struct xr_monitor *const *list, int n, FILE *out)
{
	struct xr_hist_copy h;

	for (uint32_t i = 0; n && i < xr_monitor_info(list[0])->n_hists; i++) {
		const char *name = xr_monitor_hist_name(list[0], i);

		fprintf(out, "# TYPE xrdma_%s_seconds histogram\n", name);
		for (int k = 0; k < n; k++) {
			if (strcmp(hist_name_or_none(list[k], i), name) != 0)
				continue;
			xr_monitor_hist_copy(list[k], i, &h);
			expose_hist_of(list[k], name, &h, out);
		}
	}
}

void xr_monitor_expose(struct xr_monitor *const *list, int n, FILE *out)
{
	uint64_t **values = calloc((size_t)n + 1, sizeof(*values));

	if (!values)
		return;
	for (int i = 0; i < n; i++) {
		values[i] = malloc((xr_monitor_info(list[i])->n_counters + 1) * sizeof(uint64_t));
		if (values[i] && xr_monitor_counters(list[i], values[i])) {
			free(values[i]); /* its process was stopped while it wrote */
			values[i] = NULL;
		}
	}
	for (int i = 0; i < n; i++) {
		for (uint32_t k = 0; k < xr_monitor_info(list[i])->n_counters; k++) {
			if (!counter_before(list, i, xr_monitor_counter_name(list[i], k)))
				expose_counter(list, values, i, n, k, out);
		}
	}
	expose_hists(list, n, out);
	for (int i = 0; i < n; i++)
		free(values[i]);
	free(values);
}
