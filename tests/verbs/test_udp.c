/* SPDX-License-Identifier: BSD-2-Clause */
/* Small messages by UDP: few system calls for many, and none that waits for a poll that never
 * comes.
 */
#include "rig.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	BURST = 40,
	HABIT = 200, /* posts that are followed by polls */
	ROUNDS = 100,
	PART = RIG_DEPTH / 2,
	ROWS = 8,
};

/* Exported by libibverbs, declared nowhere. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Of both ends together: it is one device. */
static uint64_t system_calls(const struct end *e)
{
	char value[32];

	assert_true(ibv_read_sysfs_file(e->context->device->ibdev_path,
					"ports/1/hw_counters/udp_tx_calls", value,
					sizeof(value)) > 0);
	return strtoull(value, NULL, 10);
}

/* A call for each: a byte of their number to its place. Only the last one is signaled. */
static void post(struct end *from, const struct end *to, int n)
{
	const struct end_address there = end_address(to);
	struct ibv_sge sge = {(uintptr_t)from->buf, 1, from->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1}, *bad;

	wr.wr.rdma.rkey = there.rkey;
	for (int i = 0; i < n; i++) {
		from->buf[i] = (uint8_t)n;
		sge.addr = (uintptr_t)&from->buf[i];
		wr.wr.rdma.remote_addr = there.addr + (unsigned)i;
		wr.send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	}
}

static void complete(struct end *from)
{
	struct ibv_wc wc;

	end_wait(from, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Without a timeout: nothing is sent again, and so helps what was left. */
static void open_and_get_used(struct end *a, struct end *b)
{
	end_open(a, NULL);
	end_open(b, NULL);
	a->timeout = 0;
	end_qp(a, false);
	end_qp(b, false);
	pair_connect(a, b);
	for (int i = 0; i < HABIT; i++) {
		post(a, b, 1);
		complete(a);
	}
}

/* Another program may have the processor just when it matters: one good round is enough. */
static void bursts_share_calls(void **state)
{
	uint64_t fewest = UINT64_MAX;
	struct end a, b;

	open_and_get_used(&a, &b);
	for (int i = 0; i < ROUNDS && fewest > BURST / 4; i++) {
		uint64_t before = system_calls(&a), calls;

		post(&a, &b, BURST);
		complete(&a);
		calls = system_calls(&a) - before;
		fewest = calls < fewest ? calls : fewest;
	}
	assert_in_range(fewest, 2, BURST / 4);
	pair_close(&a, &b, false);
}

/*
 * Who posts a long row, and polls then, is not taken for one that never polls, whom the driver
 * thread serves: from the second row on its messages share calls.
 */
static void long_rows_share_calls(void **state)
{
	uint64_t fewest = UINT64_MAX;
	struct end a, b;

	end_open(&a, NULL);
	end_open(&b, NULL);
	end_qp(&a, false);
	end_qp(&b, false);
	pair_connect(&a, &b);
	usleep(10000); /* nobody polls */
	for (int i = 0; i < ROWS && fewest > PART / 2; i++) {
		uint64_t before = system_calls(&a), calls;

		post(&a, &b, PART);
		post(&a, &b, PART);
		complete(&a);
		complete(&a);
		calls = system_calls(&a) - before;
		fewest = calls < fewest ? calls : fewest;
	}
	assert_in_range(fewest, 2, PART / 2);
	pair_close(&a, &b, false);
}

/* Memory that the peer writes, as the program that spins on it reads it. */
__attribute__((no_sanitize("thread"))) static uint8_t look_at(const volatile uint8_t *p)
{
	return *p;
}

/* What a sender that polled each time before leaves lying, the driver thread sends. */
static void nothing_is_left(void **state)
{
	struct end a, b;

	open_and_get_used(&a, &b);
	for (int i = 0; i < 3; i++) {
		uint8_t *last = &b.buf[BURST - 1];
		double start = seconds();

		*last = 0;
		post(&a, &b, BURST);
		while (look_at(last) != BURST)
			assert_true(seconds() - start < 10);
		complete(&a);
	}
	pair_close(&a, &b, false);
}

static const uint32_t long_messages[] = {256 << 10, 300 << 10};

enum { N_LONG_MESSAGES = sizeof(long_messages) / sizeof(long_messages[0]) };

static struct end_address open_unreliable(struct end *e, int fd)
{
	struct end_address mine, there;

	end_open(e, NULL);
	e->unreliable = true;
	end_qp(e, false);
	mine = end_address(e);
	REQUIRE(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	REQUIRE(read(fd, &there, sizeof(there)) == sizeof(there));
	end_connect(e, &there);
	return there;
}

/* Says when the last byte of each has come. Ends with the other process, whatever becomes of that.
 */
static int receive_long_messages(int fd)
{
	uint8_t byte = 1;
	struct end e;

	REQUIRE(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	open_unreliable(&e, fd);
	for (int i = 0; i < N_LONG_MESSAGES; i++) {
		if (write(fd, &byte, 1) != 1)
			return 1;
		while (look_at(&e.buf[long_messages[i] - 1]) != 1)
			usleep(100);
	}
	return write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 0;
}

static void post_long_message(struct end *e, const struct end_address *to, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, len, e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1}, *bad;

	e->buf[len - 1] = 1;
	wr.wr.rdma.rkey = to->rkey;
	wr.wr.rdma.remote_addr = to->addr;
	assert_int_equal(ibv_post_send(e->qp, &wr, &bad), 0);
}

/*
 * Of messages of more packets than one round sends, to which nobody answers, by a program that does
 * not poll, nothing is left lying.
 */
static void no_rest_is_left(void **state)
{
	struct end_address there;
	struct pollfd answer;
	struct end e;
	int fds[2], status;
	uint8_t byte;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		_exit(receive_long_messages(fds[1]));
	}
	close(fds[1]);
	answer = (struct pollfd){.fd = fds[0], .events = POLLIN};
	there = open_unreliable(&e, fds[0]);
	for (int i = 0; i <= N_LONG_MESSAGES; i++) {
		assert_int_equal(poll(&answer, 1, 10000), 1);
		assert_int_equal(read(fds[0], &byte, 1), 1);
		usleep(10000); /* nobody polls */
		if (i < N_LONG_MESSAGES)
			post_long_message(&e, &there, long_messages[i]);
	}
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end_close(&e, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_share_calls),
		cmocka_unit_test(long_rows_share_calls),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(no_rest_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
