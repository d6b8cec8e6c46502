/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that follow their interfaces: state, addresses, and the events that tell of changes. */
#ifndef URXE_VERBS_PORT_H
#define URXE_VERBS_PORT_H

struct urxe_context;

/* A context hears of changes from open to close. No lock held. */
void urxe_port_join(struct urxe_context *ctx);
void urxe_port_leave(struct urxe_context *ctx);

/* The kernel reported something: called by the driver thread. */
void urxe_port_service(void);

/* In the child of a fork: nothing is shared with the parent. */
void urxe_port_after_fork(void);

#endif
