/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP link between two network namespaces, and over loopback. */
#include "udp_rig.h"

#include "base/log.h"
#include "base/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	struct urxe_udp *a;
	struct urxe_udp *b;
	struct urxe_udp_stats stats; /* of the last stats_of() */
};

static int pair_open(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->a = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	p->b = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	*state = p;
	return 0;
}

static int pair_close(void **state)
{
	struct pair *p = *state;

	urxe_udp_close(p->a);
	urxe_udp_close(p->b);
	free(p);
	return 0;
}

static const struct urxe_udp_stats *stats_of(struct pair *p, struct urxe_udp *udp)
{
	urxe_udp_stats(udp, &p->stats);
	return &p->stats;
}

static void assert_clean(struct pair *p, struct urxe_udp *udp)
{
	const struct urxe_udp_stats *s = stats_of(p, udp);

	assert_int_equal(s->rx_bad_icrc, 0);
	assert_int_equal(s->rx_runt, 0);
	assert_int_equal(s->rx_foreign, 0);
	assert_int_equal(s->rx_overflow, 0);
	assert_int_equal(s->tx_errors, 0);
}

/* Every size around multiples of four and around the path MTUs, alone and in batches. */
static void run_sizes(struct pair *p, struct urxe_udp *tx, struct urxe_udp *rx,
		      const struct urxe_path *path, uint32_t mtu)
{
	static struct rig_flow flow;
	struct rng rng = {mtu};

	flow = (struct rig_flow){.path = path, .mixed = true};
	for (uint32_t len = 0; len < 70; len++)
		flow.len[flow.n++] = len;
	for (uint32_t around = 256; around <= mtu; around *= 2)
		for (uint32_t len = around - 5; len <= around + 5 && len <= mtu; len++)
			flow.len[flow.n++] = len;
	while (flow.n < 300)
		flow.len[flow.n++] = rng_below(&rng, mtu + 1);
	while (flow.n < RIG_PACKETS) /* runs of equal sizes, then a shorter one */
		for (uint32_t len = rng_below(&rng, mtu + 1), run = 1 + rng_below(&rng, 80);
		     run-- && flow.n < RIG_PACKETS;)
			flow.len[flow.n++] = run ? len : len / 2;
	rig_run(&flow, tx, rx);
	assert_clean(p, tx);
	assert_clean(p, rx);
}

static void test_sizes_veth(void **state)
{
	struct pair *p = *state;
	struct urxe_path to_b4 = rig_path(p->a, RIG_A, 4), to_b6 = rig_path(p->a, RIG_A, 6);
	struct urxe_path to_a4 = rig_path(p->b, RIG_B, 4), to_a6 = rig_path(p->b, RIG_B, 6);

	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		run_sizes(p, p->a, p->b, &to_b4, mtu);
		run_sizes(p, p->a, p->b, &to_b6, mtu);
	}
	run_sizes(p, p->b, p->a, &to_a4, 4096);
	run_sizes(p, p->b, p->a, &to_a6, 4096);
}

static void test_sizes_veth_1500(void **state)
{
	struct pair *p = *state;
	struct urxe_path path4 = rig_path(p->a, RIG_A, 4), path6 = rig_path(p->a, RIG_A, 6);

	rig_enter(RIG_A);
	rig_sh("ip link set v0 mtu 1500");
	run_sizes(p, p->a, p->b, &path4, 1024);
	run_sizes(p, p->a, p->b, &path6, 1024);
	rig_sh("ip link set v0 mtu 9000");
}

/* The kernel, not the receiver, cuts the batches: Identifications count, and GRO sees single ones.
 */
static void test_sizes_software_segmentation(void **state)
{
	struct pair *p = *state;
	struct urxe_path path4 = rig_path(p->a, RIG_A, 4), path6 = rig_path(p->a, RIG_A, 6);

	rig_enter(RIG_A);
	if (!rig_try("ethtool -K v0 tx-udp-segmentation off 2>/dev/null")) {
		print_message("ethtool cannot turn tx-udp-segmentation off\n");
		skip();
	}
	run_sizes(p, p->a, p->b, &path4, 4096);
	run_sizes(p, p->a, p->b, &path6, 4096);
	rig_sh("ethtool -K v0 tx-udp-segmentation on");
}

/* As if through a router or a NIC that joins packets of different batches. */
static void test_sizes_gro(void **state)
{
	struct pair *p = *state;
	struct urxe_path path4 = rig_path(p->a, RIG_A, 4), path6 = rig_path(p->a, RIG_A, 6);

	rig_enter(RIG_B);
	if (!rig_try("ethtool -K v0 gro on rx-udp-gro-forwarding on 2>/dev/null")) {
		print_message("ethtool cannot turn UDP GRO on\n");
		skip();
	}
	rig_enter(RIG_A);
	rig_sh("ethtool -K v0 tx-udp-segmentation off");
	run_sizes(p, p->a, p->b, &path4, 4096);
	run_sizes(p, p->a, p->b, &path6, 4096);
	rig_sh("ethtool -K v0 tx-udp-segmentation on");
	rig_enter(RIG_B);
	rig_sh("ethtool -K v0 gro off rx-udp-gro-forwarding off");
}

/* An endpoint's packets to itself. */
static void test_sizes_loopback(void **state)
{
	struct pair *p = *state;
	struct urxe_path path = rig_path(p->a, RIG_A, 4);

	path.sgid = path.dgid = rig_gid("127.0.0.1");
	run_sizes(p, p->a, p->a, &path, 4096);
	path.sgid = path.dgid = rig_gid("::1");
	run_sizes(p, p->a, p->a, &path, 4096);
}

static struct rig_flow *flow_of(const struct urxe_path *path, unsigned n, uint32_t len)
{
	static struct rig_flow flow;

	flow = (struct rig_flow){.path = path, .n = n};
	for (unsigned i = 0; i < n; i++)
		flow.len[i] = len;
	return &flow;
}

static void test_batches(void **state)
{
	struct pair *p = *state;
	struct urxe_path path = rig_path(p->a, RIG_A, 4), copy = path;
	struct rig_flow *flow = flow_of(&path, 64, 512);
	const struct {
		unsigned n, odd;
		uint32_t len, odd_len;
		unsigned batches, calls;
	} rows[] = {
		{64, 63, 512, 512, 1, 1},   {65, 64, 512, 512, 2, 2},   {64, 63, 512, 8, 1, 1},
		{64, 10, 512, 508, 2, 1},   {64, 10, 512, 516, 3, 1},   {15, 14, 4096, 4096, 1, 1},
		{16, 15, 4096, 4096, 2, 2}, {16, 15, 4096, 1024, 1, 1},
	};

	/* Equal contents are as good as an equal pointer. */
	rig_run(flow, p->a, p->b);
	assert_int_equal(stats_of(p, p->a)->tx_calls, 1);
	flow = flow_of(&copy, 1, 512);
	rig_run(flow, p->a, p->b);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct urxe_udp_stats before = *stats_of(p, p->a);
		const struct urxe_udp_stats *after;

		flow = flow_of(&path, rows[i].n, rows[i].len);
		flow->len[rows[i].odd] = rows[i].odd_len;
		rig_run(flow, p->a, p->b);
		after = stats_of(p, p->a);
		assert_int_equal(after->tx_batches - before.tx_batches, rows[i].batches);
		assert_int_equal(after->tx_calls - before.tx_calls, rows[i].calls);
	}
}

static void check_path(struct pair *p, int version)
{
	struct urxe_path path = rig_path(p->a, RIG_A, version);
	struct rig_flow *flow = flow_of(&path, 3, 33);

	path.tclass = 0x62; /* ECT(0) */
	path.hop_limit = 7;
	path.flow_label = version == 6 ? 0xabcde : 0;
	rig_run(flow, p->a, p->b);
	assert_memory_equal(&flow->last_path, &path, sizeof(path));
	assert_int_equal(flow->ce, 0);
	path.tclass = 0x63; /* as if a router had marked it CE */
	path.hop_limit = 255;
	flow = flow_of(&path, 3, 33);
	rig_run(flow, p->a, p->b);
	assert_memory_equal(&flow->last_path, &path, sizeof(path));
	assert_int_equal(flow->ce, 3);
}

static void test_path(void **state)
{
	check_path(*state, 4);
	check_path(*state, 6);
}

static void test_sports(void **state)
{
	struct pair *p = *state;
	unsigned distinct = 0;
	uint16_t seen[64] = {0};

	rig_enter(RIG_A);
	for (uint32_t qpn = 0; qpn < 64; qpn++) {
		uint16_t port = urxe_udp_sport(p->a, qpn, 5);
		bool known = false;

		assert_in_range(port, 0xc000, 0xffff);
		assert_int_equal(urxe_udp_sport(p->a, qpn, 5), port);
		for (uint32_t i = 0; i < qpn; i++)
			known |= seen[i] == port;
		distinct += !known;
		seen[qpn] = port;
	}
	assert_in_range(distinct, 12, 16);
}

static void test_port_taken(void **state)
{
	const struct urxe_gid gid = rig_gid("127.0.0.1");
	const struct urxe_udp_conf conf = {.gids = &gid, .n_gids = 1, .port = 4000};
	const struct urxe_udp_conf none = {.port = 4000};
	const struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(4000)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct urxe_udp *udp = NULL;

	rig_enter(RIG_A);
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (const void *)&addr, sizeof(addr)), 0);
	assert_int_equal(urxe_udp_open(&conf, &udp), -EADDRINUSE);
	assert_null(udp);
	assert_int_equal(urxe_udp_open(&none, &udp), -EINVAL);
	close(fd);
	assert_int_equal(urxe_udp_open(&conf, &udp), 0);
	urxe_udp_close(udp);
	urxe_udp_close(NULL);
}

/* Level-triggered, and nothing to take is not an error. */
static void test_fd(void **state)
{
	struct pair *p = *state;
	struct urxe_path path = rig_path(p->a, RIG_A, 4);
	struct rig_flow *flow = flow_of(&path, 2, 8);
	struct pollfd fd = {urxe_udp_fd(p->b), POLLIN, 0};

	flow->len[1] = 100;
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(urxe_udp_poll(p->b, rig_deliver, flow, 64), 0);
	assert_int_equal(urxe_udp_send(p->a, rig_pull, flow, 64, false), 2);
	rig_wait(p->b);
	assert_int_equal(urxe_udp_poll(p->b, rig_deliver, flow, 1), 1);
	rig_wait(p->b);
	assert_int_equal(urxe_udp_poll(p->b, rig_deliver, flow, 1), 1);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(flow->mismatch, 0);
}

static int plain_socket(int family)
{
	int fd;

	rig_enter(RIG_A);
	fd = socket(family, SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	return fd;
}

static void send_plain(int fd, const char *to, const void *data, size_t len)
{
	const struct urxe_gid gid = rig_gid(to);
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(RIG_PORT)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(RIG_PORT)};
	bool is_v6 = strchr(to, ':');

	memcpy(&v4.sin_addr, gid.raw + 12, 4);
	memcpy(&v6.sin6_addr, gid.raw, 16);
	assert_int_equal(sendto(fd, data, len, 0, is_v6 ? (const void *)&v6 : (const void *)&v4,
				is_v6 ? sizeof(v6) : sizeof(v4)),
			 len);
}

static void drain(struct pair *p, unsigned n)
{
	struct rig_flow *flow = flow_of(NULL, 0, 0);
	struct pollfd fd = {urxe_udp_fd(p->b), POLLIN, 0};
	const struct urxe_udp_stats *s;
	uint64_t before = 0;

	for (uint64_t now = 0; now < n; now = s->rx_runt + s->rx_bad_icrc + s->rx_foreign) {
		assert_true(now == 0 || now > before);
		before = now;
		rig_wait(p->b);
		assert_int_equal(urxe_udp_poll(p->b, rig_deliver, flow, 64), 0);
		s = stats_of(p, p->b);
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(flow->mismatch, 0);
}

static void hostile(struct pair *p, int family, const char *to)
{
	struct rng rng = {7};
	int fd = plain_socket(family);
	uint8_t data[1500];

	for (unsigned i = 0; i < 200; i++) {
		for (size_t k = 0; k < sizeof(data); k++)
			data[k] = (uint8_t)rng_next(&rng);
		send_plain(fd, to, data, i < 64 ? i : 64 + rng_below(&rng, 1400));
	}
	close(fd);
}

static void test_hostile(void **state)
{
	struct pair *p = *state;
	const struct urxe_udp_stats *s;

	hostile(p, AF_INET, "10.9.0.2");
	hostile(p, AF_INET6, "fd09::2");
	drain(p, 400);
	s = stats_of(p, p->b);
	assert_int_equal(s->rx_runt, 2 * 16);
	assert_int_equal(s->rx_bad_icrc, 400 - 2 * 16);
	assert_int_equal(s->rx_pkts, 0);
}

/* A good packet with any one bit of it flipped is not taken (but the masked ones of the BTH). */
static void test_flipped(void **state)
{
	struct pair *p = *state;
	struct urxe_path path = rig_path(p->a, RIG_A, 6);
	struct rig_flow flow = *flow_of(&path, 1, 21);
	struct sockaddr_in6 self;
	socklen_t socklen = sizeof(self);
	int fd = plain_socket(AF_INET6);
	struct urxe_icrc_net net = {.src = path.sgid, .dst = path.dgid, .dport = RIG_PORT};
	uint8_t packet[256];
	size_t len = rig_packet(&flow, 0, packet);

	send_plain(fd, "fd09::2", packet, 4); /* binds it */
	assert_int_equal(getsockname(fd, (void *)&self, &socklen), 0);
	net.sport = ntohs(self.sin6_port);
	urxe_icrc_put(&net, packet, len);
	for (size_t bit = 0; bit < 8 * (len + 4); bit++) {
		packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (bit / 8 != 4)
			send_plain(fd, "fd09::2", packet, len + 4);
		packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	drain(p, 1 + 8 * (unsigned)(len + 4 - 1));
	send_plain(fd, "fd09::2", packet, len + 4);
	rig_wait(p->b);
	assert_int_equal(urxe_udp_poll(p->b, rig_deliver, &flow, 64), 1);
	assert_int_equal(flow.mismatch, 0);
	close(fd);
}

/* A packet of another implementation: ICRC of what its IP header had, perhaps no UDP checksum. */
static void other_implementation(struct pair *p, int version, bool checksum)
{
	struct urxe_path path = rig_path(p->a, RIG_A, version);
	struct rig_flow *flow = flow_of(&path, 1, 22);
	const char *to = version == 6 ? "fd09::2" : "10.9.0.2";
	int fd = plain_socket(version == 6 ? AF_INET6 : AF_INET), on = 1, dont = IP_PMTUDISC_DONT;
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct urxe_icrc_net net = {.src = path.sgid, .dst = path.dgid, .dport = RIG_PORT};
	socklen_t len4 = sizeof(v4), len6 = sizeof(v6);
	uint8_t packet[256];
	size_t len = rig_packet(flow, 0, packet);

	if (version == 6) {
		assert_int_equal(bind(fd, (const void *)&v6, len6), 0);
		assert_int_equal(getsockname(fd, (void *)&v6, &len6), 0);
		net.sport = ntohs(v6.sin6_port);
		if (!checksum)
			assert_int_equal(setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)),
					 0);
	} else {
		assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof(dont)),
				 0);
		assert_int_equal(bind(fd, (const void *)&v4, len4), 0);
		assert_int_equal(getsockname(fd, (void *)&v4, &len4), 0);
		net.sport = ntohs(v4.sin_port);
		net.ip_id = 0xbeef;
		if (!checksum)
			assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)),
					 0);
	}
	urxe_icrc_put(&net, packet, len);
	send_plain(fd, to, packet, len + ICRC_LEN);
	rig_wait(p->b);
	assert_int_equal(urxe_udp_poll(p->b, rig_deliver, flow, 64), 1);
	assert_int_equal(flow->mismatch, 0);
	assert_clean(p, p->b);
	close(fd);
}

static void test_other_implementation(void **state)
{
	for (int checksum = 0; checksum < 2; checksum++) {
		other_implementation(*state, 4, checksum);
		other_implementation(*state, 6, checksum);
	}
}

static void test_foreign(void **state)
{
	struct pair *p = *state;
	struct urxe_path path = rig_path(p->a, RIG_A, 4);
	struct rig_flow *flow = flow_of(&path, 5, 100);

	rig_enter(RIG_B);
	rig_sh("ip addr add 10.9.0.77/24 dev v0");
	path.dgid = rig_gid("10.9.0.77");
	assert_int_equal(urxe_udp_send(p->a, rig_pull, flow, 64, false), 5);
	drain(p, 5);
	assert_int_equal(stats_of(p, p->b)->rx_foreign, 5);
	rig_enter(RIG_B);
	rig_sh("ip addr del 10.9.0.77/24 dev v0");
}

/* What the kernel drops is known when the next packet arrives. */
static void test_overflow(void **state)
{
	struct pair *p = *state;
	struct urxe_path path;
	struct rig_flow *flow;
	unsigned n = 0;

	urxe_udp_close(p->b);
	p->b = rig_open(RIG_B, 20000, 0);
	assert_in_range(stats_of(p, p->b)->rcvbuf_bytes, 2304, 20000);
	path = rig_path(p->a, RIG_A, 4);
	flow = flow_of(&path, 200, 1000);
	for (unsigned i = 0; i < 200; i++)
		flow->len[i] += i * 4; /* ever longer: no batches */
	while (urxe_udp_send(p->a, rig_pull, flow, 10, false) == 10)
		;
	while (urxe_udp_poll(p->b, rig_deliver, flow, 64))
		;
	n = flow->delivered;
	assert_in_range(n, 1, 100);
	for (int i = 0; i < 3; i++) {
		rig_run(flow_of(&path, 1, 8), p->a, p->b);
		assert_int_equal(stats_of(p, p->b)->rx_overflow, 200 - n);
	}
}

/*
 * While the neighbour is not resolved the packets stay in the kernel, charged to the socket: it
 * refuses more. Once it is, they leave, and the kept ones go on.
 */
static void blocked(struct pair *p, int version, const char *peer)
{
	struct urxe_path path = rig_path(p->a, RIG_A, version);
	struct rig_flow *flow = flow_of(&path, 300, 1000);
	struct pollfd fd = {urxe_udp_fd(p->a), POLLIN, 0};
	unsigned n = 0;

	for (unsigned i = 0; i < flow->n; i++)
		flow->len[i] = 1 + i * 37 % 1000;
	rig_enter(RIG_A);
	rig_sh("ip neigh flush dev v0; ip neigh flush dev v0 nud permanent");
	while (!urxe_udp_blocked(p->a)) {
		n = flow->pulled;
		urxe_udp_send(p->a, rig_pull, flow, 10, false);
		assert_true(flow->pulled > n);
		assert_true(flow->pulled < flow->n);
	}
	n = flow->pulled;
	assert_int_equal(urxe_udp_send(p->a, rig_pull, flow, 10, false), 0);
	assert_int_equal(flow->pulled, n);
	assert_int_equal(poll(&fd, 1, 0), 0);
	rig_sh("ip neigh replace %s lladdr 02:00:00:00:09:02 dev v0 nud permanent", peer);
	rig_wait(p->a);
	rig_run(flow, p->a, p->b);
	assert_false(urxe_udp_blocked(p->a));
	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void test_blocked(void **state)
{
	struct pair *p = *state;

	rig_enter(RIG_B);
	rig_sh("ip link set v0 arp off");
	urxe_udp_close(p->a);
	p->a = rig_open(RIG_A, 0, 10000);
	blocked(p, 4, "10.9.0.2");
	blocked(p, 6, "fd09::2");
	assert_true(stats_of(p, p->a)->tx_blocked >= 2);
	assert_clean(p, p->a);
	assert_clean(p, p->b);
	rig_enter(RIG_B);
	rig_sh("ip link set v0 arp on");
}

/* Errors cost the packets concerned and nothing else. */
static void test_errors(void **state)
{
	struct pair *p = *state;
	struct urxe_path good = rig_path(p->a, RIG_A, 4), bad = good;
	struct rig_flow *flow = flow_of(&bad, 3, 100);

	log_set_threshold(LOG_ERROR);
	bad.dgid = rig_gid("192.0.2.1"); /* ENETUNREACH */
	urxe_udp_send(p->a, rig_pull, flow, 64, false);
	assert_int_equal(stats_of(p, p->a)->tx_errors, 3);
	flow = flow_of(&good, 3, 12000); /* EMSGSIZE */
	urxe_udp_send(p->a, rig_pull, flow, 64, false);
	assert_int_equal(stats_of(p, p->a)->tx_errors, 6);
	bad = good;
	bad.sgid = rig_gid("192.0.2.1"); /* EINVAL */
	flow = flow_of(&bad, 3, 100);
	urxe_udp_send(p->a, rig_pull, flow, 64, false);
	assert_int_equal(stats_of(p, p->a)->tx_errors, 9);
	assert_int_equal(stats_of(p, p->a)->tx_pkts, 0);
	log_set_threshold(LOG_WARN);
	assert_false(urxe_udp_blocked(p->a));
	rig_run(flow_of(&good, 100, 100), p->a, p->b);
	assert_int_equal(stats_of(p, p->a)->tx_calls, 4);
}

/* Nobody listens: the ICMP errors that come back disturb neither sending nor receiving. */
static void test_icmp(void **state)
{
	struct pair *p = *state;
	struct urxe_path to_b = rig_path(p->a, RIG_A, 4), to_a;

	urxe_udp_close(p->b);
	p->b = NULL;
	for (int i = 0; i < 10; i++)
		urxe_udp_send(p->a, rig_pull, flow_of(&to_b, 3, 100), 64, false);
	assert_int_equal(stats_of(p, p->a)->tx_pkts, 30);
	p->b = rig_open(RIG_B, RIG_BUF, RIG_BUF);
	to_a = rig_path(p->b, RIG_B, 4);
	rig_run(flow_of(&to_b, 3, 100), p->a, p->b);
	rig_run(flow_of(&to_a, 3, 100), p->b, p->a);
	assert_clean(p, p->a);
	assert_clean(p, p->b);
}

/* A link-local address works: the link knows its interface. */
static void test_link_local(void **state)
{
	const struct urxe_gid gids[] = {rig_gid("fe80::a"), rig_gid("fe80::b")};
	struct urxe_udp_conf conf = {.n_gids = 1, .port = RIG_PORT + 1};
	struct urxe_path path = {.sgid = gids[0], .dgid = gids[1], .hop_limit = 1};
	struct urxe_udp *a = NULL, *b = NULL;

	rig_enter(RIG_A);
	rig_sh("ip addr add fe80::a/64 dev v0 nodad");
	conf.gids = &gids[0];
	assert_int_equal(urxe_udp_open(&conf, &a), 0);
	rig_enter(RIG_B);
	rig_sh("ip addr add fe80::b/64 dev v0 nodad");
	conf.gids = &gids[1];
	assert_int_equal(urxe_udp_open(&conf, &b), 0);
	path.sport = urxe_udp_sport(b, 1, 2); /* not one of a's: it has to do without */
	rig_run(flow_of(&path, 10, 100), a, b);
	urxe_udp_close(a);
	urxe_udp_close(b);
}

#define LINK_TEST(f) cmocka_unit_test_setup_teardown(f, pair_open, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LINK_TEST(test_sizes_veth),
		LINK_TEST(test_sizes_veth_1500),
		LINK_TEST(test_sizes_software_segmentation),
		LINK_TEST(test_sizes_gro),
		LINK_TEST(test_sizes_loopback),
		LINK_TEST(test_batches),
		LINK_TEST(test_path),
		LINK_TEST(test_sports),
		LINK_TEST(test_port_taken),
		LINK_TEST(test_fd),
		LINK_TEST(test_hostile),
		LINK_TEST(test_flipped),
		LINK_TEST(test_other_implementation),
		LINK_TEST(test_foreign),
		LINK_TEST(test_overflow),
		LINK_TEST(test_blocked),
		LINK_TEST(test_errors),
		LINK_TEST(test_icmp),
		LINK_TEST(test_link_local),
	};

	rig_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
