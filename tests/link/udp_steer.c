/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints that share the port, as in several processes or contexts of a host: each gets its own.
 */
#include "udp_rig.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 5, QPN_BLOCK = 1024, FLOWS = 32 };

/* To a QP of that place, from any of the sender's source ports, which the kernel hashes. */
static void send_to(struct urxe_udp *from, struct urxe_udp *to, int version, uint32_t block)
{
	struct urxe_path path = rig_path(from, RIG_A, version);
	struct rig_flow flow = {
		.path = &path, .n = 1, .dqpn = block * QPN_BLOCK + block % QPN_BLOCK, .len = {64}};

	path.sport = urxe_udp_sport(from, block, flow.dqpn);
	rig_run(&flow, from, to);
}

static unsigned received(const struct urxe_udp *udp)
{
	struct urxe_udp_stats stats;

	urxe_udp_stats(udp, &stats);
	return (unsigned)(stats.rx_pkts + stats.rx_runt + stats.rx_foreign + stats.rx_bad_icrc);
}

static void each_gets_its_own(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF), *to[N];

	for (int i = 0; i < N; i++) {
		to[i] = rig_open(RIG_B, RIG_BUF, RIG_BUF);
		assert_int_equal(urxe_udp_place(to[i]), i);
	}
	for (uint32_t block = 1; block < FLOWS; block++) {
		uint32_t place = block % N;

		send_to(from, to[place], block % 2 ? 4 : 6, place + block / N * URXE_UDP_PLACES);
	}
	for (int i = 0; i < N; i++) /* what was sent to find places is no packet */
		assert_in_range(received(to[i]), FLOWS / N, FLOWS / N + 1);
	for (int i = 0; i < N; i++)
		urxe_udp_close(to[i]);
	urxe_udp_close(from);
}

/* A place that nobody has, and datagrams that are too short for a QPN, come to somebody all the
 * same. */
static void nothing_is_lost(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *to = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(RIG_PORT)};
	struct rig_flow none = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	send_to(from, to, 4, URXE_UDP_PLACES - 1);
	assert_int_equal(inet_pton(AF_INET, "10.9.0.2", &addr.sin_addr), 1);
	for (size_t len = 0; len < 7; len++) {
		assert_int_equal(sendto(fd, "probe\0", len, 0, (const void *)&addr, sizeof(addr)),
				 len);
		rig_wait(to);
		urxe_udp_poll(to, rig_deliver, &none, 1);
	}
	assert_int_equal(received(to), 1 + 7);
	close(fd);
	urxe_udp_close(to);
	urxe_udp_close(from);
}

/* Who opens after others have left finds its place as it is then. */
static void places_are_used_again(void **state)
{
	struct urxe_udp *from = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_udp *first = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	struct urxe_udp *second = rig_open(RIG_B, RIG_BUF, RIG_BUF);

	urxe_udp_close(first); /* the second is moved to its place */
	first = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	assert_int_equal(urxe_udp_place(first), 1);
	send_to(from, first, 4, 1);
	send_to(from, second, 4, URXE_UDP_PLACES);
	urxe_udp_close(first);
	urxe_udp_close(second);
	urxe_udp_close(from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_gets_its_own),
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(places_are_used_again),
	};

	rig_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
