/* SPDX-License-Identifier: BSD-2-Clause */
/* Bringing a QP up, for every test that drives engines without a verbs front. */
#ifndef TESTS_CONNECT_H
#define TESTS_CONNECT_H

#include "engine/engine.h"

struct connect_attr {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint32_t dqpn;
	uint32_t sq_psn;
	uint32_t rq_psn;
	uint32_t qkey;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	uint8_t dest_rd_atomic;
	unsigned access;
	struct urxe_route route;
};

/* RESET to INIT. */
int connect_init(struct urxe_qp *qp, const struct connect_attr *a, uint64_t now);

/* INIT to RTR to RTS. */
int connect_up(struct urxe_qp *qp, const struct connect_attr *a, uint64_t now);

/* A path between two of 250 hosts, by IPv4-mapped or IPv6 addresses. */
void connect_path(struct urxe_path *ret_path, unsigned from, unsigned to, bool ipv4);

#endif
