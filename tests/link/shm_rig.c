/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm_rig.h"

#include "base/rng.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- scenarios ------------------------------------------------------------------------------- */

static void spec_every_size(uint64_t i, struct shm_spec *spec)
{
	spec->payload_len = (uint32_t)i;
	spec->hdr_len = 12;
	spec->pad = (uint8_t)(-i & 3);
	spec->n_iov = 1;
}

static void spec_small(uint64_t i, struct shm_spec *spec)
{
	spec->payload_len = i % 100; /* with the header up to 112 bytes: inside the cell */
	spec->hdr_len = 12;
	spec->n_iov = 1;
}

static void spec_largest(uint64_t i, struct shm_spec *spec)
{
	spec->payload_len = URXE_SHM_MTU;
	spec->hdr_len = URXE_HDR_MAX;
	spec->pad = 3;
	spec->grh = true;
	spec->n_iov = URXE_FRAME_IOV;
}

static void spec_mixed(uint64_t i, struct shm_spec *spec)
{
	struct rng rng = {.state = i};

	spec->payload_len = rng_below(&rng, 2) ? rng_below(&rng, 200) : rng_below(&rng, 8192);
	spec->hdr_len = (uint8_t)rng_below(&rng, URXE_HDR_MAX + 1);
	spec->pad = (uint8_t)rng_below(&rng, 4);
	spec->grh = rng_below(&rng, 3) == 0;
	spec->n_iov = (uint8_t)rng_below(&rng, URXE_FRAME_IOV + 1);
	if (spec->n_iov == 0)
		spec->payload_len = 0;
}

const struct shm_scenario shm_scenarios[] = {
	{"every size", URXE_SHM_MTU + 1, 64, spec_every_size},
	{"small", 100000, 3000, spec_small},
	{"largest", 1000, 40, spec_largest},
	{"mixed", 20000, 300, spec_mixed},
};
const unsigned shm_n_scenarios = sizeof(shm_scenarios) / sizeof(shm_scenarios[0]);

void shm_pattern(uint64_t i, uint8_t *p, uint32_t len)
{
	uint32_t word = (uint32_t)i * 2654435761u;

	for (uint32_t off = 0; off < len; off += 4, word += 0x01010101)
		memcpy(p + off, &word, len - off < 4 ? len - off : 4);
}

void shm_pattern_path(uint64_t i, struct urxe_path *ret_path)
{
	struct rng rng = {.state = ~i};

	memset(ret_path, 0, sizeof(*ret_path));
	shm_pattern(rng_next(&rng), ret_path->sgid.raw, 16);
	shm_pattern(rng_next(&rng), ret_path->dgid.raw, 16);
	ret_path->flow_label = rng_below(&rng, 1 << 20);
	ret_path->tclass = (uint8_t)rng_below(&rng, 256);
	ret_path->hop_limit = (uint8_t)rng_below(&rng, 256);
	ret_path->sport = 0;
}

/* ---- source ---------------------------------------------------------------------------------- */

struct pull_arg {
	struct shm_source_side *src;
	uint8_t payload[SHM_PAYLOAD_MAX];
	struct urxe_path path;
};

static bool pull_scenario(void *arg, struct urxe_frame *frame)
{
	struct pull_arg *a = arg;
	struct shm_spec spec = {0};
	uint64_t i = a->src->sent;
	uint32_t done = 0;

	if (i == a->src->scenario->n_pkts)
		return false;
	a->src->scenario->spec(i, &spec);
	shm_pattern(i, a->payload, spec.payload_len);
	shm_pattern(i + 1, frame->hdr, spec.hdr_len);
	shm_pattern_path(i, &a->path);
	frame->path = &a->path;
	frame->payload_len = spec.payload_len;
	frame->hdr_len = spec.hdr_len;
	frame->pad = spec.pad;
	frame->grh = spec.grh;
	frame->last = false;
	frame->n_iov = spec.n_iov;
	for (unsigned v = 0; v < spec.n_iov; v++) { /* unequal pieces, some of them empty */
		uint32_t end =
			v + 1 == spec.n_iov ? spec.payload_len : spec.payload_len * v / spec.n_iov;

		frame->iov[v].iov_base = a->payload + done;
		frame->iov[v].iov_len = end - done;
		done = end;
	}
	a->src->sent++;
	return true;
}

unsigned shm_source_step(struct shm_source_side *src)
{
	static struct pull_arg a;
	struct rng rng = {.state = src->seed++};
	unsigned budget = 1 + rng_below(&rng, src->scenario->max_budget), n;
	uint64_t before = src->sent;

	a.src = src;
	n = urxe_shm_send(src->peer, 0, pull_scenario, &a, budget);
	assert_in_range(n, 0, budget);
	assert_int_equal(src->sent - before, n);
	return n;
}

/* ---- sink ------------------------------------------------------------------------------------ */

static bool as_expected(const struct shm_sink *sink, const struct urxe_rx *rx)
{
	static uint8_t want[GRH_LEN + URXE_HDR_MAX + SHM_PAYLOAD_MAX + 3];
	uint64_t i = sink->received;
	struct shm_spec spec = {0};
	struct urxe_path path;
	uint32_t len;

	sink->scenario->spec(i, &spec);
	len = spec.hdr_len + spec.payload_len + spec.pad;
	if (rx->len != len || !rx->path != !spec.grh)
		return false;
	shm_pattern(i + 1, want, spec.hdr_len);
	shm_pattern(i, want + spec.hdr_len, spec.payload_len);
	memset(want + spec.hdr_len + spec.payload_len, 0, spec.pad);
	if (memcmp(rx->data, want, len))
		return false;
	shm_pattern_path(i, &path);
	if (spec.grh &&
	    (memcmp(&rx->path->sgid, &path.sgid, 16) || memcmp(&rx->path->dgid, &path.dgid, 16) ||
	     rx->path->flow_label != path.flow_label || rx->path->tclass != path.tclass ||
	     rx->path->hop_limit != path.hop_limit || rx->path->sport != 0))
		return false;
	return rx->ce == (spec.grh && (path.tclass & 3) == 3);
}

static void deliver_scenario(void *arg, const struct urxe_rx *rx)
{
	struct shm_sink *sink = arg;

	if (!as_expected(sink, rx))
		sink->wrong++;
	sink->received++;
}

unsigned shm_sink_step(struct shm_sink *sink)
{
	struct rng rng = {.state = sink->seed++};
	unsigned budget = 1 + rng_below(&rng, sink->scenario->max_budget), n;
	uint64_t before = sink->received;

	n = urxe_shm_poll(sink->shm, deliver_scenario, sink, budget);
	assert_in_range(n, 0, budget);
	assert_int_equal(sink->received - before, n);
	return n;
}

/* ---- small helpers --------------------------------------------------------------------------- */

struct urxe_shm *shm_endpoint(uint64_t seed, uint32_t *ret_base)
{
	struct urxe_shm *shm;

	assert_int_equal(urxe_shm_open(seed, &shm), 0);
	assert_int_equal(urxe_shm_claim(shm, 1, 0, ret_base), 0);
	return shm;
}

struct one {
	uint32_t len;
	bool taken;
};

static bool pull_one(void *arg, struct urxe_frame *frame)
{
	static uint8_t zero[SHM_PAYLOAD_MAX];
	struct one *one = arg;

	if (one->taken)
		return false;
	one->taken = true;
	memset(frame, 0, sizeof(*frame));
	frame->hdr_len = 12;
	frame->payload_len = one->len;
	frame->n_iov = 1;
	frame->iov[0] = (struct iovec){.iov_base = zero, .iov_len = one->len};
	return true;
}

unsigned shm_send_one(struct urxe_shm_peer *peer, uint64_t now, uint32_t len)
{
	struct one one = {.len = len};

	return urxe_shm_send(peer, now, pull_one, &one, 1);
}

static void ignore(void *arg, const struct urxe_rx *rx)
{
}

unsigned shm_drain(struct urxe_shm *shm)
{
	unsigned n = 0, got;

	while ((got = urxe_shm_poll(shm, ignore, NULL, 64)))
		n += got;
	return n;
}

void shm_settle(struct urxe_shm *shm)
{
	struct pollfd pfd = {.fd = urxe_shm_fd(shm), .events = POLLIN};

	while (poll(&pfd, 1, 0) == 1)
		urxe_shm_service(shm);
}

bool shm_isolate(void)
{
	return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

unsigned shm_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the directory itself */
}
