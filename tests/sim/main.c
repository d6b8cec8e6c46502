/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seeded simulator.
 *   sim [--jobs N] --seeds A..B   run the seeds A to B, in N processes
 *   sim --file seeds.txt          run the seeds in a file: those that failed once
 *   sim --seed N [--trace]        run one and tell what happens
 * Every 16th seed of a range is run twice: the same seed has to give the same bytes.
 */
#include "runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TWICE = 16, MAX_JOBS = 64 };

static volatile uint64_t running;

static void died(int number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "\nseed %llu: signal %d\n",
			 (unsigned long long)running, number);

	fflush(stdout); /* not for a handler, but what was told until now is worth the risk */
	(void)!write(STDOUT_FILENO, text, (size_t)n);
	_exit(1);
}

static bool run_seed(uint64_t seed, bool trace)
{
	uint64_t hash, again;

	running = seed;
	if (!world_run(seed, trace, &hash))
		return false;
	if (trace || seed % TWICE)
		return true;
	if (!world_run(seed, false, &again))
		return false;
	if (hash == again)
		return true;
	printf("seed %llu: two runs differ\n", (unsigned long long)seed);
	return false;
}

/* Returns the number of failures. */
static unsigned run_range(uint64_t first, uint64_t last, unsigned stride)
{
	unsigned failures = 0;

	for (uint64_t seed = first; seed <= last; seed += stride)
		failures += !run_seed(seed, false);
	return failures;
}

static unsigned run_jobs(uint64_t first, uint64_t last, unsigned jobs)
{
	unsigned failures = 0;

	if (jobs == 1)
		return run_range(first, last, 1);
	for (unsigned i = 0; i < jobs; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (pid == 0)
			exit(run_range(first + i, last, jobs) != 0);
	}
	for (unsigned i = 0; i < jobs; i++) {
		int status;

		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			failures++;
	}
	return failures;
}

static unsigned run_file(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned failures = 0;
	char line[128];

	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		if (line[0] != '#' && line[0] != '\n')
			failures += !run_seed(strtoull(line, NULL, 10), false);
	}
	fclose(f);
	return failures;
}

static int usage(void)
{
	fputs("usage: sim [--jobs N] --seeds A..B | --file FILE | --seed N [--trace]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long long first = 1, last = 0, jobs = 1;
	const char *file = NULL;
	bool trace = false;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--trace")) {
			trace = true;
			continue;
		}
		if (!strcmp(argv[i], "--file"))
			file = value;
		else if (!strcmp(argv[i], "--seeds") &&
			 sscanf(value, "%llu..%llu", &first, &last) == 2)
			;
		else if (!strcmp(argv[i], "--seed") && sscanf(value, "%llu", &first) == 1)
			last = first;
		else if (strcmp(argv[i], "--jobs") || sscanf(value, "%llu", &jobs) != 1)
			return usage();
		i++;
	}
	signal(SIGABRT, died);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	signal(SIGSEGV, died);
#endif
	if (jobs < 1 || jobs > MAX_JOBS || (!file && last < first))
		return usage();
	if (trace)
		return !run_seed(first, true);
	return (file ? run_file(file) : run_jobs(first, last, (unsigned)jobs)) != 0;
}
