/* SPDX-License-Identifier: BSD-2-Clause */
/* Show the counters of processes that use urxe, without stopping them: see urxe-stat(1). */
#include "verbs/stat.h"

#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "urxe-stat " URXE_VERSION;

static struct {
	bool all;
	unsigned interval_s; /* 0: once */
	const char **pids;   /* NULL at the end; none: all processes */
	unsigned n_pids;
} options;

static const struct argp_option table[] = {
	{"all", 'a', NULL, 0, "All counters, one a line: PID DEVICE NAME VALUE", 0},
	{"watch", 'w', "SECONDS", 0, "Show them again every so many seconds", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end;
	unsigned long n;

	switch (key) {
	case 'a':
		options.all = true;
		return 0;
	case 'w':
		n = strtoul(arg, &end, 10);
		if (*end || n < 1 || n > 86400)
			argp_error(state, "--watch %s: expected 1 to 86400 seconds", arg);
		options.interval_s = (unsigned)n;
		return 0;
	case ARGP_KEY_ARG:
		if (!arg[0] || arg[strspn(arg, "0123456789")])
			argp_error(state, "%s: expected a process number", arg);
		options.pids[options.n_pids++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Foreign text for a terminal. */
static void clean(char *text)
{
	for (; *text; text++) {
		if (!isprint((unsigned char)*text) || *text == ' ')
			*text = '?';
	}
}

static void read_comm(const char *pid, char comm[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	snprintf(comm, 32, "?");
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(comm, 32, f))
		comm[strcspn(comm, "\n")] = '\0';
	fclose(f);
	clean(comm);
}

/* False: not a page of counters of that process; a child inherits its parent's. */
static bool read_page(const char *path, const char *pid, struct urxe_stat_page *page)
{
	static const char name[] = "/memfd:" URXE_STAT_NAME;
	char target[64] = "";
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	int fd;

	if (n < 0 || strncmp(target, name, strlen(name)) != 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	n = pread(fd, page, sizeof(*page), 0);
	close(fd);
	if (n < (ssize_t)offsetof(struct urxe_stat_page, engine) ||
	    page->magic != URXE_STAT_MAGIC || page->pid != atoi(pid))
		return false;
	if (n != sizeof(*page) || page->size != sizeof(*page)) {
		fprintf(stderr, "urxe-stat: process %s uses another version of urxe\n", pid);
		return false;
	}
	page->device[sizeof(page->device) - 1] = '\0';
	page->netdev[sizeof(page->netdev) - 1] = '\0';
	clean(page->device);
	clean(page->netdev);
	return true;
}

static void show_all(const char *pid, const struct urxe_stat_page *page)
{
	for (unsigned i = 0; urxe_stat_name(i); i++)
		printf("%s %s %s %" PRIu64 "\n", pid, page->device, urxe_stat_name(i),
		       urxe_stat_value(page, i));
}

static void show_line(const char *pid, const struct urxe_stat_page *page)
{
	const uint64_t *c = page->engine;
	char comm[32];

	read_comm(pid, comm);
	printf("%7s %-15s %-7s %-10s %12" PRIu64 " %12" PRIu64 " %11" PRIu64 " %8" PRIu64
	       " %6" PRIu64 " %6" PRIu64 "\n",
	       pid, comm, page->device, page->netdev, c[URXE_CNT_SENT_PKTS], c[URXE_CNT_RCVD_PKTS],
	       c[URXE_CNT_RETRANSMITS], c[URXE_CNT_TIMEOUTS], c[URXE_CNT_RCVD_RNR_ERR],
	       c[URXE_CNT_SEND_ERR]);
}

/* Returns how many contexts the process has. */
static unsigned show_process(const char *pid)
{
	struct urxe_stat_page page;
	struct dirent *entry;
	char path[320];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return 0; /* of another user, or gone */
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%s", pid, entry->d_name);
		if (!read_page(path, pid, &page))
			continue;
		(options.all ? show_all : show_line)(pid, &page);
		n++;
	}
	closedir(dir);
	return n;
}

static unsigned show_every_process(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	unsigned n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		if (isdigit((unsigned char)entry->d_name[0]))
			n += show_process(entry->d_name);
	}
	closedir(dir);
	return n;
}

static int show(void)
{
	int status = EXIT_SUCCESS;

	if (!options.all)
		printf("%7s %-15s %-7s %-10s %12s %12s %11s %8s %6s %6s\n", "PID", "PROGRAM",
		       "DEVICE", "NETDEV", "SENT", "RECEIVED", "RETRANSMITS", "TIMEOUTS", "RNR",
		       "ERRORS");
	for (unsigned i = 0; i < options.n_pids; i++) {
		if (show_process(options.pids[i]))
			continue;
		fprintf(stderr, "urxe-stat: process %s has no urxe device open, or is not yours\n",
			options.pids[i]);
		status = EXIT_FAILURE;
	}
	if (!options.n_pids && !show_every_process())
		fputs("urxe-stat: no process of yours has a urxe device open\n", stderr);
	fflush(stdout);
	return status;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		table,
		parse,
		"[PID...]",
		"Show the counters of running processes that use urxe: of these, or of all yours.",
		NULL,
		NULL,
		NULL};
	int status;

	options.pids = calloc((size_t)argc, sizeof(*options.pids));
	if (!options.pids || argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return EXIT_FAILURE;
	for (;;) {
		status = show();
		if (!options.interval_s)
			break;
		sleep(options.interval_s);
		putchar('\n');
	}
	free(options.pids);
	return status;
}
