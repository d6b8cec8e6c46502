/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/pcapng.h"

#include "base/be.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/icrc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* draft-ietf-opsawg-pcapng: block types and option codes. */
enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	LINKTYPE_ETHERNET = 1,
	OPT_END = 0,
	OPT_USERAPPL = 4,
	OPT_IF_NAME = 2,
	OPT_IF_DESCRIPTION = 3,
	OPT_IF_TSRESOL = 9,
	OPT_PACKET_FLAGS = 2,
	INBOUND = 1,
	OUTBOUND = 2,
};

enum {
	ETH_LEN = 14,
	IPV4_LEN = 20,
	IPV6_LEN = 40,
	UDP_LEN = 8,
	UDP_PROTO = 17,
	ROCE_PORT = 4791,
	SPORT_MIN = 0xc000,
	BUFFER_BYTES = 1 << 18,
	BLOCK_MAX = 65536 + 128, /* an IP packet and what is around it */
};

struct urxe_pcap {
	pthread_mutex_t lock;
	int fd;         /* -1: the capture has ended */
	bool is_stream; /* whose reader may go */
	unsigned n_interfaces;
	size_t len;
	char *path;
	uint8_t buf[BUFFER_BYTES];
};

/* ---- the file -------------------------------------------------------------------------------- */

static char *expand(const char *pattern)
{
	size_t len = strlen(pattern) + 1;
	char *path;

	for (const char *p = pattern; (p = strstr(p, "%p")); p += 2)
		len += 20;
	path = malloc(len);
	if (!path)
		return NULL;
	path[0] = '\0';
	for (const char *p = pattern; *p;) {
		size_t used = strlen(path), n = strcspn(p, "%");

		if (p[n] == '%' && p[n + 1] == 'p') {
			snprintf(path + used, len - used, "%.*s%d", (int)n, p, (int)getpid());
			p += n + 2;
		} else {
			n += p[n] == '%';
			snprintf(path + used, len - used, "%.*s", (int)n, p);
			p += n;
		}
	}
	return path;
}

/* Only a file that nobody writes is truncated. */
static int open_file(struct urxe_pcap *pcap)
{
	struct stat st;
	int err;

	pcap->fd = open(pcap->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
	if (pcap->fd < 0)
		return -errno;
	if (fstat(pcap->fd, &st)) {
		err = -errno;
		goto err_close;
	}
	pcap->is_stream = !S_ISREG(st.st_mode);
	if (pcap->is_stream)
		return 0;
	if (flock(pcap->fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		goto err_close;
	}
	if (ftruncate(pcap->fd, 0) == 0)
		return 0;
	err = -errno;

err_close:
	close(pcap->fd);
	return err;
}

static int write_all(int fd, const uint8_t *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n >= 0) {
			buf += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			poll(&p, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* A reader that goes shall not kill the program: its SIGPIPE is ours, unless one was pending. */
static int write_stream(int fd, const uint8_t *buf, size_t len)
{
	const struct timespec now = {0};
	sigset_t sigpipe, pending, old;
	int ret;

	sigemptyset(&sigpipe);
	sigaddset(&sigpipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &sigpipe, &old);
	ret = write_all(fd, buf, len);
	if (ret == -EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&sigpipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

static void flush(struct urxe_pcap *pcap)
{
	int ret = 0;

	if (pcap->fd >= 0 && pcap->len > 0)
		ret = (pcap->is_stream ? write_stream : write_all)(pcap->fd, pcap->buf, pcap->len);
	pcap->len = 0;
	if (!ret)
		return;
	log_warn("%s: the capture ends: %s", pcap->path, strerror(-ret));
	close(pcap->fd);
	pcap->fd = -1;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void put16(struct urxe_pcap *pcap, uint16_t v)
{
	memcpy(pcap->buf + pcap->len, &v, sizeof(v));
	pcap->len += sizeof(v);
}

static void put32(struct urxe_pcap *pcap, uint32_t v)
{
	memcpy(pcap->buf + pcap->len, &v, sizeof(v));
	pcap->len += sizeof(v);
}

static void put_padded(struct urxe_pcap *pcap, const void *data, size_t len)
{
	memcpy(pcap->buf + pcap->len, data, len);
	memset(pcap->buf + pcap->len + len, 0, -len & 3);
	pcap->len += len + (-len & 3);
}

static void put_option(struct urxe_pcap *pcap, uint16_t code, const void *data, size_t len)
{
	put16(pcap, code);
	put16(pcap, (uint16_t)len);
	put_padded(pcap, data, len);
}

/* Returns where the block begins. */
static size_t begin_block(struct urxe_pcap *pcap, uint32_t type)
{
	size_t start;

	if (pcap->len + BLOCK_MAX > sizeof(pcap->buf))
		flush(pcap);
	start = pcap->len;
	put32(pcap, type);
	put32(pcap, 0);
	return start;
}

static void end_block(struct urxe_pcap *pcap, size_t start)
{
	uint32_t len;

	put_option(pcap, OPT_END, "", 0);
	len = (uint32_t)(pcap->len + sizeof(len) - start);
	put32(pcap, len);
	memcpy(pcap->buf + start + 4, &len, sizeof(len));
}

int urxe_pcap_open(const char *pattern, struct urxe_pcap **ret_pcap)
{
	struct urxe_pcap *pcap = calloc(1, sizeof(*pcap));
	int ret = -ENOMEM;
	size_t start;

	if (!pcap)
		return ret;
	pcap->path = expand(pattern);
	if (!pcap->path)
		goto err_free;
	ret = open_file(pcap);
	if (ret)
		goto err_free;
	pthread_mutex_init(&pcap->lock, NULL);
	start = begin_block(pcap, BLOCK_SECTION);
	put32(pcap, BYTE_ORDER_MAGIC);
	put16(pcap, 1); /* version 1.0 */
	put16(pcap, 0);
	put32(pcap, UINT32_MAX); /* of a section whose length is not known */
	put32(pcap, UINT32_MAX);
	put_option(pcap, OPT_USERAPPL, "urxe", strlen("urxe"));
	end_block(pcap, start);
	*ret_pcap = pcap;
	return 0;

err_free:
	free(pcap->path);
	free(pcap);
	return ret;
}

void urxe_pcap_close(struct urxe_pcap *pcap)
{
	if (!pcap)
		return;
	flush(pcap);
	if (pcap->fd >= 0)
		close(pcap->fd);
	pthread_mutex_destroy(&pcap->lock);
	free(pcap->path);
	free(pcap);
}

unsigned urxe_pcap_add(struct urxe_pcap *pcap, const char *name, const char *description)
{
	const uint8_t nanoseconds = 9;
	unsigned interface;
	size_t start;

	pthread_mutex_lock(&pcap->lock);
	start = begin_block(pcap, BLOCK_INTERFACE);
	put16(pcap, LINKTYPE_ETHERNET);
	put16(pcap, 0);
	put32(pcap, 0); /* whole packets */
	put_option(pcap, OPT_IF_NAME, name, strlen(name));
	put_option(pcap, OPT_IF_DESCRIPTION, description, strlen(description));
	put_option(pcap, OPT_IF_TSRESOL, &nanoseconds, sizeof(nanoseconds));
	end_block(pcap, start);
	flush(pcap);
	interface = pcap->n_interfaces++;
	pthread_mutex_unlock(&pcap->lock);
	return interface;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The sum of RFC 1071 over an even number of bytes; fold() ends it. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += 2)
		sum += get_be16(p + i);
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put_ethernet(uint8_t *p, const struct urxe_path *path, bool v4)
{
	const uint8_t local[2] = {0x02, 0x00}; /* locally administered */

	memcpy(p, local, 2);
	memcpy(p + 2, path->dgid.raw + 12, 4);
	memcpy(p + 6, local, 2);
	memcpy(p + 8, path->sgid.raw + 12, 4);
	put_be16(p + 12, v4 ? 0x0800 : 0x86dd);
}

static void put_ipv4(uint8_t *ip, const struct urxe_path *path, uint16_t udp_len)
{
	memset(ip, 0, IPV4_LEN);
	ip[0] = 0x45;
	ip[1] = path->tclass;
	put_be16(ip + 2, (uint16_t)(IPV4_LEN + udp_len));
	put_be16(ip + 6, 0x4000); /* DF */
	ip[8] = path->hop_limit;
	ip[9] = UDP_PROTO;
	memcpy(ip + 12, path->sgid.raw + 12, 4);
	memcpy(ip + 16, path->dgid.raw + 12, 4);
	put_be16(ip + 10, fold(sum16(0, ip, IPV4_LEN)));
}

static void put_ipv6(uint8_t *ip, const struct urxe_path *path, uint16_t udp_len)
{
	put_be32(ip, 6u << 28 | (uint32_t)path->tclass << 20 | (path->flow_label & 0xfffff));
	put_be16(ip + 4, udp_len);
	ip[6] = UDP_PROTO;
	ip[7] = path->hop_limit;
	memcpy(ip + 8, path->sgid.raw, sizeof(path->sgid.raw));
	memcpy(ip + 24, path->dgid.raw, sizeof(path->dgid.raw));
}

/* The headers in front of a packet of len bytes that lies behind them already, and its ICRC. */
static void wrap(uint8_t *frame, const struct urxe_path *path, size_t len)
{
	bool v4 = urxe_gid_is_v4(&path->dgid);
	uint8_t *ip = frame + ETH_LEN, *udp = ip + (v4 ? IPV4_LEN : IPV6_LEN);
	uint8_t *packet = udp + UDP_LEN;
	uint16_t udp_len = (uint16_t)(UDP_LEN + len + ICRC_LEN);
	uint32_t dqpn = get_be24(packet + 5);
	/* A path of shared memory has no port: one per QP, as if it had. */
	uint16_t sport =
		path->sport ? path->sport : (uint16_t)(SPORT_MIN | (dqpn * 2654435761u) >> 18);
	const struct urxe_icrc_net net = {.src = path->sgid,
					  .dst = path->dgid,
					  .sport = sport,
					  .dport = ROCE_PORT,
					  .ip_df = true};

	put_ethernet(frame, path, v4);
	(v4 ? put_ipv4 : put_ipv6)(ip, path, udp_len);
	put_be16(udp, sport);
	put_be16(udp + 2, ROCE_PORT);
	put_be16(udp + 4, udp_len);
	put_be16(udp + 6, 0);
	urxe_icrc_put(&net, packet, len);
	if (!v4) /* where it is not optional */
		put_be16(udp + 6,
			 fold(sum16(sum16(UDP_PROTO + udp_len, ip + 8, 32), udp, udp_len)));
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Begins a packet's block and returns where its len transport bytes have to go. */
static uint8_t *begin_packet(struct urxe_pcap *pcap, unsigned interface,
			     const struct urxe_path *path, size_t len, size_t *ret_start)
{
	size_t head = ETH_LEN + (urxe_gid_is_v4(&path->dgid) ? IPV4_LEN : IPV6_LEN) + UDP_LEN;
	uint32_t frame_len = (uint32_t)(head + len + ICRC_LEN);
	uint64_t now = realtime_ns();

	*ret_start = begin_block(pcap, BLOCK_PACKET);
	put32(pcap, interface);
	put32(pcap, (uint32_t)(now >> 32));
	put32(pcap, (uint32_t)now);
	put32(pcap, frame_len);
	put32(pcap, frame_len);
	return pcap->buf + pcap->len + head;
}

static void end_packet(struct urxe_pcap *pcap, size_t start, const struct urxe_path *path,
		       size_t len, uint32_t direction)
{
	uint8_t *frame = pcap->buf + pcap->len;
	size_t frame_len = ETH_LEN + (urxe_gid_is_v4(&path->dgid) ? IPV4_LEN : IPV6_LEN) + UDP_LEN +
			   len + ICRC_LEN;

	wrap(frame, path, len);
	memset(frame + frame_len, 0, -frame_len & 3);
	pcap->len += frame_len + (-frame_len & 3);
	put_option(pcap, OPT_PACKET_FLAGS, &direction, sizeof(direction));
	end_block(pcap, start);
}

void urxe_pcap_tx(struct urxe_pcap *pcap, unsigned interface, const struct urxe_frame *frame)
{
	size_t len = frame->hdr_len + frame->payload_len + frame->pad, start;
	uint8_t *p;

	pthread_mutex_lock(&pcap->lock);
	p = begin_packet(pcap, interface, frame->path, len, &start);
	memcpy(p, frame->hdr, frame->hdr_len);
	p += frame->hdr_len;
	for (unsigned i = 0; i < frame->n_iov; i++) {
		memcpy(p, frame->iov[i].iov_base, frame->iov[i].iov_len);
		p += frame->iov[i].iov_len;
	}
	memset(p, 0, frame->pad);
	end_packet(pcap, start, frame->path, len, OUTBOUND);
	pthread_mutex_unlock(&pcap->lock);
}

void urxe_pcap_rx(struct urxe_pcap *pcap, unsigned interface, const struct urxe_rx *rx,
		  const struct urxe_path *path)
{
	size_t start;

	if (rx->len < BTH_LEN || rx->len > BLOCK_MAX / 2)
		return; /* a peer's nonsense */
	if (rx->path)
		path = rx->path;
	pthread_mutex_lock(&pcap->lock);
	memcpy(begin_packet(pcap, interface, path, rx->len, &start), rx->data, rx->len);
	end_packet(pcap, start, path, rx->len, INBOUND);
	pthread_mutex_unlock(&pcap->lock);
}

void urxe_pcap_flush(struct urxe_pcap *pcap)
{
	pthread_mutex_lock(&pcap->lock);
	flush(pcap);
	pthread_mutex_unlock(&pcap->lock);
}
