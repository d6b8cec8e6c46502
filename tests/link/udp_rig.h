/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two network namespaces, A and B, joined by a veth pair of MTU 9000 ("v0" in each), and UDP
 * endpoints in them. A socket stays in the namespace it was opened in, so one thread runs both.
 */
#ifndef TESTS_LINK_UDP_RIG_H
#define TESTS_LINK_UDP_RIG_H

#include "link/udp.h"
#include "wire/icrc.h"

#include <stddef.h>

enum rig_host { RIG_A, RIG_B };

enum {
	RIG_PORT = 4791,
	RIG_QPN = 0x4711,
	RIG_BUF = 200000, /* granted everywhere */
	RIG_PACKETS = 512,
};

/* Makes the namespaces; ends the program with 77 and the reason if that is not permitted. */
void rig_setup(void);

/* The calling thread moves there. */
void rig_enter(enum rig_host host);

/* Run a shell command in the current namespace: true if it succeeds. */
bool rig_try(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same, for what has to succeed. */
void rig_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* 10.9.0.1 and fd09::1 are A, ...2 B; ::1 and 127.0.0.1 are in both. */
struct urxe_gid rig_gid(const char *text);

struct urxe_udp *rig_open(enum rig_host host, uint32_t rcvbuf, uint32_t sndbuf);

/* Between the two hosts in the v4 or v6 network, with a source port of the sender's. */
struct urxe_path rig_path(struct urxe_udp *from, enum rig_host host, int version);

/* A list of packets to pull, with payload to gather from odd places; what arrives is compared. */
struct rig_flow {
	const struct urxe_path *path;
	uint32_t dqpn; /* 0: RIG_QPN */
	unsigned n;
	unsigned pulled;
	unsigned delivered;
	unsigned ce;
	bool mixed;                /* SENDs and WRITEs, of different header lengths */
	uint32_t len[RIG_PACKETS]; /* of the payloads, without pad */
	struct urxe_path last_path;
	unsigned mismatch;
};

urxe_pull_fn rig_pull;
urxe_rx_fn rig_deliver;

/* Send all of the flow and receive it, failing if it does not arrive in two seconds. */
void rig_run(struct rig_flow *flow, struct urxe_udp *tx, struct urxe_udp *rx);

/* Wait until the endpoint's descriptor is readable; fails after two seconds. */
void rig_wait(struct urxe_udp *udp);

/* Write the header and payload of a flow's packet, without ICRC; returns the length. */
size_t rig_packet(const struct rig_flow *flow, unsigned i, uint8_t *out);

#endif
