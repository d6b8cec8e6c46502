/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link beside plain UDP sockets, both polled, between two network namespaces of its own
 * joined by veth: round trips of 64-byte payloads, and one-way throughput of 4 KiB payloads with at
 * most half a receive buffer under way. One line of JSON for each.
 */
#include "link/udp.h"
#include "base/clock.h"
#include "wire/packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PORT = 4791,
	PLAIN_PORT = 9000,
	ROUNDS = 20000,
	SMALL = 64,
	LARGE = 4096,
	PACKETS = 200000,
	BUFFER = 4 << 20,
	WINDOW = 512, /* packets */
	BATCH = 15,
};

struct side {
	int ns;
	int fd; /* the plain socket */
	struct urxe_udp *udp;
	struct urxe_path path;
	struct sockaddr_in peer;
	/* What pull() has yet to send and deliver() has got. */
	unsigned to_send;
	unsigned len;
	unsigned got;
};

static const char *const address[2] = {"10.9.0.1", "10.9.0.2"};
static uint8_t payload[LARGE];
static _Atomic unsigned received;

static void die(const char *what)
{
	perror(what);
	exit(77);
}

static struct urxe_gid gid_of(const char *text)
{
	struct urxe_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	inet_pton(AF_INET, text, gid.raw + 12);
	return gid;
}

static bool pull(void *arg, struct urxe_frame *frame)
{
	struct side *s = arg;
	const struct urxe_pkt pkt = {.opcode = URXE_RC | OP_SEND_ONLY, .dqpn = 1};

	if (!s->to_send)
		return false;
	s->to_send--;
	frame->path = &s->path;
	frame->payload_len = s->len;
	frame->pad = 0;
	frame->n_iov = 1;
	frame->iov[0] = (struct iovec){payload, s->len};
	frame->hdr_len = (uint8_t)urxe_pkt_build(&pkt, frame->hdr);
	return true;
}

static void deliver(void *arg, const struct urxe_rx *rx)
{
	struct side *s = arg;

	s->got++;
}

static void link_send(struct side *s, unsigned n, unsigned len)
{
	s->to_send = n;
	s->len = len;
	while (s->to_send || urxe_udp_blocked(s->udp))
		urxe_udp_send(s->udp, pull, s, n, false);
}

static void link_recv(struct side *s)
{
	while (!urxe_udp_poll(s->udp, deliver, s, 64))
		;
}

static void plain_send(struct side *s, unsigned n, unsigned len)
{
	while (n--)
		while (sendto(s->fd, payload, len, 0, (const void *)&s->peer, sizeof(s->peer)) < 0)
			;
}

static void plain_recv(struct side *s)
{
	static _Thread_local uint8_t buf[LARGE];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	while (recvfrom(s->fd, buf, sizeof(buf), 0, (void *)&from, &len) < 0)
		;
	s->got++;
}

struct way {
	const char *name;
	void (*send)(struct side *s, unsigned n, unsigned len);
	void (*recv)(struct side *s);
};

static const struct way ways[] = {
	{"plain UDP socket", plain_send, plain_recv},
	{"urxe UDP link", link_send, link_recv},
};

struct job {
	const struct way *way;
	struct side *side;
};

static void *echo(void *arg)
{
	struct job *job = arg;

	for (int i = 0; i < ROUNDS; i++) {
		job->way->recv(job->side);
		job->way->send(job->side, 1, SMALL);
	}
	return NULL;
}

static void *sink(void *arg)
{
	struct job *job = arg;

	job->side->got = 0;
	while (job->side->got < PACKETS) {
		job->way->recv(job->side);
		atomic_store_explicit(&received, job->side->got, memory_order_release);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static pthread_t start(void *(*run)(void *), struct job *job)
{
	pthread_t thread;

	pin(1); /* what it starts runs there */
	if (pthread_create(&thread, NULL, run, job))
		die("pthread_create");
	pin(0);
	return thread;
}

static void round_trips(const struct way *way, struct side *sides)
{
	static uint64_t ns[ROUNDS];
	struct job job = {way, &sides[1]};
	pthread_t thread = start(echo, &job);

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = clock_now_ns();

		way->send(&sides[0], 1, SMALL);
		way->recv(&sides[0]);
		ns[i] = clock_now_ns() - begin;
	}
	pthread_join(thread, NULL);
	qsort(ns, ROUNDS, sizeof(ns[0]), compare);
	printf("{\"what\": \"%s\", \"bytes\": %d, \"rtt_median_us\": %.2f, \"rtt_min_us\": %.2f, "
	       "\"rtt_p99_us\": %.2f}\n",
	       way->name, SMALL, (double)ns[ROUNDS / 2] / 1e3, (double)ns[0] / 1e3,
	       (double)ns[ROUNDS * 99 / 100] / 1e3);
}

static void throughput(const struct way *way, struct side *sides)
{
	struct job job = {way, &sides[1]};
	uint64_t begin, ns;
	pthread_t thread;

	atomic_store(&received, 0);
	thread = start(sink, &job);
	begin = clock_now_ns();
	for (unsigned sent = 0; sent < PACKETS;) {
		unsigned n = PACKETS - sent < BATCH ? PACKETS - sent : BATCH;

		if (sent + n - atomic_load_explicit(&received, memory_order_acquire) > WINDOW)
			continue;
		way->send(&sides[0], n, LARGE);
		sent += n;
	}
	pthread_join(thread, NULL);
	ns = clock_now_ns() - begin;
	printf("{\"what\": \"%s\", \"bytes\": %d, \"gbit_s\": %.2f, \"mpkt_s\": %.3f}\n", way->name,
	       LARGE, (double)PACKETS * LARGE * 8 / (double)ns, (double)PACKETS / (double)ns * 1e3);
}

static void sh(const char *command)
{
	if (system(command))
		die(command);
}

static int new_ns(void)
{
	int fd = -1;

	if (unshare(CLONE_NEWNET) == 0)
		fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("network namespaces (needs root)");
	return fd;
}

static void make_namespaces(struct side *sides)
{
	char command[128];

	sides[1].ns = new_ns();
	sides[0].ns = new_ns();
	sh("ip link add v0 type veth peer name v1; ip link set v0 mtu 9000 up; "
	   "ip link set v1 mtu 9000; ip addr add 10.9.0.1/24 dev v0");
	snprintf(command, sizeof(command), "ip link set v1 netns /proc/%d/fd/%d", getpid(),
		 sides[1].ns);
	sh(command);
	if (setns(sides[1].ns, CLONE_NEWNET))
		die("setns");
	sh("ip addr add 10.9.0.2/24 dev v1; ip link set v1 up");
}

static void open_side(struct side *sides, int i)
{
	const struct urxe_gid gid = gid_of(address[i]);
	const struct urxe_udp_conf conf = {.gids = &gid,
					   .n_gids = 1,
					   .port = PORT,
					   .rcvbuf_bytes = BUFFER,
					   .sndbuf_bytes = BUFFER};
	struct sockaddr_in self = {.sin_family = AF_INET, .sin_port = htons(PLAIN_PORT)};
	struct side *s = &sides[i];
	const int size = BUFFER;

	if (setns(s->ns, CLONE_NEWNET))
		die("setns");
	errno = -urxe_udp_open(&conf, &s->udp);
	if (errno)
		die("urxe_udp_open");
	s->path = (struct urxe_path){.sgid = gid,
				     .dgid = gid_of(address[!i]),
				     .sport = urxe_udp_sport(s->udp, 1, 1),
				     .hop_limit = 64};
	s->peer = self;
	inet_pton(AF_INET, address[!i], &s->peer.sin_addr);
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(s->fd, (const void *)&self, sizeof(self)))
		die("bind");
}

int main(void)
{
	struct side sides[2] = {0};

	make_namespaces(sides);
	for (int i = 0; i < 2; i++)
		open_side(sides, i);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		round_trips(&ways[i], sides);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		throughput(&ways[i], sides);
	for (int i = 0; i < 2; i++) {
		urxe_udp_close(sides[i].udp);
		close(sides[i].fd);
	}
	return 0;
}
