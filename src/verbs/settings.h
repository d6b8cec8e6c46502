/* SPDX-License-Identifier: BSD-2-Clause */
/* URXE_* settings: one table (settings.c) with name, unit, range, default and meaning. */
#ifndef URXE_VERBS_SETTINGS_H
#define URXE_VERBS_SETTINGS_H

#include "base/log.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum urxe_real_mode {
	URXE_REAL_BESIDE, /* real devices stay in the list, ours follow them */
	URXE_REAL_HIDE,
};

enum urxe_link_mode {
	URXE_LINK_AUTO, /* shared memory inside the network namespace, UDP else */
	URXE_LINK_UDP,  /* UDP always: both peers of a connection must say so */
};

enum urxe_ecn_mode {
	URXE_ECN_OFF,
	URXE_ECN_ON,
};

struct urxe_settings {
	const char *netdev; /* URXE_NETDEV: comma-separated interfaces in device order; NULL: all */
	enum urxe_real_mode real; /* URXE_REAL: beside, hide */
	enum urxe_link_mode link; /* URXE_LINK: auto, udp */
	uint32_t mtu;             /* URXE_MTU: IB MTU cap 256..4096 */
	uint32_t udp_port;        /* URXE_UDP_PORT: 4791 */
	uint32_t rcvbuf_bytes;    /* URXE_RCVBUF */
	uint32_t sndbuf_bytes;    /* URXE_SNDBUF */
	uint32_t window_pkts;     /* URXE_WINDOW: most unacknowledged packets of one QP over UDP */
	enum urxe_ecn_mode ecn;   /* URXE_ECN: on, off */
	uint32_t spin_us; /* URXE_SPIN: how long the fallback thread spins before it sleeps */
	uint64_t seed;    /* URXE_SEED: 0: from the kernel */
	const char *pcap; /* URXE_PCAP: file to record packets in; NULL: none */
	enum urxe_key_mode keys;                                  /* URXE_KEYS: fresh, reuse */
	enum log_level log;                                       /* URXE_LOG */
	uint32_t max_qp, max_cq, max_mr, max_pd, max_srq, max_ah; /* URXE_MAX_QP... */
	uint32_t max_qp_wr, max_cqe, max_sge, max_inline, max_rd_atomic;
};

/* Parsed on first use; a bad value is one clear error per value and leaves no urxe device. */
const struct urxe_settings *urxe_settings(void);

/* False if a URXE_* value was bad. */
bool urxe_settings_valid(void);

/*
 * Read the settings among env (as environ(7)). Bad and unknown ones are logged and leave their
 * default; -EINVAL then. The strings of env must outlive *ret_settings.
 */
int urxe_settings_parse(char *const *env, struct urxe_settings *ret_settings);

/* The table of all settings, for a person. */
void urxe_settings_print(FILE *out);

#endif
