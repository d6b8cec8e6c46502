/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes: data between them, the sudden death of one, a fork, and what stays behind. */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 300000, TIMEOUT = 14, RETRY = 2 };

/* ---- the other process ----------------------------------------------------------------------- */

/* Answers every message with the same bytes, waiting for events; until it is killed. */
static int echo_peer(void)
{
	struct end_address mine, theirs;
	struct ibv_wc wc[2];
	struct end e;

	end_open(&e, NULL);
	end_qp(&e, false);
	mine = end_address(&e);
	exchange(3, &mine, &theirs, sizeof(mine));
	end_connect(&e, &theirs);
	end_recv(&e, 0, 0, LEN);
	exchange(3, "r", wc, 1);
	for (;;) {
		struct ibv_sge sge = {(uintptr_t)e.buf, 0, e.mr->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad;
		struct ibv_cq *cq;
		void *cq_context;

		REQUIRE(ibv_req_notify_cq(e.cq, 0) == 0);
		if (ibv_poll_cq(e.cq, 1, wc) == 0) {
			REQUIRE(ibv_get_cq_event(e.channel, &cq, &cq_context) == 0);
			ibv_ack_cq_events(cq, 1);
			continue;
		}
		REQUIRE(wc->status == IBV_WC_SUCCESS);
		if (wc->opcode != IBV_WC_RECV)
			continue;
		sge.length = wc->byte_len;
		REQUIRE(ibv_post_send(e.qp, &wr, &bad) == 0);
		end_wait(&e, wc, 1);
		end_recv(&e, 0, 0, LEN);
	}
}

struct peer {
	struct end e;
	struct end_address address;
	pid_t pid;
	int socket;
};

static void peer_start(struct peer *p, uint8_t retry_cnt)
{
	struct end_address mine;
	char ready;

	p->pid = spawn_self(&p->socket, "echo", NULL);
	end_open(&p->e, NULL);
	p->e.timeout = TIMEOUT;
	p->e.retry_cnt = retry_cnt;
	end_qp(&p->e, false);
	mine = end_address(&p->e);
	exchange(p->socket, &mine, &p->address, sizeof(mine));
	end_connect(&p->e, &p->address);
	exchange(p->socket, "r", &ready, 1);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->socket);
}

static int send_bytes(struct end *e, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, len, e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

static void echo(struct end *e, uint32_t len, unsigned seed)
{
	struct ibv_wc wc[2];

	fill(e->buf, len, seed);
	memset(e->buf + RIG_BUF / 2, 0, LEN);
	end_recv(e, 1, RIG_BUF / 2, LEN);
	assert_int_equal(send_bytes(e, len), 0);
	end_wait(e, wc, 2);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
	assert_memory_equal(e->buf, e->buf + RIG_BUF / 2, len);
}

/* ---- what stays behind ----------------------------------------------------------------------- */

enum { NAME_BYTES = 128 };

static unsigned count_lines(const char *path, const char *word)
{
	FILE *f = fopen(path, "r");
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, word) != NULL;
	fclose(f);
	return n;
}

static unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void test_echo_and_death(void **state)
{
	const double timeout_s = 4.096e-6 * (1 << TIMEOUT) * (RETRY + 1);
	unsigned fds = 0;

	for (int round = 0; round < 5; round++) {
		struct ibv_wc wc;
		struct peer p;
		double start;

		peer_start(&p, RETRY);
		for (unsigned i = 0; i < 20; i++)
			echo(&p.e, 1 + i * 15000, i);
		peer_kill(&p);
		start = seconds();
		assert_int_equal(send_bytes(&p.e, 64), 0);
		end_wait(&p.e, &wc, 1);
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		/* IBA 9.7.6.1.3: a timer runs for one to four times what was asked. */
		assert_true(seconds() - start >= timeout_s * 0.99);
		assert_true(seconds() - start <= timeout_s * 4);
		end_close(&p.e, true);
		assert_int_equal(count_lines("/proc/self/maps", "memfd"), 0);
		/* The driver thread keeps two descriptors from the first round on. */
		if (round == 0)
			fds = count_entries("/proc/self/fd");
		assert_int_equal(count_entries("/proc/self/fd"), fds);
	}
}

/* The i-th name of urxe's in the namespace, and the inode of its socket; false: there are fewer. */
static bool name_at(unsigned i, char *name, unsigned long *ret_inode)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	bool found = false;

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "@urxe");

		if (!at || i-- > 0)
			continue;
		found = sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", ret_inode) == 1;
		snprintf(name, NAME_BYTES, "%s", at);
	}
	fclose(f);
	return found;
}

static bool has_socket(pid_t pid, unsigned long inode)
{
	char dir_name[32], wanted[32], path[512], target[64];
	bool found = false;
	struct dirent *entry;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(dir_name, sizeof(dir_name), "/proc/%d/fd", (int)pid);
	dir = opendir(dir_name);
	assert_non_null(dir);
	while (!found && (entry = readdir(dir)) != NULL) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", dir_name, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		found = n == (ssize_t)strlen(wanted) && !memcmp(target, wanted, (size_t)n);
	}
	closedir(dir);
	return found;
}

/* Others of this host may use the NIC too: of all names, those that these two processes hold. */
static void test_names_are_released(void **state)
{
	static char held[64][NAME_BYTES];
	unsigned n_ours = 0, n_theirs = 0, n = 0;
	unsigned long inode;
	char name[NAME_BYTES];
	struct peer p;

	peer_start(&p, 7);
	echo(&p.e, 1000, 1);
	for (unsigned i = 0; n < 64 && name_at(i, held[n], &inode); i++) {
		bool ours = has_socket(getpid(), inode), theirs = has_socket(p.pid, inode);

		n_ours += ours;
		n_theirs += theirs;
		n += ours || theirs;
	}
	assert_true(n_ours > 0 && n_theirs > 0);
	peer_kill(&p);
	end_close(&p.e, true);
	for (unsigned i = 0; name_at(i, name, &inode); i++) {
		for (unsigned k = 0; k < n; k++)
			assert_string_not_equal(name, held[k]);
	}
}

/* ---- fork ------------------------------------------------------------------------------------ */

#ifndef __SANITIZE_THREAD__ /* it cannot start threads in the child of a fork */
static int child_of_fork(struct peer *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr recv = {0}, *bad;
	struct ibv_wc wc;
	struct end a, b;

	/* The parent's objects are out of reach... */
	REQUIRE(ibv_poll_cq(p->e.cq, 1, &wc) < 0);
	REQUIRE(send_bytes(&p->e, 1) == EPERM);
	REQUIRE(ibv_post_recv(p->e.qp, &recv, &bad) == EPERM && bad == &recv);
	REQUIRE(ibv_modify_qp(p->e.qp, &attr, IBV_QP_STATE) == EPERM);
	REQUIRE(!ibv_alloc_pd(p->e.context) && errno == EPERM);
	REQUIRE(ibv_destroy_qp(p->e.qp) == EPERM);
	REQUIRE(ibv_close_device(p->e.context) == EPERM);
	/* ... and its own ones work. */
	pair_open(&a, &b, false);
	end_recv(&b, 0, 0, 64);
	REQUIRE(send_bytes(&a, 64) == 0);
	end_wait(&b, &wc, 1);
	REQUIRE(wc.status == IBV_WC_SUCCESS);
	pair_close(&a, &b, false);
	return 0;
}

static void test_fork(void **state)
{
	struct peer p;
	int status;
	pid_t pid;

	peer_start(&p, 7);
	echo(&p.e, 5000, 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child_of_fork(&p));
	for (unsigned i = 0; i < 50; i++)
		echo(&p.e, 5000, 2 + i);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	echo(&p.e, 5000, 99);
	peer_kill(&p);
	end_close(&p.e, true);
}
#endif

/* ---- idleness -------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void test_idle(void **state)
{
	struct peer p;
	double before;

	peer_start(&p, 7);
	echo(&p.e, 5000, 1);
	poll(NULL, 0, 50); /* the driver thread notices that nobody polls */
	before = cpu_seconds();
	poll(NULL, 0, 2000);
	assert_true(cpu_seconds() - before < 0.02);
	echo(&p.e, 5000, 2);
	peer_kill(&p);
	end_close(&p.e, true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echo_and_death),
		cmocka_unit_test(test_names_are_released),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(test_fork),
#endif
		cmocka_unit_test(test_idle),
	};

	if (argc > 1)
		return echo_peer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
