/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bootstrap connection: TCP, with TLS 1.3 as the options and the addresses demand, carrying
 * blocks of a type and up to 66 KiB. Never blocks (but see xr_boot_connect), never raises SIGPIPE.
 *
 * Sans loop: the caller polls xr_boot_fd() for xr_boot_events(), calls xr_boot_io() when it is
 *ready or xr_boot_deadline() has passed, then takes blocks with xr_boot_next() until there are
 *none. Time is an argument (CLOCK_MONOTONIC, nanoseconds).
 *
 *	(waiting) -> connecting -> (TLS handshake) -> open -> closed
 *
 * Deadlines: connect_timeout_ms for everything until xr_boot_established(), and after that for each
 * block that has begun to arrive and for output that makes no progress. So neither silent nor slow
 * peers hold anything for long.
 *
 * Frame, network byte order: u16 magic "XR", u8 type, u8 0, u32 length, the block.
 */
#ifndef XRDMA_BOOT_H
#define XRDMA_BOOT_H

#include "xrdma/conf.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xr_boot;
struct xr_boot_listener;

enum {
	XR_BOOT_BLOCK_MAX = 66 << 10,  /* a message of the largest small_bytes, and its head */
	XR_BOOT_QUEUE_MAX = 192 << 10, /* bytes waiting to be sent */
	XR_BOOT_ROOM_BYTES = 32 << 10, /* xr_boot_has_room() */
};

/* What all bootstrap connections of a context share; outlives them. */
struct xr_boot_world {
	struct xr_conf conf;
	struct xr_tls_world *tls;
	uint32_t n_pending; /* accepted, not yet established */
	uint32_t n_dialing; /* started, and the peer has not answered by a block yet */
	int spare_fd;       /* given up for a moment to refuse when descriptors run out */
	uint64_t n_accepted;
	uint64_t n_refused; /* over max_pending, or out of descriptors */
	uint64_t n_failed;
	uint64_t n_tls;
	uint64_t n_tls_resumed;
};

/* 0 or a negative errno value, explained: certificates and keys are read here. */
int xr_boot_world_init(struct xr_boot_world *world, const struct xr_conf *conf);
void xr_boot_world_fini(struct xr_boot_world *world);

/* ---- listening ------------------------------------------------------------------------------- */

int xr_boot_listen(struct xr_boot_world *world, const char *address,
		   struct xr_boot_listener **ret_listener);
int xr_boot_listener_fd(const struct xr_boot_listener *listener); /* poll for input */
uint16_t xr_boot_listener_port(const struct xr_boot_listener *listener);

/*
 * 0 and a connection; -EAGAIN: none is waiting. Any other error is of one connection, explained:
 * call again. Connections over max_pending are refused at once.
 */
int xr_boot_accept(struct xr_boot_listener *listener, uint64_t now, struct xr_boot **ret_boot);
void xr_boot_listener_close(struct xr_boot_listener *listener);

/* ---- a connection ---------------------------------------------------------------------------- */

/*
 * A connection to be started. A name (not an address) is looked up here, which blocks for as long
 * as the system's resolver does. Its deadline runs, though it waits.
 */
int xr_boot_connect(struct xr_boot_world *world, const char *address, uint64_t now,
		    struct xr_boot **ret_boot);

/*
 * Where a dialed connection led, to dial again without a look-up. The address need not be that of
 * the name any more; who is there is proven anew.
 */
struct xr_boot_target;
int xr_boot_target_new(const struct xr_boot *boot, struct xr_boot_target **ret_target);
void xr_boot_target_free(struct xr_boot_target *target);
/* The same again, but its deadline begins with xr_boot_start(); gives TCP attempt_ns then. */
int xr_boot_redial(struct xr_boot_world *world, const struct xr_boot_target *target,
		   uint64_t attempt_ns, uint64_t now, struct xr_boot **ret_boot);

/* Start to connect; addresses are tried in turn. An error: the connection is dead. */
int xr_boot_start(struct xr_boot *boot, uint64_t now);

/* -1 while it waits. May change in xr_boot_io() until the connection is open, where a name has
 * several addresses. */
int xr_boot_fd(const struct xr_boot *boot);
uint32_t xr_boot_events(const struct xr_boot *boot);   /* EPOLLIN, EPOLLOUT; level-triggered */
uint64_t xr_boot_deadline(const struct xr_boot *boot); /* or CLOCK_NEVER */

/*
 * Go on as far as possible. 0: alive. Else the connection is dead, with a negative errno value that
 * stays and xr_boot_why(): -ECONNRESET also when the peer closed in good order (a peer that is done
 * says so in a block before), -ETIMEDOUT, -EPROTO, -EACCES (TLS: not the peer it should be)...
 * Blocks that came before the end can still be taken.
 */
int xr_boot_io(struct xr_boot *boot, uint64_t now);
bool xr_boot_is_open(const struct xr_boot *boot);
bool xr_boot_is_pending(const struct xr_boot *boot); /* until xr_boot_established() */
const char *xr_boot_why(const struct xr_boot *boot); /* "" while alive */

/* 1 and a block, valid until the next xr_boot_next() or xr_boot_io(); 0: none is complete. */
int xr_boot_next(struct xr_boot *boot, uint8_t *ret_type, const uint8_t **ret_data,
		 size_t *ret_len);

/*
 * Queue a block, also before the connection is open, and send what goes at once. -EAGAIN: over
 * XR_BOOT_QUEUE_MAX. -EMSGSIZE. Or the error of a dead connection.
 */
int xr_boot_send(struct xr_boot *boot, uint8_t type, const void *data, size_t len, uint64_t now);
/* A block from several pieces. */
struct iovec;
int xr_boot_send_parts(struct xr_boot *boot, uint8_t type, const struct iovec *parts, unsigned n,
		       uint64_t now);
/* Open, and so little waits that payloads may be queued, leaving room for what else is to be said.
 */
bool xr_boot_has_room(const struct xr_boot *boot);
bool xr_boot_sent_all(const struct xr_boot *boot);

/* The bootstrap is over: the deadline for all of it is off, and it counts as pending no more. */
void xr_boot_established(struct xr_boot *boot);

/* Addresses of the TCP connection, IPv4-mapped if need be; for xr_gid_choose(). */
struct in6_addr xr_boot_local(const struct xr_boot *boot);
struct in6_addr xr_boot_peer(const struct xr_boot *boot);
const char *xr_boot_peer_text(const struct xr_boot *boot); /* "192.0.2.1:80", or as asked for */

bool xr_boot_uses_tls(const struct xr_boot *boot);
bool xr_boot_tls_resumed(const struct xr_boot *boot);

/* Close and free, whatever the state. What is queued and does not fit into the socket is lost. */
void xr_boot_close(struct xr_boot *boot);

#endif
