/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp_rig.h"

#include "base/be.h"
#include "wire/packet.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAYLOAD_MAX = 65536 };

static int ns_fd[2];
static uint8_t payload[RIG_PACKETS + PAYLOAD_MAX];

static void skip_all(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(77);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		skip_all(path);
	close(fd);
}

static void new_user_namespace(void)
{
	char map[32];
	unsigned uid = getuid(), gid = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		skip_all("network namespaces are not permitted");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

static int open_ns(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip_all("/proc/thread-self/ns/net");
	return fd;
}

void rig_enter(enum rig_host host)
{
	assert_int_equal(setns(ns_fd[host], CLONE_NEWNET), 0);
}

static int __attribute__((format(printf, 1, 0))) vsh(const char *fmt, va_list args)
{
	char command[512];

	vsnprintf(command, sizeof(command), fmt, args);
	return system(command);
}

bool rig_try(const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = vsh(fmt, args);
	va_end(args);
	return ret == 0;
}

void rig_sh(const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = vsh(fmt, args);
	va_end(args);
	if (ret)
		fprintf(stderr, "failed: %s\n", fmt);
	assert(!ret);
}

void rig_setup(void)
{
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 2654435761u >> 13);
	if (system("command -v ip >/dev/null")) {
		printf("iproute2 is not installed\n");
		exit(77);
	}
	if (unshare(CLONE_NEWNET))
		new_user_namespace();
	ns_fd[RIG_A] = open_ns();
	if (unshare(CLONE_NEWNET))
		skip_all("a second network namespace");
	ns_fd[RIG_B] = open_ns();
	if (!rig_try("ip link add v0 address 02:00:00:00:09:02 type veth "
		     "peer name v1 address 02:00:00:00:09:01")) {
		printf("no veth interface can be made\n");
		exit(77);
	}
	rig_sh("ip link set lo up; ip addr add 10.9.0.2/24 dev v0; "
	       "ip addr add fd09::2/64 dev v0 nodad; ip link set v0 mtu 9000 addrgenmode none up");
	rig_sh("ip link set v1 netns /proc/%d/fd/%d", getpid(), ns_fd[RIG_A]);
	rig_enter(RIG_A);
	rig_sh("ip link set lo up; ip link set v1 name v0; ip addr add 10.9.0.1/24 dev v0; "
	       "ip addr add fd09::1/64 dev v0 nodad; ip link set v0 mtu 9000 addrgenmode none up");
}

struct urxe_gid rig_gid(const char *text)
{
	struct urxe_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (strchr(text, ':'))
		assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	else
		assert_int_equal(inet_pton(AF_INET, text, gid.raw + 12), 1);
	return gid;
}

static const char *const address[2][2] = {
	[RIG_A] = {"10.9.0.1", "fd09::1"},
	[RIG_B] = {"10.9.0.2", "fd09::2"},
};

struct urxe_udp *rig_open(enum rig_host host, uint32_t rcvbuf, uint32_t sndbuf)
{
	const struct urxe_gid gids[] = {rig_gid("127.0.0.1"), rig_gid("::1"),
					rig_gid(address[host][0]), rig_gid(address[host][1])};
	const struct urxe_udp_conf conf = {
		.gids = gids,
		.n_gids = 4,
		.port = RIG_PORT,
		.rcvbuf_bytes = rcvbuf,
		.sndbuf_bytes = sndbuf,
		.seed = 1 + host,
	};
	struct urxe_udp *udp = NULL;

	rig_enter(host);
	assert_int_equal(urxe_udp_open(&conf, &udp), 0);
	return udp;
}

struct urxe_path rig_path(struct urxe_udp *from, enum rig_host host, int version)
{
	struct urxe_path path;

	rig_enter(host); /* source ports are bound when they are first asked for */
	path = (struct urxe_path){
		.sgid = rig_gid(address[host][version == 6]),
		.dgid = rig_gid(address[!host][version == 6]),
		.sport = urxe_udp_sport(from, 17, RIG_QPN),
		.hop_limit = 64,
	};

	return path;
}

static uint32_t dqpn_of(const struct rig_flow *flow)
{
	return flow->dqpn ? flow->dqpn : RIG_QPN;
}

static size_t headers(const struct rig_flow *flow, unsigned i, uint8_t *hdr)
{
	const struct urxe_pkt pkt = {
		.opcode = URXE_RC | (flow->mixed && i & 64 ? OP_WRITE_ONLY : OP_SEND_ONLY),
		.pad = (uint8_t)(-flow->len[i] & 3),
		.fecn = i & 1,
		.becn = i & 2,
		.dqpn = dqpn_of(flow),
		.pkey = 0xffff,
		.psn = i,
		.va = 0x1000 + i,
		.dma_len = flow->len[i],
	};

	return urxe_pkt_build(&pkt, hdr);
}

bool rig_pull(void *arg, struct urxe_frame *ret_frame)
{
	struct rig_flow *flow = arg;
	unsigned i = flow->pulled;
	uint32_t len, left;

	if (i == flow->n)
		return false;
	flow->pulled++;
	len = flow->len[i];
	ret_frame->path = flow->path;
	ret_frame->dqpn = dqpn_of(flow);
	ret_frame->payload_len = len;
	ret_frame->pad = (uint8_t)(-len & 3);
	ret_frame->hdr_len = (uint8_t)headers(flow, i, ret_frame->hdr);
	ret_frame->n_iov = 0;
	left = len;
	for (unsigned k = 0; left; k++) {
		uint32_t part = k + 1 == i % URXE_FRAME_IOV + 1 ? left : (i * 7 + k * 13) % 97;

		part = part < left ? part : left;
		ret_frame->iov[ret_frame->n_iov++] =
			(struct iovec){payload + i + (len - left), part};
		left -= part;
	}
	return true;
}

size_t rig_packet(const struct rig_flow *flow, unsigned i, uint8_t *out)
{
	size_t n = headers(flow, i, out);

	memcpy(out + n, payload + i, flow->len[i]);
	n += flow->len[i];
	memset(out + n, 0, -flow->len[i] & 3);
	return n + (-flow->len[i] & 3);
}

void rig_deliver(void *arg, const struct urxe_rx *rx)
{
	static uint8_t expected[URXE_HDR_MAX + PAYLOAD_MAX];
	struct rig_flow *flow = arg;
	size_t n;

	if (flow->delivered == flow->n) {
		flow->mismatch++;
		return;
	}
	n = rig_packet(flow, flow->delivered, expected);
	if (rx->len != n || memcmp(rx->data, expected, n))
		flow->mismatch++;
	flow->delivered++;
	flow->ce += rx->ce;
	flow->last_path = *rx->path;
}

void rig_wait(struct urxe_udp *udp)
{
	struct pollfd fd = {urxe_udp_fd(udp), POLLIN, 0};

	assert_int_equal(poll(&fd, 1, 2000), 1);
	urxe_udp_warm(udp);
}

/* As many packets as a receive buffer takes. */
static unsigned next_burst(const struct rig_flow *flow)
{
	uint32_t bytes = 0;
	unsigned n = 0;

	while (n < 100 && flow->pulled + n < flow->n && bytes < RIG_BUF / 2)
		bytes += flow->len[flow->pulled + n++];
	return n;
}

void rig_run(struct rig_flow *flow, struct urxe_udp *tx, struct urxe_udp *rx)
{
	while (flow->delivered < flow->n) {
		if (flow->pulled < flow->n || urxe_udp_blocked(tx))
			urxe_udp_send(tx, rig_pull, flow, next_burst(flow), false);
		rig_wait(rx);
		while (urxe_udp_poll(rx, rig_deliver, flow, 64))
			;
	}
	assert_int_equal(flow->mismatch, 0);
	assert_int_equal(flow->pulled, flow->n);
	assert_int_equal(flow->delivered, flow->n);
}
