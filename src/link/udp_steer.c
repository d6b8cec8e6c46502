/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that share the port are a SO_REUSEPORT group. Left alone, the kernel gives a packet to
 * one of them by a hash of addresses and ports, mostly to the wrong one. A classic BPF program, for
 * which no privilege is needed, can choose: it sees the UDP payload and returns a place in the
 * group (SO_ATTACH_REUSEPORT_CBPF in socket(7)). It is the same for all and knows nobody: the place
 * is part of the QPN, since every endpoint takes blocks of QPNs that say where it is. To find out
 * where that is, an endpoint sends itself a datagram for each place, until one comes back.
 *
 * The kernel moves the last of the group to the place of one that leaves. Packets for QPs of that
 * one come to the wrong place from then on and are handed over, as all were without the program.
 */
#include "link/udp_priv.h"

#include "base/be.h"
#include "base/log.h"
#include "wire/opcode.h"

#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PROBE_LEN = 7,   /* ends where the upper 16 bits of a QPN do; shorter than any packet */
	BLOCK_SHIFT = 2, /* from those to the number of the block of 1024 */
	PROBE_WAIT_MS = 20,
};

static const uint8_t probe_magic[BTH_DQPN] = "probe";

struct probe {
	int fd;
	uint16_t port; /* its own */
};

static int attach_program(int fd)
{
	struct sock_filter code[] = {
		{BPF_LD | BPF_H | BPF_ABS, 0, 0, BTH_DQPN},
		{BPF_ALU | BPF_RSH | BPF_K, 0, 0, BLOCK_SHIFT},
		{BPF_ALU | BPF_AND | BPF_K, 0, 0, URXE_UDP_PLACES - 1},
		{BPF_RET | BPF_A, 0, 0, 0},
	};
	const struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	if (!setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)))
		return 0;
	log_debug("packets are not steered by QPN: %s", strerror(errno));
	return -errno;
}

bool urxe_udp_is_probe(const struct udp_datagram *dgram)
{
	return dgram->len == PROBE_LEN && !memcmp(dgram->data, probe_magic, sizeof(probe_magic));
}

/* A socket of the family, connected to the port of this host. */
static bool open_probe(struct probe *p, enum udp_family family, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool is_v4 = family == UDP_V4;
	socklen_t len = is_v4 ? sizeof(v4) : sizeof(v6);

	p->fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0)
		return false;
	if (connect(p->fd, is_v4 ? (const void *)&v4 : &v6, len) ||
	    getsockname(p->fd, is_v4 ? (void *)&v4 : &v6, &len)) {
		close(p->fd);
		return false;
	}
	p->port = ntohs(is_v4 ? v4.sin_port : v6.sin6_port);
	return true;
}

static bool send_probe(const struct probe *p, unsigned place)
{
	uint8_t data[PROBE_LEN];

	memcpy(data, probe_magic, sizeof(probe_magic));
	put_be16(data + BTH_DQPN, (uint16_t)(place << BLOCK_SHIFT));
	return send(p->fd, data, sizeof(data), 0) == sizeof(data);
}

/*
 * The place that the first probe to come back names; -1: none has. What else comes is for QPs of
 * others: this endpoint has none yet. It is lost, and sent again.
 */
static int take_probe(const struct probe *p, int rx_fd)
{
	struct sockaddr_in6 from; /* its port is where a sockaddr_in's is */
	uint8_t data[PROBE_LEN + 1];
	struct udp_datagram dgram = {.data = data};
	ssize_t len;

	do {
		socklen_t from_len = sizeof(from);

		len = recvfrom(rx_fd, data, sizeof(data), 0, (void *)&from, &from_len);
		dgram.len = (size_t)len;
		if (len > 0 && urxe_udp_is_probe(&dgram) && ntohs(from.sin6_port) == p->port)
			return get_be16(data + BTH_DQPN) >> BLOCK_SHIFT;
	} while (len >= 0);
	return -1;
}

static int find_place(int rx_fd, const struct probe *p)
{
	struct pollfd late = {.fd = rx_fd, .events = POLLIN};
	int found = -1;

	/* Upwards: for a place that nobody has, the kernel takes any. */
	for (unsigned place = 0; place < URXE_UDP_PLACES && found < 0; place++) {
		if (!send_probe(p, place))
			return -1;
		found = take_probe(p, rx_fd);
	}
	if (found < 0 && poll(&late, 1, PROBE_WAIT_MS) > 0)
		found = take_probe(p, rx_fd);
	return found;
}

void urxe_udp_steer(struct urxe_udp *udp, enum udp_family family)
{
	struct probe p;

	if (attach_program(udp->rx_fd[family]) || udp->place >= 0)
		return;
	if (!open_probe(&p, family, udp->port))
		return;
	udp->place = find_place(udp->rx_fd[family], &p);
	close(p.fd);
	log_debug("UDP port %u: this endpoint is number %d of those that share it", udp->port,
		  udp->place);
}
