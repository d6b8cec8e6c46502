/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server, a client and what is between them: real sockets on loopback, a clock moved by hand.
 * Waiting is for readiness, never for time to pass.
 */
#ifndef TESTS_XRDMA_TEST_BOOT_RIG_H
#define TESTS_XRDMA_TEST_BOOT_RIG_H

#include "../unit/unit.h"

#include "xrdma/boot.h"

struct rig {
	struct xr_conf server_conf, client_conf;
	struct xr_boot_world server_world, client_world;
	struct xr_boot_listener *listener;
	struct xr_boot *server, *client;
	int server_err, client_err;
	uint64_t now;
	char address[64];
};

/* tls = off on both sides, for a test to change. */
void rig_conf(struct rig *r);
void rig_listen(struct rig *r, const char *address);
void rig_connect(struct rig *r);

/* rig_conf(), rig_listen() on 127.0.0.1, rig_connect(), and both sides open. */
void rig_open(struct rig *r);

/* One wait for readiness of any socket, then every xr_boot_io(); fails after seconds of nothing. */
void rig_step(struct rig *r);

/* rig_step() until both are open or have failed. */
void rig_settle(struct rig *r);

void rig_close(struct rig *r);

/* Wait until fd is ready for events. */
void wait_fd(int fd, short events);

/* A plain socket connected to the rig's listener, and the server side of it. */
int rig_raw(struct rig *r);

/* rig_step() of the server until it is dead. */
void rig_server_dies(struct rig *r);

unsigned count_fds(void);
void assert_said(const char *text, const char *part);

#endif
