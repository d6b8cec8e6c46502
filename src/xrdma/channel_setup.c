/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a TCP connection to a channel that is open, for both sides alike, but that who was dialed
 * lets the other speak first:
 *
 *	HELLO ->  <- HELLO	queue pairs exist, limits are agreed; both connect theirs
 *	READY ->  <- READY	both can receive, or who cannot breaks, if TCP may take over
 *	          READ of the other's probe: the path works, and leads to who said HELLO
 *	OPEN  ->  <- OPEN	data may flow
 *
 * READY carries a token, by which a broken channel can be resumed (recover.c); the same exchange
 * then follows RESUME. The connection stays, to notice the death of the peer's process.
 */
#include "base/be.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/keys.h"
#include "xrdma/region.h"
#include "xrdma/tcp_qp.h"

#include <errno.h>
#include <string.h>

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
	if (ch->mock.unlinked) {
		xr_channel_set_state(ch, XR_CH_PROBING);
		xr_channel_break(ch, ch->mock.unlinked, "its queue pair could not be connected");
		return 0;
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
	xr_probe_pattern(ch->theirs.incarnation, ch->theirs.epoch, ch->theirs.qpn, pattern);
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
	bool first;

	xr_boot_established(ch->boot);
	xr_channel_set_state(ch, XR_CH_OPEN);
	first = !xr_recover_opened(ch);
	xr_keepalive_start(ch);
	ch->ctx->stats.channels_opened += first;
	ch->announced = true;
	if (ch->handlers.on_event && (first || ch->rec.told))
		ch->handlers.on_event(ch, first ? XRDMA_CONNECTED : XRDMA_RECOVERED, 0, ch->arg);
	xr_mock_opened(ch);
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

int xr_channel_got_block(struct xrdma_channel *ch, uint8_t type, const uint8_t *data, size_t len)
{
	switch (type) {
	case XR_BLOCK_HELLO:
		return xr_channel_got_hello(ch, data, len);
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
	case XR_BLOCK_PROBE:
		return xr_mock_got_probe(ch, data, len);
	case XR_BLOCK_SEND:
	case XR_BLOCK_READ:
	case XR_BLOCK_WRITE:
	case XR_BLOCK_ANSWER:
		return xr_tcp_qp_got(ch, (enum xr_block_type)type, data, len);
	case XR_BLOCK_BYE:
		if (ch->state < XR_CH_OPEN && !xr_recovering(ch))
			return xr_error(-EPROTO, "the peer says BYE at the wrong time");
		ch->tcp_bye = true;
		return 0;
	default:
		return xr_error(-EPROTO, "the peer sent a block of unknown type %u", type);
	}
}
