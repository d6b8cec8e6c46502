/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One measurement: workers are made, go through the phases together (open, warm up, measure, close)
 * and what they found is added up.
 */
#include "worker.h"

#include "base/clock.h"
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Long enough for memory, caches and clock rates, short where messages are long. */
enum { WARM_MESSAGES = 1000, WARM_BYTES = 4 << 20 };

struct crew {
	struct xr_worker *workers;
	pthread_t *threads;
	unsigned n, started;
	pthread_barrier_t barrier;
};

struct start_arg {
	struct crew *crew;
	struct xr_worker *worker;
};

static uint64_t rss_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*s %llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t registered_bytes(const struct xr_worker *w)
{
	uint64_t bytes = 0;

	if (w->ends && w->ends[0].ctx)
		(void)xrdma_stat_by_name(w->ends[0].ctx, "memory_bytes", &bytes);
	return bytes;
}

/* ---- phases ---- */

static void run_kind(struct xr_worker *w)
{
	static void (*const kinds[])(struct xr_worker * w) = {
		[XR_JOB_CALLS] = xr_calls_run,
		[XR_JOB_ONEWAY] = xr_oneway_run,
		[XR_JOB_CONNECT] = xr_connect_run,
	};

	w->issued = 0;
	w->start_ns = w->end_ns = clock_now_ns();
	kinds[w->job->kind](w);
}

static void open_phase(struct xr_worker *w)
{
	if (w->job->kind == XR_JOB_CONNECT) {
		xr_worker_open_contexts(w);
		return;
	}
	w->rss_bytes = rss_bytes();
	xr_worker_open(w);
}

static void warm_up(struct xr_worker *w)
{
	const struct xr_job *job = w->job;
	uint64_t slots = (uint64_t)job->in_flight * job->channels * w->n_ends;
	uint64_t bytes = job->request_bytes + job->reply_bytes + 1;
	uint64_t many = WARM_BYTES / bytes < WARM_MESSAGES ? WARM_BYTES / bytes : WARM_MESSAGES;

	/* Four times: queued, in flight, and consumed but not yet known to be. */
	w->limit = many > 4 * slots ? many : 4 * slots;
	if (job->kind == XR_JOB_CONNECT)
		w->limit = job->in_flight;
	w->until_ns = CLOCK_NEVER;
	run_kind(w);
	w->rss_bytes = rss_bytes() - w->rss_bytes;
	w->registered_bytes = registered_bytes(w);
}

static void measure(struct xr_worker *w)
{
	const struct xr_options *o = w->bench->options;
	uint64_t each = (o->iterations + w->job->threads - 1) / w->job->threads;

	atomic_store_explicit(&w->completed, 0, memory_order_relaxed);
	w->measured = true;
	w->limit = o->iterations ? each : UINT64_MAX;
	w->until_ns = o->iterations ? CLOCK_NEVER : clock_now_ns() + o->seconds_ns;
	run_kind(w);
	if (!w->failed && w->job->kind == XR_JOB_CALLS)
		xr_worker_finish(w);
}

static void *work(void *arg)
{
	struct start_arg start = *(struct start_arg *)arg;
	static void (*const phases[])(struct xr_worker * w) = {open_phase, warm_up, measure};
	struct xr_worker *w = start.worker;

	for (unsigned i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		if (!w->failed)
			phases[i](w);
		pthread_barrier_wait(&start.crew->barrier);
	}
	return NULL;
}

/* ---- results ---- */

static void add_report(struct xr_result *r, struct xr_worker *w, const struct xr_lane *lane)
{
	const struct xr_perf_report *report = &lane->report;

	r->errors += report->wrong;
	if (report->wrong && report->number != report->number_wanted)
		xr_worker_note(w, "the server got message %u where %u was expected", report->number,
			       report->number_wanted);
	else if (report->wrong)
		xr_worker_note(w,
			       "the server got a wrong byte: message %u, byte %zu is 0x%02x and "
			       "should be 0x%02x",
			       report->number, report->fault.offset, report->fault.got,
			       report->fault.wanted);
	if ((uint32_t)report->messages != lane->next_number) {
		r->errors++;
		xr_worker_note(w, "the server got %llu messages of %u",
			       (unsigned long long)report->messages, lane->next_number);
	}
}

static void add_worker(struct xr_result *r, struct xr_worker *w)
{
	const struct xr_job *job = w->job;
	double seconds = (double)(w->end_ns - w->start_ns) / 1e9;
	uint64_t messages = 0;

	for (unsigned e = 0; w->ends && !w->failed && e < w->n_ends; e++) {
		messages += w->ends[e].messages;
		for (unsigned i = 0; job->kind != XR_JOB_CONNECT && i < job->channels; i++)
			add_report(r, w, &w->ends[e].lanes[i]);
	}
	r->messages += messages;
	if (seconds > 0)
		r->messages_per_s += (double)messages / seconds;
	if (seconds > r->seconds)
		r->seconds = seconds;
	hist_merge(&r->times, &w->times);
	r->errors += w->wrong + w->failed;
	if (w->problem[0] && !r->problem[0])
		memcpy(r->problem, w->problem, sizeof(r->problem));
}

static void add_shares(struct xr_result *r, const struct crew *crew)
{
	double fair = (double)r->messages / r->job.contexts;

	r->share_min = r->messages ? 1e9 : 0;
	for (unsigned i = 0; i < crew->n; i++) {
		const struct xr_worker *w = &crew->workers[i];

		for (unsigned e = 0; w->ends && r->messages && e < w->n_ends; e++) {
			double share = (double)w->ends[e].messages / fair;

			if (share < r->share_min)
				r->share_min = share;
			if (share > r->share_max)
				r->share_max = share;
		}
	}
}

static void add_up(struct xr_result *r, const struct crew *crew)
{
	const struct xr_job *job = &r->job;
	const struct xr_worker *first = &crew->workers[0];

	hist_reset(&r->times);
	for (unsigned i = 0; i < crew->n; i++)
		add_worker(r, &crew->workers[i]);
	add_shares(r, crew);
	r->bytes = r->messages * ((uint64_t)job->request_bytes + job->reply_bytes);
	r->gb_per_s =
		r->messages_per_s * (double)((uint64_t)job->request_bytes + job->reply_bytes) / 1e9;
	r->verified =
		first->bench->options->verify && r->errors == 0 && job->kind != XR_JOB_CONNECT;
	if (job->contexts > 1 || job->kind == XR_JOB_CONNECT || first->failed)
		return;
	r->setups_per_s = job->channels / ((double)first->setup_ns / 1e9);
	r->bytes_per_channel = (double)first->rss_bytes / job->channels;
	r->registered_per_channel = (double)first->registered_bytes / job->channels;
}

/* ---- the crew ---- */

static int hire(struct crew *crew, const struct xr_bench *bench, const struct xr_job *job)
{
	crew->n = job->threads;
	crew->workers = calloc(crew->n, sizeof(*crew->workers));
	crew->threads = calloc(crew->n, sizeof(*crew->threads));
	if (!crew->workers || !crew->threads)
		return -1;
	pthread_barrier_init(&crew->barrier, NULL, crew->n);
	for (unsigned i = 0; i < crew->n; i++) {
		struct xr_worker *w = &crew->workers[i];

		w->bench = bench;
		w->job = job;
		w->index = i;
		w->n_ends = job->contexts / crew->n + (i < job->contexts % crew->n);
		hist_reset(&w->times);
	}
	return 0;
}

static void watch(const struct crew *crew, const struct xr_bench *bench)
{
	for (unsigned i = 0; i < crew->n; i++) {
		struct timespec until;
		uint64_t done = 0;

		do {
			for (unsigned k = 0; k < crew->n; k++)
				done += atomic_load_explicit(&crew->workers[k].completed,
							     memory_order_relaxed);
			xr_progress(bench->options, crew->workers[0].job, done);
			done = 0;
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += XR_PROGRESS_NS;
			until.tv_sec += until.tv_nsec / (long)NSEC_PER_SEC;
			until.tv_nsec %= (long)NSEC_PER_SEC;
		} while (pthread_timedjoin_np(crew->threads[i], NULL, &until));
	}
	xr_progress_end(bench->options);
}

static int run_threads(struct crew *crew, const struct xr_bench *bench)
{
	struct start_arg *args = calloc(crew->n, sizeof(*args));

	for (unsigned i = 0; args && i < crew->n; i++) {
		args[i] = (struct start_arg){crew, &crew->workers[i]};
		if (pthread_create(&crew->threads[i], NULL, work, &args[i])) {
			/* Those that run wait for the ones that cannot: there is no way on. */
			fprintf(stderr, "xr-perf: %u threads cannot be had\n", crew->n);
			exit(XR_STATUS_FAILED);
		}
	}
	if (!args)
		return -1;
	watch(crew, bench);
	free(args);
	return 0;
}

void xr_bench_run(struct xr_bench *bench, const struct xr_job *job)
{
	struct xr_result *r;
	struct crew crew = {0};

	if (bench->over)
		return;
	r = calloc(1, sizeof(*r));
	if (!r || hire(&crew, bench, job) || run_threads(&crew, bench)) {
		fprintf(stderr, "xr-perf: out of memory for %u threads\n", job->threads);
		exit(XR_STATUS_FAILED);
	}
	r->job = *job;
	add_up(r, &crew);
	for (unsigned i = 0; i < crew.n; i++) {
		bench->over |= crew.workers[i].failed;
		xr_worker_close(&crew.workers[i]);
	}
	bench->failed |= r->problem[0] != '\0';
	pthread_barrier_destroy(&crew.barrier);
	free(crew.workers);
	free(crew.threads);
	bench->report(bench, r);
}
