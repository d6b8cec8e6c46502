/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"
#include "svg.h"
#include "tests.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200, MOST_LINES = 12 };

#define NINES 4.0 /* the percentile axis ends at 99.99 */

struct results {
	const struct xr_result *const *all;
	unsigned n;
};

static const char *varies(const struct xr_result *r)
{
	return xr_test_find(r->job.test)->varies;
}

static double us(const struct xr_result *r, double share)
{
	return (double)hist_percentile(&r->times, share) / 1e3;
}

/* ---- times by percentile ---- */

static bool by_percentile(const struct xr_result *r)
{
	return r->times.n && !varies(r);
}

static void times_line(FILE *f, const struct xr_result *r, const struct xr_axis *x_axis,
		       const struct xr_axis *y_axis, unsigned color)
{
	struct xr_point points[STEPS + 1];

	for (unsigned i = 0; i <= STEPS; i++) {
		double nines = NINES * i / STEPS;

		points[i].x = xr_axis_at(x_axis, nines);
		points[i].y = xr_axis_at(y_axis, us(r, 1 - pow(10, -nines)));
	}
	xr_svg_line(f, points, STEPS + 1, color, "");
}

static void percentile_ticks(FILE *f, double top, const struct xr_axis *x_axis)
{
	static const struct {
		double share;
		const char *text;
	} ticks[] = {{0, "min"},     {0.5, "50 %"},     {0.9, "90 %"},
		     {0.99, "99 %"}, {0.999, "99.9 %"}, {0.9999, "99.99 %"}};

	for (unsigned i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++)
		xr_svg_tick_x(f, top, xr_axis_at(x_axis, -log10(1 - ticks[i].share)),
			      ticks[i].text);
}

static void times_panel(FILE *f, double top, const struct results *results)
{
	struct xr_area a = xr_svg_area(top);
	struct xr_axis x_axis = {0, NINES, false, a.left, a.right}, y_axis;
	double low = INFINITY, high = 0;
	unsigned row = 0;

	for (unsigned i = 0; i < results->n; i++) {
		if (!by_percentile(results->all[i]))
			continue;
		low = fmin(low, us(results->all[i], 0));
		high = fmax(high, us(results->all[i], 0.9999));
	}
	y_axis = xr_axis_of(low, high, true, a.bottom, a.top);
	xr_svg_panel(f, top, "Times by percentile");
	xr_svg_label_x(f, top, "share of all that took no longer");
	xr_svg_label_y(f, top, false, "microseconds");
	percentile_ticks(f, top, &x_axis);
	xr_svg_ticks_y(f, &y_axis, false);
	for (unsigned i = 0; i < results->n && row < MOST_LINES; i++) {
		const struct xr_result *r = results->all[i];
		char text[64], bytes[24];

		if (!by_percentile(r))
			continue;
		times_line(f, r, &x_axis, &y_axis, row);
		snprintf(text, sizeof(text), "%s %s", r->job.test,
			 r->job.kind == XR_JOB_CONNECT
				 ? "set-up"
				 : xr_format_bytes(r->job.request_bytes, bytes));
		xr_svg_legend(f, top, row, row, "", text);
		row++;
	}
}

/* ---- what varies ---- */

static double parameter(const struct xr_result *r)
{
	const struct xr_job *job = &r->job;

	if (job->threads > 1 || strcmp(job->test, "threads") == 0)
		return job->threads;
	return strcmp(job->test, "channels") == 0 ? job->channels : job->in_flight;
}

/* Results from first on that are of one series; they follow each other. */
static unsigned series(const struct results *results, unsigned first)
{
	const struct xr_job *job = &results->all[first]->job;
	unsigned n = 0;

	while (first + n < results->n &&
	       strcmp(results->all[first + n]->job.test, job->test) == 0 &&
	       results->all[first + n]->job.request_bytes == job->request_bytes &&
	       (n == 0 ||
		parameter(results->all[first + n]) > parameter(results->all[first + n - 1])))
		n++;
	return n;
}

static void series_line(FILE *f, const struct xr_result *const *all, unsigned n,
			const struct xr_axis *x_axis, const struct xr_axis *y_axis, double share,
			unsigned color)
{
	static const char *const dashes[] = {"", "6 4", "2 3"};
	struct xr_point points[MOST_LINES * 4];

	for (unsigned i = 0; i < n && i < MOST_LINES * 4; i++) {
		points[i].x = xr_axis_at(x_axis, parameter(all[i]));
		points[i].y =
			xr_axis_at(y_axis, share > 0 ? us(all[i], share) : all[i]->messages_per_s);
	}
	xr_svg_line(f, points, n < MOST_LINES * 4 ? n : MOST_LINES * 4, color, dashes[color]);
}

static void series_lines(FILE *f, double top, const struct xr_result *const *all, unsigned n)
{
	static const struct {
		const char *name;
		const char *dash;
		double share;
	} lines[] = {{"messages/s", "", 0}, {"p50", "6 4", 0.5}, {"p99", "2 3", 0.99}};
	struct xr_area a = xr_svg_area(top);
	struct xr_axis x_axis = {1, fmax(parameter(all[n - 1]), 2), true, a.left + 20,
				 a.right - 20};
	double low = INFINITY, high = 0, most = 0;
	struct xr_axis rates, times;
	char text[32];

	for (unsigned i = 0; i < n; i++) {
		most = fmax(most, all[i]->messages_per_s);
		low = fmin(low, us(all[i], 0.5));
		high = fmax(high, us(all[i], 0.99));
		xr_svg_tick_x(f, top, xr_axis_at(&x_axis, parameter(all[i])),
			      xr_svg_number(parameter(all[i]), text));
	}
	rates = xr_axis_of(0, most, false, a.bottom, a.top);
	times = xr_axis_of(low, high, true, a.bottom, a.top);
	xr_svg_ticks_y(f, &rates, false);
	xr_svg_ticks_y(f, &times, true);
	for (unsigned i = 0; i < 3; i++) {
		series_line(f, all, n, &x_axis, i ? &times : &rates, lines[i].share, i);
		xr_svg_legend(f, top, i, i, lines[i].dash, lines[i].name);
	}
}

static void series_panel(FILE *f, double top, const struct xr_result *const *all, unsigned n)
{
	char title[96], bytes[24];

	snprintf(title, sizeof(title), "%s, %s bytes", all[0]->job.test,
		 xr_format_bytes(all[0]->job.request_bytes, bytes));
	xr_svg_panel(f, top, title);
	xr_svg_label_x(f, top, varies(all[0]));
	xr_svg_label_y(f, top, false, "messages/s");
	xr_svg_label_y(f, top, true, "round trip, microseconds");
	series_lines(f, top, all, n);
}

/* ---- all of them ---- */

/* With no file: only count the panels. */
static unsigned panels(FILE *f, const struct results *results)
{
	unsigned n = 0, length;
	bool times = false;

	for (unsigned i = 0; i < results->n; i++)
		times |= by_percentile(results->all[i]);
	if (times && f)
		times_panel(f, 40, results);
	n += times;
	for (unsigned i = 0; i < results->n; i += length) {
		length = 1;
		if (!varies(results->all[i]))
			continue;
		length = series(results, i);
		if (f)
			series_panel(f, 40 + (double)n * XR_SVG_PANEL, results->all + i, length);
		n++;
	}
	return n;
}

int xr_plot_write(const struct xr_bench *bench, const struct xr_result *const *results, unsigned n,
		  FILE *file)
{
	const struct results all = {results, n};
	unsigned count = panels(NULL, &all);
	char title[400];

	if (count == 0)
		fprintf(stderr, "xr-perf: nothing to plot: one-way messages have no round trip; "
				"latency, sweep, channels and threads have\n");
	snprintf(title, sizeof(title), "xr-perf %s, %s to %s at %s", XR_VERSION, bench->device,
		 bench->info.device, bench->options->address);
	xr_svg_begin(file, title, count);
	panels(file, &all);
	xr_svg_end(file);
	return ferror(file) ? -EIO : 0;
}
