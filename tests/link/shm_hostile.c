/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that break every rule: hellos of garbage or none, floods of connections, memory that is not
 * what it should be, and scribbles all over a ring while it is in use. Nothing may crash, leak or
 * keep an honest peer out.
 */
#include "base/rng.h"
#include "link/shm_priv.h"
#include "shm_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t malformed(const struct urxe_shm *shm)
{
	struct urxe_shm_stats stats;

	urxe_shm_stats(shm, &stats);
	return stats.rx_malformed;
}

static int connect_by_hand(uint32_t base)
{
	struct sockaddr_un name;
	socklen_t len = urxe_shm_block_name(base >> SHM_BLOCK_SHIFT, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, len)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void say(int sock, const void *data, size_t len, const int *fds, unsigned n_fds)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int memory(unsigned flags, off_t size, int seals)
{
	int fd = memfd_create("hostile", MFD_ALLOW_SEALING | flags);

	if (fd >= 0 && (ftruncate(fd, size) || fcntl(fd, F_ADD_SEALS, seals))) {
		close(fd);
		return -1;
	}
	return fd;
}

enum { GOOD_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* An honest peer still gets a packet through. */
static void assert_works(struct urxe_shm *shm, uint32_t base)
{
	struct urxe_shm *honest;

	assert_int_equal(urxe_shm_open(1, &honest), 0);
	assert_int_equal(shm_send_one(urxe_shm_peer(honest, base), 0, 100), 1);
	shm_settle(shm);
	assert_int_equal(shm_drain(shm), 1);
	urxe_shm_close(honest);
	shm_settle(shm);
	shm_drain(shm);
}

/* ---- hellos ---------------------------------------------------------------------------------- */

struct greeting {
	struct urxe_shm *shm;
	uint32_t base;
	unsigned fds; /* open before */
};

static void assert_refused(struct greeting *g, const void *data, size_t len, const int *fds,
			   unsigned n_fds)
{
	uint64_t before = malformed(g->shm);
	int sock = connect_by_hand(g->base);

	assert_true(sock >= 0);
	say(sock, data, len, fds, n_fds);
	shm_settle(g->shm);
	assert_int_equal(malformed(g->shm), before + 1);
	close(sock);
	assert_int_equal(shm_open_fds(), g->fds + n_fds);
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
	assert_works(g->shm, g->base);
	assert_int_equal(shm_open_fds(), g->fds);
}

static void assert_memory_refused(struct greeting *g, int fd)
{
	struct shm_hello hello = SHM_HELLO;

	assert_true(fd >= 0);
	assert_refused(g, &hello, sizeof(hello), &fd, 1);
}

static void test_garbage_hellos(void **state)
{
	struct greeting g;
	struct shm_hello hello = SHM_HELLO;
	uint8_t noise[300];
	int fds[3];

	g.shm = shm_endpoint(1, &g.base);
	g.fds = shm_open_fds();
	shm_pattern(99, noise, sizeof(noise));
	assert_refused(&g, noise, sizeof(noise), NULL, 0);
	assert_refused(&g, noise, sizeof(hello), NULL, 0);
	assert_refused(&g, noise, 1, NULL, 0);
	assert_refused(&g, "", 0, NULL, 0);
	assert_refused(&g, &hello, sizeof(hello), NULL, 0);
	for (unsigned i = 0; i < sizeof(hello) / 4; i++) {
		struct shm_hello wrong = SHM_HELLO;

		((uint32_t *)(void *)&wrong)[i] ^= 1;
		fds[0] = memory(0, sizeof(struct ring), GOOD_SEALS);
		assert_refused(&g, &wrong, sizeof(wrong), fds, 1);
	}
	fds[0] = memory(0, sizeof(struct ring), GOOD_SEALS);
	assert_refused(&g, noise, sizeof(noise), fds, 1);
	fds[0] = memory(0, sizeof(struct ring), F_SEAL_SHRINK); /* surplus descriptors, none good */
	fds[1] = open("/dev/null", O_RDONLY);
	fds[2] = memory(0, sizeof(struct ring), GOOD_SEALS);
	assert_refused(&g, &hello, sizeof(hello), fds, 3);
	urxe_shm_close(g.shm);
}

static void test_wrong_memory(void **state)
{
	enum { HUGE_PAGE = 2 << 20 };
	off_t size = sizeof(struct ring);
	struct greeting g;
	int huge;

	g.shm = shm_endpoint(1, &g.base);
	g.fds = shm_open_fds();
	assert_memory_refused(&g, open("/dev/null", O_RDWR));
	assert_memory_refused(&g, open("/dev/zero", O_RDWR));
	assert_memory_refused(&g, socket(AF_UNIX, SOCK_STREAM, 0));
	assert_memory_refused(&g, memory(0, size, 0));
	assert_memory_refused(&g, memory(0, size, F_SEAL_SHRINK | F_SEAL_GROW));
	assert_memory_refused(&g, memory(0, size, F_SEAL_SEAL | F_SEAL_GROW));
	assert_memory_refused(&g, memory(0, size, GOOD_SEALS | F_SEAL_WRITE));
	assert_memory_refused(&g, memory(0, size, GOOD_SEALS | F_SEAL_FUTURE_WRITE));
	assert_memory_refused(&g, memory(0, 0, GOOD_SEALS));
	assert_memory_refused(&g, memory(0, size - 4096, GOOD_SEALS));
	assert_memory_refused(&g, memory(0, size + 4096, GOOD_SEALS));
	huge = memory(MFD_HUGETLB, HUGE_PAGE, GOOD_SEALS);
	if (huge >= 0)
		assert_memory_refused(&g, huge);
	urxe_shm_close(g.shm);
}

/* ---- floods ---------------------------------------------------------------------------------- */

static void test_silent_flood(void **state)
{
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	unsigned fds = shm_open_fds();
	int socks[400];

	for (unsigned i = 0; i < 400; i++) {
		socks[i] = connect_by_hand(base);
		assert_true(socks[i] >= 0);
		shm_settle(shm);
		assert_in_range(shm_open_fds() - fds - i - 1, 0, SHM_MUTE_MAX);
	}
	assert_works(shm, base);
	for (unsigned i = 0; i < 400; i++)
		close(socks[i]);
	shm_settle(shm);
	assert_int_equal(shm_open_fds(), fds);
	urxe_shm_close(shm);
}

/* Connect as that user with good hellos; all rings are one piece of memory. */
static void flood(struct urxe_shm *shm, uint32_t base, uid_t uid, int *socks, unsigned n)
{
	uid_t us = geteuid();
	struct shm_hello hello = SHM_HELLO;
	int fd = memory(0, sizeof(struct ring), GOOD_SEALS);

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(seteuid(uid), 0);
		socks[i] = connect_by_hand(base);
		assert_int_equal(seteuid(us), 0);
		assert_true(socks[i] >= 0);
		say(socks[i], &hello, sizeof(hello), &fd, 1);
		shm_settle(shm);
	}
	close(fd);
}

static void end_flood(struct urxe_shm *shm, const int *socks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(socks[i]);
	shm_settle(shm);
	assert_int_equal(shm_drain(shm), 0); /* frees those who left */
	assert_int_equal(shm->n_in, 0);
	assert_int_equal(shm->n_strangers, 0);
}

static void test_ring_flood(void **state)
{
	enum { MANY = SHM_CONNS_MAX + 100 };
	static int socks[MANY];
	struct rlimit old, all = {4096, 4096};
	uint32_t base;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	unsigned fds = shm_open_fds();

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	all.rlim_max = old.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &all)) {
		urxe_shm_close(shm);
		skip();
	}
	flood(shm, base, geteuid(), socks, MANY);
	assert_int_equal(shm->n_in, SHM_CONNS_MAX);
	end_flood(shm, socks, MANY);
	assert_int_equal(shm_open_fds(), fds);
	assert_works(shm, base);
	if (geteuid() == 0) {
		flood(shm, base, 65534, socks, SHM_STRANGERS_MAX + 50);
		assert_int_equal(shm->n_in, SHM_STRANGERS_MAX);
		assert_works(shm, base);
		end_flood(shm, socks, SHM_STRANGERS_MAX + 50);
	}
	urxe_shm_close(shm);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* ---- scribbles ------------------------------------------------------------------------------- */

static void scribble(struct ring *ring, struct rng *rng)
{
	uint32_t *words = (uint32_t *)(void *)ring;

	switch (rng_below(rng, 4)) {
	case 0: /* anything anywhere */
		for (int i = 0; i < 5000; i++)
			words[rng_below(rng, sizeof(*ring) / 4)] = (uint32_t)rng_next(rng);
		break;
	case 1: /* indices and flags */
		for (int i = 0; i < 5000; i++) {
			atomic_store(&ring->consumed, rng_below(rng, 2000));
			atomic_store(&ring->consumer_sleeps, (uint32_t)rng_next(rng));
			atomic_store(&ring->producer_sleeps, (uint32_t)rng_next(rng));
		}
		break;
	default: /* plausible packets at the edges of what is allowed */
		for (unsigned i = 0; i < RING_CELLS; i++) {
			struct ring_cell *cell = &ring->cells[i];
			uint32_t len = rng_below(rng, 2) ? RING_INLINE : RING_PACKET_MAX;

			len += 2 - rng_below(rng, 100) % 8;
			shm_pattern(rng_next(rng), cell->data, RING_INLINE);
			atomic_store(&cell->bulk_off, RING_BULK - len + 2 - rng_below(rng, 8));
			atomic_store(&cell->desc, rng_below(rng, RING_F_ALL + 2) << 16 | len);
			atomic_store(&cell->seq, i + 1);
		}
	}
}

/* Connects to base and accepts on a block of its own, maps what it gets, scribbles on all of it. */
static void run_scribbler(uint32_t base, int tell_fd)
{
	struct shm_hello hello = SHM_HELLO;
	struct rng rng = {.state = 7};
	struct urxe_shm *shm;
	uint32_t mine;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (urxe_shm_open(3, &shm) || urxe_shm_claim(shm, 1, 0, &mine) ||
	    write(tell_fd, &mine, sizeof(mine)) != sizeof(mine))
		_exit(1);
	for (;;) {
		int fd = memory(0, sizeof(struct ring), GOOD_SEALS), sock;
		struct ring *ring;

		if (urxe_ring_map(fd, &ring))
			_exit(2);
		sock = connect_by_hand(base);
		if (sock >= 0)
			say(sock, &hello, sizeof(hello), &fd, 1);
		for (int i = 0; i < 5; i++) {
			scribble(ring, &rng);
			say(sock, "noise", 5, &fd, i & 1);
			urxe_shm_service(shm);
			if (shm->n_in)
				scribble(shm->in[0].rx.ring, &rng);
		}
		urxe_ring_unmap(ring);
		close(sock);
		close(fd);
	}
}

static void read_all(void *arg, const struct urxe_rx *rx)
{
	uint64_t *sum = arg;

	assert_in_range(rx->len, 0, RING_PACKET_MAX);
	for (uint32_t i = 0; i < rx->len; i++)
		*sum += rx->data[i];
}

static void test_scribbler(void **state)
{
	uint32_t base, theirs;
	struct urxe_shm *shm = shm_endpoint(1, &base);
	unsigned fds = shm_open_fds();
	struct urxe_shm_peer *peer;
	uint64_t sum = 0, now = 0;
	int pipe_fds[2];
	pid_t child;

	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	if (child == 0)
		run_scribbler(base, pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &theirs, sizeof(theirs)), sizeof(theirs));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	peer = urxe_shm_peer(shm, theirs);
	while (malformed(shm) < 300) {
		urxe_shm_service(shm);
		for (int i = 0; i < 10; i++) {
			urxe_shm_poll(shm, read_all, &sum, 300);
			for (int k = 0; k < 100; k++)
				shm_send_one(peer, now, i * 100u);
		}
		urxe_shm_arm(shm);
		now += 10 * NSEC_PER_MSEC;
	}
	urxe_shm_disarm(shm);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	shm_settle(shm);
	shm_drain(shm);
	shm_drain(shm);
	assert_int_equal(shm_open_fds(), fds);
	assert_works(shm, base);
	urxe_shm_close(shm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_garbage_hellos), cmocka_unit_test(test_wrong_memory),
		cmocka_unit_test(test_silent_flood),   cmocka_unit_test(test_ring_flood),
		cmocka_unit_test(test_scribbler),
	};

	shm_isolate();
	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
