/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole context and a peer that lies to it, over TCP and over a NIC (fake_nic.h). The first byte
 * of an input: bit 0, the peer sets up a channel in good order first, else its bytes are what comes
 * over TCP; bit 1, READs of its memory are refused; bit 4, all goes by TCP; bit 5, it is of a
 * version that knows no GONE; bit 7, channels recover; bits 2 and 3, how the application treats
 * messages. Whatever comes, the channel ends, nothing of it is left, and the next one is served.
 *
 * Then records, each of a byte that says which: see step().
 */
#include "base/be.h"
#include "base/rng.h"
#include "fake_nic.h"
#include "xrdma/boot_frame.h"
#include "xrdma/channel.h"
#include "xrdma/exit.h"
#include "xrdma/hello.h"
#include "xrdma/keys.h"
#include "xrdma/proto.h"
#include "xrdma/region.h"
#include "xrdma/resume.h"
#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { PROBE = 64, EPOCH = 1, QPN = 5, HELD = 64, POLLS = 20000 };

struct bytes {
	const uint8_t *at;
	size_t left;
};

/* What the peer knows of the channel, and what it has been told. */
static struct {
	uint64_t incarnation, token;
	uint32_t epoch; /* of its next HELLO */
} known;
static struct xrdma_context *ctx;
static struct xrdma_region *region;
static int port;
static struct xrdma_channel *ch; /* while it is connected */
static struct xrdma_remote_region *remote;
static struct xrdma_msg *held[HELD];
static unsigned n_held, n_seen, habit, n_calls;
static uint16_t next_seq;
static bool by_tcp, old;

/* ---- time: deadlines pass when nothing else can happen ---- */

static uint64_t skipped_ns;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	int ret = __real_clock_gettime(id, now);

	now->tv_sec += (time_t)(skipped_ns / 1000000000);
	return ret;
}

/* ---- the application ---- */

static void on_msg(struct xrdma_channel *of, struct xrdma_msg *m, void *arg)
{
	volatile uint8_t sum = 0;
	struct xrdma_msg *reply;
	const uint8_t *p = xrdma_msg_data(m);

	for (size_t i = 0; i < xrdma_msg_len(m); i += 61)
		sum ^= p[i];
	(void)sum;
	n_seen++;
	if (habit & 1 && n_held < HELD && n_seen % 3 == 0) {
		held[n_held++] = m;
		return;
	}
	if (habit & 2 && xrdma_msg_new(of, 1 + 100 * (n_seen % 30), &reply) == 0) {
		memset(xrdma_msg_data(reply), 0, xrdma_msg_len(reply));
		if (xrdma_reply(m, reply) == 0)
			return;
		xrdma_msg_free(reply);
	}
	xrdma_msg_free(m);
}

static void on_region(struct xrdma_channel *of, struct xrdma_remote_region *r, void *arg)
{
	remote = r;
}

static void on_event(struct xrdma_channel *of, enum xrdma_event event, int status, void *arg)
{
	assert(status <= 0);
	if (event == XRDMA_CONNECTED) {
		ch = of;
		assert(xrdma_region_export(region, ch, 1) == 0);
	} else if (event == XRDMA_CLOSED) {
		ch = NULL;
		remote = NULL;
	}
}

static void done(struct xrdma_channel *of, int status, struct xrdma_msg *reply, void *arg)
{
	assert(n_calls > 0);
	n_calls--;
	xrdma_msg_free(reply);
}

static void new_region(void)
{
	const struct xrdma_region_attr attr = {.slot_bytes = 4096,
					       .n_slots = 16,
					       .rights = XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE,
					       .numa_node = -1};

	assert(xrdma_region_new(ctx, &attr, &region) == 0);
}

/* The peer is told of another; it may use both keys. */
static void app_frees(bool revoke)
{
	if (revoke)
		assert(xrdma_region_revoke(region, NULL) == 0);
	if (xrdma_region_free(region))
		return; /* in use */
	new_region();
	if (ch)
		(void)xrdma_region_export(region, ch, 2);
}

static void app_sends(uint8_t how)
{
	struct xrdma_msg *m;
	int ret;

	if (!ch || xrdma_msg_new(ch, how % 4 == 3 ? 5000 : how + 1, &m))
		return;
	memset(xrdma_msg_data(m), 0, xrdma_msg_len(m));
	if (how % 4 == 0)
		ret = xrdma_call(ch, m, how % 8 ? 0 : 1000, done, NULL, NULL);
	else if (how % 4 == 1 && remote && how)
		ret = xrdma_get(ch, remote, how % 16, 0, m, done, NULL);
	else
		ret = xrdma_send_msg(ch, m);
	if (ret)
		xrdma_msg_free(m);
	else if (how % 4 == 0 || (how % 4 == 1 && remote && how))
		n_calls++;
}

/* ---- the peer ---- */

static uint64_t stat_of(const char *name)
{
	uint64_t value;

	assert(xrdma_stat_by_name(ctx, name, &value) == 0);
	return value;
}

static void poll_some(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert(xrdma_poll(ctx) >= 0);
}

static int dial(void)
{
	static unsigned n;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct sockaddr_in from = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	/* From many addresses: ports of one run out while those used before are in TIME_WAIT. */
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + n++ / 16384 % 250);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert(fd >= 0);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    /* The fuzzer's own alarm may interrupt it; then it goes on by itself. */
	    (connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINTR)) {
		perror("fuzz_channel: dial");
		abort();
	}
	return fd;
}

static uint8_t take(struct bytes *b)
{
	if (b->left == 0)
		return 0;
	b->left--;
	return *b->at++;
}

static void say(int fd, uint8_t type, const void *block, size_t len)
{
	uint8_t frame[XR_FRAME_HEAD + 4096];

	xr_frame_head(type, len, frame);
	if (len)
		memcpy(frame + XR_FRAME_HEAD, block, len);
	(void)send(fd, frame, XR_FRAME_HEAD + len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* In place of an answer to the READ of our probe, which is not looked for. */
static void answer_probe(int fd, const uint8_t probe[static PROBE])
{
	uint8_t block[4 + PROBE] = {0};

	memcpy(block + 4, probe, PROBE);
	poll_some(50);
	say(fd, XR_BLOCK_ANSWER, block, sizeof(block));
}

/* Its HELLO, and what it can be told of without an answer. */
static void say_hello(int fd, const uint8_t *token)
{
	static uint8_t probe[PROBE];
	struct xr_hello hello = {
		.version_min = 1,
		.version_max = 1,
		.flags = (by_tcp ? XR_HELLO_MOCK | XR_HELLO_TCP : 0) | (old ? 0 : XR_HELLO_GONE),
		.incarnation = 42,
		.epoch = known.epoch,
		.qpn = QPN,
		.gid_type = XR_GID_ROCE_V2,
		.mtu = 1024,
		.max_rd_atomic = 16,
		.max_dest_rd = 16,
		.window = 8,
		.control = 4,
		.small_bytes = 1024,
		.frag_bytes = 4096,
		.max_msg = 1 << 20,
		.max_calls = 64,
		.probe_bytes = PROBE,
	};
	const struct xr_key key = {(uintptr_t)probe, 1, known.epoch};
	struct rng rng = {hello.incarnation ^ (uint64_t)known.epoch << 32 ^ QPN};
	uint8_t block[XR_HELLO_BYTES];

	inet_pton(AF_INET6, "::ffff:127.0.0.1", &hello.gid);
	xr_key_encode(&key, hello.probe_block);
	for (unsigned i = 0; i < PROBE; i += 8)
		put_be64(probe + i, rng_next(&rng));
	fake_nic.readable = probe;
	fake_nic.readable_bytes = PROBE;
	say(fd, XR_BLOCK_HELLO, block, xr_hello_encode(&hello, block));
	say(fd, XR_BLOCK_READY, token, token ? XR_TOKEN_BYTES : 0);
	if (by_tcp)
		answer_probe(fd, probe);
}

/* What it is told: by whom, and by which token it may come again. */
static void listen_to(int fd)
{
	uint8_t heard[4096];
	ssize_t n = recv(fd, heard, sizeof(heard), MSG_DONTWAIT);
	struct xr_hello hello;
	struct xr_frame frame;

	for (size_t at = 0; n > 0 && xr_frame_parse(heard + at, (size_t)n - at, &frame) == 1;
	     at += XR_FRAME_HEAD + frame.len) {
		if (frame.type == XR_BLOCK_HELLO && !xr_hello_decode(frame.data, frame.len, &hello))
			known.incarnation = hello.incarnation;
		if (frame.type == XR_BLOCK_READY && frame.len >= XR_TOKEN_BYTES)
			known.token = get_be64(frame.data);
	}
}

/*
 * Our answer to the probe may overtake the question on a slow machine, and count for nothing: the
 * channel does not open then. Nearly always it does.
 */
static bool handshake(int fd, bool recovers)
{
	static const uint8_t token[XR_TOKEN_BYTES] = {7};
	static unsigned n, missed;

	known.epoch = EPOCH;
	say_hello(fd, recovers ? token : NULL);
	say(fd, XR_BLOCK_OPEN, NULL, 0);
	for (unsigned i = 0; i < POLLS && !ch; i++)
		poll_some(1);
	n++;
	missed += !ch;
	assert(missed <= 8 + n / 8);
	listen_to(fd);
	return ch;
}

static void deliver(int fd, const uint8_t *p, uint32_t size, uint32_t imm, bool with_imm)
{
	uint8_t block[4 + 2048];

	if (!by_tcp) {
		(void)fake_receive(p, size, imm, with_imm);
		return;
	}
	put_be32(block, imm);
	memcpy(block + 4, p, size);
	say(fd, XR_BLOCK_SEND, block, with_imm ? 4 + size : size % 4);
}

/* What an honest peer has consumed. */
static uint16_t all_sent(void)
{
	return ch ? ch->win.next : 0;
}

/* A message over the NIC: size, header and payload; its sequence number right or not. */
static void send_message(int fd, struct bytes *b, bool honest)
{
	static uint8_t p[2048];
	uint32_t size = take(b), imm;

	if (size > b->left)
		size = (uint32_t)b->left;
	memset(p, 0, sizeof(p));
	memcpy(p, b->at, size);
	b->at += size;
	b->left -= size;
	imm = xr_imm(next_seq, honest ? all_sent() : take(b));
	if (honest) {
		put_be32(p + 12, known.epoch);
		if (p[0] > 0 && p[0] < XR_N_TYPES)
			next_seq += xr_type_windowed((enum xr_type)p[0]);
	} else {
		imm ^= (uint32_t)take(b) << 16;
	}
	deliver(fd, p, size % 5 == 4 ? sizeof(p) / 2 + 12 : size, imm, size % 31 != 30);
}

static void reach_export(const struct xr_export *export, struct xr_key *key)
{
	if (export->key) {
		key->addr = (uintptr_t) export->region->mem.map.addr;
		key->rkey = export->key->rkey;
	}
}

/* A key to something that can be reached, somewhat bent. */
static void put_key(uint8_t *p, struct bytes *b)
{
	uint8_t how = take(b);
	struct xr_key key = {(uintptr_t)xrdma_region_slot(region, 0), 0, known.epoch};

	if (ch && how % 4 == 0 && ch->n_exports)
		reach_export(&ch->exports[how / 16 % ch->n_exports], &key);
	else if (ch && how % 4 == 1)
		xr_key_decode(ch->ours.probe_block, &key);
	else if (ch && how % 4 == 2 && xr_window_unacked(&ch->win) &&
		 ch->unacked[ch->win.acked & ch->unacked_mask]->data)
		key = (struct xr_key){
			(uintptr_t)ch->unacked[ch->win.acked & ch->unacked_mask]->data,
			ch->unacked[ch->win.acked & ch->unacked_mask]->rkey, known.epoch};
	key.addr += (how / 4 % 4) * 1024;
	key.epoch += how / 64;
	xr_key_encode(&key, p);
}

/* A block of those that are for data by TCP: its kind, its key, what else is in it. */
static void send_block(int fd, struct bytes *b)
{
	uint8_t block[2048] = {0}, kind = take(b);
	size_t n = 0;

	switch (kind % 4) {
	case 0:
	case 1:
		put_key(block, b);
		put_be32(block + XR_KEY_BYTES, take(b) * 97U);
		n = XR_KEY_BYTES + 4;
		if (kind % 4 == 1)
			n += take(b) * 5U;
		say(fd, kind % 4 ? XR_BLOCK_WRITE : XR_BLOCK_READ, block, n);
		break;
	case 2:
		put_be32(block, kind / 64);
		say(fd, XR_BLOCK_ANSWER, block, take(b) * 6U);
		break;
	default:
		if (ch)
			(void)xr_hello_encode(&ch->theirs, block);
		block[take(b)] ^= take(b);
		say(fd, XR_BLOCK_PROBE, block, XR_HELLO_BYTES);
	}
}

/* A block of the peer's, some of its bytes not as they should be. */
static void say_bent(int fd, uint8_t type, uint8_t *block, size_t len, struct bytes *b)
{
	for (unsigned n = take(b) % 4; n && len; n--) {
		size_t at = take(b) % len;

		block[at] ^= take(b);
	}
	say(fd, type, block, len);
}

/* The keys of regions that the peer may never have told of. */
static void say_keys(int fd, struct bytes *b)
{
	uint8_t keys[4 * XR_KEYS_ENTRY_BYTES];
	uint32_t n = take(b) % 5;

	for (uint32_t i = 0; i < n; i++) {
		const struct xr_key key = {0x1000 * (i + 1), i + 1, known.epoch};

		put_be32(keys + i * XR_KEYS_ENTRY_BYTES, i);
		xr_key_encode(&key, keys + i * XR_KEYS_ENTRY_BYTES + 4);
	}
	say_bent(fd, XR_BLOCK_KEYS, keys, n * XR_KEYS_ENTRY_BYTES, b);
}

/* The peer is broken, and comes again: over the same connection or another. Returns which. */
static int resume(int fd, struct bytes *b)
{
	uint8_t how = take(b), block[XR_RESUME_BYTES];
	const struct xr_resume r = {
		.incarnation = known.incarnation,
		.token = known.token,
		.epoch = known.epoch,
		.window = {.next = next_seq, .consumed = all_sent()},
		.status = -ETIMEDOUT,
	};

	if (how & 1) {
		close(fd);
		poll_some(how & 8 ? 20 : 0);
		fd = dial();
	}
	xr_resume_encode(&r, block);
	say_bent(fd, XR_BLOCK_RESUME, block, sizeof(block), b);
	poll_some(how & 2 ? 30 : 2);
	known.epoch = r.epoch + 1;
	say_hello(fd, NULL);
	if (how & 4)
		poll_some(30);
	say_keys(fd, b);
	say(fd, XR_BLOCK_OPEN, NULL, 0);
	poll_some(60);
	listen_to(fd);
	return fd;
}

/* Returns the connection to go on with. */
static int step(int fd, struct bytes *b, bool recovers)
{
	uint8_t how = take(b);

	if (recovers && how >= 0xe0)
		return resume(fd, b);
	switch (how % 8) {
	case 0:
	case 1:
	case 2:
		send_message(fd, b, true);
		break;
	case 3:
		send_message(fd, b, false);
		break;
	case 4:
		app_sends(take(b));
		break;
	case 5:
		if (how >= 0xc0)
			app_frees(how & 8);
		else if (n_held)
			xrdma_msg_free(held[--n_held]);
		break;
	case 6:
		poll_some(1 + how / 8);
		break;
	default:
		if (how & 8)
			send_block(fd, b);
		else
			say(fd, take(b), NULL, 0);
	}
	poll_some(by_tcp ? 40 : 2); /* which looks at sockets */
	return fd;
}

/* ---- */

static void set_up(void)
{
	static const char *const options[][2] = {
		{"srq", "off"},         {"backoff_max_ms", "1"},   {"qp_cache", "0"},
		{"window", "8"},        {"control", "4"},          {"small_bytes", "1024"},
		{"frag_bytes", "4096"}, {"max_msg", "1M"},         {"rx_budget_bytes", "8M"},
		{"huge", "off"},        {"housekeeping_us", "10"}, {"trim_ms", "3600000"},
		{"log", "error"},       {"tls", "auto"},
	};
	const struct xrdma_handlers handlers = {
		.on_msg = on_msg, .on_region = on_region, .on_event = on_event};
	struct xrdma_listener *listener;
	struct xrdma_conf *conf;

	assert(xrdma_conf_new(&conf) == 0);
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		assert(xrdma_conf_set(conf, options[i][0], options[i][1]) == 0);
	assert(xrdma_open(conf, &ctx) == 0);
	xrdma_conf_free(conf);
	new_region();
	assert(xrdma_listen(ctx, "127.0.0.1:0", &handlers, NULL, &listener) == 0);
	port = xrdma_listener_port(listener);
}

static void expect_nothing_left(void)
{
	for (unsigned i = 1; stat_of("channels") > 0; i++) {
		poll_some(1);
		if (i % 1000 == 0)
			skipped_ns += 10000000000; /* more than any one wait */
		assert(i < POLLS);
	}
	while (n_held)
		xrdma_msg_free(held[--n_held]);
	poll_some(2);
	assert(n_calls == 0 && !ch && fake_nic.n_qps == 0);
	assert(stat_of("receives_posted") == 0 && stat_of("sends_posted") == 0);
	assert(stat_of("messages_held") == 0 && stat_of("regions_lingering") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct bytes b = {data, len};
	uint8_t mode = take(&b);
	bool recovers = mode & 0x80;
	int fd;

	if (!ctx)
		set_up();
	habit = mode >> 2 & 3;
	by_tcp = mode & 16;
	old = mode & 32;
	assert(xrdma_set(ctx, "recovery_ms", recovers ? "5000" : "0") == 0);
	n_seen = 0;
	next_seq = 0;
	fake_nic.refuse_reads = mode & 2;
	fd = dial();
	if (mode & 1) {
		bool opened = handshake(fd, recovers);

		while (opened && b.left)
			fd = step(fd, &b, recovers);
	} else {
		while (b.left) { /* in pieces */
			size_t n = 1 + take(&b);

			n = n < b.left ? n : b.left;
			(void)send(fd, b.at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
			b.at += n;
			b.left -= n;
			poll_some(20);
		}
		for (unsigned i = 0; i < POLLS && stat_of("channels") == 0 && i < 2000; i++)
			poll_some(1);
	}
	close(fd);
	expect_nothing_left();
	return 0;
}
