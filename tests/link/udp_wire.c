/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the UDP link puts on the wire, seen by a packet socket behind the kernel's segmentation:
 * every ICRC is verified exactly, with the IP header that really went out. With an argument, the
 * frames are also written there as pcap, for a second opinion.
 */
#include "udp_rig.h"

#include "base/be.h"
#include "base/rng.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { ETH_LEN = 14, IPV4_LEN = 20, IPV6_LEN = 40, UDP_LEN = 8, FRAME_MAX = 65536 };

static FILE *pcap;

static int open_packet_socket(void)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_protocol = htobe16(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, addr.sll_protocol);

	addr.sll_ifindex = (int)if_nametoindex("v0");
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const void *)&addr, sizeof(addr)), 0);
	return fd;
}

static void pcap_begin(const char *path)
{
	const uint32_t header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, FRAME_MAX, 1 /* Ethernet */};

	pcap = fopen(path, "w");
	if (!pcap || fwrite(header, sizeof(header), 1, pcap) != 1) {
		perror(path);
		exit(1);
	}
}

static void pcap_add(const uint8_t *frame, size_t len)
{
	static uint32_t n;
	const uint32_t header[] = {n / 1000000, n % 1000000, (uint32_t)len, (uint32_t)len};

	n++;
	if (!pcap)
		return;
	assert_int_equal(fwrite(header, sizeof(header), 1, pcap), 1);
	assert_int_equal(fwrite(frame, len, 1, pcap), 1);
}

/* The network headers of a frame; returns where its BTH is, or NULL if it is not RoCEv2. */
static const uint8_t *dissect(const uint8_t *frame, size_t len, struct urxe_icrc_net *net)
{
	const uint8_t *ip = frame + ETH_LEN, *udp;

	*net = (struct urxe_icrc_net){.src = rig_gid("0.0.0.0"), .dst = rig_gid("0.0.0.0")};
	if (get_be16(frame + 12) == ETH_P_IP && ip[9] == 17) {
		memcpy(net->src.raw + 12, ip + 12, 4);
		memcpy(net->dst.raw + 12, ip + 16, 4);
		net->ip_id = get_be16(ip + 4);
		net->ip_df = get_be16(ip + 6) == 0x4000;
		assert_int_equal(get_be16(ip + 2), len - ETH_LEN);
		udp = ip + IPV4_LEN;
	} else if (get_be16(frame + 12) == ETH_P_IPV6 && ip[6] == 17) {
		memcpy(net->src.raw, ip + 8, 16);
		memcpy(net->dst.raw, ip + 24, 16);
		assert_int_equal(get_be16(ip + 4), len - ETH_LEN - IPV6_LEN);
		udp = ip + IPV6_LEN;
	} else {
		return NULL;
	}
	net->sport = get_be16(udp);
	net->dport = get_be16(udp + 2);
	assert_int_equal(get_be16(udp + 4), frame + len - udp);
	return net->dport == RIG_PORT ? udp + UDP_LEN : NULL;
}

/* Take all frames that left, the flow's from the first on; returns how many. */
static unsigned check_frames(int fd, const struct rig_flow *flow, unsigned first,
			     uint16_t *ret_max_id)
{
	static uint8_t frame[FRAME_MAX], expected[FRAME_MAX];
	struct urxe_icrc_net net;
	const uint8_t *bth;
	unsigned n = 0;
	ssize_t len;

	while ((len = recv(fd, frame, sizeof(frame), 0)) > 0) {
		size_t left;

		bth = dissect(frame, (size_t)len, &net);
		if (!bth)
			continue;
		left = (size_t)(frame + len - bth);
		assert_true(urxe_icrc_check(&net, bth, left, true, NULL));
		assert_int_equal(net.sport, flow->path->sport);
		assert_int_equal(left - ICRC_LEN, rig_packet(flow, first + n, expected));
		assert_memory_equal(bth, expected, left - ICRC_LEN);
		if (net.ip_id > *ret_max_id)
			*ret_max_id = net.ip_id;
		pcap_add(frame, (size_t)len);
		n++;
	}
	assert_int_equal(errno, EAGAIN);
	return n;
}

static void check_wire(int version)
{
	struct urxe_udp *a = rig_open(RIG_A, RIG_BUF, RIG_BUF);
	struct urxe_path path = rig_path(a, RIG_A, version);
	static struct rig_flow flow;
	struct rng rng = {(uint64_t)version};
	uint16_t max_id = 0;
	int fd = open_packet_socket();

	flow = (struct rig_flow){.path = &path, .mixed = true};
	while (flow.n < 100) /* each on its own */
		flow.len[flow.n++] = rng_below(&rng, 4097);
	while (flow.n < RIG_PACKETS) /* runs of equal sizes, a shorter last one */
		for (uint32_t len = rng_below(&rng, 1025), run = 1 + rng_below(&rng, 80);
		     run-- && flow.n < RIG_PACKETS;)
			flow.len[flow.n++] = run ? len : len / 2;
	for (unsigned n = 0; n < RIG_PACKETS;) { /* as many as a packet socket holds */
		unsigned sent = urxe_udp_send(a, rig_pull, &flow, n < 100 ? 10 : 64, false);

		assert_true(sent > 0);
		assert_int_equal(check_frames(fd, &flow, n, &max_id), sent);
		n += sent;
	}
	if (version == 4) /* batches there were, and the kernel counted */
		assert_in_range(max_id, 1, 63);
	close(fd);
	urxe_udp_close(a);
}

static void test_wire_v4(void **state)
{
	check_wire(4);
}

static void test_wire_v6(void **state)
{
	check_wire(6);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_v4),
		cmocka_unit_test(test_wire_v6),
	};
	int ret;

	rig_setup();
	rig_enter(RIG_B); /* the receiver's ICMP errors would be in the way */
	rig_sh("ip neigh replace 10.9.0.1 lladdr 02:00:00:00:09:01 dev v0 nud permanent");
	rig_enter(RIG_A);
	rig_sh("ip neigh replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev v0 nud permanent; "
	       "ip neigh replace fd09::2 lladdr 02:00:00:00:09:02 dev v0 nud permanent");
	if (!rig_try("ethtool -K v0 tx-udp-segmentation off")) {
		printf("ethtool cannot turn tx-udp-segmentation off\n");
		return 77;
	}
	if (argc > 1)
		pcap_begin(argv[1]);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	if (pcap && fclose(pcap))
		return 1;
	return ret;
}
