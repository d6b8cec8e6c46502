/* SPDX-License-Identifier: BSD-2-Clause */
/* Results for people (a table, a plot) and programs (JSON). */
#ifndef XR_PERF_REPORT_H
#define XR_PERF_REPORT_H

#include "job.h"

#include <stdio.h>

/* Files that are to be written are opened first: a long measurement is not lost to a wrong name.
 * 0, or -errno, said on standard error. */
int xr_report_open(struct xr_bench *bench);
void xr_report_begin(struct xr_bench *bench);
/* Write and release what was collected. */
int xr_report_end(struct xr_bench *bench);

/* report_text.c */
void xr_text_head(const struct xr_bench *bench);
void xr_text_result(const struct xr_result *result);

/* report_json.c: 0 or -EIO, -ENOMEM. */
int xr_json_write(const struct xr_bench *bench, const struct xr_result *const *results, unsigned n,
		  FILE *file);

/* plot.c: round trips by percentile, and what varies. */
int xr_plot_write(const struct xr_bench *bench, const struct xr_result *const *results, unsigned n,
		  FILE *file);

/* "64", "4K", "1M" */
const char *xr_format_bytes(uint64_t bytes, char text[24]);

#endif
