/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * K12: what becomes of regions when a process ends, by exit() or by a signal, and when it forks.
 * Each test is a process of its own that tells by its exit status.
 */
#include "rig.h"

#include "xrdma/context.h"
#include "xrdma/region.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGIONS = 3, GOOD = 42 };

static unsigned n_dereg;

int __real_ibv_dereg_mr(struct ibv_mr *mr);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
	n_dereg++;
	return __real_ibv_dereg_mr(mr);
}

static struct xrdma_region *new_region(struct xrdma_context *ctx)
{
	const struct xrdma_region_attr attr = {
		.slot_bytes = 4096, .n_slots = 4, .rights = XRDMA_REMOTE_READ, .numa_node = -1};
	struct xrdma_region *region;

	assert_int_equal(xrdma_region_new(ctx, &attr, &region), 0);
	return region;
}

/* Runs in a child; returns how that ended, as waitpid() tells. */
static int in_child(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		run();
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_exited(int status, int code)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
		fail_msg("status %#x instead of exit(%d)", (unsigned)status, code);
}

/* Registered before the library's handler, it runs after it. */
static void look(void)
{
	_exit(n_dereg == REGIONS ? GOOD : 2);
}

static void *run(void *ctx)
{
	xrdma_run(ctx, -1);
	return NULL;
}

static void leave_regions(void)
{
	struct xrdma_context *ctx;
	pthread_t thread;

	atexit(look);
	ctx = rig_context(NULL);
	for (unsigned i = 0; i < REGIONS; i++)
		new_region(ctx);
	assert_int_equal(xrdma_region_free(new_region(ctx)), 0);
	n_dereg = 0;
	/* Its thread goes on meanwhile. */
	assert_int_equal(pthread_create(&thread, NULL, run, ctx), 0);
	exit(0);
}

static void exit_deregisters(void **state)
{
	assert_exited(in_child(leave_regions), GOOD);
}

/* Handlers of the application that run after the library's may still close. */
static struct xrdma_context *late_ctx;

static void close_late(void)
{
	xrdma_close(late_ctx);
	_exit(GOOD);
}

static void close_in_a_handler(void)
{
	atexit(close_late);
	late_ctx = rig_context(NULL);
	assert_int_equal(xrdma_region_free(new_region(late_ctx)), 0);
	new_region(late_ctx);
	exit(0);
}

static void exit_then_close(void **state)
{
	assert_exited(in_child(close_in_a_handler), GOOD);
}

/* ---- signals ---- */

static void on_signal(int signal)
{
	errno = ENOTTY;
	xrdma_stop(late_ctx);
	if (errno != ENOTTY)
		_exit(3);
}

static void serve_until_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	late_ctx = rig_context(NULL);
	new_region(late_ctx);
	sigaction(SIGTERM, &action, NULL);
	kill(getpid(), SIGTERM); /* it may come before the loop begins, too */
	xrdma_run(late_ctx, -1);
	n_dereg = 0;
	xrdma_close(late_ctx);
	_exit(n_dereg > 0 ? GOOD : 2);
}

static void stop_from_a_signal_handler(void **state)
{
	assert_exited(in_child(serve_until_signal), GOOD);
}

/* ---- fork ---- */

static struct rig forking;
static struct xrdma_region *of_parent;

static void child_exits(void)
{
	struct xrdma_region *region = of_parent;
	struct xrdma_channel *ch = forking.side[RIG_CLIENT].ch;
	struct xrdma_context *ctx = forking.side[RIG_SERVER].ctx;
	struct xrdma_msg *m;
	bool refused = xrdma_region_free(region) == -EPERM &&
		       xrdma_region_export(region, ch, 1) == -EPERM &&
		       xrdma_msg_new(ch, 1, &m) == -EPERM && xrdma_forget(ctx, ch, 1) == -EPERM &&
		       xrdma_cancel(ch, 1) == -EPERM && xrdma_process_event(ctx) == -EPERM &&
		       xrdma_run(ctx, 0) == -EPERM;

	xrdma_stop(ctx); /* not the parent's run */
	n_dereg = 0;
	xrdma_close(ctx);
	if (!refused || n_dereg)
		_exit(3);
	/* It may have contexts of its own, with which all is as usual. */
	new_region(rig_context(NULL));
	exit(GOOD);
}

static void a_child_leaves_the_parents_alone(void **state)
{
	struct rig_side *client = &forking.side[RIG_CLIENT];
	struct rig_call c = {0};
	struct xrdma_msg *m;

	rig_open(&forking, NULL);
	rig_connect(&forking);
	of_parent = new_region(forking.side[RIG_SERVER].ctx);
	assert_int_equal(xrdma_region_export(of_parent, forking.side[RIG_SERVER].ch, 1), 0);
	rig_until(&forking, client->remote);
	assert_exited(in_child(child_exits), GOOD);
	assert_int_equal(xrdma_msg_new(client->ch, 4096, &m), 0);
	assert_int_equal(xrdma_get(client->ch, client->remote, 1, 0, m, rig_done, &c), 0);
	rig_until(&forking, c.ended);
	assert_int_equal(c.status, 0);
	xrdma_msg_free(c.reply);
	assert_int_equal(xrdma_run(forking.side[RIG_SERVER].ctx, 20), 0);
	rig_close(&forking);
}

/* ---- keys ---- */

static int keys_fd;

static void tell_key(void)
{
	struct xrdma_context *ctx = rig_context(NULL);
	/* A kernel gives a region without rights for others no rkey. */
	uint64_t key = new_region(ctx)->mem.mr->lkey ^ ctx->incarnation << 32;

	if (write(keys_fd, &key, sizeof(key)) == sizeof(key))
		_exit(GOOD);
}

/* No process finds the keys of the one before, nor what a peer takes for the same process. */
static void keys_are_fresh_at_start(void **state)
{
	uint64_t keys[4];
	unsigned same = 0;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	keys_fd = fds[1];
	for (unsigned i = 0; i < 4; i++) {
		assert_exited(in_child(tell_key), GOOD);
		assert_int_equal(read(fds[0], &keys[i], sizeof(keys[i])), sizeof(keys[i]));
		if (i > 0) {
			assert_int_not_equal(keys[i] >> 32, keys[i - 1] >> 32);
			same += (uint32_t)keys[i] == (uint32_t)keys[i - 1];
		}
	}
	assert_in_range(same, 0, 1); /* 8 bits of a key are random where a kernel makes it */
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_deregisters),
		cmocka_unit_test(exit_then_close),
		cmocka_unit_test(stop_from_a_signal_handler),
		cmocka_unit_test(keys_are_fresh_at_start),
		cmocka_unit_test(a_child_leaves_the_parents_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
