/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress driver: who runs an engine, and when.
 *
 * POLLED: the application's ibv_poll_cq() and ibv_post_send() run it inline. Peers ring no
 * doorbell, no system call is made. The driver thread looks once a millisecond whether the
 * application still polls, without touching the engine.
 *
 * SERVED: nobody polls. Doorbells, UDP sockets and timers wake the driver thread, which runs the
 * engine, goes on for a short adaptive while in case more comes at once, and sleeps.
 *
 * POLLED becomes SERVED when a tick finds that nobody polled, or at once when the application says
 * that it is going to sleep (ibv_req_notify_cq, ibv_get_cq_event). SERVED becomes POLLED after a
 * row of polls; a long row of posts runs the engine now and then and counts as polls, too. An
 * application that leaves packets lying although it polled just before (it spins on memory that its
 * peer writes) stays SERVED for longer each time.
 */
#ifndef URXE_VERBS_DRIVE_PRIV_H
#define URXE_VERBS_DRIVE_PRIV_H

#include "verbs/context_priv.h"

enum { DRIVE_TICK_NS = 1000000 };

void urxe_drive_init(struct urxe_context *ctx);

/* The time of this round: the clock is read at most once in it. Lock held. */
uint64_t urxe_drive_now(struct urxe_context *ctx);

/* Begin a round: forget the time. Lock held. */
static inline void urxe_drive_begin(struct urxe_context *ctx)
{
	ctx->drive.now_ns = 0;
}

/* Take what came, run what is due, send what can be sent, report. True: something was done. */
bool urxe_drive_progress(struct urxe_context *ctx);

/*
 * Before a QP or the process goes: what has arrived is answered, as a NIC would have done when it
 * arrived. Without it the last message of a conversation looks lost to its sender.
 */
void urxe_drive_finish(struct urxe_context *ctx);

/* The same on behalf of an application that polls. */
void urxe_drive_poll(struct urxe_context *ctx);

/* Send what the engine has. Lock held. */
void urxe_drive_send(struct urxe_context *ctx);

/* The same after the application posted requests to this QP: it may post more. Lock held. */
void urxe_drive_posted(struct urxe_context *ctx, const struct urxe_qp *qp);

/* After a call that may have set a timer, or not sent all: see that somebody goes on. Lock held. */
void urxe_drive_settle(struct urxe_context *ctx);

/*
 * The application is going to sleep: the driver thread takes over. Nothing that came before is
 * left lying. Lock held.
 */
void urxe_drive_hand_over(struct urxe_context *ctx);

/* The driver thread comes to a context where nobody polls: it is SERVED from now on. Lock held. */
void urxe_drive_take_over(struct urxe_context *ctx);

/* drive_thread.c: once per process, before anything else. */
void urxe_driver_init(void);

/* Join the contexts that the driver thread serves; start it at the first. */
int urxe_driver_join(struct urxe_context *ctx);
void urxe_driver_leave(struct urxe_context *ctx);

/* Watch the UDP endpoint, just opened. Lock held. */
int urxe_driver_add_udp(struct urxe_context *ctx);

/* Let the UDP descriptor wake the thread once more. Lock held. */
void urxe_driver_watch_udp(struct urxe_context *ctx);

/* Let the thread call urxe_port_service() when the descriptor is readable; starts the thread. */
int urxe_driver_watch_port(int fd);

/* Wake the thread: a deadline came nearer, or a context is POLLED now. */
void urxe_driver_kick(void);

/* How long an idle loop may spin before it should sleep; 0 where there is one processor. */
unsigned urxe_driver_spin_us(void);

#endif
