/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose, where messages meet the transport: what follows from them is real. A queue
 * pair loses nothing while it lives, so a message that is dropped, or comes twice, is a hole in the
 * window at the peer, who breaks the channel with -EPROTO; a corrupted header is -EPROTO or -ESTALE
 * there; a failure puts the queue pair in error, and its first completion has that status.
 *
 * A context without rules has no `faults`: that is all the data path looks at.
 */
#ifndef XR_FAULT_H
#define XR_FAULT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct xrdma_context;
struct xrdma_channel;
struct xrdma_msg;

/* Of a channel. */
struct xr_ch_faults {
	uint64_t held_until; /* nothing is posted before; 0: not held */
	uint32_t delayed;    /* messages that came and wait */
	uint64_t last_due;   /* the last of them, until then */
	uint8_t status;      /* enum ibv_wc_status of the first completion in error; 0: as it is */
	bool pass_out;       /* the next message is looked at no more */
	bool pass_in;
	bool probe; /* status is of a probe */
	bool again; /* what was just posted is to be posted once more */
};

enum xr_verdict {
	XR_VERDICT_PASS,
	XR_VERDICT_LOSE, /* as if it were posted */
	XR_VERDICT_HOLD, /* not now */
};

/* Start, change or end faults as the text says. -EINVAL, explained. */
int xr_faults_set(struct xrdma_context *ctx, const char *text);
void xr_faults_free(struct xrdma_context *ctx);
/* The queue pair of the channel goes: so does what came by it. */
void xr_faults_forget(struct xrdma_channel *ch);

/* Nothing may be posted now: a message is delayed, and others stay behind it. */
bool xr_fault_held(struct xrdma_channel *ch);
/* A message is about to be posted, its header being at head. */
enum xr_verdict xr_fault_out(struct xrdma_channel *ch, uint8_t *head);
/* It was: post it again? */
bool xr_fault_again(struct xrdma_channel *ch);
/* A probe is about to be posted to qp. */
void xr_fault_probe(struct xrdma_channel *ch, struct ibv_qp *qp);
/* A message came. True: it was dealt with. */
bool xr_fault_in(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc);
/* A work request ended in error: its status may be another. */
void xr_fault_completion(struct xrdma_context *ctx, struct ibv_wc *wc);

#endif
