/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/trace_file.h"

#include "xrdma/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPANS = 4096 };

struct span {
	const char *name;
	uint32_t track;
	uint64_t id, from, to;
};

struct xr_trace_file {
	FILE *out;
	unsigned n, dropped;
	struct span spans[SPANS];
};

int xr_trace_file_new(const char *prefix, unsigned number, struct xr_trace_file **ret_file)
{
	struct xr_trace_file *f = calloc(1, sizeof(*f));
	char path[600];

	if (!f)
		return xr_error(-ENOMEM, "out of memory for a trace");
	snprintf(path, sizeof(path), "%s.%d.%u.json", prefix, (int)getpid(), number);
	f->out = fopen(path, "we");
	if (!f->out) {
		int err = -errno;

		free(f);
		return xr_error(err, "trace_file: %s cannot be written: %s", path, strerror(-err));
	}
	fprintf(f->out,
		"[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":"
		"\"%s context %u\"}}",
		(int)getpid(), program_invocation_short_name, number);
	*ret_file = f;
	return 0;
}

void xr_trace_span(struct xr_trace_file *f, const char *name, uint32_t track, uint64_t id,
		   uint64_t from_ns, uint64_t to_ns)
{
	if (f->n == SPANS)
		f->dropped++;
	else
		f->spans[f->n++] = (struct span){name, track, id, from_ns, to_ns};
}

/* One end of a span, in microseconds. Asynchronous events: calls in flight overlap. */
static void write_end(const struct xr_trace_file *f, const struct span *s, char phase, uint64_t at)
{
	fprintf(f->out,
		",\n{\"ph\":\"%c\",\"cat\":\"xrdma\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32
		",\"id\":\"%" PRIx64 "\",\"ts\":%" PRIu64 ".%03u}",
		phase, s->name, (int)getpid(), s->track, s->id, at / 1000, (unsigned)(at % 1000));
}

unsigned xr_trace_file_flush(struct xr_trace_file *f)
{
	unsigned dropped = f->dropped;

	if (f->n == 0)
		return 0;
	for (unsigned i = 0; i < f->n; i++) {
		write_end(f, &f->spans[i], 'b', f->spans[i].from);
		write_end(f, &f->spans[i], 'e', f->spans[i].to);
	}
	(void)fflush(f->out); /* a full disk costs spans, nothing else */
	f->n = f->dropped = 0;
	return dropped;
}

void xr_trace_file_free(struct xr_trace_file *f)
{
	if (!f)
		return;
	xr_trace_file_flush(f);
	fputs("\n]\n", f->out);
	fclose(f->out);
	free(f);
}
