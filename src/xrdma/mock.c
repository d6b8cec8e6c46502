/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mock.h"

#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/log.h"

#include <errno.h>
#include <string.h>

enum {
	PROBE_NUMBER = 1U << 31, /* in wr_id: no place of a receive queue */
	LEVELS = 3,              /* of back-off: up to 2^3 times */
	STEADY = 16,             /* intervals after which RDMA that breaks is a new trouble */
};

static uint64_t interval_ns(const struct xrdma_channel *ch)
{
	return ch->ctx->conf.mock_probe_ms * NSEC_PER_MSEC;
}

static void raise_level(struct xrdma_channel *ch)
{
	if (ch->mock.level < LEVELS)
		ch->mock.level++;
}

/* ---- which of the two ---- */

uint32_t xr_mock_offer(const struct xrdma_channel *ch)
{
	switch (ch->ctx->conf.transport) {
	case XR_TRANSPORT_RDMA:
		return 0;
	case XR_TRANSPORT_TCP:
		return XR_HELLO_MOCK | XR_HELLO_TCP | XR_HELLO_FORCED;
	case XR_TRANSPORT_AUTO:
		break;
	}
	return XR_HELLO_MOCK | (xr_mock_wanted(ch) ? XR_HELLO_TCP : 0);
}

bool xr_mock_possible(const struct xrdma_channel *ch)
{
	return ch->ours.flags & ch->theirs.flags & XR_HELLO_MOCK;
}

bool xr_mock_wanted(const struct xrdma_channel *ch)
{
	const struct xr_mock *mock = &ch->mock;

	if (ch->ctx->conf.transport != XR_TRANSPORT_AUTO)
		return ch->ctx->conf.transport == XR_TRANSPORT_TCP;
	if (!xr_recovering(ch))
		return mock->failures > 0; /* nothing to offer */
	return xr_mock_possible(ch) && !mock->back &&
	       (mock->mocked || mock->failures >= ch->ctx->conf.mock_after);
}

static void count_failure(struct xrdma_channel *ch, int status)
{
	ch->mock.failures++;
	ch->mock.reason = status;
}

bool xr_mock_instead(struct xrdma_channel *ch, int status)
{
	if (ch->ctx->conf.transport == XR_TRANSPORT_RDMA)
		return false;
	log_warn("channel %u has no queue pair: %s", ch->handle, xrdma_last_error());
	count_failure(ch, status);
	return xr_mock_wanted(ch);
}

bool xr_mock_later(struct xrdma_channel *ch, int status)
{
	if (ch->mock.by_tcp || !xr_mock_possible(ch) || !ch->ctx->conf.recovery_ms)
		return false;
	log_info("channel %u is not connected: %s", ch->handle, xrdma_last_error());
	count_failure(ch, status);
	ch->mock.unlinked = status;
	return true;
}

static int unreachable(const struct xrdma_channel *ch)
{
	return xr_gid_reachable((enum xr_gid_type)ch->ours.gid_type, &ch->ours.gid,
				(enum xr_gid_type)ch->theirs.gid_type, &ch->theirs.gid);
}

/* One side asks for TCP, and the other does not take it. */
static int disagree(const struct xr_mock *mock)
{
	if (mock->failures)
		return xr_error(mock->reason,
				"RDMA does not work at this side (%s), and the peer does not take "
				"TCP in its place: see its option transport",
				strerror(-mock->reason));
	return xr_error(-EPROTONOSUPPORT, "one side asks for TCP in place of RDMA, the other does "
					  "not take it: see option transport of both");
}

/* Why, of what this side has seen no failure of. */
static int reason_of_peer(const struct xrdma_channel *ch)
{
	if (!xr_recovering(ch))
		return -EHOSTUNREACH;
	return ch->ours.flags & XR_HELLO_TCP ? ch->rec.status : ch->rec.peer.status;
}

int xr_mock_status(const struct xrdma_channel *ch)
{
	return ch->mock.failures && !ch->mock.mocked ? ch->mock.reason : ch->rec.status;
}

/* Both sides come to the same: it follows from the two HELLOs alone. */
int xr_mock_agree(struct xrdma_channel *ch)
{
	uint32_t either = ch->ours.flags | ch->theirs.flags;
	struct xr_mock *mock = &ch->mock;
	int ret = either & XR_HELLO_TCP ? 0 : unreachable(ch);

	mock->by_tcp = ret || either & XR_HELLO_TCP;
	mock->unlinked = 0;
	if (!mock->by_tcp)
		return 0;
	if (!xr_mock_possible(ch))
		return ret ? ret : disagree(mock);
	if (either & XR_HELLO_FORCED)
		mock->reason = 0;
	else if (ret)
		mock->reason = ret;
	else if (mock->failures == 0 && !mock->mocked)
		mock->reason = reason_of_peer(ch);
	return 0;
}

void xr_mock_failed(struct xrdma_channel *ch, int status)
{
	/* The latter is of a bystander: something else failed. */
	if (!ch->mock.by_tcp && status != -ECONNRESET)
		count_failure(ch, status);
}

void xr_mock_not_back(struct xrdma_channel *ch)
{
	if (ch->mock.back)
		raise_level(ch);
	ch->mock.back = false;
}

/* ---- probes: the queue pair ---- */

static void drop_qp(struct xrdma_channel *ch)
{
	struct xr_mock *mock = &ch->mock;

	mock->asked = mock->reading = false;
	mock->number++; /* what is under way is of one before */
	if (mock->qp)
		(void)ibv_destroy_qp(mock->qp); /* and what it had under way */
	mock->qp = NULL;
	if (mock->sink)
		xr_msg_put(mock->sink);
	mock->sink = NULL;
}

/* A queue pair, and what the peer is to know of it. */
static int offer(struct xrdma_channel *ch, struct xr_hello *ret_ours, uint32_t *ret_gid_index)
{
	struct xr_mock *mock = &ch->mock;
	const struct xr_gid *gid;
	int ret;

	drop_qp(ch);
	ret = xr_channel_choose_gid(ch, &gid);
	if (!ret)
		ret = xr_qp_probe_new(ch->ctx, &mock->qp);
	if (!ret)
		ret = xr_channel_describe_qp(ch, mock->qp->qp_num, gid, ret_ours);
	if (!ret)
		*ret_gid_index = gid->index;
	return ret;
}

static int connect_qp(struct xrdma_channel *ch, const struct xr_hello *ours, uint32_t gid_index)
{
	const struct xr_hello *theirs = &ch->mock.theirs;
	struct xr_agreed agreed;
	struct xr_qp_link link = {.peer = theirs, .psn = ours->psn, .gid_index = gid_index};
	int ret = xr_negotiate(ours, theirs, &agreed);

	if (!ret)
		ret = xr_gid_reachable((enum xr_gid_type)ours->gid_type, &ours->gid,
				       (enum xr_gid_type)theirs->gid_type, &theirs->gid);
	if (ret)
		return ret;
	link.mtu = agreed.mtu;
	link.reads_in = link.reads_out = 1;
	return xr_qp_link(ch->ctx, ch->mock.qp, &link);
}

static int say_probe(struct xrdma_channel *ch, const struct xr_hello *ours)
{
	uint8_t block[XR_HELLO_BYTES];

	return xr_channel_boot_send(ch, XR_BLOCK_PROBE, block, xr_hello_encode(ours, block));
}

/* ---- probes: the side that dialed ---- */

static void schedule(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	uint64_t wait = interval_ns(ch);

	if (ch->mock.good == 0)
		wait = xr_backoff_ns(ch->mock.level, wait, wait << LEVELS, rng_next(&ctx->rng));
	xr_timer_set(ctx, &ch->mock.timer, ctx->now + wait);
}

static void probe_failed(struct xrdma_channel *ch, const char *why)
{
	struct xr_mock *mock = &ch->mock;

	log_debug("channel %u stays with TCP: %s", ch->handle, why);
	drop_qp(ch);
	mock->good = 0;
	raise_level(ch);
	ch->ctx->stats.mock_probes_failed++;
	schedule(ch);
}

static int read_probe(struct xrdma_channel *ch)
{
	struct xr_mock *mock = &ch->mock;
	struct ibv_sge sge = {.length = XR_PROBE_BYTES};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = (uint64_t)XR_WR_PROBE << 62 | (uint64_t)ch->handle << 32 |
				 PROBE_NUMBER | (++mock->number & ~(uint32_t)PROBE_NUMBER),
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		};
	struct xr_key key;

	if (!mock->sink)
		mock->sink = xr_msg_rx_new(ch->ctx);
	if (!mock->sink)
		return -ENOBUFS;
	memset(mock->sink->data, 0, XR_PROBE_BYTES);
	xr_key_decode(mock->theirs.probe_block, &key);
	sge.addr = (uintptr_t)mock->sink->data;
	sge.lkey = mock->sink->lkey;
	wr.wr.rdma.remote_addr = key.addr;
	wr.wr.rdma.rkey = key.rkey;
	if (ch->ctx->faults)
		xr_fault_probe(ch, mock->qp);
	ch->ctx->stats.mock_probes++;
	mock->reading = true;
	return -ibv_post_send(mock->qp, &wr, &bad);
}

static void ask(struct xrdma_channel *ch)
{
	struct xr_hello ours;
	uint32_t gid_index;

	if (offer(ch, &ours, &gid_index) || say_probe(ch, &ours)) {
		probe_failed(ch, xrdma_last_error());
		return;
	}
	ch->mock.asked = true;
	ch->mock.ours = ours;
	ch->mock.gid_index = gid_index;
}

static void due(struct xr_timer *t)
{
	struct xrdma_channel *ch = container_of(t, struct xrdma_channel, mock.timer);

	if (!ch->mock.by_tcp || ch->state != XR_CH_OPEN)
		return;
	if (!ch->mock.qp)
		ask(ch);
	else if (read_probe(ch))
		probe_failed(ch, "the probe cannot be posted");
}

static void got_answer(struct xrdma_channel *ch)
{
	ch->mock.asked = false;
	if (ch->mock.theirs.qpn == 0)
		probe_failed(ch, "the peer has no queue pair for a probe");
	else if (connect_qp(ch, &ch->mock.ours, ch->mock.gid_index))
		probe_failed(ch, xrdma_last_error());
	else if (read_probe(ch))
		probe_failed(ch, "the probe cannot be posted");
}

void xr_mock_probe_ended(struct xrdma_channel *ch, uint32_t number, int status)
{
	struct xr_mock *mock = &ch->mock;
	uint8_t pattern[XR_PROBE_BYTES];

	if (!mock->reading || number != (PROBE_NUMBER | mock->number)) {
		ch->ctx->stats.stale_completions++;
		return;
	}
	mock->reading = false;
	xr_probe_pattern(mock->theirs.incarnation, mock->theirs.epoch, mock->theirs.qpn, pattern);
	if (status || memcmp(mock->sink->data, pattern, sizeof(pattern)) != 0) {
		mock->reason = status ? status : -EREMCHG;
		probe_failed(ch, strerror(-mock->reason));
		return;
	}
	if (++mock->good < ch->ctx->conf.mock_back_after) {
		schedule(ch);
		return;
	}
	mock->back = true;
	xr_recover_move(ch, "RDMA works again");
}

/* ---- probes: both ---- */

int xr_mock_got_probe(struct xrdma_channel *ch, const uint8_t *data, size_t len)
{
	struct xr_mock *mock = &ch->mock;
	struct xr_hello theirs, ours;
	uint32_t gid_index;
	int ret;

	/* Of an epoch that has ended: the peer may not know yet. */
	if (xr_recovering(ch) && !ch->rec.got)
		return 0;
	if (xr_hello_decode(data, len, &theirs) || theirs.probe_bytes < XR_PROBE_BYTES ||
	    theirs.incarnation != ch->theirs.incarnation)
		return xr_error(-EPROTO, "the peer sent a PROBE that is none");
	if (!mock->by_tcp || ch->state < XR_CH_OPEN || (ch->dialed && !mock->asked))
		return xr_error(-EPROTO, "the peer says PROBE at the wrong time");
	if (ch->dialed) {
		mock->theirs = theirs;
		got_answer(ch);
		return 0;
	}
	mock->theirs = theirs;
	ret = offer(ch, &ours, &gid_index);
	if (!ret)
		ret = connect_qp(ch, &ours, gid_index);
	if (ret) { /* the answer to that is one of no queue pair */
		drop_qp(ch);
		ours = ch->ours;
		ours.qpn = 0;
	}
	return say_probe(ch, &ours);
}

/* ---- the channel ---- */

void xr_mock_init(struct xrdma_channel *ch)
{
	xr_timer_init(&ch->mock.timer, due);
}

static void tell(struct xrdma_channel *ch)
{
	const struct xr_mock *mock = &ch->mock;

	ch->ctx->stats.mocks += mock->mocked;
	ch->ctx->stats.unmocks += !mock->mocked;
	if (mock->reason)
		log_warn("channel %u goes by TCP: RDMA does not work (%s%s)", ch->handle,
			 strerror(-mock->reason),
			 mock->reason == -ETIMEDOUT ? ": is UDP port 4791 open on the way?" : "");
	else
		log_info("channel %u goes by %s now", ch->handle, mock->mocked ? "TCP" : "RDMA");
	if (ch->handlers.on_event)
		ch->handlers.on_event(ch, mock->mocked ? XRDMA_MOCKED : XRDMA_UNMOCKED,
				      mock->reason, ch->arg);
}

void xr_mock_opened(struct xrdma_channel *ch)
{
	struct xr_mock *mock = &ch->mock;
	bool was = mock->mocked;

	mock->mocked = mock->by_tcp;
	mock->back = false;
	mock->good = 0;
	if (!mock->by_tcp) {
		mock->failures = 0;
		mock->reason = 0;
	} else if (!was) {
		/* RDMA that did not last is not trusted as soon again. */
		if (ch->ctx->now - mock->left_at > STEADY * interval_ns(ch))
			mock->level = 0;
	}
	if (was && !mock->by_tcp)
		mock->left_at = ch->ctx->now;
	if (mock->by_tcp && ch->dialed && !((ch->ours.flags | ch->theirs.flags) & XR_HELLO_FORCED))
		schedule(ch);
	if (was != mock->mocked)
		tell(ch);
}

void xr_mock_stop(struct xrdma_channel *ch)
{
	timer_off(&ch->mock.timer.timer);
	drop_qp(ch);
}

enum xrdma_transport xrdma_channel_transport(const struct xrdma_channel *ch, int *ret_reason)
{
	if (ret_reason)
		*ret_reason = ch->mock.mocked ? ch->mock.reason : 0;
	return ch->mock.mocked ? XRDMA_TCP : XRDMA_RDMA;
}
