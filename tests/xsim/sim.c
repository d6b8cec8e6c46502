/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual time and all else that makes a run the same each time. */
#include "sim.h"

#include "base/ticks.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct event {
	uint64_t due, order;
	sim_fire *fire;
	void *owner;
	uint64_t arg;
};

struct piece {
	struct piece *next;
	max_align_t memory[];
};

struct sim sim;
struct host hosts[N_HOSTS];

static struct event *events; /* a heap */
static size_t n_events, capacity;
static uint64_t order;
static struct piece *pieces;

void sim_begin(uint64_t seed, bool trace)
{
	sim = (struct sim){.seed = seed,
			   .now = 1000 * SEC,
			   .hash = 0xcbf29ce484222325u,
			   .rng = {seed},
			   .trace = trace};
	n_events = 0;
	order = 0;
	memset(hosts, 0, sizeof(hosts));
	for (unsigned i = 0; i < N_HOSTS; i++) {
		hosts[i].latency_ns = sim_between(2 * USEC, 100 * USEC);
		list_init(&hosts[i].socks);
	}
	files_begin();
	tcp_begin();
}

void sim_end(void)
{
	while (pieces) {
		struct piece *p = pieces;

		pieces = p->next;
		free(p);
	}
}

void *sim_new(size_t bytes)
{
	struct piece *p = calloc(1, sizeof(*p) + bytes);

	if (!p)
		abort();
	p->next = pieces;
	pieces = p;
	return p->memory;
}

/* ---- events ---- */

static bool before(const struct event *a, const struct event *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap(size_t a, size_t b)
{
	struct event e = events[a];

	events[a] = events[b];
	events[b] = e;
}

void sim_at(uint64_t due, sim_fire *fire, void *owner, uint64_t arg)
{
	size_t i = n_events++;

	if (n_events > capacity) {
		capacity = capacity ? capacity * 2 : 256;
		events = realloc(events, capacity * sizeof(*events));
		if (!events)
			abort();
	}
	events[i] = (struct event){due < sim.now ? sim.now : due, order++, fire, owner, arg};
	for (; i && before(&events[i], &events[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

void sim_after(uint64_t wait, sim_fire *fire, void *owner, uint64_t arg)
{
	sim_at(sim.now + wait, fire, owner, arg);
}

static struct event pop(void)
{
	struct event first = events[0];
	size_t i = 0, least;

	events[0] = events[--n_events];
	for (;; i = least) {
		least = i;
		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n_events; k++) {
			if (before(&events[k], &events[least]))
				least = k;
		}
		if (least == i)
			return first;
		swap(i, least);
	}
}

uint64_t sim_next(void)
{
	return n_events ? events[0].due : CLOCK_NEVER;
}

void sim_fire_due(void)
{
	while (n_events && events[0].due <= sim.now && !sim.failed) {
		struct event e = pop();

		e.fire(e.owner, e.arg);
	}
}

/* ---- chance ---- */

uint32_t sim_below(uint32_t bound)
{
	return rng_below(&sim.rng, bound);
}

uint64_t sim_between(uint64_t low, uint64_t high)
{
	return low + rng_next(&sim.rng) % (high - low + 1);
}

bool sim_once_in(uint32_t n)
{
	return rng_below(&sim.rng, n) == 0;
}

/* ---- what happens ---- */

static void say(const char *what, const char *text)
{
	uint64_t us = (sim.now - 1000 * SEC) / USEC;

	printf("%s%6llu.%06llu %s\n", what, (unsigned long long)(us / 1000000),
	       (unsigned long long)(us % 1000000), text);
}

void sim_note(const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (const char *c = text; *c; c++)
		sim.hash = (sim.hash ^ (unsigned char)*c) * 0x100000001b3u;
	sim.hash = (sim.hash ^ sim.now) * 0x100000001b3u;
	if (sim.trace)
		say("", text);
}

void sim_fail(const char *format, ...)
{
	char text[512];
	va_list args;
	int n;

	n = snprintf(text, sizeof(text), "seed %llu: ", (unsigned long long)sim.seed);
	va_start(args, format);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
	va_end(args);
	say("wrong: ", text);
	fflush(stdout);
	sim.failed = true;
}

/* ---- in place of the system's ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (sim.closing)
		sim.now += 10 * MSEC; /* or its loop would never end */
	now->tv_sec = (time_t)(sim.now / SEC);
	now->tv_nsec = (long)(sim.now % SEC);
	return 0;
}

uint64_t __wrap_ticks_resync(void);
uint64_t __wrap_ticks_resync(void)
{
	return sim.now;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)rng_next(&sim.rng);
	return (ssize_t)len;
}

int __wrap_getifaddrs(struct ifaddrs **ret_list);
int __wrap_getifaddrs(struct ifaddrs **ret_list)
{
	errno = ENOSYS;
	return -1;
}
