/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which device, port and GID index to use. The choice is pure, over a table of candidates;
 * gid_read.c fills the table from verbs. Rules, in this order: what the options demand; the port is
 * up; RoCE v2, not link-local; then the local address of the TCP connection itself, the subnet of
 * the peer, the family of the peer; then the order of the table.
 */
#ifndef XRDMA_GID_H
#define XRDMA_GID_H

#include "xrdma/conf.h"
#include "xrdma/hello.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct ibv_context;
struct ibv_device;

enum { XR_DEVICE_BYTES = 64 };

struct xr_gid {
	char device[XR_DEVICE_BYTES];
	uint32_t port;
	uint32_t index;
	enum xr_gid_type type;
	struct in6_addr addr;
	uint8_t prefix_len; /* of the subnet in the 128-bit form; 0: not known */
	bool port_up;
};

/* A device that was left out, and why. */
struct xr_gid_note {
	char device[XR_DEVICE_BYTES];
	int err; /* negative errno value */
};

struct xr_gid_table {
	struct xr_gid *gids;
	uint32_t n_gids, gid_capacity;
	struct xr_gid_note *notes;
	uint32_t n_notes, note_capacity;
};

struct xr_gid_want {
	const char *device;    /* name or "auto" */
	uint32_t port;         /* or XR_AUTO */
	const char *gid;       /* "auto", index or address */
	struct in6_addr local; /* of the TCP connection; zero: not connected yet */
	struct in6_addr peer;  /* likewise */
};

/* 0; -ENODEV: none will do, explained. *ret_gid points into the table. */
int xr_gid_choose(const struct xr_gid_table *table, const struct xr_gid_want *want,
		  const struct xr_gid **ret_gid);

/*
 * One line for each candidate and note: what it is, and why it was chosen or not. Returns the
 * length that the whole text has, as snprintf() does.
 */
size_t xr_gid_explain(const struct xr_gid_table *table, const struct xr_gid_want *want, char *text,
		      size_t size);

/*
 * Whether packets between two GIDs can arrive as far as the two ends can tell: 0, or -EHOSTUNREACH
 * with an explanation (types differ, families differ, loopback against another host).
 */
int xr_gid_reachable(enum xr_gid_type our_type, const struct in6_addr *ours,
		     enum xr_gid_type their_type, const struct in6_addr *theirs);

/* Append; 0 or -ENOMEM. */
int xr_gid_table_add(struct xr_gid_table *table, const struct xr_gid *gid);
int xr_gid_table_note(struct xr_gid_table *table, const char *device, int err);
void xr_gid_table_fini(struct xr_gid_table *table);

/* The GIDs of one open device. */
int xr_gid_read_device(struct ibv_context *verbs, struct xr_gid_table *table);

/* The GIDs of all devices, opened one after the other; those that cannot be become notes. */
int xr_gid_read_all(struct xr_gid_table *table);

#endif
