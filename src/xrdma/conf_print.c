/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/conf_priv.h"

/* What is formatting to scdoc is text to us. */
static void put_scdoc(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '*')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void print_scdoc(FILE *out, const struct xr_option *o, const char *range, const char *def)
{
	fprintf(out, "*%s* = %s\n\t", o->name, range);
	put_scdoc(out, o->doc);
	if (def[0] != '\0')
		fprintf(out, " Default: %s.", def);
	if (o->runtime)
		fprintf(out, " May be changed at run time.");
	fprintf(out, "\n\n");
}

static void print_markdown(FILE *out, const struct xr_option *o, const char *range, const char *def)
{
	fprintf(out, "| `%s` | %s | %s | %s | %s |\n", o->name, range, def, o->runtime ? "yes" : "",
		o->doc);
}

void xr_conf_print(FILE *out, enum xr_conf_format format)
{
	char range[XR_OPTION_TEXT], def[XR_OPTION_TEXT];

	if (format == XR_CONF_MARKDOWN)
		fprintf(out, "| option | values | default | at run time | meaning |\n"
			     "|---|---|---|---|---|\n");
	for (unsigned i = 0; i < xr_n_options; i++) {
		xr_option_range(&xr_options[i], range);
		xr_option_default(&xr_options[i], def);
		if (format == XR_CONF_MARKDOWN)
			print_markdown(out, &xr_options[i], range, def);
		else
			print_scdoc(out, &xr_options[i], range, def);
	}
}
