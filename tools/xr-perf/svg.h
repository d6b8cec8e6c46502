/* SPDX-License-Identifier: BSD-2-Clause */
/* Just enough of SVG for charts: panels under each other, axes, lines, legends. */
#ifndef XR_PERF_SVG_H
#define XR_PERF_SVG_H

#include <stdbool.h>
#include <stdio.h>

enum { XR_SVG_WIDTH = 860, XR_SVG_PANEL = 400 };

struct xr_axis {
	double low, high; /* of the values; both above 0 if logarithmic */
	bool log;
	double from, to; /* places in pixels */
};

struct xr_point {
	double x, y;
};

double xr_axis_at(const struct xr_axis *axis, double value);

/* An axis over these values and a little more; from 0 if it is linear. */
struct xr_axis xr_axis_of(double low, double high, bool log, double from, double to);

void xr_svg_begin(FILE *f, const char *title, unsigned panels);
void xr_svg_end(FILE *f);

/* A panel's frame and title; top is its upper edge. */
void xr_svg_panel(FILE *f, double top, const char *title);
/* What the horizontal axis, and those at the left and right, mean. */
void xr_svg_label_x(FILE *f, double top, const char *text);
void xr_svg_label_y(FILE *f, double top, bool right, const char *text);
/* Ticks with numbers: horizontal (with lines across the panel), or at the right. */
void xr_svg_ticks_y(FILE *f, const struct xr_axis *axis, bool right);
void xr_svg_tick_x(FILE *f, double top, double x, const char *text);

/* Lines have a colour by number and a dash ("" for none); legends one row each. */
void xr_svg_line(FILE *f, const struct xr_point *points, unsigned n, unsigned color,
		 const char *dash);
void xr_svg_legend(FILE *f, double top, unsigned row, unsigned color, const char *dash,
		   const char *text);

/* Where a panel's plot lies. */
struct xr_area {
	double left, right, top, bottom;
};
struct xr_area xr_svg_area(double top);

/* 1200000 is "1.2M". */
const char *xr_svg_number(double value, char text[32]);

#endif
