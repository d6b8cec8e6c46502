/* SPDX-License-Identifier: BSD-2-Clause */
/* One round of progress of one context, whoever calls it. */
#include "verbs/drive_priv.h"

#include "base/be.h"
#include "base/ticks.h"
#include "verbs/capture.h"
#include "verbs/settings.h"

enum {
	SHM_RX_BUDGET = 64,
	UDP_RX_BUDGET = 256, /* between two ACKs, if as many wait */
	TX_BUDGET = 256,     /* frames for one destination in one round */
	SERVICE_BUDGET = 256,
	CLOCK_STRIDE = 32, /* empty rounds between two looks at the timers */
	HAND_OVER_ROUNDS = 4,
	FINISH_ROUNDS = 16,
	UDP_CREDIT = 4096,  /* rounds that the sockets are polled inline after traffic */
	POSTS_TO_POLL = 64, /* in a row: the last one polls too */
	POLLS_TO_TAKE = 64, /* polls after which the application is taken to run the engine */
	STICKY_MIN_NS = DRIVE_TICK_NS,
	STICKY_MAX_NS = 256 * DRIVE_TICK_NS,
	FORWARD_YES_NS = 1000 * DRIVE_TICK_NS,
	FORWARD_NO_NS = 100 * DRIVE_TICK_NS,
	TRUST_MIN = 16,
	TRUST_MAX = 1 << 24,
	RETURN_NS = 50000,
};

void urxe_drive_init(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	urxe_driver_init();
	list_init(&d->node);
	atomic_init(&d->mode, DRIVE_POLLED);
	d->alarm_ns = CLOCK_NEVER;
	d->sticky_ns = STICKY_MIN_NS;
	d->answers.min = TRUST_MIN;
	d->returns.min = TRUST_MIN;
	d->wait_spin_us = urxe_settings()->spin_us;
}

uint64_t urxe_drive_now(struct urxe_context *ctx)
{
	if (!ctx->drive.now_ns)
		ctx->drive.now_ns = ticks_now_ns();
	return ctx->drive.now_ns;
}

static bool is_served(const struct urxe_context *ctx)
{
	return atomic_load_explicit(&ctx->drive.mode, memory_order_relaxed) == DRIVE_SERVED;
}

static void set_mode(struct urxe_context *ctx, enum drive_mode mode)
{
	atomic_store_explicit(&ctx->drive.mode, mode, memory_order_relaxed);
}

/* ---- habits of the application ---- */

static bool trusted(const struct habit *h)
{
	return h->times >= h->min;
}

static void kept(struct habit *h, unsigned times)
{
	h->times += times;
	if (h->times / 4 >= h->min && h->min > TRUST_MIN) {
		h->min /= 2;
		h->times = h->min;
	}
}

static void broken(struct habit *h)
{
	h->times = 0;
	h->min *= h->min < TRUST_MAX ? 2 : 1;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void deliver(void *arg, const struct urxe_rx *rx)
{
	struct urxe_context *ctx = arg;

	if (__builtin_expect(ctx->pcap != NULL, false))
		urxe_capture_rx(ctx, rx);
	urxe_engine_rx(ctx->engine, urxe_drive_now(ctx), rx);
}

static bool has_owner(struct urxe_context *ctx, uint32_t qpn)
{
	uint32_t block = qpn / URXE_QPN_BLOCK;
	struct forward_entry *entry = &ctx->forward[block % FORWARD_CACHE];
	uint64_t now = urxe_drive_now(ctx);

	if (entry->block != block || now >= entry->valid_until_ns) {
		entry->block = block;
		entry->exists = urxe_shm_block_exists(ctx->shm, qpn);
		entry->valid_until_ns = now + (entry->exists ? FORWARD_YES_NS : FORWARD_NO_NS);
	}
	return entry->exists;
}

/*
 * Every process of the namespace shares the UDP port, and the kernel gives a packet to any of
 * them: one for a QP of somebody else is handed on, and never answered.
 */
static void deliver_udp(void *arg, const struct urxe_rx *rx)
{
	struct urxe_context *ctx = arg;
	struct urxe_shm_peer *peer;
	uint32_t dqpn;

	if (rx->len < BTH_LEN)
		return;
	dqpn = get_be24(rx->data + BTH_DQPN);
	if (urxe_engine_owns_qpn(ctx->engine, dqpn) || urxe_gid_is_multicast(&rx->path->dgid)) {
		deliver(arg, rx);
		return;
	}
	if (!has_owner(ctx, dqpn))
		return;
	peer = urxe_shm_peer(ctx->shm, dqpn);
	if (peer)
		urxe_shm_forward(peer, urxe_drive_now(ctx), rx);
}

static bool take_event(atomic_bool *event)
{
	return atomic_load_explicit(event, memory_order_relaxed) &&
	       atomic_exchange_explicit(event, false, memory_order_acquire);
}

/* A flood of events is served in portions: the descriptor is reported once, not until it is empty.
 */
static void service_shm(struct urxe_context *ctx)
{
	unsigned n = 0;

	while (n < SERVICE_BUDGET && urxe_shm_service(ctx->shm))
		n++;
	if (n == SERVICE_BUDGET)
		atomic_store_explicit(&ctx->drive.shm_event, true, memory_order_relaxed);
}

/* A system call a round is paid only while there is traffic on UDP. */
static unsigned receive_udp(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;
	unsigned n;

	if (take_event(&d->udp_event)) {
		d->udp_credit = UDP_CREDIT;
		urxe_udp_warm(ctx->udp);
	}
	if (!d->udp_credit)
		return 0;
	n = urxe_udp_poll(ctx->udp, deliver_udp, ctx, UDP_RX_BUDGET);
	if (n)
		d->udp_credit = UDP_CREDIT;
	else if (--d->udp_credit == 0)
		urxe_driver_watch_udp(ctx);
	return n;
}

/* ---- sending --------------------------------------------------------------------------------- */

struct pull_arg {
	struct urxe_context *ctx;
	struct urxe_txq *txq;
};

static bool pull(void *arg, struct urxe_frame *ret_frame)
{
	struct pull_arg *p = arg;

	if (!urxe_txq_pull(p->txq, urxe_drive_now(p->ctx), ret_frame))
		return false;
	urxe_capture_tx(p->ctx, ret_frame);
	return true;
}

/* Gives one frame, once. */
static bool pull_single(void *arg, struct urxe_frame *ret_frame)
{
	const struct urxe_frame **frame = arg;

	if (!*frame)
		return false;
	*ret_frame = **frame;
	*frame = NULL;
	return true;
}

/* Datagrams within the namespace: each goes where its QPN is. No room, no owner: it is lost. */
static unsigned send_ud_local(struct urxe_context *ctx)
{
	struct urxe_frame frame;
	unsigned n = 0;

	urxe_frame_init(&frame);
	while (n < TX_BUDGET && urxe_txq_pull(&ctx->ud_local_txq, urxe_drive_now(ctx), &frame)) {
		const struct urxe_frame *once = &frame;
		struct urxe_shm_peer *peer = NULL;

		urxe_capture_tx(ctx, &frame);
		if (urxe_engine_owns_qpn(ctx->engine, frame.dqpn) || has_owner(ctx, frame.dqpn))
			peer = urxe_shm_peer(ctx->shm, frame.dqpn);
		if (peer)
			urxe_shm_send(peer, urxe_drive_now(ctx), pull_single, &once, 1);
		n++;
	}
	return n;
}

static unsigned send_txq(struct urxe_context *ctx, struct urxe_txq *txq, bool more)
{
	struct pull_arg arg = {.ctx = ctx, .txq = txq};
	struct lane *lane;
	unsigned n;

	if (txq == &ctx->ud_local_txq)
		return send_ud_local(ctx);
	if (txq == &ctx->udp_txq) {
		/* Where there is more to pull than the budget allows, the next round goes on. */
		n = urxe_udp_send(ctx->udp, pull, &arg, TX_BUDGET, true);
		if (n < TX_BUDGET && !more)
			urxe_udp_send(ctx->udp, pull, &arg, 0, false);
		ctx->drive.udp_credit = UDP_CREDIT;
	} else {
		lane = txq->user;
		n = urxe_shm_send(lane->peer, urxe_drive_now(ctx), pull, &arg, TX_BUDGET);
	}
	ctx->drive.unfinished |= n == TX_BUDGET;
	return n;
}

/* With hold, acknowledgements wait for the next call; with more, so may what goes by UDP. */
static unsigned send_all(struct urxe_context *ctx, bool hold, bool more)
{
	struct urxe_txq *txq = urxe_engine_next_txq(ctx->engine, NULL);
	unsigned n = 0;

	urxe_engine_hold_acks(ctx->engine, hold);
	ctx->drive.unfinished = false;
	if (ctx->udp && urxe_udp_unsent(ctx->udp) && !list_linked(&ctx->udp_txq.active))
		n += send_txq(ctx, &ctx->udp_txq, more); /* what was kept before */
	while (txq && list_linked(&txq->active)) {
		struct urxe_txq *next = urxe_engine_next_txq(ctx->engine, txq);

		n += send_txq(ctx, txq, more); /* txq may leave the list */
		txq = next;
	}
	ctx->drive.held = hold && urxe_engine_next_txq(ctx->engine, NULL);
	ctx->drive.active |= n > 0;
	urxe_capture_flush(ctx); /* of what came in before, too */
	return n;
}

/* To one shared-memory peer; whatever waits for others goes on waiting. */
static void send_lane(struct urxe_context *ctx, struct urxe_txq *txq)
{
	urxe_engine_hold_acks(ctx->engine, false);
	ctx->drive.unfinished = false;
	if (list_linked(&txq->active))
		ctx->drive.active |= send_txq(ctx, txq, false) > 0;
	urxe_capture_flush(ctx);
}

void urxe_drive_send(struct urxe_context *ctx)
{
	send_all(ctx, false, false);
}

/* The application polls: for how long has it left lying what it posted last? */
static void note_return(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	if (!d->posted_ns)
		return;
	if (urxe_drive_now(ctx) - d->posted_ns < RETURN_NS)
		kept(&d->returns, d->posts);
	else if (urxe_udp_unsent(ctx->udp))
		broken(&d->returns);
	d->posted_ns = 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool timers_due(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	if (!d->now_ns && ++d->empty_rounds < CLOCK_STRIDE)
		return false;
	d->empty_rounds = 0;
	return urxe_drive_now(ctx) >= urxe_engine_deadline(ctx->engine);
}

/*
 * Over UDP an acknowledgement that waits for the application's answer saves a system call on both
 * sides: the two go as one batch. Only where answers used to follow at once: an application that
 * goes away instead lets the peer wait until the driver thread finds out.
 */
static bool may_hold(const struct urxe_context *ctx)
{
	const struct drive *d = &ctx->drive;

	return !d->held && trusted(&d->answers) && !is_served(ctx);
}

static bool progress(struct urxe_context *ctx, bool polled, bool more)
{
	struct drive *d = &ctx->drive;
	bool due, busy;

	if (!ctx->shm)
		return false; /* no QP yet */
	due = timers_due(ctx);
	if (due && ctx->udp) { /* the answer may have come: look before giving up on it */
		d->udp_credit += !d->udp_credit;
		urxe_udp_warm(ctx->udp);
	}
	if (take_event(&d->shm_event))
		service_shm(ctx);
	busy = receive_udp(ctx) > 0;
	d->heard = busy && polled;
	busy |= urxe_shm_poll(ctx->shm, deliver, ctx, SHM_RX_BUDGET) > 0;
	d->active |= busy;
	if (due)
		urxe_engine_advance(ctx->engine, d->now_ns);
	busy |= due;
	busy |= send_all(ctx, d->heard && may_hold(ctx), more) > 0;
	urxe_events_collect(ctx); /* also without a frame: a pull may find that a request fails */
	return busy;
}

/* The application polls and goes on polling: leave the engine to it. */
static void take_back(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	d->served_polls = 0;
	if (urxe_drive_now(ctx) < d->sticky_until_ns)
		return;
	urxe_shm_disarm(ctx->shm);
	d->armed = false;
	d->left_served_ns = d->now_ns;
	set_mode(ctx, DRIVE_POLLED);
	urxe_driver_kick();
}

/* It has done what polls do, so many times. */
static void count_served(struct urxe_context *ctx, unsigned n)
{
	struct drive *d = &ctx->drive;

	if (!is_served(ctx))
		return;
	d->served_polls += n;
	if (d->served_polls >= POLLS_TO_TAKE)
		take_back(ctx);
	else
		urxe_drive_settle(ctx);
}

static void count_poll(struct drive *d)
{
	unsigned long polls = atomic_load_explicit(&d->polls, memory_order_relaxed);

	atomic_store_explicit(&d->polls, polls + 1, memory_order_relaxed);
}

/*
 * A system call for each small message would be most of its cost. What the application posts first
 * leaves at once; what it posts behind that, before it polls again, may wait for more and leaves at
 * the next poll that finds nothing, or when the batch is full. A long row of posts runs the engine
 * now and then: it is no sign of an application that never polls.
 */
void urxe_drive_posted(struct urxe_context *ctx, const struct urxe_qp *qp)
{
	struct drive *d = &ctx->drive;
	struct urxe_txq *txq = urxe_qp_txq(qp);
	bool more = d->posted_ns && trusted(&d->returns) && !is_served(ctx);

	if (d->heard)
		kept(&d->answers, 1);
	d->heard = false;
	if (list_linked(&ctx->udp_txq.active))
		d->posted_ns = urxe_drive_now(ctx);
	if (txq && txq != &ctx->udp_txq)
		send_lane(ctx, txq);
	else
		send_all(ctx, false, more);
	if (++d->posts % POSTS_TO_POLL == 0) {
		count_poll(d);
		progress(ctx, false, more);
		count_served(ctx, POSTS_TO_POLL);
	}
}

bool urxe_drive_progress(struct urxe_context *ctx)
{
	return progress(ctx, false, false);
}

void urxe_drive_finish(struct urxe_context *ctx)
{
	urxe_drive_begin(ctx);
	for (int i = 0; i < FINISH_ROUNDS && urxe_drive_progress(ctx); i++)
		;
}

void urxe_drive_poll(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	count_poll(d);
	urxe_drive_begin(ctx);
	note_return(ctx);
	d->posts = 0;
	progress(ctx, true, false);
	count_served(ctx, 1);
}

void urxe_drive_settle(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;
	uint64_t deadline;

	if (!is_served(ctx))
		return; /* the application's polls serve the timers, or a tick finds that none come
			 */
	deadline = urxe_engine_deadline(ctx->engine);
	if (deadline >= d->alarm_ns && !d->unfinished)
		return;
	d->alarm_ns = deadline < d->alarm_ns ? deadline : d->alarm_ns;
	d->unfinished = false;
	urxe_driver_kick();
}

void urxe_drive_hand_over(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	if (!ctx->shm)
		return;
	if (!is_served(ctx)) {
		d->alarm_ns = CLOCK_NEVER;
		set_mode(ctx, DRIVE_SERVED);
	}
	d->served_polls = 0;
	for (int i = 0; i < HAND_OVER_ROUNDS; i++) {
		urxe_drive_progress(ctx);
		d->armed = urxe_shm_arm(ctx->shm);
		if (d->armed)
			break;
	}
	if (ctx->udp)
		urxe_driver_watch_udp(ctx);
	urxe_events_collect(ctx);
	if (d->armed)
		urxe_drive_settle(ctx);
	else
		urxe_driver_kick(); /* packets keep coming: they are the thread's now */
}

/*
 * Nobody polled for a tick. If packets were lying there, the application is of the kind that looks
 * at memory instead: the more often it happens, the longer the driver thread stays in charge.
 */
void urxe_drive_take_over(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;
	uint64_t now = urxe_drive_now(ctx);

	if (is_served(ctx))
		return;
	if (d->held)
		broken(&d->answers);
	if (ctx->udp && urxe_udp_unsent(ctx->udp))
		broken(&d->returns);
	d->posted_ns = 0;
	if (urxe_shm_pending(ctx->shm) || (ctx->udp && urxe_udp_pending(ctx->udp))) {
		bool again = now - d->left_served_ns < 4 * d->sticky_ns;

		if (again && d->sticky_ns < STICKY_MAX_NS)
			d->sticky_ns *= 2;
		else if (!again)
			d->sticky_ns = STICKY_MIN_NS;
		d->sticky_until_ns = now + d->sticky_ns;
	}
	d->alarm_ns = CLOCK_NEVER;
	set_mode(ctx, DRIVE_SERVED);
}
