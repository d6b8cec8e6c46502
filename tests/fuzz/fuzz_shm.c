/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first byte chooses what a hostile peer controls: the memory of a ring that we read, that of
 * one that we write, or a hello and the memory that comes with it. Rings lie on the heap where that
 * is possible, so that the address sanitizer sees every byte beyond them.
 */
#include "link/ring.h"
#include "link/shm_grh.h"
#include "link/shm_priv.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static volatile uint64_t sink; /* keeps the reads */

static void read_all(void *arg, const struct urxe_rx *rx)
{
	for (uint32_t i = 0; i < rx->len; i++)
		sink += rx->data[i];
}

/* Each 8 bytes are a cell: what its writer chose of seq, desc and bulk_off. */
static void fill_cells(struct ring *ring, const uint8_t *data, size_t len)
{
	for (uint32_t i = 0; i < RING_CELLS && len >= 8; i++, data += 8, len -= 8) {
		uint32_t desc, off;

		memcpy(&desc, data, 4);
		memcpy(&off, data + 4, 4);
		memset(ring->cells[i].data, data[0], RING_INLINE);
		ring->cells[i].data[6] = 0x1b; /* so that some GRHs are good */
		ring->cells[i].bulk_off = off & 1 ? off : off % (RING_BULK + RING_ALIGN);
		ring->cells[i].desc = desc & 0x40000000 ? desc : desc & 0x3ffff;
		ring->cells[i].seq = i + 1;
	}
}

static struct ring *heap_ring(void)
{
	static struct ring *ring;

	if (!ring)
		ring = aligned_alloc(4096, sizeof(*ring));
	assert(ring);
	memset(ring, 0, offsetof(struct ring, bulk));
	return ring;
}

static void fuzz_consumer(const uint8_t *data, size_t len)
{
	struct ring *ring = heap_ring();
	struct ring_rx rx;
	struct ring_pkt pkt;

	fill_cells(ring, data, len);
	urxe_ring_rx_init(&rx, ring);
	while (ring_rx_ready(&rx) && ring_rx_peek(&rx, &pkt)) {
		read_all(NULL, &(struct urxe_rx){.data = pkt.data, .len = pkt.len});
		ring_rx_done(&rx, &pkt);
	}
}

/* Each 4 bytes: a packet's length, and what the consumer claims to have consumed. */
static void fuzz_producer(const uint8_t *data, size_t len)
{
	struct ring *ring = heap_ring();
	struct ring_tx tx;

	urxe_ring_tx_init(&tx, ring);
	for (; len >= 4; data += 4, len -= 4) {
		uint16_t pkt_len, consumed;

		memcpy(&pkt_len, data, 2);
		memcpy(&consumed, data + 2, 2);
		pkt_len %= RING_PACKET_MAX + 1;
		ring->consumed = consumed & 0x8000 ? tx.head - consumed % 64 : consumed;
		for (int room; (room = ring_tx_room(&tx)) != 0;) {
			if (room < 0)
				return;
			memset(ring_tx_begin(&tx, pkt_len, data[0] & 1), 1, pkt_len);
			ring_tx_commit(&tx);
			if (tx.head % 3 == 0)
				break;
		}
	}
}

static void greet(uint32_t base, const uint8_t *data, size_t len)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct shm_hello hello = SHM_HELLO;
	struct sockaddr_un name;
	socklen_t name_len = urxe_shm_block_name(base >> SHM_BLOCK_SHIFT, &name);
	struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct ring *ring;
	int fd;

	assert(sock >= 0 && !urxe_ring_new_shared(&fd, &ring));
	if (connect(sock, (const struct sockaddr *)&name, name_len) == 0) {
		if (len && data[0] & 1) /* a hello of the fuzzer's own */
			iov = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
		if (len && data[0] & 6) {
			msg.msg_control = control;
			msg.msg_controllen = sizeof(control);
			*CMSG_FIRSTHDR(&msg) = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
								.cmsg_level = SOL_SOCKET,
								.cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(fd));
		}
		fill_cells(ring, data, len);
		sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	urxe_ring_unmap(ring);
	close(fd);
	close(sock);
}

static void fuzz_endpoint(const uint8_t *data, size_t len)
{
	static struct urxe_shm *shm;
	static uint32_t base;

	if (!shm)
		assert(urxe_shm_open(1, &shm) == 0 && urxe_shm_claim(shm, 1, 0, &base) == 0);
	greet(base, data, len);
	while (urxe_shm_service(shm) || urxe_shm_pending(shm))
		urxe_shm_poll(shm, read_all, NULL, 2000);
	urxe_shm_poll(shm, read_all, NULL, 1);
	urxe_shm_service(shm);
	urxe_shm_poll(shm, read_all, NULL, 1);
	assert(shm->n_in == 0 && shm->n_mute == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const targets[])(const uint8_t *, size_t) = {
		fuzz_consumer,
		fuzz_producer,
		fuzz_endpoint,
	};

	if (len)
		targets[data[0] % 3](data + 1, len - 1);
	return 0;
}
