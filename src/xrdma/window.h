/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seq-ack window of a channel, both directions. Pure.
 *
 * Windowed messages are numbered from 0 modulo 65536; at most `size` of a direction are not
 * acknowledged, and acknowledged is only what the application of the other side has consumed and
 * for which a receive is posted again. Control messages (bare acknowledgements, BYE) are not
 * numbered but counted; at most `control` of a direction are not reported back. So whoever posts
 * size + control receives never runs out of them.
 *
 * Every message carries both acknowledgements. When there is no message to carry them:
 *
 *	- a bare acknowledgement goes at once if half a window is consumed and the peer not told, or
 *	  if the peer must be at a standstill; else after a delay;
 *	- the last of the control credits is kept for a message that reports control messages. That
 *	  message frees credits of the peer, whose own last credit... so two sides with both windows
 *	  full and all other credits spent still get out (tests/xrdma/window_all.c tries every
 *order);
 *	- control messages are reported from two on, not from one: else a report would have to be
 *	  answered by a report, for ever. Hence at least three credits.
 */
#ifndef XR_WINDOW_H
#define XR_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
	XR_WINDOW_MAX = 4096,
	XR_CONTROL_MIN = 3,
	XR_CONTROL_MAX = 128,
};

struct xr_window {
	uint16_t size;
	uint8_t control;
	/* sending */
	uint16_t next;  /* the next windowed message */
	uint16_t acked; /* all before it are consumed by the peer */
	uint8_t ctl_next, ctl_acked;
	/* receiving */
	uint16_t expected; /* the next windowed message to come */
	uint16_t consumed; /* all before it are */
	uint16_t told;     /* and the peer knows of all before this */
	uint8_t ctl_seen, ctl_told;
	uint16_t mask;
	uint64_t *done; /* a bit for each message consumed before an earlier one */
};

/* What a message carries. */
struct xr_stamp {
	uint16_t seq; /* of a control message: of the next windowed one */
	uint16_t ack;
	uint8_t ctrl_ack;
};

enum xr_ack {
	XR_ACK_NONE,
	XR_ACK_LATER, /* unless a message carries it before */
	XR_ACK_AT_ONCE,
};

/* Words of bitmap that a window of this size needs. */
static inline uint32_t xr_window_words(uint32_t size)
{
	uint32_t bits = 64;

	while (bits < size)
		bits *= 2;
	return bits / 64;
}

/* done: xr_window_words(size) zeroes, the caller's. */
void xr_window_init(struct xr_window *w, uint32_t size, uint32_t control, uint64_t *done);

static inline uint16_t xr_window_unacked(const struct xr_window *w)
{
	return (uint16_t)(w->next - w->acked);
}

/* May a windowed message go? */
static inline bool xr_window_open(const struct xr_window *w)
{
	return xr_window_unacked(w) < w->size;
}

/* May a control message go? */
bool xr_window_control_open(const struct xr_window *w);

/* What a message carries that goes now. */
static inline struct xr_stamp xr_window_stamp(const struct xr_window *w)
{
	return (struct xr_stamp){.seq = w->next, .ack = w->consumed, .ctrl_ack = w->ctl_seen};
}

/* A message went with that stamp, which must be allowed. */
void xr_window_sent(struct xr_window *w, bool windowed);

/*
 * A message came. 1: deliver it; 0: it was consumed before a resume, drop it; -EPROTO: the peer
 * lies, *ret_why says how. Look at acked after.
 */
int xr_window_receive(struct xr_window *w, const struct xr_stamp *s, bool windowed,
		      const char **ret_why);

/* A windowed message is consumed, and a receive posted in place of the one it took. Any order. */
void xr_window_consume(struct xr_window *w, uint16_t seq);

enum xr_ack xr_window_ack(const struct xr_window *w);

/* ---- across re-establishment ---- */

/* What one side tells the other of its window. */
struct xr_window_state {
	uint16_t next;     /* it has sent all before */
	uint16_t consumed; /* it has consumed all before */
};

struct xr_window_state xr_window_export(const struct xr_window *w);

/*
 * The connection broke: forget what was received and not consumed, since the peer sends again all
 * that we have not consumed. From here to xr_window_resume() the state to export stands still.
 */
void xr_window_interrupt(struct xr_window *w);

/*
 * Go on over a new connection; control counts start anew. What the peer has consumed is
 * acknowledged; messages from acked on are to be sent again, next is acked. -EPROTO: the two
 * windows cannot belong together.
 */
int xr_window_resume(struct xr_window *w, const struct xr_window_state *peer);

#endif
