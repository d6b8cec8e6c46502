/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One conformance suite over the three ways that packets take: to the endpoint itself, to another
 * endpoint of the process, to another process. In each, whole streams arrive complete, unchanged
 * and in order, whatever the budgets, however full the ring.
 */
#include "shm_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void check(const struct shm_sink *sink)
{
	struct urxe_shm_stats stats;

	assert_int_equal(sink->wrong, 0);
	assert_int_equal(sink->received, sink->scenario->n_pkts);
	assert_int_equal(shm_drain(sink->shm), 0);
	urxe_shm_stats(sink->shm, &stats);
	assert_int_equal(stats.rx_malformed, 0);
	assert_int_equal(stats.tx_no_peer, 0);
}

/* Fills the ring to the brim before taking anything, so that every stream meets back-pressure. */
static void stream_in_process(struct urxe_shm *from, struct urxe_shm *to, uint32_t qpn,
			      const struct shm_scenario *scenario)
{
	struct shm_source_side src = {.peer = urxe_shm_peer(from, qpn), .scenario = scenario};
	struct shm_sink sink = {.shm = to, .scenario = scenario};
	struct urxe_shm_stats stats;

	while (sink.received < scenario->n_pkts) {
		while (shm_source_step(&src))
			;
		shm_settle(to);
		assert_true(urxe_shm_pending(to));
		assert_int_not_equal(shm_sink_step(&sink), 0);
	}
	check(&sink);
	urxe_shm_stats(from, &stats);
	assert_int_not_equal(stats.tx_full, 0);
}

static void test_loopback(void **state)
{
	for (unsigned i = 0; i < shm_n_scenarios; i++) {
		uint32_t base;
		struct urxe_shm *shm = shm_endpoint(i, &base);

		stream_in_process(shm, shm, base + 7, &shm_scenarios[i]);
		urxe_shm_close(shm);
	}
}

static void test_one_process(void **state)
{
	for (unsigned i = 0; i < shm_n_scenarios; i++) {
		uint32_t base_a, base_b;
		struct urxe_shm *a = shm_endpoint(i, &base_a);
		struct urxe_shm *b = shm_endpoint(i, &base_b);

		assert_int_not_equal(base_a, base_b);
		stream_in_process(a, b, base_b + 1023, &shm_scenarios[i]);
		stream_in_process(b, a, base_a, &shm_scenarios[i]);
		urxe_shm_close(a);
		urxe_shm_close(b);
	}
}

static void run_source(uint32_t qpn, const struct shm_scenario *scenario)
{
	struct shm_source_side src = {.scenario = scenario};
	struct urxe_shm *shm;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (urxe_shm_open(1, &shm))
		_exit(1);
	src.peer = urxe_shm_peer(shm, qpn);
	while (src.sent < scenario->n_pkts)
		shm_source_step(&src);
	_exit(0); /* what is in the ring must outlive us */
}

static void test_two_processes(void **state)
{
	for (unsigned i = 0; i < shm_n_scenarios; i++) {
		uint32_t base;
		struct urxe_shm *shm = shm_endpoint(i, &base);
		struct shm_sink sink = {.shm = shm, .scenario = &shm_scenarios[i]};
		pid_t child = fork();
		int status;

		if (child == 0)
			run_source(base, &shm_scenarios[i]);
		while (sink.received < sink.scenario->n_pkts) {
			if (!shm_sink_step(&sink))
				shm_settle(shm);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		shm_settle(shm);
		check(&sink);
		urxe_shm_close(shm);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_one_process),
		cmocka_unit_test(test_two_processes),
	};
	unsigned fds = shm_open_fds();

	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL) || shm_open_fds() != fds;
}
