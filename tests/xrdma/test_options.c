/* SPDX-License-Identifier: BSD-2-Clause */
/* M13, M6, K2, K9, K10, K11: what options do to a context, when it is opened and while it runs. */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void assert_explained(const char *part)
{
	if (!strstr(xrdma_last_error(), part))
		fail_msg("\"%s\" does not say \"%s\"", xrdma_last_error(), part);
}

/* What xrdma_open() makes of two options. */
static int opened_with(const char *name, const char *value, const char *name2, const char *value2)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;
	int ret;

	assert_int_equal(xrdma_conf_new(&conf), 0);
	assert_int_equal(xrdma_conf_set(conf, name, value), 0);
	assert_int_equal(xrdma_conf_set(conf, name2, value2), 0);
	ret = xrdma_open(conf, &ctx);
	xrdma_conf_free(conf);
	if (ret == 0)
		xrdma_close(ctx);
	return ret;
}

static void m13_changed_while_messages_wait(void **state)
{
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	unsigned n = 0;
	struct rig r;

	rig_open(&r, "window=4");
	ch = rig_connect(&r);
	ctx = r.side[RIG_CLIENT].ctx;
	r.stalled[RIG_SERVER] = true;
	assert_int_equal(xrdma_set(ctx, "queue_depth", "3"), 0);
	/* A window and a queue full. */
	for (m = rig_msg(ch, 8, n); xrdma_send_msg(ch, m) == 0; m = rig_msg(ch, 8, n))
		n++;
	assert_int_equal(n, 4 + 3);
	assert_explained("queue_depth");
	assert_int_equal(xrdma_set(ctx, "queue_depth", "5"), 0);
	assert_int_equal(xrdma_send_msg(ch, m), 0);
	rig_send(ch, 8, n + 1);
	r.stalled[RIG_SERVER] = false;
	for (unsigned i = 0; i < n + 2; i++)
		rig_expect(&r, RIG_SERVER, 8, i);
	rig_close(&r);
}

static void m13_wrong_changes_are_refused(void **state)
{
	struct xrdma_context *ctx = rig_context(NULL);

	assert_int_equal(xrdma_set(ctx, "window", "8"), -EPERM);
	assert_explained("before xrdma_open()");
	assert_int_equal(xrdma_set(ctx, "idle_us", "soon"), -EINVAL);
	assert_int_equal(xrdma_set(ctx, "idle_us", "10000001"), -ERANGE);
	assert_explained("0..10000000 microseconds");
	assert_int_equal(xrdma_set(ctx, "idle", "1"), -ENOENT);
	xrdma_close(ctx);
}

/* M6: memory comes as it is needed and goes when it is not. */
static void m6_memory_shrinks_after(void **state)
{
	struct xrdma_context *ctx;
	uint64_t before, grown;
	struct rig r;

	rig_open(&r, "trim_ms=3600000");
	rig_connect(&r);
	ctx = r.side[RIG_CLIENT].ctx;
	before = rig_stat(ctx, "memory_bytes");
	rig_send(r.side[RIG_CLIENT].ch, 64 * MIB, 1);
	rig_expect(&r, RIG_SERVER, 64 * MIB, 1);
	rig_poll_for(&r, 20);
	grown = rig_stat(ctx, "memory_bytes");
	assert_true(grown >= before + 64 * MIB);
	/* An hour is long. */
	assert_int_equal(xrdma_set(ctx, "trim_ms", "1"), 0);
	rig_until(&r, rig_stat(ctx, "memory_bytes") == before);
	rig_close(&r);
}

/* Also of a program that sleeps when there is nothing to do; and then it sleeps for good. */
static void m6_memory_shrinks_asleep(void **state)
{
	struct pollfd fds[RIG_SIDES];
	uint64_t before[RIG_SIDES], end;
	struct rig r;

	rig_open(&r, "trim_ms=100");
	rig_connect(&r);
	for (unsigned i = 0; i < RIG_SIDES; i++)
		before[i] = rig_stat(r.side[i].ctx, "memory_bytes");
	rig_send(r.side[RIG_CLIENT].ch, 64 * MIB, 1);
	rig_expect(&r, RIG_SERVER, 64 * MIB, 1);
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		assert_true(rig_stat(r.side[i].ctx, "memory_bytes") >= 64 * MIB);
		fds[i] = (struct pollfd){.fd = xrdma_get_event_fd(r.side[i].ctx), .events = POLLIN};
	}
	for (end = rig_now_ms() + 5000; poll(fds, RIG_SIDES, 1000) > 0;) {
		assert_true(rig_now_ms() < end);
		for (unsigned i = 0; i < RIG_SIDES; i++)
			if (fds[i].revents)
				assert_true(xrdma_process_event(r.side[i].ctx) >= 0);
	}
	for (unsigned i = 0; i < RIG_SIDES; i++)
		assert_int_equal(rig_stat(r.side[i].ctx, "memory_bytes"), before[i]);
	rig_close(&r);
}

/* K9: how often registered memory was there already. */
static void k9_hit_rates_are_seen(void **state)
{
	char *mine = malloc(MIB);
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	uint64_t hits, acks;
	struct rig r;

	assert_non_null(mine);
	memset(mine, 7, MIB);
	rig_open(&r, "trim_ms=3600000");
	ch = rig_connect(&r);
	ctx = r.side[RIG_CLIENT].ctx;
	hits = rig_stat(ctx, "pool_hits");
	for (unsigned i = 0; i < 10; i++) {
		acks = rig_stat(ctx, "acks_received");
		rig_send(ch, 2 * MIB, i);
		rig_expect(&r, RIG_SERVER, 2 * MIB, i);
		/* The memory is free again. */
		rig_until(&r, rig_stat(ctx, "acks_received") > acks);
		assert_int_equal(xrdma_msg_wrap(ch, mine, MIB, NULL, NULL, &m), 0);
		assert_int_equal(xrdma_send_msg(ch, m), 0);
		rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
		xrdma_msg_free(r.side[RIG_SERVER].msgs[0]);
		r.side[RIG_SERVER].n_msgs = 0;
	}
	assert_true(rig_stat(ctx, "pool_hits") >= hits + 9);
	assert_int_equal(rig_stat(ctx, "regcache_misses"), 1);
	assert_int_equal(rig_stat(ctx, "regcache_hits"), 9);
	rig_close(&r);
	free(mine);
}

static unsigned long free_huge_pages(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	unsigned long n = 0;

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* K2: on means reserved huge pages or nothing, and says so when the context is opened. */
static void k2_huge_pages_or_an_error(void **state)
{
	struct xrdma_context *ctx;

	assert_int_equal(opened_with("huge", "on", "guard", "on"), -EINVAL);
	assert_explained("guard");
	if (free_huge_pages() < 8) {
		assert_int_equal(opened_with("huge", "on", "log", "warn"), -ENOMEM);
		assert_explained("raise vm.nr_hugepages");
		return;
	}
	ctx = rig_context("huge=on");
	assert_true(rig_stat(ctx, "memory_bytes") > 0);
	assert_int_equal(rig_stat(ctx, "memory_huge_bytes"), rig_stat(ctx, "memory_bytes"));
	xrdma_close(ctx);
}

static void k2_numa_node_that_is_not_there(void **state)
{
	assert_int_equal(opened_with("numa", "1023", "log", "warn"), -EINVAL);
	assert_explained("set numa = auto");
	assert_int_equal(opened_with("numa", "auto", "log", "warn"), 0);
}

enum { STOPPED = 42 };

static void stopped(int signal)
{
	_exit(STOPPED);
}

/* M6: who writes past the end of a message is stopped there. */
static void m6_a_write_past_the_end(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rig r;

		signal(SIGSEGV, stopped);
		rig_open(&r, "guard=on");
		rig_connect(&r);
		rig_send(r.side[RIG_CLIENT].ch, 5000, 1);
		rig_expect(&r, RIG_SERVER, 5000, 1); /* nothing is wrong so far */
		memset(xrdma_msg_data(rig_msg(r.side[RIG_CLIENT].ch, 5000, 1)), 0, 5001);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), STOPPED);
}

/* K11: the connection that exchanges keys is TLS, and a peer without the secret learns nothing. */
static void k11_a_key_that_both_know(void **state)
{
	static const char secret[] = "tls=on tls_psk=00112233445566778899aabbccddeeff";
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, secret);
	rig_connect(&r);
	rig_send(r.side[RIG_CLIENT].ch, 100000, 1);
	rig_expect(&r, RIG_SERVER, 100000, 1);
	rig_close(&r);
	rig_open_each(&r, "tls=on tls_psk=ffeeddccbbaa99887766554433221100", secret);
	assert_int_equal(xrdma_connect(r.side[0].ctx, r.address, &rig_handlers, &r.side[0], &ch),
			 0);
	rig_until(&r, r.side[RIG_CLIENT].n_closed == 1);
	assert_true(r.side[RIG_CLIENT].status < 0);
	assert_int_equal(r.side[RIG_CLIENT].n_connected + r.side[RIG_SERVER].n_connected, 0);
	rig_close(&r);
}

/* K10: callers' memory and regions are paged on demand where that is offered; messages' never. */
static void k10_off_the_critical_path(void **state)
{
	const struct xrdma_region_attr attr = {
		.slot_bytes = MIB, .n_slots = 4, .rights = XRDMA_REMOTE_READ, .numa_node = -1};
	char *mine = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct xrdma_context *ctx;
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct rig r;

	assert_ptr_not_equal(mine, MAP_FAILED);
	rig_open_each(&r, "odp=on", "odp=off");
	ch = rig_connect(&r);
	ctx = r.side[RIG_CLIENT].ctx;
	rig_send(ch, MIB, 1);
	rig_expect(&r, RIG_SERVER, MIB, 1);
	assert_int_equal(rig_stat(ctx, "odp_registrations"), 0);
	assert_int_equal(xrdma_region_new(ctx, &attr, &region), 0);
	assert_int_equal(xrdma_msg_wrap(ch, mine, MIB, NULL, NULL, &m), 0);
	assert_int_equal(xrdma_send_msg(ch, m), 0);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
	if (rig_stat(ctx, "odp_registrations") == 0)
		print_message("the device does not offer on-demand paging: memory was pinned\n");
	else
		assert_int_equal(rig_stat(ctx, "odp_registrations"), 2);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "odp_registrations"), 0);
	rig_close(&r);
	munmap(mine, MIB);
}

/* The library speaks by its own name, as loudly as it is told. */
static void log_is_changed(void **state)
{
	int fds[2], saved = dup(STDERR_FILENO);
	struct xrdma_context *ctx;
	char text[8192] = "";
	ssize_t n;
	struct rig r;

	assert_int_equal(pipe(fds), 0);
	rig_open(&r, "log=warn");
	ctx = r.side[RIG_CLIENT].ctx;
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	rig_connect(&r);
	assert_int_equal(xrdma_set(ctx, "log", "debug"), 0);
	xrdma_channel_close(r.side[RIG_CLIENT].ch);
	rig_until(&r, r.side[RIG_CLIENT].n_closed == 1);
	assert_int_equal(xrdma_set(ctx, "log", "warn"), 0);
	dup2(saved, STDERR_FILENO);
	close(fds[1]);
	n = read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	close(saved);
	assert_true(n > 0);
	if (strncmp(text, "xrdma: debug: channel ", 22) != 0 || strstr(text, "DIALING"))
		fail_msg("%s", text);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m13_changed_while_messages_wait),
		cmocka_unit_test(m13_wrong_changes_are_refused),
		cmocka_unit_test(m6_memory_shrinks_after),
		cmocka_unit_test(m6_memory_shrinks_asleep),
		cmocka_unit_test(k9_hit_rates_are_seen),
		cmocka_unit_test(k2_huge_pages_or_an_error),
		cmocka_unit_test(k2_numa_node_that_is_not_there),
		cmocka_unit_test(m6_a_write_past_the_end),
		cmocka_unit_test(k11_a_key_that_both_know),
		cmocka_unit_test(k10_off_the_critical_path),
		cmocka_unit_test(log_is_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
