/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of packets over the shared-memory link: a source and a sink that derive the same packets
 * from a scenario and an index, so that they can be in one process or in two.
 */
#ifndef TESTS_LINK_SHM_RIG_H
#define TESTS_LINK_SHM_RIG_H

#include "link/shm.h"

#include <stdbool.h>
#include <stdint.h>

/* What packet i of a stream looks like. */
struct shm_spec {
	uint32_t payload_len;
	uint8_t hdr_len;
	uint8_t pad;
	uint8_t n_iov;
	bool grh;
};

struct shm_scenario {
	const char *name;
	uint64_t n_pkts;
	unsigned max_budget; /* of a call: budgets are random from 1 */
	void (*spec)(uint64_t i, struct shm_spec *ret_spec);
};

extern const struct shm_scenario shm_scenarios[];
extern const unsigned shm_n_scenarios;

struct shm_source_side {
	struct urxe_shm_peer *peer;
	const struct shm_scenario *scenario;
	uint64_t sent;
	uint64_t seed;
};

struct shm_sink {
	struct urxe_shm *shm;
	const struct shm_scenario *scenario;
	uint64_t received;
	uint64_t wrong; /* packets that were not what the scenario says */
	uint64_t seed;
};

/* Send up to a random budget; returns how many packets were taken. */
unsigned shm_source_step(struct shm_source_side *src);
/* Receive up to a random budget; returns how many packets came. */
unsigned shm_sink_step(struct shm_sink *sink);

/* Build packet i: buffer holds its payload, path its addresses. */
enum { SHM_PAYLOAD_MAX = URXE_SHM_MTU };
void shm_pattern(uint64_t i, uint8_t *p, uint32_t len);
void shm_pattern_path(uint64_t i, struct urxe_path *ret_path);

/* An endpoint with a block of its own; fails the test if there is none. */
struct urxe_shm *shm_endpoint(uint64_t seed, uint32_t *ret_base);

/* A header of 12 bytes and a payload of len bytes: one packet. Returns how many were taken. */
unsigned shm_send_one(struct urxe_shm_peer *peer, uint64_t now, uint32_t len);

/* Take all that is there; returns how many. */
unsigned shm_drain(struct urxe_shm *shm);

/* Serve the endpoint's descriptor until nothing is left to do. */
void shm_settle(struct urxe_shm *shm);

/* In a network namespace of our own, if we may: then no other process has blocks here. */
bool shm_isolate(void);

unsigned shm_open_fds(void);

#endif
