/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_priv.h"

#include "wire/icrc.h"

#include <linux/in6.h>
#include <netinet/udp.h>
#include <sys/socket.h>

enum {
	WARM_LOOKS = 64, /* a family that gave nothing so often in a row is quiet */
	MESSAGE_AND_ACK = 2,
	QUIET_STRIDE = 16, /* one look in so many goes to a quiet one */
};

#define ECN_MASK 3
#define ECN_CE   3

#define CONTROL_LEN                                                                                \
	(CMSG_SPACE(sizeof(struct in6_pktinfo)) + 4 * CMSG_SPACE(sizeof(int)) +                    \
	 CMSG_SPACE(sizeof(uint32_t)))

/* A datagram on its way out of the kernel: where recvmsg() puts things. */
struct receipt {
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from;
	_Alignas(struct cmsghdr) uint8_t control[CONTROL_LEN];
};

static void take_drops(struct urxe_udp *udp, enum udp_family family, uint32_t drops)
{
	udp->stats->rx_overflow += drops - udp->rx_drops[family];
	udp->rx_drops[family] = drops;
}

static int cmsg_int(const struct cmsghdr *cmsg)
{
	int value;

	memcpy(&value, CMSG_DATA(cmsg), sizeof(value));
	return value;
}

static void take_ip_cmsg(struct urxe_path *path, const struct cmsghdr *cmsg)
{
	struct in_pktinfo info;

	switch (cmsg->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		urxe_gid_from_v4(&path->dgid, &info.ipi_addr);
		break;
	case IP_TOS:
		path->tclass = *CMSG_DATA(cmsg);
		break;
	case IP_TTL:
		path->hop_limit = (uint8_t)cmsg_int(cmsg);
		break;
	}
}

static void take_ipv6_cmsg(struct urxe_path *path, const struct cmsghdr *cmsg)
{
	struct in6_pktinfo info;

	switch (cmsg->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		memcpy(path->dgid.raw, &info.ipi6_addr, sizeof(path->dgid.raw));
		break;
	case IPV6_TCLASS:
		path->tclass = (uint8_t)cmsg_int(cmsg);
		break;
	case IPV6_HOPLIMIT:
		path->hop_limit = (uint8_t)cmsg_int(cmsg);
		break;
	case IPV6_FLOWINFO:
		path->flow_label = ntohl((uint32_t)cmsg_int(cmsg)) & IPV6_FLOWINFO_FLOWLABEL;
		break;
	}
}

static void take_control(struct urxe_udp *udp, enum udp_family family, struct msghdr *msg,
			 struct udp_datagram *dgram)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		switch (cmsg->cmsg_level) {
		case IPPROTO_IP:
			take_ip_cmsg(&dgram->path, cmsg);
			break;
		case IPPROTO_IPV6:
			take_ipv6_cmsg(&dgram->path, cmsg);
			break;
		case SOL_UDP:
			if (cmsg->cmsg_type == UDP_GRO)
				dgram->seg_len = (size_t)cmsg_int(cmsg);
			break;
		case SOL_SOCKET:
			if (cmsg->cmsg_type == SO_RXQ_OVFL)
				take_drops(udp, family, (uint32_t)cmsg_int(cmsg));
			break;
		}
	}
	/* Of all packets in it: GRO joins none that differ in TOS (inet_gro_receive() in Linux). */
	dgram->ce = (dgram->path.tclass & ECN_MASK) == ECN_CE;
}

static void take_source(enum udp_family family, const struct receipt *r, struct urxe_path *path)
{
	if (family == UDP_V4) {
		urxe_gid_from_v4(&path->sgid, &r->from.v4.sin_addr);
		path->sport = ntohs(r->from.v4.sin_port);
	} else {
		memcpy(path->sgid.raw, &r->from.v6.sin6_addr, sizeof(path->sgid.raw));
		path->sport = ntohs(r->from.v6.sin6_port);
	}
}

/* Receive one datagram of the kernel's: one packet, or several that GRO joined. */
static bool receive(struct urxe_udp *udp, enum udp_family family, struct udp_datagram *ret_dgram)
{
	struct receipt r;
	struct iovec iov = {udp->rx_buf, sizeof(udp->rx_buf)};
	struct msghdr msg = {.msg_name = &r.from,
			     .msg_namelen = sizeof(r.from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = r.control,
			     .msg_controllen = sizeof(r.control)};
	ssize_t len = recvmsg(udp->rx_fd[family], &msg, 0);

	udp->stats->rx_calls++;
	if (len < 0)
		return false;
	*ret_dgram = (struct udp_datagram){
		.data = udp->rx_buf, .len = (size_t)len, .seg_len = (size_t)len};
	take_source(family, &r, &ret_dgram->path);
	take_control(udp, family, &msg, ret_dgram);
	return true;
}

/* Verify the packet, and set net to what to expect of the next one. */
static bool verify(struct urxe_udp *udp, struct urxe_icrc_net *net, const uint8_t *packet,
		   size_t len)
{
	uint16_t ip_id = net->ip_id;
	bool good = false;

	if (len < BTH_LEN + ICRC_LEN)
		udp->stats->rx_runt++;
	else if (urxe_icrc_check(net, packet, len, false, &ip_id))
		good = true;
	else
		udp->stats->rx_bad_icrc++;
	net->ip_id = (uint16_t)(ip_id + 1);
	return good;
}

unsigned urxe_udp_rx_datagram(struct urxe_udp *udp, const struct udp_datagram *dgram,
			      urxe_rx_fn *deliver, void *arg)
{
	/* A Linux peer's batch begins with Identification 0 and counts. */
	struct urxe_icrc_net net = {
		.src = dgram->path.sgid,
		.dst = dgram->path.dgid,
		.sport = dgram->path.sport,
		.dport = udp->port,
		.ip_df = true,
	};
	bool ours = urxe_udp_hears(udp, &dgram->path.dgid);
	bool looped =
		urxe_gid_is_multicast(&dgram->path.dgid) && urxe_udp_addr(udp, &dgram->path.sgid);
	size_t left = dgram->len;
	unsigned n = 0;

	if (urxe_udp_is_probe(dgram))
		return 1;
	do {
		size_t len = left < dgram->seg_len ? left : dgram->seg_len;
		const uint8_t *packet = dgram->data + (dgram->len - left);

		if (!ours) {
			udp->stats->rx_foreign++;
		} else if (verify(udp, &net, packet, len)) {
			const struct urxe_rx rx = {.data = packet,
						   .len = (uint32_t)(len - ICRC_LEN),
						   .path = &dgram->path,
						   .ce = dgram->ce,
						   .looped = looped};

			udp->stats->rx_pkts++;
			udp->stats->rx_bytes += len;
			deliver(arg, &rx);
		}
		left -= len;
		n++;
	} while (left);
	return n;
}

void urxe_udp_warm(struct urxe_udp *udp)
{
	for (int family = 0; family < UDP_FAMILIES; family++)
		udp->rx_warm[family] = WARM_LOOKS;
}

/* A look is a system call: few of them go to a family that nobody uses. */
static bool worth_a_look(struct urxe_udp *udp, enum udp_family family)
{
	if (udp->rx_fd[family] < 0)
		return false;
	if (family == udp->rx_last)
		return true;
	if (udp->rx_warm[family])
		udp->rx_warm[family]--;
	else if (++udp->rx_skipped % QUIET_STRIDE)
		return false;
	return true;
}

/*
 * A flood of packets that are not delivered uses up the budget too. A message that came to an idle
 * endpoint is most likely alone: its answer shall not wait for a look at the empty queue.
 */
unsigned urxe_udp_poll(struct urxe_udp *udp, urxe_rx_fn *deliver, void *arg, unsigned budget)
{
	uint64_t before = udp->stats->rx_pkts;
	struct udp_datagram dgram;
	unsigned spent = 0, empty = 0;
	bool alone = false;

	while (spent < budget && empty < UDP_FAMILIES && !alone) {
		enum udp_family family = udp->rx_next;

		udp->rx_next = (udp->rx_next + 1) % UDP_FAMILIES;
		if (!worth_a_look(udp, family) || !receive(udp, family, &dgram)) {
			empty++;
			continue;
		}
		alone = !spent && udp->rx_idle;
		empty = 0;
		udp->rx_warm[family] = WARM_LOOKS;
		udp->rx_last = family;
		spent += urxe_udp_rx_datagram(udp, &dgram, deliver, arg);
		alone &= spent <= MESSAGE_AND_ACK;
	}
	udp->rx_idle = !spent;
	return (unsigned)(udp->stats->rx_pkts - before);
}
