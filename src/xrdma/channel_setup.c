/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a TCP connection to a channel that is open, for both sides alike, but that who was dialed
 * lets the other speak first:
 *
 *	HELLO ->  <- HELLO	queue pairs exist, limits are agreed; both connect theirs
 *	READY ->  <- READY	both can receive
 *	          READ of the other's probe: the path works, and leads to who said HELLO
 *	OPEN  ->  <- OPEN	data may flow
 *
 * READY carries a token, by which a broken channel can be resumed (recover.c); the same exchange
 * then follows RESUME. The connection stays, to notice the death of the peer's process.
 */
#include "base/be.h"
#include "base/rng.h"
#include "xrdma/address.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/keys.h"
#include "xrdma/log.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

enum { LAST_WORDS_NS = 1000000000 };

struct xrdma_listener {
	struct xrdma_context *ctx;
	struct list link;
	struct xr_watch watch;
	struct xr_boot_listener *boot;
	struct xrdma_handlers handlers;
	void *arg;
};

/* ---- the probe: bytes that only who has the HELLO's owner's memory can read ---- */

static void probe_pattern(uint64_t incarnation, uint32_t epoch, uint32_t qpn,
			  uint8_t out[XR_PROBE_BYTES])
{
	struct rng rng = {incarnation ^ (uint64_t)epoch << 32 ^ qpn};

	for (unsigned i = 0; i < XR_PROBE_BYTES; i += 8) {
		uint64_t v = htobe64(rng_next(&rng));

		memcpy(out + i, &v, sizeof(v));
	}
}

static uint8_t *our_probe(const struct xrdma_channel *ch)
{
	return (uint8_t *)ch->heads.addr + (size_t)(ch->wqe_mask + 1) * XR_HEAD_STRIDE;
}

/* ---- our HELLO ---- */

static uint8_t min_u8(uint32_t a, int b)
{
	uint32_t m = a < (uint32_t)b ? a : (uint32_t)b;

	return (uint8_t)(m < 255 ? m : 255);
}

/*
 * What never fits must not be announced: it would wait for ever, and others behind it. An eighth of
 * the budget is for the receives themselves.
 */
static uint32_t largest_message(const struct xr_conf *conf)
{
	uint64_t fits = conf->rx_budget_bytes - conf->rx_budget_bytes / 8;

	return fits < conf->max_msg ? (uint32_t)fits : conf->max_msg;
}

/* After a break only what belongs to the queue pair changes: limits stand. */
static int fill_hello(struct xrdma_channel *ch, const struct xr_gid *gid)
{
	struct xrdma_context *ctx = ch->ctx;
	struct xr_hello *h = &ch->ours;
	struct xr_key probe = {.addr = (uintptr_t)our_probe(ch), .rkey = ch->heads.rkey};

	if (getrandom(&ch->psn, sizeof(ch->psn), 0) != sizeof(ch->psn))
		return xr_error(-EIO, "no random numbers");
	ch->psn &= 0xffffff;
	h->version_min = XR_VERSION_MIN;
	h->version_max = XR_VERSION_MAX;
	if (!xr_recovering(ch))
		h->flags = ctx->conf.trace ? XR_HELLO_TRACE : 0;
	h->incarnation = ctx->incarnation;
	h->epoch = ch->epoch = xr_epoch_next(ch->epoch);
	h->qpn = ch->qp->qp_num;
	h->psn = ch->psn;
	h->gid_type = (uint8_t)gid->type;
	h->gid = gid->addr;
	h->mtu = 128U << ctx->active_mtu;
	if (h->mtu > ctx->conf.mtu)
		h->mtu = ctx->conf.mtu;
	h->max_rd_atomic = min_u8(ctx->conf.max_rd_atomic, ctx->attr.max_qp_init_rd_atom);
	h->max_dest_rd = min_u8(ctx->conf.max_rd_atomic, ctx->attr.max_qp_rd_atom);
	h->small_bytes = ctx->conf.small_bytes;
	h->frag_bytes = ctx->conf.frag_bytes;
	h->max_msg = largest_message(&ctx->conf);
	h->max_calls = ctx->conf.max_calls;
	h->probe_bytes = XR_PROBE_BYTES;
	probe.epoch = h->epoch;
	xr_key_encode(&probe, h->probe_block);
	probe_pattern(h->incarnation, h->epoch, h->qpn, our_probe(ch));
	return 0;
}

static int choose_gid(struct xrdma_channel *ch, const struct xr_gid **ret_gid)
{
	const struct xrdma_context *ctx = ch->ctx;
	const struct xr_gid_want want = {
		.device = ctx->device,
		.port = ctx->port,
		.gid = ctx->conf.gid,
		.local = xr_boot_local(ch->boot),
		.peer = xr_boot_peer(ch->boot),
	};

	return xr_gid_choose(&ctx->gids, &want, ret_gid);
}

int xr_channel_boot_send(struct xrdma_channel *ch, enum xr_block_type type, const void *data,
			 size_t len)
{
	return xr_boot_send(ch->boot, (uint8_t)type, data, len, ch->ctx->now);
}

int xr_channel_say_hello(struct xrdma_channel *ch)
{
	uint8_t block[XR_HELLO_BYTES];
	const struct xr_gid *gid;
	int ret = choose_gid(ch, &gid);

	if (ret)
		return ret;
	ch->gid_index = gid->index;
	ret = xr_recovering(ch) ? xr_qp_rebuild(ch) : xr_qp_new(ch);
	if (!ret)
		ret = fill_hello(ch, gid);
	if (ret)
		return ret;
	xr_channel_set_state(ch, XR_CH_HELLO);
	return xr_channel_boot_send(ch, XR_BLOCK_HELLO, block, xr_hello_encode(&ch->ours, block));
}

/* ---- the peer's blocks ---- */

/* What was agreed at first stands. */
static int check_same(const struct xr_agreed *a, const struct xr_agreed *b)
{
	if (a->window == b->window && a->control == b->control &&
	    a->small_bytes == b->small_bytes && a->max_msg == b->max_msg &&
	    a->frag_bytes == b->frag_bytes)
		return 0;
	return xr_error(-EPROTO, "the peer resumes the channel with other limits");
}

static int begin_window(struct xrdma_channel *ch)
{
	xr_window_init(&ch->win, ch->agreed.window, ch->agreed.control, ch->done_bits);
	/* What was accepted before the limits were known. */
	list_for_each (pos, &ch->queue) {
		const struct xrdma_msg *m = container_of(pos, struct xrdma_msg, link);

		if (m->len > ch->bounds.max_bytes)
			return xr_error(-EMSGSIZE, "a message of %u bytes waits; the peer takes %u",
					m->len, ch->bounds.max_bytes);
	}
	return 0;
}

static int agree(struct xrdma_channel *ch)
{
	const struct xr_hello *peer = &ch->theirs;
	struct xr_agreed agreed;
	int ret = xr_negotiate(&ch->ours, peer, &agreed);

	if (!ret && xr_recovering(ch))
		ret = check_same(&agreed, &ch->agreed);
	if (!ret)
		ret = xr_gid_reachable((enum xr_gid_type)ch->ours.gid_type, &ch->ours.gid,
				       (enum xr_gid_type)peer->gid_type, &peer->gid);
	if (!ret && peer->probe_bytes < XR_PROBE_BYTES)
		ret = xr_error(-EPROTO, "the peer's probe has %u bytes; %d are needed",
			       peer->probe_bytes, XR_PROBE_BYTES);
	if (ret)
		return ret;
	ch->agreed = agreed;
	ch->epoch = agreed.epoch;
	ch->bounds = (struct xr_bounds){
		.small_bytes = ch->agreed.small_bytes,
		.max_bytes = ch->agreed.max_msg,
		.epoch = ch->agreed.epoch,
		.trace = ch->ours.flags & peer->flags & XR_HELLO_TRACE,
	};
	ch->max_fragments = ch->agreed.reads_out;
	return xr_recovering(ch) ? 0 : begin_window(ch);
}

/* Who resumes is who was there before. */
static int read_hello(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	struct xr_hello theirs;
	int ret = xr_hello_decode(data, len, &theirs);

	if (ret)
		return xr_error(ret, "the peer sent a HELLO that is none");
	if (xr_recovering(ch) && theirs.incarnation != ch->theirs.incarnation)
		return xr_error(-EPROTO, "another than the peer resumes the channel");
	ch->theirs = theirs;
	return 0;
}

static int say_ready(struct xrdma_channel *ch)
{
	uint8_t token[XR_TOKEN_BYTES];

	if (!xr_recovering(ch) && getrandom(&ch->rec.our_token, sizeof(ch->rec.our_token), 0) !=
					  sizeof(ch->rec.our_token))
		return xr_error(-EIO, "no random numbers");
	put_be64(token, ch->rec.our_token);
	return xr_channel_boot_send(ch, XR_BLOCK_READY, token, sizeof(token));
}

static int got_hello(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	int ret;

	if (ch->state != XR_CH_HELLO && (ch->state != XR_CH_DIALING || ch->dialed))
		return xr_error(-EPROTO, "the peer says HELLO at the wrong time");
	ret = read_hello(ch, data, len);
	if (ret)
		return ret;
	if (ch->state == XR_CH_DIALING) {
		xr_recover_retire(ch);
		ret = xr_channel_say_hello(ch);
	}
	if (!ret)
		ret = agree(ch);
	if (!ret)
		ret = xr_qp_connect(ch, ch->gid_index);
	if (ret)
		return ret;
	xr_channel_set_state(ch, XR_CH_READY);
	return say_ready(ch);
}

static int got_ready(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	struct xrdma_msg *m;
	int ret;

	if (ch->state != XR_CH_READY)
		return xr_error(-EPROTO, "the peer says READY at the wrong time");
	if (len >= XR_TOKEN_BYTES && !xr_recovering(ch)) {
		ch->rec.their_token = get_be64(data);
		ch->rec.resumable = true;
	}
	m = xr_msg_rx_new(ch->ctx);
	if (!m)
		return -ENOBUFS;
	m->ch = ch;
	xr_key_decode(ch->theirs.probe_block, &m->key);
	ch->probe = m;
	ret = xr_key_check(&m->key, ch->theirs.epoch, XR_PROBE_BYTES);
	if (!ret)
		ret = xr_channel_post_probe(ch);
	if (ret)
		return ret;
	xr_channel_set_state(ch, XR_CH_PROBING);
	return 0;
}

/* Whoever knows the channel from before learns the new keys of what it knows. */
static int say_keys(struct xrdma_channel *ch)
{
	uint8_t keys[XR_REGIONS_MAX * XR_KEYS_ENTRY_BYTES];
	int ret;

	if (!xr_recovering(ch))
		return 0;
	ret = xr_exports_renew(ch);
	return ret ? ret
		   : xr_channel_boot_send(ch, XR_BLOCK_KEYS, keys, xr_exports_encode(ch, keys));
}

void xr_channel_probe_ended(struct xrdma_channel *ch)
{
	uint8_t pattern[XR_PROBE_BYTES];
	bool same;

	if (ch->state != XR_CH_PROBING)
		return;
	probe_pattern(ch->theirs.incarnation, ch->theirs.epoch, ch->theirs.qpn, pattern);
	same = memcmp(ch->probe->data, pattern, sizeof(pattern)) == 0;
	xr_msg_put(ch->probe);
	ch->probe = NULL;
	if (!same) {
		xr_channel_fail(ch, -EREMCHG, "the path leads to memory that is not the peer's");
		return;
	}
	xr_channel_set_state(ch, XR_CH_OPENING);
	if (say_keys(ch) || xr_channel_boot_send(ch, XR_BLOCK_OPEN, NULL, 0))
		xr_channel_break(ch, -ECONNRESET, xrdma_last_error());
	else if (ch->peer_open)
		xr_channel_opened(ch);
}

void xr_channel_opened(struct xrdma_channel *ch)
{
	bool recovered = xr_recovering(ch);

	xr_boot_established(ch->boot);
	xr_channel_set_state(ch, XR_CH_OPEN);
	xr_recover_opened(ch);
	xr_keepalive_start(ch);
	ch->ctx->stats.channels_opened += !recovered;
	ch->announced = true;
	if (ch->handlers.on_event)
		ch->handlers.on_event(ch, recovered ? XRDMA_RECOVERED : XRDMA_CONNECTED, 0,
				      ch->arg);
}

static int got_keys(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	int ret;

	if (!ch->rec.keys_due || ch->state < XR_CH_READY)
		return xr_error(-EPROTO, "the peer says KEYS at the wrong time");
	ret = xr_remotes_renew(ch, data, len);
	ch->rec.keys_due = false;
	if (!ret && xr_channel_flows(ch))
		xr_move_restart(ch);
	return ret;
}

static int got_open(struct xrdma_channel *ch)
{
	if (ch->peer_open || ch->state < XR_CH_PROBING)
		return xr_error(-EPROTO, "the peer says OPEN at the wrong time");
	ch->peer_open = true;
	if (ch->state == XR_CH_OPENING)
		xr_channel_opened(ch);
	return 0;
}

static int got_reject(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	char why[XR_REJECT_TEXT + 1];
	int status;

	ch->rec.refused = true;
	if (xr_reject_decode(data, len, &status, why))
		return xr_error(-EPROTO, "the peer sent a REJECT that is none");
	return xr_error(status, "the peer refuses: %s", why);
}

static int got_block(struct xrdma_channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	switch (type) {
	case XR_BLOCK_HELLO:
		return got_hello(ch, data, len);
	case XR_BLOCK_READY:
		return got_ready(ch, data, len);
	case XR_BLOCK_OPEN:
		return got_open(ch);
	case XR_BLOCK_REJECT:
		return got_reject(ch, data, len);
	case XR_BLOCK_RESUME:
		return xr_recover_got_resume(ch, data, len);
	case XR_BLOCK_KEYS:
		return got_keys(ch, data, len);
	case XR_BLOCK_BYE:
		if (ch->state < XR_CH_OPEN && !xr_recovering(ch))
			return xr_error(-EPROTO, "the peer says BYE at the wrong time");
		ch->tcp_bye = true;
		return 0;
	default:
		return xr_error(-EPROTO, "the peer sent a block of unknown type %u", type);
	}
}

/* ---- the connection ---- */

static void watch_boot(struct xrdma_channel *ch)
{
	xr_watch_change(ch->ctx, &ch->boot_watch, xr_boot_fd(ch->boot), xr_boot_events(ch->boot));
	xr_timer_set(ch->ctx, &ch->boot_timer, xr_boot_deadline(ch->boot));
}

/* Errors that no further attempt can mend. */
static bool hopeless(const struct xrdma_channel *ch, int status)
{
	return ch->rec.refused || status == -EPROTO || status == -EPROTONOSUPPORT ||
	       status == -ESTALE || status == -EREMCHG;
}

/* A block was refused by us, or refuses us. Say why, if the peer is still there to hear it. */
static void block_failed(struct xrdma_channel *ch, int status)
{
	char why[XR_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", xrdma_last_error());
	if (xr_recovering(ch) && !hopeless(ch, status)) {
		xr_channel_break(ch, status, why);
		return;
	}
	if (ch->state < XR_CH_OPEN && !xr_recovering(ch) && *xr_boot_why(ch->boot) == '\0') {
		uint8_t block[XR_REJECT_BYTES];

		(void)xr_channel_boot_send(ch, XR_BLOCK_REJECT, block,
					   xr_reject_encode(status, why, block));
	}
	xr_channel_fail(ch, status, why);
}

static void connection_ended(struct xrdma_channel *ch, int status)
{
	char why[XR_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", xr_boot_why(ch->boot));
	if (ch->tcp_bye || ch->state >= XR_CH_DRAINING) {
		xr_channel_boot_close(ch);
		/* Who said BYE here has said it there before: it lies in the completion queue. */
		xr_timer_set(ch->ctx, &ch->boot_timer, ch->ctx->now + LAST_WORDS_NS);
	} else if (ch->rec.resumable && (xr_recovering(ch) || ch->state >= XR_CH_OPEN) &&
		   !hopeless(ch, status) && status != -EACCES /* of TLS: not the peer */) {
		xr_recover_boot_lost(ch, status, why);
	} else {
		xr_channel_boot_close(ch);
		xr_channel_fail(ch, status, why);
	}
}

/* 1: ch is no more, its connection another channel's. */
static int take_blocks(struct xrdma_channel *ch)
{
	const uint8_t *data;
	int ret = 0;
	uint8_t type;
	size_t len;

	if (ch->dialed && ch->state == XR_CH_DIALING && xr_boot_is_open(ch->boot))
		ret = xr_channel_say_hello(ch);
	while (!ret && ch->boot && ch->state < XR_CH_DRAINING &&
	       xr_boot_next(ch->boot, &type, &data, &len))
		ret = got_block(ch, type, data, len);
	return ret;
}

static void boot_step(struct xrdma_channel *ch)
{
	int lost = xr_boot_io(ch->boot, ch->ctx->now);
	int ret = take_blocks(ch);

	if (ret > 0)
		return;
	if (ret)
		block_failed(ch, ret);
	if (!lost && ch->boot && *xr_boot_why(ch->boot) != '\0') /* of what we sent or looked for */
		lost = xr_boot_io(ch->boot, ch->ctx->now);
	/* Whatever the queue pair was doing: the peer had nothing more to come. */
	if (ch->tcp_bye && xr_recovering(ch))
		xr_channel_fail(ch, ch->close_asked && xr_channel_all_sent(ch) ? 0 : -ECONNRESET,
				"the peer has closed it");
	if (ch->boot && lost)
		connection_ended(ch, lost);
	else if (ch->boot)
		watch_boot(ch);
	xr_recover_step(ch);
	xr_channel_touch(ch);
}

static void boot_ready(struct xr_watch *w, uint32_t events)
{
	boot_step(container_of(w, struct xrdma_channel, boot_watch));
}

void xr_channel_boot_due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, boot_timer);

	if (ch->boot)
		boot_step(ch);
	else
		xr_channel_fail(ch, -ECONNRESET,
				"the peer said BYE and went without its last message");
}

void xr_channel_boot_bye(struct xrdma_channel *ch)
{
	if (ch->boot)
		(void)xr_channel_boot_send(ch, XR_BLOCK_BYE, NULL, 0);
}

void xr_channel_boot_close(struct xrdma_channel *ch)
{
	if (!ch->boot)
		return;
	xr_watch_remove(ch->ctx, &ch->boot_watch);
	timer_off(&ch->boot_timer.timer);
	xr_boot_close(ch->boot);
	ch->boot = NULL;
}

int xr_channel_boot_watch(struct xrdma_channel *ch)
{
	int ret = xr_watch_add(ch->ctx, &ch->boot_watch, xr_boot_fd(ch->boot),
			       xr_boot_events(ch->boot), boot_ready);

	if (!ret)
		xr_timer_set(ch->ctx, &ch->boot_timer, xr_boot_deadline(ch->boot));
	return ret;
}

/* ---- public ---- */

static int check_handlers(const struct xrdma_handlers *handlers)
{
	return handlers ? 0 : xr_error(-EINVAL, "no handlers: give an empty struct at least");
}

int xrdma_connect(struct xrdma_context *ctx, const char *address,
		  const struct xrdma_handlers *handlers, void *arg, struct xrdma_channel **ret_ch)
{
	struct xrdma_channel *ch;
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = check_handlers(handlers);
	if (!ret)
		ret = xr_channel_new(ctx, handlers, arg, &ch);
	if (ret)
		return ret;
	ctx->now = clock_now_ns();
	ch->dialed = true;
	ch->announced = true;
	ret = xr_boot_connect(&ctx->boot, address, ctx->now, &ch->boot);
	if (!ret)
		ret = xr_channel_boot_watch(ch);
	if (ret) {
		xr_channel_discard(ch);
		return ret;
	}
	xr_context_kick(ctx);
	*ret_ch = ch;
	return 0;
}

static void accept_one(struct xrdma_listener *l, struct xr_boot *boot)
{
	struct xrdma_channel *ch;

	if (xr_channel_new(l->ctx, &l->handlers, l->arg, &ch)) {
		log_warn("a connection is refused: %s", xrdma_last_error());
		xr_boot_close(boot);
		return;
	}
	ch->boot = boot;
	if (xr_channel_boot_watch(ch))
		xr_channel_discard(ch);
	else
		boot_step(ch);
}

static void listener_ready(struct xr_watch *w, uint32_t events)
{
	struct xrdma_listener *l = container_of(w, struct xrdma_listener, watch);
	struct xr_boot *boot;
	int ret;

	for (;;) {
		ret = xr_boot_accept(l->boot, l->ctx->now, &boot);
		if (ret == -EAGAIN)
			return;
		if (ret) {
			log_info("a connection is refused: %s", xrdma_last_error());
			return; /* if another waits, epoll says so again */
		}
		accept_one(l, boot);
	}
}

int xrdma_listen(struct xrdma_context *ctx, const char *address,
		 const struct xrdma_handlers *handlers, void *arg,
		 struct xrdma_listener **ret_listener)
{
	struct xrdma_listener *l;
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = check_handlers(handlers);
	if (ret)
		return ret;
	l = calloc(1, sizeof(*l));
	if (!l)
		return xr_error(-ENOMEM, "out of memory for a listener");
	*l = (struct xrdma_listener){.ctx = ctx, .handlers = *handlers, .arg = arg};
	ret = xr_boot_listen(&ctx->boot, address, &l->boot);
	if (ret)
		goto err_free;
	ret = xr_watch_add(ctx, &l->watch, xr_boot_listener_fd(l->boot), EPOLLIN, listener_ready);
	if (ret)
		goto err_close;
	list_add_tail(&ctx->listeners, &l->link);
	if (ret_listener)
		*ret_listener = l;
	return 0;

err_close:
	xr_boot_listener_close(l->boot);
err_free:
	free(l);
	return ret;
}

int xrdma_listener_port(const struct xrdma_listener *listener)
{
	return xr_boot_listener_port(listener->boot);
}

void xrdma_listener_close(struct xrdma_listener *listener)
{
	if (!listener || xr_context_guard(listener->ctx))
		return;
	xr_watch_remove(listener->ctx, &listener->watch);
	list_del(&listener->link);
	xr_boot_listener_close(listener->boot);
	free(listener);
}

void xr_listeners_close(struct xrdma_context *ctx)
{
	list_for_each_safe (pos, &ctx->listeners)
		xrdma_listener_close(container_of(pos, struct xrdma_listener, link));
}
