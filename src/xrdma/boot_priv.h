/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XRDMA_BOOT_PRIV_H
#define XRDMA_BOOT_PRIV_H

#include "xrdma/address.h"
#include "xrdma/boot.h"
#include "xrdma/error.h"
#include "xrdma/tls.h"
#include "xrdma/xrdma.h"

#include <netdb.h>

enum xr_boot_state {
	XR_BOOT_WAITING, /* for xr_boot_start() */
	XR_BOOT_CONNECTING,
	XR_BOOT_HANDSHAKE, /* of TLS */
	XR_BOOT_OPEN,
	XR_BOOT_DEAD,
};

/* Bytes at data[start..start + len); no memory while empty. */
struct xr_boot_buf {
	uint8_t *data;
	size_t start, len, capacity;
};

struct xr_boot {
	struct xr_boot_world *world;
	enum xr_boot_state state;
	enum xr_tls_role role;
	int fd;
	int err;                              /* of a dead connection */
	bool heard;                           /* anything from the peer */
	uint32_t *counted;                    /* among what the world has under way, or NULL */
	bool more;                            /* the budget of this call is spent, not the input */
	struct addrinfo *addresses, *address; /* all, and the one being tried */
	struct xr_tls *tls;
	uint64_t now;
	uint64_t setup_deadline, attempt_deadline, rx_deadline, tx_deadline;
	uint64_t attempt_ns; /* of a second dialing: most for TCP; else 0 */
	struct xr_boot_buf in, out;
	size_t taken; /* bytes at the start of in that xr_boot_next() handed out */
	size_t budget;
	struct in6_addr local, peer;
	char host[XR_HOST_BYTES];
	char peer_text[XR_ADDRESS_BYTES];
	char why[XR_ADDRESS_BYTES + XR_ERROR_BYTES];
};

/* A connection over a socket that accept() returned. Takes the descriptor, also on failure. */
int xr_boot_adopt(struct xr_boot_world *world, int fd, uint64_t now, struct xr_boot **ret_boot);

/* Set what every bootstrap socket has. */
int xr_boot_socket_options(int fd, const struct xr_conf *conf);

/* Numeric addresses without a look-up, names with one. flags: AI_PASSIVE to listen. */
int xr_boot_resolve(const char *text, int flags, struct xr_address *ret_address,
		    struct addrinfo **ret_list);

/* boot_io.c: the connection is open; move bytes. */
int xr_boot_flush(struct xr_boot *boot);
int xr_boot_fill(struct xr_boot *boot); /* 0: nothing more for now, or a whole frame is there */

/* It is under way no more. */
void xr_boot_uncount(struct xr_boot *boot);

/* The connection is dead: err, and the last error as the reason. Returns the error that stays. */
int xr_boot_die(struct xr_boot *boot, int err);

uint64_t xr_boot_timeout_ns(const struct xr_boot *boot);

#endif
