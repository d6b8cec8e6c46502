/* SPDX-License-Identifier: BSD-2-Clause */
/* The bootstrap connection in good weather: who reaches whom, and blocks both ways. */
#include "test_boot_rig.h"

#include "base/clock.h"
#include "xrdma/address.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **list);

/* A resolver: two.example has two addresses, and no question leaves this host. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	bool numeric = hints->ai_flags & AI_NUMERICHOST;
	int err;

	if (numeric || !host || strcmp(host, "localhost") == 0)
		return __real_getaddrinfo(host, port, hints, list);
	if (strcmp(host, "two.example") != 0)
		return EAI_NONAME;
	err = __real_getaddrinfo("127.0.0.2", port, hints, list);
	return err ? err : __real_getaddrinfo("127.0.0.1", port, hints, &(*list)->ai_next);
}

/* The next block that comes to boot, of the rig. */
static size_t receive(struct rig *r, struct xr_boot *boot, uint8_t *ret_type, const uint8_t **data)
{
	size_t len;

	while (xr_boot_next(boot, ret_type, data, &len) == 0)
		rig_step(r);
	return len;
}

static void blocks_go_both_ways(void **state)
{
	struct rig r;
	const uint8_t *data;
	uint8_t type;

	rig_open(&r);
	assert_int_equal(xr_boot_send(r.client, 1, "hello", 5, r.now), 0);
	assert_int_equal(xr_boot_send(r.client, 2, NULL, 0, r.now), 0);
	assert_true(xr_boot_sent_all(r.client));
	assert_int_equal(receive(&r, r.server, &type, &data), 5);
	assert_int_equal(type, 1);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(receive(&r, r.server, &type, &data), 0);
	assert_int_equal(type, 2);
	assert_int_equal(xr_boot_send(r.server, 3, "welcome", 7, r.now), 0);
	assert_int_equal(receive(&r, r.client, &type, &data), 7);
	assert_int_equal(type, 3);
	assert_memory_equal(data, "welcome", 7);
	assert_false(xr_boot_uses_tls(r.client));
	assert_false(xr_boot_tls_resumed(r.client));
	rig_close(&r);
}

static void blocks_may_be_queued_before_the_connection_is_open(void **state)
{
	struct rig r;
	const uint8_t *data;
	uint8_t type;

	rig_conf(&r);
	rig_listen(&r, "127.0.0.1:0");
	rig_connect(&r);
	assert_int_equal(xr_boot_send(r.client, 7, "early", 5, r.now), 0);
	rig_settle(&r);
	assert_int_equal(receive(&r, r.server, &type, &data), 5);
	assert_memory_equal(data, "early", 5);
	rig_close(&r);
}

/* More than the sockets take: some waits, all arrives, in order, and too much is refused. */
static void largest_blocks_and_a_full_queue(void **state)
{
	static uint8_t block[XR_BOOT_BLOCK_MAX + 1];
	struct rig r;
	const uint8_t *data;
	unsigned sent = 0;
	uint8_t type;

	rig_open(&r);
	assert_int_equal(xr_boot_send(r.client, 1, block, sizeof(block), r.now), -EMSGSIZE);
	for (;; sent++) {
		int err;

		memset(block, (int)sent, XR_BOOT_BLOCK_MAX);
		err = xr_boot_send(r.client, (uint8_t)sent, block, XR_BOOT_BLOCK_MAX, r.now);
		if (err == -EAGAIN)
			break;
		assert_int_equal(err, 0);
	}
	assert_in_range(sent, 2, 255);
	assert_false(xr_boot_sent_all(r.client));
	assert_int_equal(xr_boot_events(r.client), EPOLLIN | EPOLLOUT);
	for (unsigned i = 0; i < sent; i++) {
		assert_int_equal(receive(&r, r.server, &type, &data), XR_BOOT_BLOCK_MAX);
		assert_int_equal(type, i);
		assert_int_equal(data[0], i);
		assert_int_equal(data[XR_BOOT_BLOCK_MAX - 1], i);
	}
	assert_true(xr_boot_sent_all(r.client));
	rig_close(&r);
}

/* One call reads so much and no more, and asks to be called again at once. */
static void a_busy_peer_does_not_hold_up_others(void **state)
{
	static const uint8_t block[1000];
	unsigned n = 0, taken = 0;
	struct rig r;
	const uint8_t *data;
	uint8_t type;
	size_t len;

	rig_open(&r);
	while (xr_boot_send(r.client, 1, block, sizeof(block), r.now) == 0)
		n++;
	assert_int_equal(xr_boot_io(r.server, r.now), 0);
	while (xr_boot_next(r.server, &type, &data, &len) == 1)
		taken++;
	assert_in_range(taken, 1, 270);
	assert_true(n > 300);
	assert_int_equal(xr_boot_deadline(r.server), 0);
	while (taken < n) {
		receive(&r, r.server, &type, &data);
		taken++;
	}
	rig_close(&r);
}

static void both_ends_are_known(void **state)
{
	struct rig r;
	struct in6_addr local, peer;

	rig_open(&r);
	local = xr_boot_local(r.client);
	peer = xr_boot_peer(r.server);
	assert_true(xr_address_is_loopback(&local));
	assert_memory_equal(&local, &peer, sizeof(local));
	assert_string_equal(xr_boot_peer_text(r.client), r.address);
	assert_said(xr_boot_peer_text(r.server), "127.0.0.1:");
	rig_close(&r);
}

/* "*" takes IPv4 and IPv6; names are looked up, and the next address tried if one refuses. */
static void every_way_to_write_an_address(void **state)
{
	static const struct {
		const char *listen, *connect;
	} rows[] = {
		{"*:0", "127.0.0.1"},         {"*:0", "[::1]"},
		{"*:0", "localhost"},         {"[::1]:0", "[::1]"},
		{"localhost:0", "localhost"}, {"127.0.0.1:0", "two.example"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rig r;

		rig_conf(&r);
		rig_listen(&r, rows[i].listen);
		snprintf(r.address, sizeof(r.address), "%s:%u", rows[i].connect,
			 xr_boot_listener_port(r.listener));
		rig_connect(&r);
		rig_settle(&r);
		if (r.client_err || r.server_err)
			fail_msg("%s %s", rows[i].listen, xr_boot_why(r.client));
		rig_close(&r);
	}
}

static void wrong_addresses_are_explained(void **state)
{
	static const struct {
		const char *address;
		int err;
		const char *said;
	} rows[] = {
		{"nonsense", -EINVAL, "there is no port"},
		{"127.0.0.1:0", -EINVAL, "a port other than 0"},
		{"*:80", -EINVAL, "a host and a port"},
		{"host.invalid:80", -EHOSTUNREACH, "host.invalid cannot be looked up"},
	};
	struct xr_boot *boot = NULL;
	struct xr_boot_listener *l = NULL;
	struct rig r;

	rig_conf(&r);
	rig_listen(&r, "127.0.0.1:0");
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(xr_boot_connect(&r.client_world, rows[i].address, r.now, &boot),
				 rows[i].err);
		assert_said(xrdma_last_error(), rows[i].said);
	}
	assert_int_equal(xr_boot_listen(&r.server_world, "192.0.2.77:0", &l), -EADDRNOTAVAIL);
	assert_said(xrdma_last_error(), "cannot listen on 192.0.2.77:0: Cannot assign");
	assert_said(xrdma_last_error(), ": expected an address of this machine (`ip address`)");
	assert_int_equal(xr_boot_listen(&r.server_world, r.address, &l), -EADDRINUSE);
	assert_said(xrdma_last_error(), ": end the program that has it (`ss -ltnp` shows which)");
	assert_int_equal(xr_boot_listen(&r.server_world, NULL, &l), -EINVAL);
	assert_said(xrdma_last_error(), "address NULL: it is missing: expected host:port");
	assert_int_equal(xr_boot_listen(&r.server_world, "x", &l), -EINVAL);
	assert_null(boot);
	assert_null(l);
	rig_close(&r);
}

/* M13, M40: either side may close, both may; the other is told once, and it is no crash. */
static void close_is_seen_by_the_other_side(void **state)
{
	struct rig r;
	const uint8_t *data;
	uint8_t type;
	size_t len;

	rig_open(&r);
	assert_int_equal(xr_boot_send(r.server, 5, "bye", 3, r.now), 0);
	assert_int_equal(xr_boot_send(r.client, 5, "unread", 6, r.now), 0);
	xr_boot_close(r.server);
	r.server = NULL;
	xr_boot_listener_close(r.listener);
	r.listener = NULL;
	/* What came before the end is still there, although the other side left input unread. */
	wait_fd(xr_boot_fd(r.client), EPOLLIN);
	xr_boot_io(r.client, r.now);
	assert_int_equal(xr_boot_next(r.client, &type, &data, &len), 1);
	assert_memory_equal(data, "bye", 3);
	while (!r.client_err)
		rig_step(&r);
	assert_int_equal(r.client_err, -ECONNRESET);
	assert_said(xr_boot_why(r.client), "closed the connection");
	assert_int_equal(xr_boot_io(r.client, r.now), -ECONNRESET);
	assert_int_equal(xr_boot_send(r.client, 1, NULL, 0, r.now), -ECONNRESET);
	assert_int_equal(xr_boot_next(r.client, &type, &data, &len), 0);
	assert_int_equal(xr_boot_events(r.client), 0);
	assert_int_equal(xr_boot_deadline(r.client), CLOCK_NEVER);
	assert_int_equal(r.client_world.n_failed, 1);
	rig_close(&r);
}

static void writing_to_the_dead_raises_no_signal(void **state)
{
	static const uint8_t block[XR_BOOT_BLOCK_MAX];
	struct rig r;

	rig_open(&r);
	shutdown(xr_boot_fd(r.client), SHUT_WR);
	for (unsigned i = 0; i < 100; i++)
		xr_boot_send(r.client, 1, block, sizeof(block), r.now);
	assert_int_equal(xr_boot_io(r.client, r.now), -ECONNRESET);
	r.client_err = -EPIPE;
	rig_close(&r);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void set_up_has_one_deadline(void **state)
{
	struct rig r;
	uint64_t timeout;

	rig_open(&r);
	timeout = r.client_conf.connect_timeout_ms * NSEC_PER_MSEC;
	assert_int_equal(xr_boot_deadline(r.client), r.now + timeout);
	assert_int_equal(r.server_world.n_pending, 1);
	xr_boot_established(r.client);
	xr_boot_established(r.client);
	assert_int_equal(xr_boot_deadline(r.client), CLOCK_NEVER);

	assert_int_equal(xr_boot_io(r.server, r.now + timeout - 1), 0);
	assert_int_equal(xr_boot_io(r.server, r.now + timeout), -ETIMEDOUT);
	assert_said(xr_boot_why(r.server), "no connection after 10000 ms (connect_timeout_ms): "
					   "the exchange with the peer did not finish");
	assert_int_equal(r.server_world.n_pending, 0);
	assert_int_equal(xr_boot_io(r.client, r.now + 1000 * timeout), 0);
	rig_close(&r);
}

/* Its deadline runs meanwhile; but that of a second dialing begins when it is started. */
static void who_waits_for_a_turn_has_it_too(void **state)
{
	struct xr_boot_target *target;
	struct xr_boot *first, *again;
	uint64_t timeout;
	struct rig r;

	rig_open(&r);
	timeout = r.client_conf.connect_timeout_ms * NSEC_PER_MSEC;
	assert_int_equal(xr_boot_target_new(r.client, &target), 0);
	assert_int_equal(r.client_world.n_dialing, 1); /* the peer has not answered */
	assert_int_equal(xr_boot_connect(&r.client_world, r.address, r.now, &first), 0);
	assert_int_equal(xr_boot_redial(&r.client_world, target, timeout / 2, r.now, &again), 0);
	assert_int_equal(r.client_world.n_dialing, 1);
	assert_int_equal(xr_boot_fd(first), -1);
	assert_int_equal(xr_boot_deadline(first), r.now + timeout);
	assert_int_equal(xr_boot_io(first, r.now + timeout), -ETIMEDOUT);
	assert_said(xr_boot_why(first), "no connection after 10000 ms (connect_timeout_ms): it was "
					"not its turn, 1 others are being dialed (max_dials)");
	assert_int_equal(xr_boot_deadline(again), CLOCK_NEVER);
	assert_int_equal(xr_boot_io(again, r.now + timeout), 0);
	assert_int_equal(xr_boot_start(again, r.now + timeout), 0);
	assert_int_equal(xr_boot_deadline(again), r.now + timeout + timeout / 2);
	assert_int_equal(r.client_world.n_dialing, 2);
	xr_boot_close(first);
	xr_boot_close(again);
	assert_int_equal(r.client_world.n_dialing, 1);
	xr_boot_target_free(target);
	rig_close(&r);
	assert_int_equal(r.client_world.n_dialing, 0);
}

static void output_that_nobody_takes_has_a_deadline(void **state)
{
	static const uint8_t block[XR_BOOT_BLOCK_MAX];
	struct rig r;
	uint64_t timeout;

	rig_open(&r);
	timeout = r.client_conf.connect_timeout_ms * NSEC_PER_MSEC;
	xr_boot_established(r.client);
	while (xr_boot_send(r.client, 1, block, sizeof(block), r.now) == 0)
		;
	assert_int_equal(xr_boot_deadline(r.client), r.now + timeout);
	assert_int_equal(xr_boot_io(r.client, r.now + timeout), -ETIMEDOUT);
	assert_said(xr_boot_why(r.client), "does not take what is sent");
	r.client_err = -ETIMEDOUT;
	rig_close(&r);
}

static int silent_listener(uint16_t port, int ret_clients[2])
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x7f000002),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(fd, 0), 0);
	/* With its queue full, TCP drops what else comes: a host that does not answer. */
	for (unsigned i = 0; i < 2; i++) {
		ret_clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(ret_clients[i], (struct sockaddr *)&to, sizeof(to));
	}
	return fd;
}

static void an_address_that_does_not_answer_gets_its_share_of_the_time(void **state)
{
	int clients[2], silent;
	uint64_t half;
	struct rig r;

	rig_conf(&r);
	rig_listen(&r, "127.0.0.1:0");
	silent = silent_listener(xr_boot_listener_port(r.listener), clients);
	snprintf(r.address, sizeof(r.address), "two.example:%u", xr_boot_listener_port(r.listener));
	rig_connect(&r);
	half = r.client_conf.connect_timeout_ms * NSEC_PER_MSEC / 2;
	assert_int_equal(xr_boot_deadline(r.client), r.now + half);
	assert_int_equal(xr_boot_io(r.client, r.now + half - 1), 0);
	assert_int_equal(xr_boot_events(r.client), EPOLLOUT);
	assert_int_equal(xr_boot_io(r.client, r.now + half), 0);
	rig_settle(&r);
	assert_int_equal(r.client_err, 0);
	xr_boot_close(r.client);
	xr_boot_close(r.server);
	r.server = NULL;

	/* And if the last does not answer either: */
	snprintf(r.address, sizeof(r.address), "127.0.0.2:%u", xr_boot_listener_port(r.listener));
	rig_connect(&r);
	assert_int_equal(xr_boot_io(r.client, r.now + 2 * half), -ETIMEDOUT);
	assert_said(xr_boot_why(r.client),
		    "cannot connect: Connection timed out: is the address right");
	r.client_err = -ETIMEDOUT;
	close(silent);
	close(clients[0]);
	close(clients[1]);
	rig_close(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_go_both_ways),
		cmocka_unit_test(blocks_may_be_queued_before_the_connection_is_open),
		cmocka_unit_test(largest_blocks_and_a_full_queue),
		cmocka_unit_test(a_busy_peer_does_not_hold_up_others),
		cmocka_unit_test(both_ends_are_known),
		cmocka_unit_test(every_way_to_write_an_address),
		cmocka_unit_test(wrong_addresses_are_explained),
		cmocka_unit_test(close_is_seen_by_the_other_side),
		cmocka_unit_test(writing_to_the_dead_raises_no_signal),
		cmocka_unit_test(set_up_has_one_deadline),
		cmocka_unit_test(who_waits_for_a_turn_has_it_too),
		cmocka_unit_test(an_address_that_does_not_answer_gets_its_share_of_the_time),
		cmocka_unit_test(output_that_nobody_takes_has_a_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
