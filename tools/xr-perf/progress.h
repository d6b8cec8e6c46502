/* SPDX-License-Identifier: BSD-2-Clause */
/* A line on standard error that says what is going on; nothing unless it is wanted. */
#ifndef XR_PERF_PROGRESS_H
#define XR_PERF_PROGRESS_H

#include "job.h"

enum { XR_PROGRESS_NS = 250000000 };

void xr_progress(const struct xr_options *options, const struct xr_job *job, uint64_t done);
void xr_progress_end(const struct xr_options *options);

#endif
