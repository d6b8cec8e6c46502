/* SPDX-License-Identifier: BSD-2-Clause */
/* HELLO, ours and the peer's, and what follows from the two: limits, and a queue pair connected. */
#include "base/be.h"
#include "base/rng.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/keys.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* ---- the probe: bytes that only who has the HELLO's owner's memory can read ---- */

void xr_probe_pattern(uint64_t incarnation, uint32_t epoch, uint32_t qpn,
		      uint8_t out[XR_PROBE_BYTES])
{
	struct rng rng = {incarnation ^ (uint64_t)epoch << 32 ^ qpn};

	for (unsigned i = 0; i < XR_PROBE_BYTES; i += 8) {
		uint64_t v = htobe64(rng_next(&rng));

		memcpy(out + i, &v, sizeof(v));
	}
}

uint8_t *xr_channel_our_probe(const struct xrdma_channel *ch)
{
	const struct xr_region_mem *probes = &ch->ctx->probes;

	if (probes->mr)
		return (uint8_t *)probes->map.addr + (size_t)xr_channel_index(ch) * XR_PROBE_BYTES;
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

int xr_channel_describe_qp(struct xrdma_channel *ch, uint32_t qpn, const struct xr_gid *gid,
			   struct xr_hello *ret_hello)
{
	const struct ibv_mr *probes = ch->ctx->probes.mr;
	struct xr_key probe = {.addr = (uintptr_t)xr_channel_our_probe(ch),
			       .rkey = probes ? probes->rkey : ch->heads.rkey};
	struct xr_hello h = ch->ours;

	if (getrandom(&h.psn, sizeof(h.psn), 0) != sizeof(h.psn))
		return xr_error(-EIO, "no random numbers");
	h.psn &= 0xffffff;
	h.qpn = qpn;
	h.gid_type = gid ? (uint8_t)gid->type : XR_GID_ROCE_V2;
	h.gid = gid ? gid->addr : in6addr_any;
	h.probe_bytes = XR_PROBE_BYTES;
	probe.epoch = h.epoch;
	xr_key_encode(&probe, h.probe_block);
	xr_probe_pattern(h.incarnation, h.epoch, h.qpn, xr_channel_our_probe(ch));
	*ret_hello = h;
	return 0;
}

/* After a break only what belongs to the queue pair changes: limits stand. gid NULL: by TCP. */
static int fill_hello(struct xrdma_channel *ch, const struct xr_gid *gid)
{
	struct xrdma_context *ctx = ch->ctx;
	struct xr_hello *h = &ch->ours;

	h->version_min = XR_VERSION_MIN;
	h->version_max = XR_VERSION_MAX;
	if (!xr_recovering(ch))
		h->flags = XR_HELLO_GONE | (ctx->conf.trace ? XR_HELLO_TRACE : 0) |
			   (ctx->conf.mem_windows == XR_MEM_WINDOWS_TYPE2 ? XR_HELLO_WINDOWS : 0);
	h->flags = (h->flags & (XR_HELLO_TRACE | XR_HELLO_WINDOWS | XR_HELLO_GONE)) |
		   xr_mock_offer(ch);
	h->incarnation = ctx->incarnation;
	h->epoch = ch->epoch = xr_epoch_next(ch->epoch);
	h->mtu = 128U << ctx->active_mtu;
	if (h->mtu > ctx->conf.mtu)
		h->mtu = ctx->conf.mtu;
	h->max_rd_atomic = min_u8(ctx->conf.max_rd_atomic, ctx->attr.max_qp_init_rd_atom);
	h->max_dest_rd = min_u8(ctx->conf.max_rd_atomic, ctx->attr.max_qp_rd_atom);
	h->small_bytes = ctx->conf.small_bytes;
	h->frag_bytes = ctx->conf.frag_bytes;
	h->max_msg = largest_message(&ctx->conf);
	h->max_calls = ctx->conf.max_calls;
	return xr_channel_describe_qp(ch, ch->qp ? ch->qp->qp_num : 0, gid, h);
}

static int read_gids(struct xrdma_context *ctx)
{
	struct xr_gid_table table = {0};
	int ret = xr_gid_read_device(ctx->verbs, &table);

	if (ret) {
		xr_gid_table_fini(&table);
		return ret;
	}
	xr_gid_table_fini(&ctx->gids);
	ctx->gids = table;
	ctx->gids_old = false;
	return 0;
}

int xr_channel_choose_gid(struct xrdma_channel *ch, const struct xr_gid **ret_gid)
{
	struct xrdma_context *ctx = ch->ctx;
	const struct xr_gid_want want = {
		.device = ctx->device,
		.port = ctx->port,
		.gid = ctx->conf.gid,
		.local = xr_boot_local(ch->boot),
		.peer = xr_boot_peer(ch->boot),
	};
	int ret = ctx->gids_old ? read_gids(ctx) : 0;

	return ret ? ret : xr_gid_choose(&ctx->gids, &want, ret_gid);
}

static int prepare(struct xrdma_channel *ch, bool rdma)
{
	int ret = xr_recovering(ch) ? 0 : xr_recover_enable(ch);

	return ret || xr_recovering(ch) ? ret : xr_qp_prepare(ch, rdma);
}

/* A queue pair of the device, and the address that leads to it. */
static int open_rdma(struct xrdma_channel *ch, const struct xr_gid **ret_gid)
{
	int ret = xr_channel_choose_gid(ch, ret_gid);

	return ret ? ret : xr_qp_open(ch);
}

int xr_channel_say_hello(struct xrdma_channel *ch)
{
	uint8_t block[XR_HELLO_BYTES];
	const struct xr_gid *gid = NULL;
	bool rdma = !xr_mock_wanted(ch);
	int ret = prepare(ch, rdma);

	if (!ret && rdma) {
		ret = open_rdma(ch, &gid);
		if (ret && xr_mock_instead(ch, ret))
			ret = 0;
	}
	if (!ret)
		ret = fill_hello(ch, gid);
	if (ret)
		return ret;
	ch->gid_index = gid ? gid->index : 0;
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
		ret = xr_mock_agree(ch);
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
		.stamps = ch->ours.flags & XR_HELLO_WINDOWS,
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

int xr_channel_got_hello(struct xrdma_channel *ch, const uint8_t *data, size_t len)
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
	if (ret)
		return ret;
	ret = xr_qp_connect(ch, ch->gid_index);
	if (ret && !xr_mock_later(ch, ret))
		return ret;
	xr_channel_set_state(ch, XR_CH_READY);
	return say_ready(ch);
}
