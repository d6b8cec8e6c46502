/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters, as a program reads those of a kernel's device, and as urxe-stat (the argument) does. */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Exported by libibverbs, declared nowhere. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static const char *urxe_stat;

static uint64_t counter(struct ibv_context *context, const char *name)
{
	char file[64], value[32];

	snprintf(file, sizeof(file), "ports/1/hw_counters/%s", name);
	assert_true(ibv_read_sysfs_file(context->device->ibdev_path, file, value, sizeof(value)) >
		    0);
	return strtoull(value, NULL, 10);
}

static void send_some(struct end *from, struct end *to, int n)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		end_recv(to, 0, 0, 64);
		assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
		end_wait(from, &wc, 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		end_wait(to, &wc, 1);
	}
}

/* The device's, as a kernel counts: of all contexts, and of those that are closed. */
static void test_sysfs(void **state)
{
	struct ibv_context *context;
	struct ibv_device **list;
	struct end a, b;
	char buf[8];

	pair_open(&a, &b, false);
	assert_int_equal(counter(a.context, "rdma_sends"), 0);
	send_some(&a, &b, 10);
	assert_int_equal(counter(a.context, "rdma_sends"), 10);
	assert_int_equal(counter(b.context, "rdma_recvs"), 10);
	assert_true(counter(a.context, "sent_pkts") >= 20);
	assert_true(counter(a.context, "shm_tx_pkts") >= 20);
	assert_int_equal(counter(a.context, "out_of_seq_request"), 0);
	assert_int_equal(ibv_read_sysfs_file(a.context->device->ibdev_path,
					     "ports/1/hw_counters/none", buf, sizeof(buf)),
			 -1);
	assert_int_equal(errno, ENOENT);
	pair_close(&a, &b, false);
	list = ibv_get_device_list(NULL);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_int_equal(counter(context, "rdma_sends"), 10);
	assert_int_equal(ibv_close_device(context), 0);
}

/* Runs urxe-stat on a process; returns its exit status, and its output in text. */
static int run_stat(const char *options, int pid, char *text, size_t size)
{
	char command[256];
	size_t len;
	FILE *f;

	snprintf(command, sizeof(command), "%s %s %d 2>&1", urxe_stat, options, pid);
	f = popen(command, "r");
	REQUIRE(f);
	len = fread(text, 1, size - 1, f);
	text[len] = '\0';
	return WEXITSTATUS(pclose(f));
}

static int victim(void)
{
	struct end a, b;
	char c = 0;

	pair_open(&a, &b, false);
	send_some(&a, &b, 7);
	REQUIRE(write(3, &c, 1) == 1);
	for (;;)
		pause();
}

/* Of another process, which does not notice, and has left nothing when it has been killed. */
static void test_tool(void **state)
{
	char text[8192], wanted[64], c;
	int fd, pid;

	if (access(urxe_stat, X_OK)) {
		print_message("%s is not built\n", urxe_stat);
		skip();
	}
	pid = spawn_self(&fd, "victim", "");
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(run_stat("--all", pid, text, sizeof(text)), 0);
	snprintf(wanted, sizeof(wanted), "%d urxe0 rdma_sends 7\n", pid);
	assert_non_null(strstr(text, wanted));
	snprintf(wanted, sizeof(wanted), "%d urxe0 rdma_recvs 7\n", pid);
	assert_non_null(strstr(text, wanted));
	assert_int_equal(run_stat("", pid, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "RETRANSMITS"));
	assert_non_null(strstr(text, " lo "));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	assert_int_equal(run_stat("", pid, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "has no urxe device open"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sysfs),
		cmocka_unit_test(test_tool),
	};

	if (argc > 1 && strcmp(argv[1], "victim") == 0)
		return victim();
	urxe_stat = argc > 1 ? argv[1] : "urxe-stat";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
