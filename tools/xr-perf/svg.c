/* SPDX-License-Identifier: BSD-2-Clause */
#include "svg.h"

#include <math.h>

/* Told apart by most eyes, also in print (Okabe and Ito's palette). */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
				     "#56b4e9", "#e69f00", "#000000", "#999999"};

enum { N_COLORS = sizeof(colors) / sizeof(colors[0]) };

double xr_axis_at(const struct xr_axis *axis, double value)
{
	double share = axis->log ? log(value / axis->low) / log(axis->high / axis->low)
				 : (value - axis->low) / (axis->high - axis->low);

	return axis->from + share * (axis->to - axis->from);
}

/* 1, 2 or 5 times a power of ten: the largest that is not above value, or the least not below. */
static double round_125(double value, bool up)
{
	static const double steps[] = {1, 2, 5, 10};
	double power = pow(10, floor(log10(value)));

	for (unsigned i = 0; i < 3; i++) {
		if (up && value <= steps[i] * power * 1.0001)
			return steps[i] * power;
		if (!up && value < steps[i + 1] * power * 0.9999)
			return steps[i] * power;
	}
	return 10 * power;
}

struct xr_axis xr_axis_of(double low, double high, bool log, double from, double to)
{
	struct xr_axis axis = {.log = log, .from = from, .to = to};

	if (!(high > 0))
		high = 1;
	if (!(low > 0))
		low = high;
	axis.low = log ? round_125(low, false) : 0;
	axis.high = round_125(high, true);
	if (log && axis.high <= axis.low)
		axis.high = 10 * axis.low;
	return axis;
}

struct xr_area xr_svg_area(double top)
{
	return (struct xr_area){.left = 80, .right = 620, .top = top + 46, .bottom = top + 340};
}

static void put_text(FILE *f, double x, double y, const char *more, const char *text)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
	for (; *text; text++) {
		if (*text == '<' || *text == '>' || *text == '&')
			fprintf(f, "&#%d;", *text);
		else
			fputc(*text, f);
	}
	fputs("</text>\n", f);
}

static void put_stroke(FILE *f, double x1, double y1, double x2, double y2, const char *color,
		       double width, const char *dash)
{
	fprintf(f,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"%.1f\" stroke-dasharray=\"%s\"/>\n",
		x1, y1, x2, y2, color, width, *dash ? dash : "none");
}

void xr_svg_begin(FILE *f, const char *title, unsigned panels)
{
	unsigned height = 40 + panels * XR_SVG_PANEL;

	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		XR_SVG_WIDTH, height, XR_SVG_WIDTH, height);
	put_text(f, 20, 26, "font-size=\"13\" fill=\"#555555\"", title);
}

void xr_svg_end(FILE *f)
{
	fputs("</svg>\n", f);
}

void xr_svg_panel(FILE *f, double top, const char *title)
{
	struct xr_area a = xr_svg_area(top);

	put_text(f, a.left, top + 30, "font-size=\"15\" font-weight=\"bold\"", title);
	fprintf(f,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
		"stroke=\"#888888\"/>\n",
		a.left, a.top, a.right - a.left, a.bottom - a.top);
}

void xr_svg_label_x(FILE *f, double top, const char *text)
{
	struct xr_area a = xr_svg_area(top);

	put_text(f, (a.left + a.right) / 2, a.bottom + 38, "text-anchor=\"middle\"", text);
}

void xr_svg_label_y(FILE *f, double top, bool right, const char *text)
{
	struct xr_area a = xr_svg_area(top);
	double x = right ? a.right + 52 : a.left - 56, y = (a.top + a.bottom) / 2;
	char more[96];

	snprintf(more, sizeof(more), "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"",
		 x, y);
	put_text(f, x, y, more, text);
}

const char *xr_svg_number(double value, char text[32])
{
	if (value >= 1e6)
		snprintf(text, 32, "%.4gM", value / 1e6);
	else if (value >= 1e4)
		snprintf(text, 32, "%.4gk", value / 1e3);
	else
		snprintf(text, 32, "%.4g", value);
	return text;
}

static double next_tick(const struct xr_axis *axis, double tick)
{
	if (axis->log)
		return round_125(tick * 1.5, true);
	return tick + axis->high / 5;
}

void xr_svg_ticks_y(FILE *f, const struct xr_axis *axis, bool right)
{
	struct xr_area a = xr_svg_area(0);
	double tick = axis->low;
	char text[32];

	for (; tick <= axis->high * 1.001; tick = next_tick(axis, tick)) {
		double y = xr_axis_at(axis, tick);

		if (!right)
			put_stroke(f, a.left, y, a.right, y, "#dddddd", 1, "");
		put_text(f, right ? a.right + 6 : a.left - 6, y + 4,
			 right ? "text-anchor=\"start\"" : "text-anchor=\"end\"",
			 xr_svg_number(tick, text));
	}
}

void xr_svg_tick_x(FILE *f, double top, double x, const char *text)
{
	struct xr_area a = xr_svg_area(top);

	put_stroke(f, x, a.top, x, a.bottom, "#eeeeee", 1, "");
	put_text(f, x, a.bottom + 18, "text-anchor=\"middle\"", text);
}

void xr_svg_line(FILE *f, const struct xr_point *points, unsigned n, unsigned color,
		 const char *dash)
{
	fprintf(f,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
		"stroke-dasharray=\"%s\" points=\"",
		colors[color % N_COLORS], *dash ? dash : "none");
	for (unsigned i = 0; i < n; i++)
		fprintf(f, "%.1f,%.1f ", points[i].x, points[i].y);
	fputs("\"/>\n", f);
}

void xr_svg_legend(FILE *f, double top, unsigned row, unsigned color, const char *dash,
		   const char *text)
{
	struct xr_area a = xr_svg_area(top);
	double x = a.right + 74, y = a.top + 12 + 20 * row;

	put_stroke(f, x, y - 4, x + 24, y - 4, colors[color % N_COLORS], 2, dash);
	put_text(f, x + 30, y, "", text);
}
