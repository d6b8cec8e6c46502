/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_priv.h"

#include "base/log.h"
#include "wire/icrc.h"

#include <assert.h>
#include <errno.h>
#include <linux/in6.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* What the parts of a struct msghdr are in. */
struct envelope {
	struct iovec iov;
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
	_Alignas(struct cmsghdr)
		uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
				3 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
};

static uint32_t packet_len(const struct urxe_frame *frame)
{
	return frame->hdr_len + frame->payload_len + frame->pad + ICRC_LEN;
}

/* Has the batch room for another packet, and no shorter one in it? */
static bool batch_grows(const struct urxe_udp *udp, const struct udp_batch *b, uint32_t len)
{
	return b->n < udp->segs_max && b->len + len <= UDP_BATCH_MAX && b->len == b->n * b->seg_len;
}

/* May this frame join the packets of the batch? */
static bool batch_takes(const struct urxe_udp *udp, const struct udp_batch *b,
			const struct urxe_frame *frame)
{
	uint32_t len = packet_len(frame);

	return batch_grows(udp, b, len) && len <= b->seg_len &&
	       !memcmp(&b->path, frame->path, sizeof(b->path));
}

/* Of the sockets that we hold, the one of the path's source port. */
static struct udp_source *source_of(struct urxe_udp *udp, uint16_t port)
{
	for (int i = 1; i < UDP_SOURCES; i++)
		if (udp->source[i].port == port && port != UDP_NO_PORT)
			return &udp->source[i];
	return &udp->source[0];
}

static struct udp_batch *last_batch(struct udp_outbox *out)
{
	return out->n ? &out->batch[out->n - 1] : NULL;
}

/* A new batch for this frame, at the end of the outbox. */
static struct udp_batch *batch_begin(struct urxe_udp *udp, struct udp_outbox *out,
				     const struct urxe_frame *frame)
{
	struct udp_batch *b = &out->batch[out->n++];
	/* The payload behind a bare BTH is on a 16-byte boundary: the CRC is faster there. */
	uint32_t start = (out->len + 15) / 16 * 16 + 16 - BTH_LEN;

	*b = (struct udp_batch){.path = *frame->path,
				.source = source_of(udp, frame->path->sport),
				.data = out->data + start,
				.seg_len = packet_len(frame)};
	return b;
}

static void batch_add(const struct urxe_udp *udp, struct udp_outbox *out, struct udp_batch *b,
		      const struct urxe_frame *frame)
{
	const struct urxe_icrc_net net = {
		.src = b->path.sgid,
		.dst = b->path.dgid,
		.sport = b->source->port,
		.dport = udp->port,
		.ip_id = (uint16_t)b->n,
		.ip_df = true,
	};
	uint32_t len = packet_len(frame);
	uint8_t *packet = b->data + b->len, *p = packet + frame->hdr_len;

	assert(packet + len <= out->data + sizeof(out->data));
	memcpy(packet, frame->hdr, frame->hdr_len);
	for (unsigned i = 0; i < frame->n_iov; i++) {
		memcpy(p, frame->iov[i].iov_base, frame->iov[i].iov_len);
		p += frame->iov[i].iov_len;
	}
	memset(p, 0, frame->pad);
	urxe_icrc_put(&net, packet, len - ICRC_LEN);
	b->len += len;
	b->n++;
	out->len = (uint32_t)(packet + len - out->data);
}

static void put_cmsg(struct msghdr *msg, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *cmsg = (void *)((uint8_t *)msg->msg_control + msg->msg_controllen);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), data, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

static void put_cmsg_int(struct msghdr *msg, int level, int type, int value)
{
	put_cmsg(msg, level, type, &value, sizeof(value));
}

/* Does the kernel know this source address by itself? */
static bool is_sole(const struct urxe_udp *udp, enum udp_family family, const struct urxe_gid *sgid)
{
	return udp->has_sole[family] && !memcmp(&udp->sole[family].gid, sgid, sizeof(*sgid));
}

/* The first path that a socket sends on says what is usual for it. */
static void make_usual(struct udp_source *src, enum udp_family family, const struct urxe_path *path)
{
	int tclass = path->tclass, hop_limit = path->hop_limit;
	bool v4 = family == UDP_V4;

	if (src->hop_limit[family] || !hop_limit || urxe_gid_is_multicast(&path->dgid))
		return;
	if (!setsockopt(src->fd[family], v4 ? IPPROTO_IP : IPPROTO_IPV6,
			v4 ? IP_TTL : IPV6_UNICAST_HOPS, &hop_limit, sizeof(hop_limit)))
		src->hop_limit[family] = path->hop_limit;
	if (!setsockopt(src->fd[family], v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
			&tclass, sizeof(tclass)))
		src->tclass[family] = path->tclass;
}

/* A group's hop limit is another setting of the socket. */
static bool is_usual_hop_limit(const struct udp_source *src, enum udp_family family,
			       const struct urxe_path *path)
{
	return path->hop_limit == src->hop_limit[family] && !urxe_gid_is_multicast(&path->dgid);
}

static void address_v4(const struct urxe_udp *udp, const struct udp_batch *b, struct envelope *env,
		       struct msghdr *msg)
{
	const struct urxe_path *path = &b->path;
	bool group = urxe_gid_is_multicast(&path->dgid);
	const struct udp_addr *own = group ? urxe_udp_addr(udp, &path->sgid) : NULL;
	struct in_pktinfo info = {.ipi_ifindex = own ? (int)own->ifindex : 0};

	env->to.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(udp->port)};
	memcpy(&env->to.v4.sin_addr, path->dgid.raw + 12, 4);
	msg->msg_namelen = sizeof(env->to.v4);
	memcpy(&info.ipi_spec_dst, path->sgid.raw + 12, 4);
	if (group || !is_sole(udp, UDP_V4, &path->sgid))
		put_cmsg(msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (path->tclass != b->source->tclass[UDP_V4])
		put_cmsg_int(msg, IPPROTO_IP, IP_TOS, path->tclass);
	if (path->hop_limit && !is_usual_hop_limit(b->source, UDP_V4, path))
		put_cmsg_int(msg, IPPROTO_IP, IP_TTL, path->hop_limit);
}

static void address_v6(const struct urxe_udp *udp, const struct udp_batch *b, struct envelope *env,
		       struct msghdr *msg)
{
	const struct urxe_path *path = &b->path;
	const struct udp_addr *own = urxe_udp_addr(udp, &path->sgid);
	bool group = urxe_gid_is_multicast(&path->dgid);
	struct in6_pktinfo info = {.ipi6_ifindex = !own    ? 0
						   : group ? own->ifindex
							   : udp_scope(own)};
	uint32_t flow_label = htonl(path->flow_label & IPV6_FLOWINFO_FLOWLABEL);

	env->to.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
					   .sin6_port = htons(udp->port),
					   .sin6_scope_id = info.ipi6_ifindex};
	memcpy(&env->to.v6.sin6_addr, path->dgid.raw, 16);
	msg->msg_namelen = sizeof(env->to.v6);
	memcpy(&info.ipi6_addr, path->sgid.raw, 16);
	if (group || !is_sole(udp, UDP_V6, &path->sgid))
		put_cmsg(msg, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (flow_label)
		put_cmsg(msg, IPPROTO_IPV6, IPV6_FLOWINFO, &flow_label, sizeof(flow_label));
	if (path->tclass != b->source->tclass[UDP_V6])
		put_cmsg_int(msg, IPPROTO_IPV6, IPV6_TCLASS, path->tclass);
	if (path->hop_limit && !is_usual_hop_limit(b->source, UDP_V6, path))
		put_cmsg_int(msg, IPPROTO_IPV6, IPV6_HOPLIMIT, path->hop_limit);
}

static void put_in_envelope(const struct urxe_udp *udp, struct udp_batch *b, enum udp_family family,
			    struct envelope *env, struct msghdr *ret_msg)
{
	uint16_t seg_len = (uint16_t)b->seg_len;

	env->iov = (struct iovec){b->data, b->len};
	*ret_msg = (struct msghdr){.msg_name = &env->to,
				   .msg_iov = &env->iov,
				   .msg_iovlen = 1,
				   .msg_control = env->control};
	make_usual(b->source, family, &b->path);
	if (family == UDP_V4)
		address_v4(udp, b, env, ret_msg);
	else
		address_v6(udp, b, env, ret_msg);
	if (b->n > 1)
		put_cmsg(ret_msg, SOL_UDP, UDP_SEGMENT, &seg_len, sizeof(seg_len));
}

/* Send the first batches of these that go by the same socket. Returns how many, or -errno. */
static int send_batches(const struct urxe_udp *udp, struct udp_batch *b, unsigned n)
{
	const struct udp_source *source = b->source;
	enum udp_family family = udp_gid_family(&b->path.dgid);
	struct envelope env[UDP_BATCHES];
	struct mmsghdr msg[UDP_BATCHES];
	unsigned k = 0;
	int ret;

	if (source->fd[family] < 0)
		return -EAFNOSUPPORT;
	for (; k < n && b[k].source == source && udp_gid_family(&b[k].path.dgid) == family; k++)
		put_in_envelope(udp, &b[k], family, &env[k], &msg[k].msg_hdr);
	ret = sendmmsg(source->fd[family], msg, k, 0);
	return ret < 0 ? -errno : ret;
}

/* Packets of this batch are lost. The transport will find out; the operator is told once. */
static void tx_error(struct urxe_udp *udp, const struct udp_batch *b, int err)
{
	static const struct {
		int err;
		const char *advice;
	} kinds[] = {
		{0, "packets are lost"},
		{ENETUNREACH, "there is no route to the peer's network (see 'ip route get')"},
		{EHOSTUNREACH, "the peer does not answer, or there is no route (see 'ip neigh')"},
		{EMSGSIZE,
		 "the MTU of the interface or the way is too small for the QP's path MTU"},
		{EPERM, "a firewall rule forbids it (UDP port 4791 out)"},
		{EACCES, "a route or firewall rule forbids it (UDP port 4791 out)"},
		{EINVAL, "the source address is no longer on this host, or the MTU is too small"},
		{ENETDOWN, "the interface is down (see 'ip link')"},
		{EAFNOSUPPORT, "no address of the peer's IP family is among this device's GIDs"},
	};
	unsigned kind = 0;

	for (unsigned i = 1; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].err == err)
			kind = i;
	udp->stats->tx_errors += b->n;
	if (udp->warned & 1u << kind)
		return;
	udp->warned |= 1u << kind;
	log_warn("sending %u bytes by UDP: %s: %s", b->seg_len, strerror(err), kinds[kind].advice);
}

static int wait_writable(struct urxe_udp *udp, int fd)
{
	struct epoll_event event = {.events = EPOLLOUT};

	if (udp->blocked_fd == fd)
		return 0;
	if (epoll_ctl(udp->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	udp->blocked_fd = fd;
	udp->stats->tx_blocked++;
	return 0;
}

static void done_waiting(struct urxe_udp *udp)
{
	if (udp->blocked_fd >= 0)
		epoll_ctl(udp->epoll_fd, EPOLL_CTL_DEL, udp->blocked_fd, NULL);
	udp->blocked_fd = -1;
}

/* The batch is no longer in its outbox. */
static void batch_ended(struct urxe_udp *udp, const struct udp_batch *b, int err)
{
	if (!err) {
		udp->stats->tx_batches++;
		udp->stats->tx_pkts += b->n;
		udp->stats->tx_bytes += b->len;
		return;
	}
	if (err == EIO && b->n > 1)
		udp->segs_max = 1; /* the device cannot segment with checksums */
	tx_error(udp, b, err);
}

/* Send what is in the outbox. False: it has to be tried again when a socket is writable. */
static bool flush(struct urxe_udp *udp, struct udp_outbox *out)
{
	while (out->sent < out->n) {
		struct udp_batch *b = &out->batch[out->sent];
		int ret = send_batches(udp, b, out->n - out->sent);

		udp->stats->tx_calls++;
		if (ret == -EAGAIN || ret == -ENOBUFS) {
			ret = wait_writable(udp, b->source->fd[udp_gid_family(&b->path.dgid)]);
			if (!ret)
				return false;
		}
		done_waiting(udp);
		if (ret < 0)
			batch_ended(udp, b, -ret);
		for (int i = 0; i < ret; i++)
			batch_ended(udp, &b[i], 0);
		out->sent += ret < 0 ? 1 : (unsigned)ret;
	}
	out->n = out->sent = 0;
	out->len = 0;
	return true;
}

static bool flush_all(struct urxe_udp *udp)
{
	return flush(udp, &udp->out[!udp->cur]) && flush(udp, &udp->out[udp->cur]);
}

/*
 * A frame that cannot join the last batch begins another. If what is there is worth a call, that is
 * in the other outbox, and this one leaves. False: it has to wait.
 */
static bool send_frame(struct urxe_udp *udp, const struct urxe_frame *frame)
{
	struct udp_outbox *out = &udp->out[udp->cur];
	struct udp_batch *b = last_batch(out);
	bool leaves = false;

	if (!b || !batch_takes(udp, b, frame)) {
		leaves = out->len >= UDP_OUTBOX_MIN || out->n == UDP_BATCHES;
		if (leaves) {
			udp->cur = !udp->cur;
			out = &udp->out[udp->cur];
		}
		b = batch_begin(udp, out, frame);
	}
	batch_add(udp, out, b, frame);
	return !leaves || flush(udp, &udp->out[!udp->cur]);
}

unsigned urxe_udp_send(struct urxe_udp *udp, urxe_pull_fn *pull, void *arg, unsigned budget,
		       bool more)
{
	const struct udp_batch *b;
	unsigned n = 0;

	if (urxe_udp_blocked(udp) && !flush_all(udp))
		return 0;
	while (n < budget && pull(arg, &udp->frame)) {
		n++;
		if (!send_frame(udp, &udp->frame))
			return n;
	}
	b = last_batch(&udp->out[udp->cur]);
	if (b && (!more || !batch_grows(udp, b, b->seg_len)))
		flush_all(udp);
	return n;
}

bool urxe_udp_blocked(const struct urxe_udp *udp)
{
	return udp->blocked_fd >= 0;
}

bool urxe_udp_unsent(const struct urxe_udp *udp)
{
	return udp->out[0].n || udp->out[1].n;
}
