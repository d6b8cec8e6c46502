/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that garble, dawdle, vanish or crowd the bootstrap connection: each costs what it is
 * allowed to, is told apart, and leaves nothing behind.
 */
#include "test_boot_rig.h"

#include "base/clock.h"
#include "base/rng.h"
#include "deaf.h"
#include "xrdma/boot_frame.h"
#include "xrdma/hello.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void begin(struct rig *r)
{
	rig_conf(r);
	rig_listen(r, "127.0.0.1:0");
}

static void write_all(int fd, const void *data, size_t len)
{
	assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

static void expect_death(const void *sent, size_t len, bool then_close, int err, const char *said)
{
	struct rig r;
	int fd;

	begin(&r);
	fd = rig_raw(&r);
	write_all(fd, sent, len);
	if (then_close)
		shutdown(fd, SHUT_WR);
	rig_server_dies(&r);
	assert_int_equal(r.server_err, err);
	assert_said(xr_boot_why(r.server), said);
	close(fd);
	rig_close(&r);
}

static void foreign_protocols_die_with_their_first_bytes(void **state)
{
	expect_death("GET / HTTP/1.1\r\n", 16, false, -EPROTO, "another service");
	expect_death("\x16\x03\x01", 3, false, -EPROTO, "speaks TLS");
	expect_death("XY", 2, false, -EPROTO, "another service");
}

static void absurd_lengths_die_before_any_memory(void **state)
{
	expect_death("XR\1\0\xff\xff\xff\xff", 8, false, -EMSGSIZE, "4294967295 bytes");
	expect_death("XR\1\0\0\1\x08\x01", 8, false, -EMSGSIZE, "67585 bytes");
}

static void half_blocks_and_half_connections(void **state)
{
	uint8_t half[XR_FRAME_HEAD + 5] = {0};

	xr_frame_head(XR_BLOCK_HELLO, 10, half);
	expect_death(half, sizeof(half), true, -ECONNRESET, "in the middle of a block");
	expect_death(half, 3, true, -ECONNRESET, "in the middle of a block");
	expect_death(half, 0, true, -ECONNRESET, "before it said anything");
}

/* A byte at a time, just in time each: the deadline is for the block, not for the byte. */
static void a_block_that_trickles_in_is_cut_off(void **state)
{
	uint8_t block[XR_FRAME_HEAD + 100] = {0};
	struct rig r;
	uint64_t step;
	int fd;

	begin(&r);
	step = r.server_conf.connect_timeout_ms * NSEC_PER_MSEC / 20;
	fd = rig_raw(&r);
	xr_boot_established(r.server);
	xr_frame_head(1, 100, block);
	for (unsigned i = 0; i < 20; i++) {
		write_all(fd, block + i, 1);
		rig_step(&r);
		assert_int_equal(r.server_err, 0);
		r.now += step;
	}
	write_all(fd, block + 20, 1);
	rig_step(&r);
	assert_int_equal(r.server_err, -ETIMEDOUT);
	assert_said(xr_boot_why(r.server), "a part of a block and then too little");
	close(fd);
	rig_close(&r);
}

/* In time and whole, the same bytes are two blocks. */
static void a_block_may_come_in_pieces(void **state)
{
	uint8_t block[2 * (XR_FRAME_HEAD + 100)] = {0};
	unsigned n = 0;
	struct rig r;
	int fd;

	begin(&r);
	fd = rig_raw(&r);
	xr_frame_head(1, 100, block);
	xr_frame_head(2, 100, block + sizeof(block) / 2);
	for (size_t i = 0; i < sizeof(block); i++) {
		const uint8_t *data;
		uint8_t type;
		size_t len;

		write_all(fd, block + i, 1);
		rig_step(&r);
		while (xr_boot_next(r.server, &type, &data, &len) == 1) {
			assert_int_equal(type, ++n);
			assert_int_equal(len, 100);
		}
	}
	assert_int_equal(n, 2);
	close(fd);
	rig_close(&r);
}

static void silent_peers_are_given_up(void **state)
{
	struct rig r;
	uint64_t deadline;
	int fd;

	begin(&r);
	fd = rig_raw(&r);
	deadline = xr_boot_deadline(r.server);
	assert_int_equal(xr_boot_io(r.server, deadline - 1), 0);
	assert_int_equal(xr_boot_io(r.server, deadline), -ETIMEDOUT);
	close(fd);
	rig_close(&r);

	/* In TLS too. */
	rig_conf(&r);
	r.server_conf.tls = XR_CHOICE_ON;
	strcpy(r.server_conf.tls_psk, "00000000000000000000000000000000");
	rig_listen(&r, "127.0.0.1:0");
	fd = rig_raw(&r);
	write_all(fd, "\x16\x03\x01\x02", 4);
	rig_step(&r);
	assert_int_equal(xr_boot_io(r.server, deadline - 1), 0);
	assert_int_equal(xr_boot_io(r.server, deadline), -ETIMEDOUT);
	assert_said(xr_boot_why(r.server), "the TLS handshake did not finish");
	close(fd);
	rig_close(&r);
}

static void a_reset_is_an_error_like_another(void **state)
{
	struct linger now = {.l_onoff = 1};
	struct rig r;
	int fd;

	begin(&r);
	fd = rig_raw(&r);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	rig_server_dies(&r);
	assert_int_equal(r.server_err, -ECONNRESET);
	rig_close(&r);
}

static void garbage_of_all_kinds(void **state)
{
	struct rng rng = {.state = 7};

	for (unsigned i = 0; i < 300; i++) {
		uint8_t junk[512];
		size_t len = 1 + rng_below(&rng, sizeof(junk) - 1);
		struct rig r;
		int fd;

		for (size_t k = 0; k < len; k++)
			junk[k] = (uint8_t)rng_next(&rng);
		rig_conf(&r);
		if (i % 2) {
			r.server_conf.tls = XR_CHOICE_ON;
			strcpy(r.server_conf.tls_psk, "00000000000000000000000000000000");
			junk[0] = 0x16; /* a record of a handshake, as far as that goes */
			junk[1] = 3;
		}
		rig_listen(&r, "127.0.0.1:0");
		fd = rig_raw(&r);
		write_all(fd, junk, len);
		shutdown(fd, SHUT_WR);
		rig_server_dies(&r);
		assert_true(r.server_err < 0 && xr_boot_why(r.server)[0] != '\0');
		close(fd);
		rig_close(&r);
	}
}

/* ---- crowds ---------------------------------------------------------------------------------- */

static int raw_client(const struct rig *r)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(xr_boot_listener_port(r->listener)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void a_flood_is_refused_and_who_is_in_stays(void **state)
{
	enum { FLOOD = 200, ALLOWED = 3 };
	struct xr_boot *in[ALLOWED], *boot = NULL;
	int fds[FLOOD];
	unsigned n = 0;
	struct rig r;
	char scrap;

	rig_conf(&r);
	r.server_conf.max_pending = ALLOWED;
	rig_listen(&r, "127.0.0.1:0");
	for (unsigned i = 0; i < FLOOD; i++) {
		fds[i] = raw_client(&r);
		wait_fd(xr_boot_listener_fd(r.listener), POLLIN);
		if (xr_boot_accept(r.listener, r.now, n < ALLOWED ? &in[n] : &boot) == 0)
			n++;
	}
	assert_int_equal(n, ALLOWED);
	assert_null(boot);
	assert_int_equal(r.server_world.n_refused, FLOOD - ALLOWED);
	assert_int_equal(recv(fds[FLOOD - 1], &scrap, 1, 0), 0); /* told at once */

	/* One place free, one client in. */
	xr_boot_established(in[0]);
	close(fds[ALLOWED]);
	fds[ALLOWED] = raw_client(&r);
	wait_fd(xr_boot_listener_fd(r.listener), POLLIN);
	assert_int_equal(xr_boot_accept(r.listener, r.now, &boot), 0);
	xr_boot_close(boot);
	for (unsigned i = 0; i < ALLOWED; i++) {
		assert_int_equal(xr_boot_io(in[i], r.now), 0);
		xr_boot_close(in[i]);
	}
	for (unsigned i = 0; i < FLOOD; i++)
		close(fds[i]);
	rig_close(&r);
}

static void out_of_descriptors_the_queue_still_drains(void **state)
{
	struct rlimit old, few;
	struct xr_boot *boot;
	struct rig r;
	char scrap;
	int fd;

	begin(&r);
	fd = raw_client(&r);
	wait_fd(xr_boot_listener_fd(r.listener), POLLIN);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(xr_boot_accept(r.listener, r.now, &boot), -EAGAIN);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r.server_world.n_refused, 1);
	assert_int_equal(recv(fd, &scrap, 1, 0), 0);
	close(fd);
	rig_close(&r);
}

/* M19: connections that fail leave no descriptor and no memory. */
static void ten_thousand_refusals_leave_nothing(void **state)
{
	size_t memory = 0;
	unsigned fds = 0;
	struct rig r;
	int deaf;

	begin(&r);
	deaf = deaf_port(r.address, sizeof(r.address));
	for (unsigned i = 0; i < 10000; i++) {
		struct xr_boot *boot;
		int err;

		assert_int_equal(xr_boot_connect(&r.client_world, r.address, r.now, &boot), 0);
		err = xr_boot_start(boot, r.now);
		while (!err) {
			wait_fd(xr_boot_fd(boot), POLLOUT);
			err = xr_boot_io(boot, r.now);
		}
		assert_int_equal(err, -ECONNREFUSED);
		assert_said(xr_boot_why(boot), "is a server listening there?");
		xr_boot_close(boot);
		if (i == 10) { /* when all that is made once is made */
			fds = count_fds();
			memory = mallinfo2().uordblks;
		}
	}
	assert_int_equal(count_fds(), fds);
	assert_true(mallinfo2().uordblks <= memory);
	assert_int_equal(r.client_world.n_failed, 10000);
	close(deaf);
	rig_close(&r);
}

static void two_thousand_connections_leave_nothing(void **state)
{
	size_t memory = 0;
	unsigned fds = 0;
	struct rig r;

	begin(&r);
	for (unsigned i = 0; i < 2000; i++) {
		if (i == 10) {
			fds = count_fds();
			memory = mallinfo2().uordblks;
		}
		rig_connect(&r);
		rig_settle(&r);
		xr_boot_send(r.client, 1, "x", 1, r.now);
		xr_boot_close(r.client);
		if (i % 2)
			xr_boot_io(r.server, r.now);
		xr_boot_close(r.server);
		r.client = r.server = NULL;
	}
	assert_int_equal(count_fds(), fds);
	assert_true(mallinfo2().uordblks <= memory);
	rig_close(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(foreign_protocols_die_with_their_first_bytes),
		cmocka_unit_test(absurd_lengths_die_before_any_memory),
		cmocka_unit_test(half_blocks_and_half_connections),
		cmocka_unit_test(a_block_that_trickles_in_is_cut_off),
		cmocka_unit_test(a_block_may_come_in_pieces),
		cmocka_unit_test(silent_peers_are_given_up),
		cmocka_unit_test(a_reset_is_an_error_like_another),
		cmocka_unit_test(garbage_of_all_kinds),
		cmocka_unit_test(a_flood_is_refused_and_who_is_in_stays),
		cmocka_unit_test(out_of_descriptors_the_queue_still_drains),
		cmocka_unit_test(ten_thousand_refusals_leave_nothing),
		cmocka_unit_test(two_thousand_connections_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
