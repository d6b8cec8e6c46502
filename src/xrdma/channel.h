/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel: queue pair, window, messages on their way, and the TCP connection that set it up.
 *
 * Timers: `ack`, an acknowledgement has waited long enough for a message to ride on; `boot`, the
 * deadline of the TCP connection; `drain`, the queue pair has not ended all its work requests;
 * `alive_timer`, nothing was heard of the peer for long; `rec.timer`, the next step of a recovery
 * is due, or its end; `mock.timer`, mock.h.
 */
#ifndef XR_CHANNEL_H
#define XR_CHANNEL_H

#include "xrdma/context.h"
#include "xrdma/fault.h"
#include "xrdma/hello.h"
#include "xrdma/mock.h"
#include "xrdma/negotiate.h"
#include "xrdma/resume.h"
#include "xrdma/rpc.h"
#include "xrdma/window.h"

/* Queue pair numbers are spread well enough as they are. */
#define HASH_FUNCTION(key, len, hash) ((hash) = *(const uint32_t *)(key)*2654435761U)
#define HASH_NONFATAL_OOM             1 /* else it calls exit(); see xr_qp_open() */
#include <uthash.h>

enum xr_ch_state {
	XR_CH_DIALING,  /* TCP and TLS */
	XR_CH_HELLO,    /* queue pair made; waiting for the peer's HELLO */
	XR_CH_READY,    /* queue pair connected; waiting for the peer to say so too */
	XR_CH_PROBING,  /* reading the peer's probe */
	XR_CH_OPENING,  /* read; waiting for the peer to have read ours */
	XR_CH_OPEN,     /* until XR_CH_BYE messages flow, and up to here the application may send */
	XR_CH_CLOSING,  /* what was accepted goes out and is acknowledged */
	XR_CH_BYE,      /* and so said; waiting for the peer to say the same */
	XR_CH_BREAKING, /* queue pair in error; waiting for work requests to end, to recover */
	XR_CH_WAITING,  /* all have; waiting for the peer, to go on with XR_CH_HELLO */
	XR_CH_DRAINING, /* queue pair in error; waiting for work requests to end, for good */
	XR_CH_CLOSED,   /* XRDMA_CLOSED was said; lives on while the application holds messages */
	XR_CH_N_STATES,
};

enum xr_wqe_op {
	XR_WQE_SEND,
	XR_WQE_BYE,
	XR_WQE_PROBE,
	XR_WQE_MOVE, /* a fragment */
	XR_WQE_BEACON,
	XR_WQE_ALIVE,
	XR_WQE_MW, /* a window is bound, or (of a message) ended */
};

/* What was posted at a position of the send queue. */
struct xr_wqe {
	struct xrdma_msg *msg;
	enum xr_wqe_op op;
	uint32_t fragments; /* XR_WQE_MOVE */
};

_Static_assert(XR_MAX_HEAD_BYTES <= 64, "XR_HEAD_STRIDE");

/* What a queue pair was made for. */
struct xr_qp_shape {
	uint32_t sends, inline_bytes;
	uint32_t receives; /* 0: it takes them from the shared queue */
};

/* The recovery of a broken channel: recover.c. */
struct xr_recovery {
	bool resumable;    /* the peer has given a token */
	bool active;       /* broken, and not open again */
	bool planned;      /* by us, to move to RDMA; until an attempt fails */
	bool untold;       /* XRDMA_BROKEN is to be told */
	bool told;         /* it was */
	bool sent, got;    /* RESUME, over the connection at hand */
	bool refused;      /* the peer said that it is over */
	bool orphan;       /* the peer's connection ended without a word */
	bool keys_due;     /* the peer's KEYS are to come, maybe after its first message */
	struct list moves; /* one-sided operations that wait for them */
	int status;        /* why it broke */
	unsigned attempts;
	uint32_t open_epoch;                /* in which it was open last; 0: never yet */
	uint64_t opened_at, since, give_up; /* ns */
	uint64_t due;                       /* the next attempt, or the end of this one */
	uint64_t our_token, their_token;
	struct xr_resume peer;
	struct xr_boot_target *target; /* of a dialed channel */
	struct in6_addr from;          /* of an accepted one */
	struct xr_timer timer;
};

/* A region that the peer may reach, by a key of its own. */
struct xr_export {
	struct xrdma_region *region; /* NULL: freed since, and out of the peer's reach */
	struct xr_exposed *key;      /* NULL while broken, and at the end */
	bool over;                   /* freed or revoked: it gets no other key */
	bool withdrawn;              /* revoked: the key lets nobody in */
};

enum {
	XR_HEAD_STRIDE = 64,
	XR_PROBE_BYTES = 64,
	/* Places of the send queue kept for the beacon and for control messages. */
	XR_SPARE_BEACON = 1,
	XR_SPARE_CONTROL = 2,
	XR_LATE = 1, /* acknowledged messages of a channel that are not let go yet */
};

struct xr_ch_counts {
	uint64_t msgs_sent, bytes_sent, msgs_received, bytes_received, calls;
};

struct xrdma_channel {
	struct xrdma_context *ctx;
	enum xr_ch_state state;
	int status;     /* why it closes */
	char *why;      /* the same in words, or NULL */
	bool dialed;    /* else accepted */
	bool announced; /* the application knows of it */
	bool close_asked;
	bool drained;  /* or given up: nothing more will end */
	bool last_wqe; /* the shared receive queue is done with the queue pair */
	uint32_t held; /* messages in the application's hands */
	uint32_t handle;
	struct list link;    /* of the context */
	struct list touched; /* of the context, while handling a batch */
	struct xrdma_handlers handlers;
	void *arg, *user;

	/* queue pair */
	struct ibv_qp *qp;
	struct xr_qp_shape shape;
	struct xr_rq own_rq;
	struct xr_rq *rq;      /* own_rq or the context's */
	struct xr_tcp_qp *tcp; /* what qp is of, if it is none of the device */
	UT_hash_handle by_qpn;
	struct xr_flow_queue flow;
	struct xr_wqe *wqes;
	uint32_t wqe_mask;
	struct xr_buf heads; /* XR_HEAD_STRIDE for each work request, and our probe */
	uint32_t max_inline;
	uint32_t cq_promised;
	uint32_t rx_promised; /* by the context's shared queue */
	uint32_t gid_index;

	/* sending */
	struct xr_window win;
	struct xr_bounds bounds;
	struct list queue; /* accepted, not sent */
	uint32_t queued;
	struct xrdma_msg **unacked; /* by seq */
	uint32_t unacked_mask;
	uint16_t let_go; /* those before it are; at most XR_LATE less than win.acked */
	uint64_t *done_bits;
	bool bye_sent, bye_ended, bye_received, tcp_bye;

	/* receiving */
	struct list in_order; /* arrived, to be delivered in this order */
	struct list replies;  /* large ones, being read */
	/* fragments */
	struct list moving;                /* messages of which fragments are to be posted */
	uint32_t fragments, max_fragments; /* outstanding */

	struct xr_calls calls;
	struct xr_agreed agreed;
	struct xr_hello ours, theirs;
	struct xrdma_msg *probe;
	bool peer_open;
	uint32_t epoch; /* the highest so far */
	struct xr_recovery rec;
	struct xr_mock mock;

	struct xr_mws mws;
	struct xr_mws_read mws_read;

	/* regions */
	struct list remotes;
	struct xr_export *exports; /* by id */
	uint32_t n_remotes, n_exports;

	struct xr_ch_faults faults;
	struct xr_ch_counts counts;
	struct xr_peer_clock peer_clock;
	struct xr_boot *boot;
	struct list dial; /* of the context: its boot waits to be started */
	struct xr_watch boot_watch;
	struct xr_timer ack_timer, boot_timer, drain_timer, alive_timer;
	uint16_t told_then; /* win.told when ack_timer was set */
	bool ack_overdue;   /* it has been due since, but there was no room */
	uint64_t heard_at;  /* a sign of life of the peer, by the context's clock */
	bool alive_posted;  /* a question is under way */
};

/* ---- life: channel.c ---- */

int xr_channel_new(struct xrdma_context *ctx, const struct xrdma_handlers *handlers, void *arg,
		   struct xrdma_channel **ret_ch);
/* One that nobody has heard of yet. */
void xr_channel_discard(struct xrdma_channel *ch);
const char *xr_channel_state_name(enum xr_ch_state state);
void xr_channel_set_state(struct xrdma_channel *ch, enum xr_ch_state state);
/* May the application send? */
static inline bool xr_channel_accepts(const struct xrdma_channel *ch)
{
	return ((ch->state < XR_CH_CLOSING) | (ch->state == XR_CH_BREAKING) |
		(ch->state == XR_CH_WAITING)) &
	       !ch->close_asked;
}
/* Can messages come and go at this moment? */
static inline bool xr_channel_flows(const struct xrdma_channel *ch)
{
	return ch->state >= XR_CH_OPEN && ch->state <= XR_CH_BYE;
}

/* The end, with a negative errno value or 0: nothing more is sent or delivered. Explained once. */
void xr_channel_fail(struct xrdma_channel *ch, int status, const char *why);
/* Bring the queue pair to an end: when all its work requests have ended, xr_channel_settle() sees
 * it. */
void xr_channel_stop(struct xrdma_channel *ch);
/* If it drains and all has ended: XRDMA_CLOSED, and it is gone. */
void xr_channel_drain_step(struct xrdma_channel *ch);
/* For xrdma_close(): fail, and later finish, whatever has not ended. */
void xr_channel_abort(struct xrdma_channel *ch);
void xr_channel_force(struct xrdma_channel *ch);
void xr_channel_forget(struct xrdma_channel *ch);
/* Free it if it is closed and nothing of it is held any more. */
void xr_channel_check_gone(struct xrdma_channel *ch);

/* All that was accepted is consumed by the peer. */
bool xr_channel_all_sent(const struct xrdma_channel *ch);

/* Look at it again when the batch at hand is handled. */
static inline void xr_channel_touch(struct xrdma_channel *ch)
{
	if (!list_linked(&ch->touched))
		list_add_tail(&ch->ctx->touched, &ch->touched);
	xr_context_kick(ch->ctx);
}
void xr_channel_settle(struct xrdma_channel *ch);

/* Its place in the context's table: small, used again by later channels. */
uint32_t xr_channel_index(const struct xrdma_channel *ch);
struct xrdma_channel *xr_channel_by_handle(struct xrdma_context *ctx, uint32_t handle);

/* ---- HELLO: channel_hello.c ---- */

/* Our HELLO, with a queue pair that is new or reset. */
int xr_channel_say_hello(struct xrdma_channel *ch);
int xr_channel_got_hello(struct xrdma_channel *ch, const uint8_t *data, size_t len);
int xr_channel_choose_gid(struct xrdma_channel *ch, const struct xr_gid **ret_gid);
/* A HELLO about a queue pair; what it says of a probe is there to be read from now on. */
int xr_channel_describe_qp(struct xrdma_channel *ch, uint32_t qpn, const struct xr_gid *gid,
			   struct xr_hello *ret_hello);
uint8_t *xr_channel_our_probe(const struct xrdma_channel *ch);
/* What a probe has to read: bytes that follow from a HELLO. */
void xr_probe_pattern(uint64_t incarnation, uint32_t epoch, uint32_t qpn,
		      uint8_t out[XR_PROBE_BYTES]);

/* ---- set-up: channel_setup.c ---- */

/* A block of the peer. 0; 1: ch is no more, its connection another channel's; or an error. */
int xr_channel_got_block(struct xrdma_channel *ch, uint8_t type, const uint8_t *data, size_t len);
void xr_channel_probe_ended(struct xrdma_channel *ch);
void xr_channel_opened(struct xrdma_channel *ch);

/* ---- the TCP connection: channel_boot.c ---- */

/* The channel's connection is ch->boot from now on. */
int xr_channel_boot_watch(struct xrdma_channel *ch);
int xr_channel_boot_send(struct xrdma_channel *ch, enum xr_block_type type, const void *data,
			 size_t len);
/* Something was sent. */
void xr_channel_boot_rewatch(struct xrdma_channel *ch);
/* Something may have come, or may go. */
void xr_channel_boot_step(struct xrdma_channel *ch);
void xr_channel_boot_due(struct xr_timer *t);
/* It is no more: the channel ends, or recovers. */
void xr_channel_boot_ended(struct xrdma_channel *ch, int status, const char *reason);
void xr_channel_boot_bye(struct xrdma_channel *ch);
void xr_channel_boot_close(struct xrdma_channel *ch);

void xr_listeners_close(struct xrdma_context *ctx); /* listener.c */

/* ---- turns to dial: dial.c ---- */

/* Start ch->boot and watch it, now or when it is its turn. An error: not even begun. */
int xr_dial(struct xrdma_channel *ch);
/* Start those whose turn it is; returns how many. */
int xr_dials_go_on(struct xrdma_context *ctx);

/* ---- recovery: recover.c ---- */

/*
 * Something between us and the peer failed: recover, if that is possible, or end with status.
 * In the middle of a recovery: this attempt has failed.
 */
void xr_channel_break(struct xrdma_channel *ch, int status, const char *why);
/* The same without trouble: to go on by the other transport. */
void xr_recover_move(struct xrdma_channel *ch, const char *why);
/* Is it on the way from broken to open? */
static inline bool xr_recovering(const struct xrdma_channel *ch)
{
	return ch->rec.active;
}
/* Is there something to recover? Who has said OPEN may be sent messages already. */
static inline bool xr_established(const struct xrdma_channel *ch)
{
	return xr_recovering(ch) || ch->state >= XR_CH_OPENING;
}
/* The TCP connection ended without a word. */
void xr_recover_boot_lost(struct xrdma_channel *ch, int status, const char *why);
/* All work requests have ended. */
void xr_recover_drained(struct xrdma_channel *ch);
/* Go on if something to go on with is there. */
void xr_recover_step(struct xrdma_channel *ch);
void xr_recover_due(struct xr_timer *t);
/* RESUME came: 0; 1: it names another channel, which has taken the connection, and ch is gone. */
int xr_recover_got_resume(struct xrdma_channel *ch, const uint8_t *data, size_t len);
/* Note where the peer is, while the connection lives. */
int xr_recover_enable(struct xrdma_channel *ch);
/* True: it has been open before. */
bool xr_recover_opened(struct xrdma_channel *ch);
/* Another context of the same peer says HELLO: channels that wait for a dead one end. */
void xr_recover_retire(const struct xrdma_channel *newcomer);

/* ---- the peer's life: keepalive.c ---- */

void xr_keepalive_start(struct xrdma_channel *ch);
void xr_keepalive_due(struct xr_timer *t);

/* ---- queue pair: verbs_qp.c ---- */

/* All that a queue pair needs, at first. rdma: it is to be one of the device. */
int xr_qp_prepare(struct xrdma_channel *ch, bool rdma);
/* One of the device, ready to be connected, at first or again; receives posted. Or none. */
int xr_qp_open(struct xrdma_channel *ch);
/* By TCP, if that is what was agreed. */
int xr_qp_connect(struct xrdma_channel *ch, uint32_t gid_index);

/* How a queue pair that is in INIT reaches another. */
struct xr_qp_link {
	const struct xr_hello *peer;
	uint32_t mtu, psn, gid_index;
	uint8_t reads_in, reads_out;
};
int xr_qp_link(struct xrdma_context *ctx, struct ibv_qp *qp, const struct xr_qp_link *link);
/* One in INIT, for nothing but READs, one at a time. */
int xr_qp_probe_new(struct xrdma_context *ctx, struct ibv_qp **ret_qp);

/* Queue pairs of closed channels: qp_cache.c. True: the cache has it, reset. It has ended all its
 * work requests. */
bool xr_qp_cache_put(struct xrdma_context *ctx, struct ibv_qp *qp, const struct xr_qp_shape *shape);
/* One that is no smaller, and its shape; NULL: none. */
struct ibv_qp *xr_qp_cache_take(struct xrdma_context *ctx, const struct xr_qp_shape *want,
				struct xr_qp_shape *ret_shape);
void xr_qp_cache_free(struct xrdma_context *ctx);

/* Reset it, for another connection; destroys it instead if it has not ended its work requests. */
void xr_qp_reset(struct xrdma_channel *ch);
void xr_qp_error(struct xrdma_channel *ch);
void xr_qp_free(struct xrdma_channel *ch);

/* Statuses told apart: a negative errno value; counted. */
int xr_wc_status(struct xrdma_context *ctx, enum ibv_wc_status status);

/* ---- sending: channel_send.c ---- */

int xr_channel_send(struct xrdma_channel *ch, struct xrdma_msg *m, bool must);
void xr_channel_pump(struct xrdma_channel *ch);
void xr_channel_acked(struct xrdma_channel *ch);
void xr_channel_let_go(struct xrdma_channel *ch);
/* Messages up to `end` that the peer has not consumed go to the head of the queue again. */
void xr_channel_requeue(struct xrdma_channel *ch, uint16_t end);
void xr_channel_ack_due(struct xr_timer *t);
bool xr_channel_send_bye(struct xrdma_channel *ch);
bool xr_channel_post_beacon(struct xrdma_channel *ch);
/* False: there is no room. */
bool xr_channel_post_alive(struct xrdma_channel *ch);
int xr_channel_post_probe(struct xrdma_channel *ch);
int xr_channel_post_mw(struct xrdma_channel *ch, struct ibv_send_wr *wr, struct xrdma_msg *m,
		       bool signal);
/* The next len bytes of m, which count as so many fragments. */
int xr_channel_post_move(struct xrdma_channel *ch, struct xrdma_msg *m, uint32_t len,
			 uint32_t fragments);
/* A work request of the send queue completed. */
void xr_channel_send_completed(struct xrdma_channel *ch, uint32_t pos, enum ibv_wc_status status);
/* What is posted and will never complete: its queue pair is gone. */
void xr_channel_drop_posted(struct xrdma_channel *ch);

/* ---- receiving: channel_recv.c ---- */

void xr_channel_received(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc);
/* Deliver what is complete, in order. */
void xr_channel_deliver(struct xrdma_channel *ch);
void xr_channel_deliver_reply(struct xrdma_channel *ch, struct xrdma_msg *m);
/* What arrived and was not delivered is forgotten: the peer sends it again. */
void xr_channel_forget_arrivals(struct xrdma_channel *ch);
/* The application gives back a message it holds or is being given. */
void xr_msg_release(struct xrdma_msg *m);

/* ---- fragments: large.c ---- */

void xr_large_begin(struct xrdma_channel *ch, struct xrdma_msg *m);
/* Try again those that had no memory. */
void xr_large_feed(struct xrdma_context *ctx);
void xr_move_start(struct xrdma_channel *ch, struct xrdma_msg *m);
bool xr_move_pump(struct xrdma_channel *ch);
void xr_move_ended(struct xrdma_channel *ch, struct xrdma_msg *m, uint32_t fragments, int status);
/* The channel is broken: one-sided operations wait. */
void xr_move_suspend(struct xrdma_channel *ch);
/* It is open again: with the keys of this epoch. */
void xr_move_restart(struct xrdma_channel *ch);

#endif
