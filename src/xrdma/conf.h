/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options: one table (conf_table.c) with name, unit, range, default and meaning. `struct xr_conf`
 * is what the library reads: plain values, no pointers, copied by assignment.
 */
#ifndef XRDMA_CONF_H
#define XRDMA_CONF_H

#include "xrdma/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { XR_NAME_BYTES = 256, XR_PATH_BYTES = 512, XR_PSK_BYTES = 64 };

#define XR_AUTO UINT32_MAX /* numbers that may also be `auto`: port, numa */

enum xr_mem_windows {
	XR_MEM_WINDOWS_OFF,
	XR_MEM_WINDOWS_TYPE1,
	XR_MEM_WINDOWS_TYPE2,
};

enum xr_choice {
	XR_CHOICE_AUTO,
	XR_CHOICE_ON,
	XR_CHOICE_OFF,
};

enum xr_transport {
	XR_TRANSPORT_AUTO, /* RDMA, and TCP while that does not work */
	XR_TRANSPORT_RDMA,
	XR_TRANSPORT_TCP,
};

struct xr_conf {
	/* device and path */
	char device[XR_NAME_BYTES]; /* a verbs device, or "auto" */
	char gid[XR_NAME_BYTES];    /* "auto", an index, or an address */
	uint32_t port;              /* of the device, from 1, or XR_AUTO */
	uint32_t mtu;               /* most bytes of a packet: 256..4096 */
	uint32_t timeout;           /* IBA encoding: 4.096 us * 2^n */
	uint32_t retry_cnt;
	uint32_t rnr_retry;
	uint32_t min_rnr_timer; /* IBA encoding */
	uint32_t traffic_class; /* DSCP << 2 | ECN */
	uint32_t hop_limit;
	uint32_t max_rd_atomic; /* most READs in flight of a channel */
	uint32_t max_inline;    /* bytes */

	/* messages and flow */
	uint32_t window;      /* messages unacknowledged per direction */
	uint32_t control;     /* control messages unreported per direction */
	uint32_t small_bytes; /* payload up to which a message is one SEND */
	uint32_t frag_bytes;  /* of a READ */
	uint32_t max_msg;     /* bytes */
	uint32_t max_calls;   /* requests in flight of a channel */
	uint32_t queue_depth; /* messages waiting in a channel for its window */
	uint32_t max_wr;      /* send work requests outstanding of a context */
	uint32_t signal_every;
	uint32_t max_channels; /* of a context */
	enum xr_choice srq;
	uint32_t srq_max; /* receives posted in the shared queue */

	/* progress */
	uint32_t idle_us;
	uint32_t housekeeping_us;
	uint32_t ack_delay_us;

	/* connection */
	uint32_t connect_timeout_ms;
	uint32_t peer_timeout_ms; /* a silent TCP peer is given up */
	uint32_t max_pending;     /* accepted, not yet connected */
	uint32_t max_dials;       /* under way at once */
	uint32_t keepalive_ms;    /* of silence; 0: off */
	uint32_t qp_cache;        /* queue pairs kept for the next channels */
	uint32_t recovery_ms;     /* of a broken channel; 0: none */
	uint32_t backoff_min_ms, backoff_max_ms;
	enum xr_transport transport;
	uint32_t mock_after;      /* attempts to recover by RDMA that fail; then TCP takes over */
	uint32_t mock_back_after; /* probes of RDMA in a row that succeed; then it takes over */
	uint32_t mock_probe_ms;   /* between them */
	enum xr_choice tls;
	char tls_cert[XR_PATH_BYTES];
	char tls_key[XR_PATH_BYTES];
	char tls_ca[XR_PATH_BYTES];
	char tls_name[XR_NAME_BYTES];
	char tls_psk[2 * XR_PSK_BYTES + 1]; /* hexadecimal */
	char tls_psk_identity[XR_NAME_BYTES];

	/* memory */
	uint64_t tx_budget_bytes;
	uint64_t rx_budget_bytes;
	uint64_t slab_bytes;
	uint32_t slabs_min; /* kept although idle, per direction */
	uint32_t trim_ms;
	uint32_t regcache_entries;
	uint64_t regcache_bytes;
	enum xr_choice huge; /* on: fail without reserved ones */
	uint32_t numa;       /* node, or XR_AUTO: the device's */
	bool guard;
	bool odp;
	enum xr_mem_windows mem_windows;

	/* watching and testing */
	char filter[XR_PATH_BYTES];
	bool trace;
	uint32_t trace_sample; /* one of so many calls; 0: none */
	char trace_file[XR_PATH_BYTES];
	uint32_t slow_poll_us;
	uint32_t slow_handler_us;
	bool monitor;
	enum log_level log;
};

struct xrdma_conf;

/* The values of conf, which must outlive the pointer. */
const struct xr_conf *xr_conf_values(const struct xrdma_conf *conf);

/* Defaults alone: no file, no environment. */
void xr_conf_defaults(struct xr_conf *ret_values);

/*
 * Change an option that may be changed while a context runs. As xrdma_conf_set(), and -EPERM for
 * one that may not.
 */
int xr_conf_change(struct xr_conf *values, const char *name, const char *value);

/*
 * Read options from the lines of a file called name (for messages), or from XRDMA_* among env (as
 * environ(7)). All or nothing: after an error conf is as before.
 */
int xr_conf_load_stream(struct xrdma_conf *conf, const char *name, FILE *in);
int xr_conf_load_env(struct xrdma_conf *conf, char *const *env);

enum xr_conf_format {
	XR_CONF_SCDOC,    /* a section of a man page */
	XR_CONF_MARKDOWN, /* a table */
};

void xr_conf_print(FILE *out, enum xr_conf_format format);

#endif
