/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a broken channel becomes whole again. Only this pair of queue pairs is rebuilt, in this
 * order:
 *
 *	BREAKING	queue pair to ERROR; every completion is taken, errors too
 *	WAITING		messages that came and were not delivered are forgotten; what the
 *			peer does not consume waits; keys of regions are dead
 *	RESUME -> <-	over the TCP connection that is left, or one that the side which
 *			dialed at first dials again, after a back-off with jitter; windows
 *			are compared: what the peer has consumed is done, the rest queued
 *	HELLO...	as at first (channel_setup.c), epoch + 1: queue pair from RESET to
 *			RTS, its receives posted anew, the peer's probe READ and compared;
 *			KEYS: regions under new keys
 *	OPEN		what was queued is sent, one-sided operations start again
 *
 * An attempt that fails closes the TCP connection, so that nothing of it meets the next one. After
 * some that fail the queue pair is one over TCP (mock.c). Back to RDMA it is the same way, by a
 * break that is planned: nobody is told of it unless it fails. A set-up whose probe fails, or does
 * not come to that since a queue pair cannot be connected, is recovered too, if TCP may take over.
 *
 * A peer that has no such channel (it was restarted) refuses: the channel ends with -ECONNRESET, at
 * once, since what it held for us is gone. If nobody listens at the peer's address, likewise. At
 * the side that was dialed a channel whose peer's connection ended without a word waits only a
 * little for it to dial again, unless other channels of that peer come back, and not at all when
 * another context says HELLO from that address.
 */
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/log.h"
#include "xrdma/region.h"

#include <errno.h>
#include <string.h>

/* So many of the longest back-offs, but no less than this, a peer is given to dial again. */
enum { ORPHAN_WAITS = 3, ORPHAN_MIN_MS = 2000 };

/* What an attempt is given at least, however short the waits between two: TCP's first time-out. */
enum { ATTEMPT_MIN_MS = 1000 }; /* RFC 6298, 2.1 */

static uint64_t ms(uint32_t n)
{
	return n * NSEC_PER_MSEC;
}

/* ---- broken ---- */

/* A set-up is, if TCP may do what RDMA did not. */
static bool recoverable(const struct xrdma_channel *ch)
{
	return (xr_established(ch) || (ch->state == XR_CH_PROBING && xr_mock_possible(ch))) &&
	       ch->rec.resumable && ch->ctx->conf.recovery_ms && !ch->tcp_bye;
}

/* Of one that was never open, its set-up is what goes on. */
static uint64_t patience_ns(const struct xrdma_channel *ch)
{
	const struct xr_conf *conf = &ch->ctx->conf;

	return ms(ch->rec.open_epoch ? conf->recovery_ms : conf->connect_timeout_ms);
}

static void begin(struct xrdma_channel *ch, int status)
{
	uint64_t now = ch->ctx->now, patience = ms(ch->ctx->conf.backoff_max_ms);
	struct xr_recovery *rec = &ch->rec;

	rec->active = true;
	rec->told = rec->planned = false;
	rec->untold = rec->open_epoch != 0;
	rec->status = status;
	/* One that breaks again at once is the same trouble still. */
	if (now - rec->opened_at > patience || rec->since == 0) {
		rec->since = now;
		rec->attempts = 0;
	} else {
		rec->attempts++;
	}
	rec->give_up = rec->since + patience_ns(ch);
	ch->close_asked |= ch->state > XR_CH_OPEN;
	ch->bye_sent = ch->bye_ended = ch->bye_received = false;
}

/* Nothing flows from here on; go on when the queue pair has ended. */
static void interrupt(struct xrdma_channel *ch)
{
	if (ch->probe && ch->probe->wrs == 0) {
		xr_msg_put(ch->probe);
		ch->probe = NULL;
	}
	timer_off(&ch->ack_timer.timer);
	timer_off(&ch->alive_timer.timer);
	timer_off(&ch->rec.timer.timer);
	xr_mock_stop(ch);
	xr_channel_set_state(ch, XR_CH_BREAKING);
	xr_channel_stop(ch);
}

/* What was to happen unnoticed is trouble now. */
static void not_as_planned(struct xrdma_channel *ch, int status)
{
	if (!ch->rec.planned)
		return;
	ch->rec.planned = false;
	ch->rec.untold = true;
	ch->rec.status = status;
}

static void next_attempt(struct xrdma_channel *ch)
{
	xr_channel_boot_close(ch);
	ch->rec.sent = ch->rec.got = false;
	ch->rec.attempts++;
	xr_mock_not_back(ch);
}

void xr_channel_break(struct xrdma_channel *ch, int status, const char *why)
{
	if (ch->state >= XR_CH_BREAKING)
		return;
	if (!recoverable(ch)) {
		xr_channel_fail(ch, ch->tcp_bye && xr_channel_all_sent(ch) ? 0 : status, why);
		return;
	}
	xr_error(status, "channel broken: %s", why);
	log_info("channel %u %s: %s (%s)", ch->handle,
		 xr_recovering(ch) ? "is not recovered yet" : "breaks", why, strerror(-status));
	if (xr_recovering(ch)) {
		not_as_planned(ch, status);
		next_attempt(ch);
	} else {
		begin(ch, status);
		ch->ctx->stats.breaks += ch->rec.open_epoch != 0;
	}
	interrupt(ch);
}

void xr_recover_move(struct xrdma_channel *ch, const char *why)
{
	if (!recoverable(ch))
		return;
	log_info("channel %u is to move: %s", ch->handle, why);
	begin(ch, -ECONNRESET);
	ch->rec.planned = true;
	ch->rec.untold = false;
	ch->rec.attempts = 0; /* no trouble, so no wait */
	interrupt(ch);
}

/* When to look again: the next step is due, or it is time to give up. */
static void schedule(struct xrdma_channel *ch, uint64_t due)
{
	ch->rec.due = due;
	xr_timer_set(ch->ctx, &ch->rec.timer, due < ch->rec.give_up ? due : ch->rec.give_up);
}

static void schedule_attempt(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	struct xr_recovery *rec = &ch->rec;
	uint64_t wait = 0;

	if (rec->attempts || (ch->dialed && !ch->boot))
		wait = xr_backoff_ns(rec->attempts, ms(ctx->conf.backoff_min_ms),
				     ms(ctx->conf.backoff_max_ms), rng_next(&ctx->rng));
	schedule(ch, ctx->now + wait);
}

/* The connection is gone, and maybe the peer: wait for it to dial, or dial. */
void xr_recover_boot_lost(struct xrdma_channel *ch, int status, const char *why)
{
	struct xr_recovery *rec = &ch->rec;
	bool was_open = !xr_recovering(ch);

	if (status == -ECONNREFUSED) {
		xr_channel_fail(ch, -ECONNRESET,
				"nobody listens where the peer was: its process has ended");
		return;
	}
	xr_channel_boot_close(ch);
	rec->sent = rec->got = false;
	xr_mock_not_back(ch);
	not_as_planned(ch, status);
	if (ch->state != XR_CH_BREAKING && ch->state != XR_CH_WAITING)
		xr_channel_break(ch, status, why);
	else if (!was_open)
		rec->attempts++;
	if (ch->state == XR_CH_DRAINING)
		return;
	if (!ch->dialed && status == -ECONNRESET && was_open) {
		uint64_t wait = ORPHAN_WAITS * ms(ch->ctx->conf.backoff_max_ms), end;

		end = ch->ctx->now + (wait > ms(ORPHAN_MIN_MS) ? wait : ms(ORPHAN_MIN_MS));
		rec->orphan = true;
		if (end < rec->give_up)
			rec->give_up = end;
	}
	if (ch->state == XR_CH_WAITING)
		schedule_attempt(ch);
}

static void tell_broken(struct xrdma_channel *ch)
{
	if (!ch->rec.untold)
		return;
	ch->rec.untold = false;
	ch->rec.told = true;
	if (ch->handlers.on_event)
		ch->handlers.on_event(ch, XRDMA_BROKEN, ch->rec.status, ch->arg);
}

void xr_recover_drained(struct xrdma_channel *ch)
{
	timer_off(&ch->drain_timer.timer);
	xr_rq_flush(ch->ctx);
	xr_faults_forget(ch);
	xr_exports_revoke(ch);
	xr_qp_reset(ch); /* before what it still reads into is given back */
	xr_channel_forget_arrivals(ch);
	xr_move_suspend(ch);
	xr_window_interrupt(&ch->win);
	ch->drained = ch->last_wqe = false;
	xr_channel_set_state(ch, XR_CH_WAITING);
	schedule_attempt(ch);
	tell_broken(ch);
}

/* ---- waiting ---- */

static void attempt_failed(struct xrdma_channel *ch, const char *why)
{
	log_info("channel %u is not recovered yet: %s", ch->handle, why);
	next_attempt(ch);
	schedule_attempt(ch);
}

/* How long the peer is given to answer, where trying again may help. */
static uint64_t attempt_ns(const struct xrdma_channel *ch)
{
	uint32_t longest = ch->ctx->conf.backoff_max_ms;

	return ms(longest > ATTEMPT_MIN_MS ? longest : ATTEMPT_MIN_MS);
}

static void dial(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	int ret = xr_boot_redial(&ctx->boot, ch->rec.target, attempt_ns(ch), ctx->now, &ch->boot);

	ctx->stats.redials++;
	if (!ret)
		ret = xr_dial(ch);
	if (ret == -ECONNREFUSED)
		xr_recover_boot_lost(ch, ret, "");
	else if (ret)
		attempt_failed(ch, xrdma_last_error());
	else
		schedule(ch, CLOCK_NEVER); /* the connection has deadlines of its own */
}

static int say_resume(struct xrdma_channel *ch)
{
	const struct xr_resume r = {
		.incarnation = ch->theirs.incarnation,
		.token = ch->rec.their_token,
		.epoch = ch->epoch,
		.window = xr_window_export(&ch->win),
		.status = xr_mock_status(ch),
		.flags = ch->rec.planned ? XR_RESUME_PLANNED : 0,
	};
	uint8_t block[XR_RESUME_BYTES];
	int ret = xr_channel_boot_send(ch, XR_BLOCK_RESUME, block, xr_resume_encode(&r, block));

	if (ret)
		return ret;
	ch->rec.sent = true;
	/* A connection from before may be dead and not know: who can dial another tries soon. */
	schedule(ch, ch->ctx->now + (ch->dialed && !xr_boot_is_pending(ch->boot)
					     ? attempt_ns(ch)
					     : ms(ch->ctx->conf.connect_timeout_ms)));
	return 0;
}

static void rebuild(struct xrdma_channel *ch)
{
	uint16_t end = ch->win.next;
	int ret = xr_window_resume(&ch->win, &ch->rec.peer.window);

	if (ret) {
		ch->ctx->stats.protocol_errors++;
		xr_channel_fail(ch, ret, "the peer's window and ours do not belong together");
		return;
	}
	xr_channel_let_go(ch);
	xr_channel_requeue(ch, end);
	ch->peer_open = false;
	ch->rec.keys_due = true;
	if (xr_channel_say_hello(ch))
		attempt_failed(ch, xrdma_last_error());
}

void xr_recover_step(struct xrdma_channel *ch)
{
	struct xr_recovery *rec = &ch->rec;

	if (ch->state != XR_CH_WAITING)
		return;
	if (!ch->boot) {
		if (ch->dialed && ch->ctx->now >= rec->due)
			dial(ch);
		return;
	}
	if (!xr_boot_is_open(ch->boot))
		return;
	if (!rec->sent) {
		/* Who dials has waited already; over what was left, each waits by itself. */
		if (!xr_boot_is_pending(ch->boot) && ch->ctx->now < rec->due)
			return;
		if (say_resume(ch)) {
			attempt_failed(ch, xrdma_last_error());
			return;
		}
	}
	if (rec->got)
		rebuild(ch);
}

void xr_recover_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, rec.timer);
	struct xr_recovery *rec = &ch->rec;

	if (!xr_recovering(ch) || ch->state >= XR_CH_DRAINING)
		return;
	if (ch->ctx->now >= rec->give_up) {
		xr_channel_fail(ch, rec->orphan ? -ECONNRESET : rec->status,
				"it was not recovered in time");
	} else if (!rec->sent) {
		xr_timer_set(ch->ctx, t, rec->give_up); /* unless the step knows better */
		xr_recover_step(ch);
		xr_channel_touch(ch);
	} else if (ch->state == XR_CH_WAITING) {
		attempt_failed(ch, "the peer does not answer");
	} else {
		xr_channel_break(ch, -ETIMEDOUT, "the peer does not go on");
	}
}

/* ---- the peer ---- */

static int refuse(void)
{
	return xr_error(-ECONNRESET,
			"there is no such channel here: this process was restarted, or "
			"has given it up");
}

static struct xrdma_channel *find(struct xrdma_context *ctx, const struct xr_resume *r)
{
	if (r->incarnation != ctx->incarnation)
		return NULL;
	list_for_each (pos, &ctx->channels) {
		struct xrdma_channel *ch = container_of(pos, struct xrdma_channel, link);

		if (ch->rec.resumable && ch->rec.our_token == r->token && !ch->dialed &&
		    xr_established(ch) && ch->state < XR_CH_DRAINING)
			return ch;
	}
	return NULL;
}

static void take(struct xrdma_channel *ch, const struct xr_resume *r)
{
	if (!xr_recovering(ch) && ch->mock.mocked && (r->flags & XR_RESUME_PLANNED)) {
		ch->mock.back = true;
		xr_recover_move(ch, "so the peer says");
	} else if (!xr_recovering(ch)) {
		xr_channel_break(ch, r->status, "the peer's side is broken");
	}
	ch->rec.peer = *r;
	ch->rec.got = true;
	xr_channel_touch(ch);
}

/* The peer's process is alive: its other channels will be dialed, too, when it is their turn. */
static void not_orphans(const struct xrdma_channel *like)
{
	list_for_each (pos, &like->ctx->channels) {
		struct xrdma_channel *ch = container_of(pos, struct xrdma_channel, link);

		if (!ch->rec.orphan || ch->theirs.incarnation != like->theirs.incarnation)
			continue;
		ch->rec.orphan = false;
		ch->rec.give_up = ch->rec.since + patience_ns(ch);
	}
}

/* A connection that was just accepted is for a channel that we have. */
static int hand_over(struct xrdma_channel *from, const struct xr_resume *r)
{
	struct xrdma_context *ctx = from->ctx;
	struct xrdma_channel *ch = find(ctx, r);
	int ret;

	if (!ch)
		return refuse();
	if (xr_epoch_before(r->epoch, ch->rec.open_epoch)) {
		ctx->stats.stale_epochs++;
		return xr_error(-ESTALE,
				"a resumption from epoch %u; the channel was open in %u since",
				r->epoch, ch->rec.open_epoch);
	}
	if (xr_recovering(ch) && ch->state < XR_CH_OPEN)
		xr_channel_break(ch, -ECONNRESET, "the peer tries again");
	xr_channel_boot_close(ch);
	xr_watch_remove(ctx, &from->boot_watch);
	ch->boot = from->boot;
	from->boot = NULL;
	xr_channel_discard(from);
	ch->rec.sent = ch->rec.orphan = false;
	not_orphans(ch);
	ret = xr_channel_boot_watch(ch);
	if (ret) {
		xr_recover_boot_lost(ch, ret, xrdma_last_error());
		return 1;
	}
	take(ch, r);
	ch->rec.give_up = ch->rec.since + patience_ns(ch);
	ch->rec.due = ctx->now;
	/* What else came with it is in a buffer already. */
	xr_timer_set(ctx, &ch->boot_timer, ctx->now);
	return 1;
}

int xr_recover_got_resume(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	struct xr_resume r;

	if (xr_resume_decode(data, len, &r))
		return xr_error(-EPROTO, "the peer sent a RESUME that is none");
	if (ch->state == XR_CH_DIALING && !ch->dialed)
		return hand_over(ch, &r);
	if (!xr_established(ch) && !recoverable(ch))
		return xr_error(-ECONNRESET, "the peer's side broke before this one was open");
	if ((ch->state < XR_CH_OPENING && xr_recovering(ch)) || ch->rec.got || !recoverable(ch))
		return xr_error(-EPROTO, "the peer says RESUME at the wrong time");
	if (r.incarnation != ch->ctx->incarnation || r.token != ch->rec.our_token)
		return xr_error(-EPROTO, "the peer resumes another channel");
	if (xr_epoch_before(r.epoch, ch->rec.open_epoch)) {
		ch->ctx->stats.stale_epochs++;
		return xr_error(-ESTALE, "the peer resumes from an earlier epoch");
	}
	take(ch, &r);
	xr_recover_step(ch); /* the peer's HELLO may lie behind it */
	if (!ch->boot || xr_boot_is_open(ch->boot))
		return 0;
	/* Who comes late finds it, and that the peer has given this attempt up. */
	return xr_error(-ECONNRESET, "the peer closed the connection");
}

int xr_recover_enable(struct xrdma_channel *ch)
{
	ch->rec.from = xr_boot_peer(ch->boot);
	return ch->dialed ? xr_boot_target_new(ch->boot, &ch->rec.target) : 0;
}

bool xr_recover_opened(struct xrdma_channel *ch)
{
	struct xr_recovery *rec = &ch->rec;
	bool recovered = rec->active, before = rec->open_epoch != 0;

	rec->active = rec->sent = rec->got = rec->orphan = false;
	rec->open_epoch = ch->epoch;
	rec->opened_at = ch->ctx->now;
	timer_off(&rec->timer.timer);
	ch->ctx->stats.recoveries += recovered && before && !rec->planned;
	if (recovered && !rec->keys_due)
		xr_move_restart(ch);
	return before;
}

void xr_recover_retire(const struct xrdma_channel *newcomer)
{
	const struct in6_addr from = xr_boot_peer(newcomer->boot);

	list_for_each (pos, &newcomer->ctx->channels) {
		struct xrdma_channel *ch = container_of(pos, struct xrdma_channel, link);

		if (ch->rec.orphan && xr_recovering(ch) &&
		    memcmp(&ch->rec.from, &from, sizeof(from)) == 0 &&
		    ch->theirs.incarnation != newcomer->theirs.incarnation)
			xr_channel_fail(ch, -ECONNRESET, "the peer was restarted");
	}
}

uint32_t xrdma_channel_epoch(const struct xrdma_channel *ch)
{
	return ch->rec.open_epoch;
}
