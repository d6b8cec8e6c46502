/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No wake-up is lost. Two threads with an endpoint each (as two processes have; and so the thread
 * sanitizer sees both sides): one sends at random moments, the other drains, arms, and demands a
 * bell for whatever comes after arm() said that it may sleep. Then two processes that really sleep.
 */
#include "base/rng.h"
#include "link/shm_priv.h"
#include "shm_rig.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RACES = 100000, /* times URXE_TEST_SCALE: 10 makes the million that releases are held to */
	SLEEPERS_PKTS = 100000,
	WAKE_TIMEOUT_MS = 20000, /* many times what a loaded machine needs */
};

static unsigned scale(void)
{
	const char *s = getenv("URXE_TEST_SCALE");

	return s ? (unsigned)atoi(s) : 1;
}

static void relax(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

static bool bell_rings(struct urxe_shm *shm, int timeout_ms)
{
	struct pollfd pfd = {.fd = urxe_shm_fd(shm), .events = POLLIN};

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* ---- arm against send ------------------------------------------------------------------------ */

/* One packet at a time: the bell of a second one would cover up for a lost one. */
struct sender {
	uint32_t qpn;
	atomic_uint taken;
	unsigned end;
};

static void *run_sender(void *arg)
{
	struct sender *s = arg;
	struct rng rng = {.state = 1};
	struct urxe_shm *shm;

	if (urxe_shm_open(1, &shm))
		abort();
	for (unsigned sent = 0; sent < s->end; sent++) {
		while (atomic_load(&s->taken) < sent)
			;
		relax(rng_below(&rng, 150));
		if (shm_send_one(urxe_shm_peer(shm, s->qpn), 0, rng_below(&rng, 200)) != 1)
			abort();
	}
	while (atomic_load(&s->taken) < s->end)
		;
	urxe_shm_close(shm);
	return NULL;
}

/* Of each kind the fence may be, and from one kind to the other. */
static void race(unsigned races, uint64_t heavy_worth)
{
	struct sender sender = {.end = races * scale()};
	struct urxe_shm *shm = shm_endpoint(1, &sender.qpn);
	struct rng rng = {.state = 2};
	unsigned taken = 0, slept = 0;
	pthread_t thread;

	shm->heavy_worth = heavy_worth;
	assert_int_equal(pthread_create(&thread, NULL, run_sender, &sender), 0);
	while (!urxe_shm_service(shm))
		;
	while (taken < sender.end) {
		taken += shm_drain(shm);
		atomic_store(&sender.taken, taken);
		relax(rng_below(&rng, 400));
		if (taken == sender.end || !urxe_shm_arm(shm))
			continue;
		/* Mostly look for the packet itself first: much quicker than to sleep. */
		for (unsigned i = rng_below(&rng, 8) ? 3000 : 0; i && !urxe_shm_pending(shm); i--)
			;
		if (!bell_rings(shm, WAKE_TIMEOUT_MS))
			fail_msg("no bell for packet %u after %u sleeps", taken, slept);
		urxe_shm_service(shm);
		slept++;
	}
	pthread_join(thread, NULL);
	assert_int_not_equal(slept, 0);
	print_message("%u races, %u of them asleep\n", taken, slept);
	urxe_shm_close(shm);
}

static void test_arm_races_with_send(void **state)
{
	race(RACES / 2, UINT64_MAX);
}

static void test_heavy_arm_races_with_send(void **state)
{
	race(RACES / 4, 0);
}

static void test_arm_that_changes_races_with_send(void **state)
{
	race(RACES / 4, 2);
}

/* ---- full while asleep ----------------------------------------------------------------------- */

/* A post fills the ring when the endpoint is armed already: it is woken when there is room. */
static void test_full_while_armed(void **state)
{
	uint32_t qpn, other;
	struct urxe_shm *shm = shm_endpoint(1, &other), *peer = shm_endpoint(2, &qpn);
	unsigned sent = 0;

	assert_int_equal(shm_send_one(urxe_shm_peer(shm, qpn), 0, 64), 1);
	assert_true(urxe_shm_arm(shm));
	while (shm_send_one(urxe_shm_peer(shm, qpn), 0, 64) == 1)
		sent++;
	assert_in_range(sent, 100, 100000);
	assert_false(bell_rings(shm, 0));
	urxe_shm_service(peer);
	assert_int_equal(shm_drain(peer), sent + 1);
	assert_true(bell_rings(shm, WAKE_TIMEOUT_MS));
	urxe_shm_service(shm);
	assert_int_equal(shm_send_one(urxe_shm_peer(shm, qpn), 0, 64), 1);
	urxe_shm_close(shm);
	urxe_shm_close(peer);
}

/* ---- two processes that sleep ---------------------------------------------------------------- */

static void spec_any(uint64_t i, struct shm_spec *spec)
{
	struct rng rng = {.state = i};

	spec->hdr_len = 12;
	spec->n_iov = 1;
	spec->payload_len = rng_below(&rng, 50) ? rng_below(&rng, 150) : rng_below(&rng, 16384);
}

static struct shm_scenario sleepers = {"sleepers", SLEEPERS_PKTS, 900, spec_any};

/* Sleep until a bell, unless there is something to do. Returns false if no bell came. */
static bool sleep_a_while(struct urxe_shm *shm)
{
	bool woken = true;

	if (urxe_shm_arm(shm)) {
		woken = bell_rings(shm, WAKE_TIMEOUT_MS);
		urxe_shm_service(shm);
	}
	urxe_shm_disarm(shm);
	return woken;
}

static void run_source(uint32_t qpn)
{
	struct shm_source_side src = {.scenario = &sleepers};
	struct rng rng = {.state = 3};
	struct urxe_shm *shm;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (urxe_shm_open(1, &shm))
		_exit(1);
	src.peer = urxe_shm_peer(shm, qpn);
	while (src.sent < sleepers.n_pkts) {
		if (!shm_source_step(&src) && !sleep_a_while(shm))
			_exit(2);
		if (rng_below(&rng, 20) == 0) /* let the other one fall asleep */
			relax(100000);
	}
	_exit(0);
}

static void test_two_sleepers(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	struct shm_sink sink = {.shm = shm, .scenario = &sleepers};
	pid_t child;
	int status;

	sleepers.n_pkts = SLEEPERS_PKTS * scale();
	child = fork();
	if (child == 0)
		run_source(base);
	while (sink.received < sleepers.n_pkts) {
		if (!shm_sink_step(&sink) && !sleep_a_while(shm))
			fail_msg("no bell at packet %lu", (unsigned long)sink.received);
	}
	assert_int_equal(sink.wrong, 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	urxe_shm_close(shm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arm_races_with_send),
		cmocka_unit_test(test_heavy_arm_races_with_send),
		cmocka_unit_test(test_arm_that_changes_races_with_send),
		cmocka_unit_test(test_full_while_armed),
		cmocka_unit_test(test_two_sleepers),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
