/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct xr_collection {
	FILE *json, *svg; /* may be NULL */
	bool text;
	struct xr_result **results;
	unsigned n, size;
};

static void collect(struct xr_bench *bench, struct xr_result *result)
{
	struct xr_collection *c = bench->collection;

	if (c->text)
		xr_text_result(result);
	if (result->problem[0])
		fprintf(stderr, "xr-perf: %s: %s\n", result->job.test, result->problem);
	if (c->n == c->size) {
		unsigned size = c->size ? 2 * c->size : 16;
		struct xr_result **more = realloc(c->results, size * sizeof(struct xr_result *));

		if (!more) {
			fprintf(stderr, "xr-perf: out of memory for results\n");
			exit(XR_STATUS_FAILED);
		}
		c->results = more;
		c->size = size;
	}
	c->results[c->n++] = result;
}

static int open_file(const char *path, FILE **ret_file)
{
	FILE *f;

	if (!path)
		return 0;
	f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	if (!f) {
		fprintf(stderr, "xr-perf: %s cannot be written: %s\n", path, strerror(errno));
		return -errno;
	}
	*ret_file = f;
	return 0;
}

int xr_report_open(struct xr_bench *bench)
{
	struct xr_collection *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	bench->collection = c;
	bench->report = collect;
	ret = open_file(bench->options->json, &c->json);
	if (!ret)
		ret = open_file(bench->options->svg, &c->svg);
	c->text = c->json != stdout && c->svg != stdout;
	return ret;
}

void xr_report_begin(struct xr_bench *bench)
{
	if (bench->collection->text)
		xr_text_head(bench);
}

static int finish(FILE *file, int ret, const char *path)
{
	if (!file)
		return 0;
	if (fflush(file) || ferror(file))
		ret = -EIO;
	if (ret)
		fprintf(stderr, "xr-perf: %s was not written: %s\n", path, strerror(-ret));
	if (file != stdout && fclose(file))
		ret = -EIO;
	return ret;
}

int xr_report_end(struct xr_bench *bench)
{
	struct xr_collection *c = bench->collection;
	const struct xr_result *const *results = (const struct xr_result *const *)c->results;
	int json = c->json ? xr_json_write(bench, results, c->n, c->json) : 0;
	int svg = c->svg ? xr_plot_write(bench, results, c->n, c->svg) : 0;

	json = finish(c->json, json, bench->options->json);
	svg = finish(c->svg, svg, bench->options->svg);
	for (unsigned i = 0; i < c->n; i++)
		free(c->results[i]);
	free(c->results);
	free(c);
	return json ? json : svg;
}
