/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress.h"

#include <stdio.h>

#define ERASE "\r\033[K"

void xr_progress(const struct xr_options *options, const struct xr_job *job, uint64_t done)
{
	if (!options->progress)
		return;
	fprintf(stderr, ERASE "%s, %u bytes, %u in flight, %u channels, %u threads: %llu done",
		job->test, job->request_bytes, job->in_flight, job->channels, job->threads,
		(unsigned long long)done);
	fflush(stderr);
}

void xr_progress_end(const struct xr_options *options)
{
	if (options->progress)
		fputs(ERASE, stderr);
}
