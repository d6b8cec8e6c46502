/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared-memory link alone, between two processes on CPUs 0 and 1: one-way latency of packets
 * of 64 bytes, and bandwidth of messages cut into packets, copied from the sender's buffer into the
 * ring and from the ring into the receiver's. Prints the best of several rounds: others may be
 * using the machine.
 */
#include "base/clock.h"
#include "link/shm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ROUNDS = 20,
	PINGS = 10000,
	HDR_LEN = 12,
	BUFFER_BYTES = 1 << 20,
};

#define STREAM_BYTES (UINT64_C(64) << 20)

struct side {
	struct urxe_shm *shm;
	struct urxe_shm_peer *peer;
	uint8_t *buffer;
	uint32_t msg_bytes;
	uint64_t to_send;    /* bytes */
	uint64_t received;   /* bytes */
	uint64_t to_receive; /* bytes of the stream */
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fprintf(stderr, "ring: cannot pin to CPU %d, numbers will vary\n", cpu);
}

static bool pull(void *arg, struct urxe_frame *frame)
{
	struct side *s = arg;
	uint64_t in_msg = s->to_send % s->msg_bytes;
	uint32_t len = (uint32_t)(in_msg ? in_msg : s->msg_bytes);

	if (s->to_send == 0)
		return false;
	if (len > URXE_SHM_MTU)
		len = URXE_SHM_MTU;
	frame->hdr_len = HDR_LEN;
	memset(frame->hdr, 0, HDR_LEN);
	frame->payload_len = len;
	frame->pad = 0;
	frame->grh = false;
	frame->n_iov = 1;
	frame->iov[0].iov_base = s->buffer + (s->to_send - len) % s->msg_bytes;
	frame->iov[0].iov_len = len;
	s->to_send -= len;
	return true;
}

static void deliver(void *arg, const struct urxe_rx *rx)
{
	struct side *s = arg;
	uint32_t len = rx->len - HDR_LEN;

	memcpy(s->buffer + s->received % BUFFER_BYTES, rx->data + HDR_LEN, len);
	s->received += len;
}

static void send_bytes(struct side *s, uint64_t bytes)
{
	s->to_send = bytes;
	while (s->to_send)
		urxe_shm_send(s->peer, 0, pull, s, 16);
}

static void await_bytes(struct side *s, uint64_t bytes)
{
	for (s->received = 0; s->received < bytes;)
		urxe_shm_poll(s->shm, deliver, s, 16);
}

static const uint32_t stream_sizes[] = {64, 4 << 10, 64 << 10, 1 << 20};
enum { N_STREAMS = sizeof(stream_sizes) / sizeof(stream_sizes[0]) };

/* The receiver answers pings, then takes each stream and says so. */
static void run_receiver(struct side *s)
{
	s->msg_bytes = 64;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PINGS; i++) {
			await_bytes(s, 64);
			send_bytes(s, 64);
		}
	}
	for (int i = 0; i < N_STREAMS; i++) {
		for (int round = 0; round < ROUNDS; round++) {
			await_bytes(s, STREAM_BYTES / (stream_sizes[i] < 4096 ? 16 : 1));
			s->msg_bytes = 64;
			send_bytes(s, 64);
		}
	}
}

static void run_sender(struct side *s)
{
	uint64_t best = UINT64_MAX;

	s->msg_bytes = 64;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = clock_now_ns(), took;

		for (int i = 0; i < PINGS; i++) {
			send_bytes(s, 64);
			await_bytes(s, 64);
		}
		took = clock_now_ns() - start;
		best = took < best ? took : best;
	}
	printf("latency    %8u B  %8.3f us one way\n", 64, (double)best / PINGS / 2000);
	for (int i = 0; i < N_STREAMS; i++) {
		uint64_t bytes = STREAM_BYTES / (stream_sizes[i] < 4096 ? 16 : 1);

		best = UINT64_MAX;
		for (int round = 0; round < ROUNDS; round++) {
			uint64_t start = clock_now_ns(), took;

			s->msg_bytes = stream_sizes[i];
			send_bytes(s, bytes);
			await_bytes(s, 64);
			took = clock_now_ns() - start;
			best = took < best ? took : best;
		}
		printf("bandwidth  %8u B  %8.2f GB/s  %8.2f M/s\n", stream_sizes[i],
		       (double)bytes / (double)best,
		       (double)bytes / stream_sizes[i] * 1e3 / (double)best);
	}
}

/* Both claim a block and learn the other's through a pipe; then they connect. */
static void meet(struct side *s, int read_fd, int write_fd)
{
	uint32_t mine, theirs;

	if (urxe_shm_open((uint64_t)getpid(), &s->shm) || urxe_shm_claim(s->shm, &mine) ||
	    write(write_fd, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(read_fd, &theirs, sizeof(theirs)) != sizeof(theirs)) {
		fprintf(stderr, "ring: no endpoint\n");
		exit(1);
	}
	s->peer = urxe_shm_peer(s->shm, theirs);
	s->buffer = aligned_alloc(4096, BUFFER_BYTES);
	memset(s->buffer, 1, BUFFER_BYTES);
	if (!urxe_shm_block_exists(s->shm, theirs)) {
		fprintf(stderr, "ring: no peer\n");
		exit(1);
	}
	while (!urxe_shm_service(s->shm))
		;
}

int main(void)
{
	int to_child[2], to_parent[2], status = 1;
	struct side side = {0};
	pid_t child;

	if (pipe(to_child) || pipe(to_parent))
		return 1;
	child = fork();
	pin(child == 0);
	if (child == 0) {
		meet(&side, to_child[0], to_parent[1]);
		run_receiver(&side);
	} else {
		meet(&side, to_parent[0], to_child[1]);
		run_sender(&side);
	}
	urxe_shm_close(side.shm);
	free(side.buffer);
	if (child)
		waitpid(child, &status, 0);
	return child ? status : 0;
}
