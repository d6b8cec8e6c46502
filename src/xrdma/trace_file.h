/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spans for a trace viewer (chrome://tracing, ui.perfetto.dev): a file in the Trace Event Format, a
 * JSON array. Collected in memory, written by xr_trace_file_flush(); what finds no room is dropped
 * and counted. The viewers also read a file whose end is missing because the process was killed.
 */
#ifndef XR_TRACE_FILE_H
#define XR_TRACE_FILE_H

#include <stdint.h>

struct xr_trace_file;

/* PREFIX.PID.NUMBER.json; 0 or a negative errno value, explained. */
int xr_trace_file_new(const char *prefix, unsigned number, struct xr_trace_file **ret_file);
void xr_trace_file_free(struct xr_trace_file *f); /* NULL is none */

/* name is a literal. Spans of a track and id may lie in each other, not overlap. */
void xr_trace_span(struct xr_trace_file *f, const char *name, uint32_t track, uint64_t id,
		   uint64_t from_ns, uint64_t to_ns);
/* Returns how many spans had to be dropped since the last. */
unsigned xr_trace_file_flush(struct xr_trace_file *f);

#endif
