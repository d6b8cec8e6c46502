/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that are killed: what they claimed is free, what they sent arrives, others take over.
 */
#include "base/clock.h"
#include "shm_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void kill_and_wait(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A child that owns a block and says which; it takes packets if so told. */
static pid_t fork_owner(uint64_t seed, bool takes, uint32_t *ret_base)
{
	int fds[2];
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		uint32_t base;
		struct urxe_shm *shm;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (urxe_shm_open(seed, &shm) || urxe_shm_claim(shm, 1, 0, &base) ||
		    write(fds[1], &base, sizeof(base)) != sizeof(base))
			_exit(1);
		for (;;) {
			if (!takes)
				pause();
			urxe_shm_service(shm);
			shm_drain(shm);
		}
	}
	assert_int_equal(read(fds[0], ret_base, sizeof(*ret_base)), sizeof(*ret_base));
	close(fds[0]);
	close(fds[1]);
	return child;
}

static void test_claim_ends_with_its_process(void **state)
{
	struct urxe_shm *shm;
	uint32_t base, again;
	pid_t child = fork_owner(77, false, &base);

	assert_int_equal(urxe_shm_open(77, &shm), 0);
	assert_true(urxe_shm_block_exists(shm, base));
	kill_and_wait(child);
	assert_false(urxe_shm_block_exists(shm, base));
	assert_int_equal(urxe_shm_claim(shm, 1, 0, &again), 0);
	assert_int_equal(again, base);
	urxe_shm_close(shm);
}

/* Sends 1, 2, 3... in its packets' lengths until it is killed. */
static void run_counter(uint32_t qpn)
{
	struct urxe_shm *shm;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (urxe_shm_open(1, &shm))
		_exit(1);
	for (uint32_t i = 0;;)
		i += shm_send_one(urxe_shm_peer(shm, qpn), 0, i % 1000);
}

struct count {
	uint64_t n;
	uint64_t wrong;
};

static void deliver_count(void *arg, const struct urxe_rx *rx)
{
	struct count *c = arg;

	c->wrong += rx->len != 12 + c->n % 1000;
	c->n++;
}

static void test_killed_sender_is_drained(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(5, &base);
	unsigned fds = shm_open_fds();

	for (int round = 0; round < 30; round++) {
		struct count count = {0};
		uint64_t before_kill;
		pid_t child = fork();

		if (child == 0)
			run_counter(base);
		while (count.n < 300u * (unsigned)round) {
			urxe_shm_service(shm);
			urxe_shm_poll(shm, deliver_count, &count, 64);
		}
		kill_and_wait(child);
		before_kill = count.n;
		shm_settle(shm);
		while (urxe_shm_poll(shm, deliver_count, &count, 64))
			;
		assert_int_equal(count.wrong, 0);
		assert_in_range(count.n - before_kill, 0, 1024);
		assert_false(urxe_shm_pending(shm));
		assert_int_equal(shm_open_fds(), fds);
	}
	urxe_shm_close(shm);
}

static void test_new_owner_takes_over(void **state)
{
	struct urxe_shm *shm;
	struct urxe_shm_peer *peer;
	uint64_t now = 0;
	uint32_t base;

	assert_int_equal(urxe_shm_open(99, &shm), 0);
	for (int round = 0; round < 10; round++) {
		pid_t child = fork_owner(4711, true, &base);
		struct urxe_shm_stats before, after;

		peer = urxe_shm_peer(shm, base);
		urxe_shm_stats(shm, &before);
		now += NSEC_PER_SEC;
		for (unsigned sent = 0; sent < 5000;)
			sent += shm_send_one(peer, now, 1000);
		urxe_shm_stats(shm, &after);
		assert_int_equal(after.tx_pkts - before.tx_pkts, 5000);
		kill_and_wait(child);
		for (unsigned sent = 0; sent < 10 && shm_send_one(peer, now, 8);)
			sent++; /* into the void, harmlessly */
		shm_settle(shm);
		assert_int_equal(shm_send_one(peer, now, 8), 1);
		urxe_shm_stats(shm, &before);
		assert_int_not_equal(before.tx_no_peer, after.tx_no_peer);
	}
	urxe_shm_close(shm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claim_ends_with_its_process),
		cmocka_unit_test(test_killed_sender_is_drained),
		cmocka_unit_test(test_new_owner_takes_over),
	};

	shm_isolate(); /* nobody else claims blocks meanwhile */
	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
