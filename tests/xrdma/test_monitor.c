/* SPDX-License-Identifier: BSD-2-Clause */
/* M15: figures that other processes read, whatever state the process is in, and that lie or not. */
#include "rig.h"

#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/monitor_read.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The contexts of a process, in order; the caller unmaps them. */
static int find(pid_t pid, struct xr_monitor *ret[], int room)
{
	struct xr_monitor **list;
	int n = xr_monitor_find(&list), mine = 0;

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		if (xr_monitor_info(list[i])->pid == pid && mine < room)
			ret[mine++] = list[i];
		else
			xr_monitor_unmap(list[i]);
	}
	free(list);
	return mine;
}

static uint64_t counter(const struct xr_monitor *m, const char *name)
{
	uint64_t values[XR_PAGE_MAX_NAMES];

	assert_int_equal(xr_monitor_counters(m, values), 0);
	for (uint32_t i = 0; i < xr_monitor_info(m)->n_counters; i++) {
		if (strcmp(xr_monitor_counter_name(m, i), name) == 0)
			return values[i];
	}
	fail_msg("no counter %s", name);
	return 0;
}

static struct xr_hist_copy hist(const struct xr_monitor *m, const char *name)
{
	struct xr_hist_copy h = {0};

	for (uint32_t i = 0; i < xr_monitor_info(m)->n_hists; i++) {
		if (strcmp(xr_monitor_hist_name(m, i), name) == 0)
			xr_monitor_hist_copy(m, i, &h);
	}
	return h;
}

static void calls(struct rig *r, unsigned n)
{
	r->side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < n; i++) {
		struct rig_call c = {0};

		assert_int_equal(xrdma_call(r->side[RIG_CLIENT].ch,
					    rig_msg(r->side[RIG_CLIENT].ch, 64, i), 0, rig_done, &c,
					    NULL),
				 0);
		rig_until(r, c.ended);
		xrdma_msg_free(c.reply);
	}
}

/* Both contexts of this process, of which nothing is older than this call. */
static void find_both(struct rig *r, struct xr_monitor *m[2])
{
	uint64_t now = clock_now_ns();

	assert_int_equal(find(getpid(), m, 2), 2);
	rig_until(r, xr_monitor_updated_ns(m[0]) > now && xr_monitor_updated_ns(m[1]) > now);
}

static void unmap_both(struct xr_monitor *m[2])
{
	xr_monitor_unmap(m[0]);
	xr_monitor_unmap(m[1]);
}

static void a_page_tells_what_the_context_tells(void **state)
{
	struct xr_page_channel ch = {0};
	struct xr_monitor *m[4];
	struct xr_hist_copy rtt;
	struct rig r;

	rig_open(&r, "trace=on trace_sample=2 monitor=on");
	rig_connect(&r);
	calls(&r, 100);
	find_both(&r, m);
	for (unsigned i = 0; xrdma_stat_name(i); i++) {
		const char *name = xrdma_stat_name(i);

		assert_string_equal(xr_monitor_counter_name(m[0], i), name);
		if (strcmp(name, "acks_sent") && strcmp(name, "acks_received")) /* go on */
			assert_int_equal(counter(m[0], name), rig_stat(r.side[0].ctx, name));
	}
	assert_int_equal(counter(m[0], "calls"), 100);
	assert_int_equal(hist(m[0], "rtt").count, 50);
	assert_int_equal(hist(m[0], "handler").count, 50);
	assert_int_equal(hist(m[1], "served").count, 50);
	assert_true(hist(m[0], "rtt").sum >= hist(m[0], "wire").sum);
	assert_int_equal(xr_monitor_channel(m[0], 0, &ch, &rtt), 0);
	assert_int_equal(ch.msgs_sent, 100);
	assert_int_equal(ch.bytes_received, 6400);
	assert_int_equal(ch.calls, 100);
	assert_int_equal(ch.dialed, 1);
	assert_int_equal(ch.window, 64);
	assert_true(ch.epoch > 0 && ch.clock_error_ns > 0);
	assert_string_equal(ch.state, "open");
	assert_string_equal(ch.peer, r.address);
	assert_int_equal(rtt.count, 50);
	assert_int_equal(xr_monitor_channel(m[0], 1, &ch, NULL), -ENOENT);
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	rig_until(&r, r.side[RIG_CLIENT].n_closed && r.side[RIG_SERVER].n_closed);
	rig_until(&r, xr_monitor_channel(m[0], 0, &ch, NULL) == -ENOENT);
	rig_close(&r);
	assert_int_equal(counter(m[0], "channels"), 0); /* what was mapped stays so */
	unmap_both(m);
	assert_int_equal(find(getpid(), m, 4), 0);
}

static void no_page_if_not_wanted(void **state)
{
	struct xr_monitor *m[1];
	struct rig r;

	rig_open(&r, "monitor=off trace=on trace_sample=1");
	rig_connect(&r);
	calls(&r, 3);
	assert_int_equal(find(getpid(), m, 1), 0);
	rig_close(&r);
}

/* Stopped, the process is read as well; killed, it has left nothing. */
static void the_process_need_not_run(void **state)
{
	struct xr_page_channel ch;
	struct xr_monitor *m[4];
	int ready[2], n = 0, status;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct rig r;

		rig_open(&r, NULL);
		rig_connect(&r);
		find_both(&r, m);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &n, 1), 1);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	n = find(pid, m, 4);
	assert_int_equal(n, 2);
	assert_int_equal(counter(m[0], "channels_opened"), 1);
	assert_int_equal(xr_monitor_channel(m[1], 0, &ch, NULL), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(counter(m[0], "channels_opened"), 1);
	for (int i = 0; i < n; i++)
		xr_monitor_unmap(m[i]);
	assert_int_equal(find(pid, m, 4), 0);
	close(ready[0]);
}

/* ---- pages of others ---- */

static char *own_page(size_t *ret_size)
{
	struct xrdma_context *ctx = rig_context("max_channels=16");
	char *page = NULL, path[64], target[64];

	for (int fd = 3; fd < 64 && !page; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (!strstr(target, XR_PAGE_NAME))
			continue;
		*ret_size = (size_t)lseek(fd, 0, SEEK_END);
		page = malloc(*ret_size);
		assert_int_equal(pread(fd, page, *ret_size, 0), *ret_size);
		/* Nobody else may write it. */
		assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	}
	assert_non_null(page);
	xrdma_close(ctx);
	return page;
}

static int map(const char *page, size_t size, int seals, struct xr_monitor **m)
{
	int fd = memfd_create(XR_PAGE_NAME, MFD_ALLOW_SEALING), ret;

	assert_int_equal(write(fd, page, size), size);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	ret = xr_monitor_map(fd, 1, m);
	close(fd);
	return ret;
}

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* All that a reader may ask for. */
static void read_all(struct xr_monitor *m, FILE *out)
{
	struct xr_page_channel ch;
	struct xr_hist_copy h;

	xr_monitor_expose(&m, 1, out);
	for (uint32_t i = 0; i < xr_monitor_info(m)->n_slots; i++) {
		if (xr_monitor_channel(m, i, &ch, &h) == 0) {
			assert_true(strnlen(ch.peer, sizeof(ch.peer)) < sizeof(ch.peer));
			(void)xr_hist_quantile(&h, 0.99);
		}
	}
}

static void a_page_is_not_believed(void **state)
{
	struct xr_page_head head;
	struct xr_monitor *m = NULL;
	uint64_t values[XR_PAGE_MAX_NAMES];
	size_t size;
	char *page = own_page(&size);
	int fds[2];

#define TRY(ret, member, value)                                                                    \
	do {                                                                                       \
		memcpy(&head, page, sizeof(head));                                                 \
		((struct xr_page_head *)(void *)page)->member = (value);                           \
		assert_int_equal(map(page, size, SEALS, &m), ret);                                 \
		memcpy(page, &head, sizeof(head));                                                 \
	} while (0)
	assert_int_equal(map(page, size, 0, &m), -EINVAL); /* it could be cut under us */
	assert_int_equal(map(page, size, F_SEAL_GROW, &m), -EINVAL);
	assert_int_equal(map(page, 100, SEALS, &m), -EINVAL);
	assert_int_equal(map(page, size - 1, SEALS, &m), -EPROTO);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(xr_monitor_map(fds[0], 1, &m), -EINVAL);
	close(fds[0]);
	close(fds[1]);
	TRY(-EINVAL, magic, 1);
	TRY(-EPROTONOSUPPORT, version, XR_PAGE_VERSION + 1);
	TRY(-EPROTO, n_counters, head.n_counters + 1);
	TRY(-EPROTO, n_hists, UINT32_MAX);
	TRY(-EPROTO, n_slots, UINT32_MAX);
	TRY(-EPROTO, n_slots, 0);
	TRY(-EPROTO, bytes, 8);
	page[sizeof(head)] = '"'; /* a name that would end a label */
	assert_int_equal(map(page, size, SEALS, &m), -EPROTO);
	page[sizeof(head)] = 'm';
	assert_null(m);
	memset(((struct xr_page_head *)(void *)page)->program, 0xff, XR_PAGE_TEXT_BYTES);
	assert_int_equal(map(page, size, SEALS, &m), 0);
	assert_int_equal(strlen(xr_monitor_info(m)->program), XR_PAGE_TEXT_BYTES - 1);
	assert_int_equal(xr_monitor_info(m)->program[0], '?');
	xr_monitor_unmap(m);
	/* Stopped, or dead, while it wrote: a reader does not wait for ever. */
	((struct xr_page_head *)(void *)page)->seq = 7;
	assert_int_equal(map(page, size, SEALS, &m), 0);
	assert_int_equal(xr_monitor_counters(m, values), -EAGAIN);
	xr_monitor_unmap(m);
	free(page);
}

static void whatever_a_page_holds(void **state)
{
	FILE *out = fopen("/dev/null", "w");
	struct xr_monitor *m;
	unsigned mapped = 0;
	size_t size;
	char *page = own_page(&size), *copy = malloc(size);

	for (unsigned seed = 1; seed <= 300; seed++) {
		struct rng rng = {seed};

		memcpy(copy, page, size);
		for (unsigned i = rng_below(&rng, 2000); i > 0; i--)
			copy[rng_below(&rng, seed % 2 ? 400 : (uint32_t)size)] =
				(char)rng_next(&rng);
		if (seed % 3) /* the rest all wrong, the head right */
			memcpy(copy, page,
			       sizeof(struct xr_page_head) + 120 * sizeof(struct xr_page_name));
		if (map(copy, size, SEALS, &m))
			continue;
		mapped++;
		read_all(m, out);
		xr_monitor_unmap(m);
	}
	assert_in_range(mapped, 100, 299);
	fclose(out);
	free(copy);
	free(page);
}

/* ---- exposition ---- */

struct lines {
	char seen[256][64]; /* names of families, in order */
	unsigned n;
	double last; /* bucket */
	char bucket[512];
};

static void new_family(struct lines *l, const char *name, int len)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%.*s", len, name);
	for (unsigned i = 0; i < l->n; i++)
		assert_string_not_equal(l->seen[i], copy); /* one TYPE, samples together */
	strcpy(l->seen[l->n++], copy);
}

static void check_sample(struct lines *l, const char *line)
{
	const char *family = l->seen[l->n - 1], *le = strstr(line, ",le=\"");
	char labels[512];
	double value = strtod(strrchr(line, ' '), NULL);

	assert_memory_equal(line, family, strlen(family));
	if (!le) {
		l->bucket[0] = '\0';
		return;
	}
	snprintf(labels, sizeof(labels), "%.*s", (int)(le - line), line);
	assert_true(strcmp(labels, l->bucket) != 0 || value >= l->last); /* cumulative */
	strcpy(l->bucket, labels);
	l->last = value;
}

static void text_is_what_prometheus_reads(void **state)
{
#define NAME  "[a-zA-Z_:][a-zA-Z0-9_:]*"
#define LABEL "[a-z_]+=\"([^\"\\\n]|\\\\[\"\\\\n])*\""
	static const char type_line[] = "^# TYPE (" NAME ") (counter|gauge|histogram)$";
	static const char sample[] = "^" NAME "\\{" LABEL "(," LABEL ")*\\} "
				     "([0-9]+|[0-9.]+(e[-+][0-9]+)?)$";
	struct lines *l = calloc(1, sizeof(*l));
	struct xr_monitor *m[4];
	regex_t type, value;
	regmatch_t at[2];
	char *text, *save = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct rig r;

	rig_open(&r, "trace=on trace_sample=1");
	rig_connect(&r);
	calls(&r, 20);
	find_both(&r, m);
	xr_monitor_expose(m, 2, out);
	fclose(out);
	assert_int_equal(text[size - 1], '\n');
	assert_non_null(strstr(text, "# TYPE xrdma_msgs_sent_total counter\n"));
	assert_non_null(strstr(text, "# TYPE xrdma_channels gauge\n"));
	assert_non_null(strstr(text, ",le=\"+Inf\"} 20\n"));
	assert_int_equal(regcomp(&type, type_line, REG_EXTENDED), 0);
	assert_int_equal(regcomp(&value, sample, REG_EXTENDED), 0);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (regexec(&type, line, 2, at, 0) == 0)
			new_family(l, line + at[1].rm_so, (int)(at[1].rm_eo - at[1].rm_so));
		else if (regexec(&value, line, 0, NULL, 0) == 0)
			check_sample(l, line);
		else
			fail_msg("neither a type nor a sample: %s", line);
	}
	assert_true(l->n > 40);
	regfree(&type);
	regfree(&value);
	free(text);
	free(l);
	unmap_both(m);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: it forks, and here are no threads yet. */
		cmocka_unit_test(the_process_need_not_run),
		cmocka_unit_test(a_page_tells_what_the_context_tells),
		cmocka_unit_test(no_page_if_not_wanted),
		cmocka_unit_test(a_page_is_not_believed),
		cmocka_unit_test(whatever_a_page_holds),
		cmocka_unit_test(text_is_what_prometheus_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
