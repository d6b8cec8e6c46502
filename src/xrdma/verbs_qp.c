/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair of a channel, and what the completions of one mean. */
#include "base/bits.h"
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/tcp_qp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHARED_FROM = 64, /* channels; before, `auto` gives each receives of its own */
	SHARES = 512,
	SHARED_CONTROL = 4,
};

static bool shared(const struct xrdma_context *ctx)
{
	if (!ctx->srq.srq || ctx->conf.srq == XR_CHOICE_OFF)
		return false;
	return ctx->conf.srq == XR_CHOICE_ON || ctx->n_channels > SHARED_FROM;
}

/*
 * Of a shared queue nobody is promised more than a small share of what is left, so that something
 * is left for thousands.
 */
static void offer_window(struct xrdma_channel *ch)
{
	const struct xrdma_context *ctx = ch->ctx;
	uint32_t share;

	ch->ours.window = ctx->conf.window;
	ch->ours.control = ctx->conf.control;
	/* The side that is connected to knows the peer's by now: more would never be used. */
	if (ch->theirs.window && ch->theirs.window < ch->ours.window)
		ch->ours.window = ch->theirs.window;
	if (ch->rq == &ch->own_rq)
		return;
	share = (ctx->srq.capacity - ctx->srq.promised) / SHARES;
	ch->ours.control = SHARED_CONTROL;
	if (ch->ours.window + SHARED_CONTROL > share)
		ch->ours.window = share > SHARED_CONTROL ? share - SHARED_CONTROL : 1;
}

static int size_queues(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;
	uint32_t reads = ctx->conf.max_rd_atomic, most = (uint32_t)ctx->attr.max_qp_wr;
	uint32_t size;

	offer_window(ch);
	if (reads > (uint32_t)ctx->attr.max_qp_init_rd_atom)
		reads = (uint32_t)ctx->attr.max_qp_init_rd_atom;
	size = power_of_two(ch->ours.window + ch->ours.control + reads + XR_SPARE_CONTROL);
	if (size > most)
		size = most;
	xr_flow_queue_init(&ch->flow, size);
	ch->wqe_mask = power_of_two(size) - 1;
	ch->wqes = calloc(ch->wqe_mask + 1, sizeof(struct xr_wqe));
	if (!ch->wqes)
		return xr_error(-ENOMEM, "out of memory for a channel");
	/* Heads of messages by position in the send queue, then the probe. */
	return xr_mem_alloc(ctx->mem, XR_TX,
			    (size_t)(ch->wqe_mask + 1) * XR_HEAD_STRIDE + XR_PROBE_BYTES,
			    &ch->heads);
}

/* One that is new; no attribute of a device tells how much it can inline. */
static struct ibv_qp *make(struct xrdma_channel *ch, struct xr_qp_shape *shape)
{
	struct xrdma_context *ctx = ch->ctx;
	struct ibv_qp_init_attr attr = {
		.send_cq = ctx->cq,
		.recv_cq = ctx->cq,
		.srq = ch->rq->srq,
		.cap = {.max_send_wr = shape->sends,
			.max_recv_wr = shape->receives,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = shape->inline_bytes},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(ctx->pd, &attr);

	while (!qp && errno == EINVAL && attr.cap.max_inline_data) {
		attr.cap.max_inline_data /= 2;
		qp = ibv_create_qp(ctx->pd, &attr);
	}
	shape->inline_bytes = attr.cap.max_inline_data;
	return qp;
}

static int create(struct xrdma_channel *ch, uint32_t receives)
{
	struct xrdma_context *ctx = ch->ctx;

	ch->shape = (struct xr_qp_shape){.sends = ch->flow.size,
					 .receives = ch->rq->srq ? 0 : receives,
					 .inline_bytes = ctx->conf.max_inline};
	ch->qp = xr_qp_cache_take(ctx, &ch->shape, &ch->shape);
	if (!ch->qp)
		ch->qp = make(ch, &ch->shape);
	if (!ch->qp)
		return xr_error(-errno,
				"device %s makes no queue pair of %u sends and %u receives: %s",
				ctx->device, ch->flow.size, receives, strerror(errno));
	ctx->stats.qps++;
	ch->max_inline = ctx->conf.max_inline < ch->shape.inline_bytes ? ctx->conf.max_inline
								       : ch->shape.inline_bytes;
	ch->own_rq.qp = ch->qp;
	return 0;
}

static int to_init(struct xrdma_context *ctx, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)ctx->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int ret = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return ret ? xr_error(-ret, "queue pair to INIT: %s", strerror(ret)) : 0;
}

static int init_own_receives(struct xrdma_channel *ch, uint32_t receives)
{
	int ret = xr_rq_init(&ch->own_rq, ch->ctx, receives, (uint64_t)XR_WR_RECV << 62);

	ch->own_rq.id_base |= (uint64_t)ch->handle << 32 | (ch->epoch & 0xffff) << 16;
	return ret;
}

/* A queue pair in INIT. */
static int open_qp(struct xrdma_channel *ch, uint32_t receives)
{
	int ret = 0;

	if (ch->rq == &ch->own_rq && !ch->own_rq.slots)
		ret = init_own_receives(ch, receives);
	if (!ret)
		ret = create(ch, receives);
	if (!ret)
		ret = to_init(ch->ctx, ch->qp);
	if (!ret && ch->rq == &ch->ctx->srq) {
		HASH_ADD(by_qpn, ch->ctx->by_qpn, qp->qp_num, sizeof(uint32_t), ch);
		if (!ch->by_qpn.tbl)
			return xr_error(-ENOMEM, "out of memory for a channel");
	}
	return ret;
}

/* For what the channel offered. */
static uint32_t receives_of(const struct xrdma_channel *ch)
{
	return ch->ours.window + ch->ours.control;
}

int xr_qp_prepare(struct xrdma_channel *ch, bool rdma)
{
	struct xrdma_context *ctx = ch->ctx;
	uint32_t receives;
	int ret;

	ch->rq = rdma && shared(ctx) ? &ctx->srq : &ch->own_rq;
	ret = size_queues(ch);
	if (ret)
		return ret;
	receives = receives_of(ch);
	ret = xr_cq_promise(ctx, (int32_t)receives + 1); /* and the beacon */
	if (ret)
		return ret;
	ch->cq_promised = receives + 1;
	if (ch->rq == &ch->own_rq)
		return 0;
	ret = xr_rq_promise(ch->rq, receives);
	if (!ret)
		ch->rx_promised = receives;
	return ret;
}

/* What has not ended its work requests would touch memory after it. */
static void close_qp(struct xrdma_channel *ch)
{
	bool ended = xr_flow_outstanding(&ch->flow) == 0 && ch->own_rq.posted == 0 && !ch->drained;

	xr_mws_free(ch);
	if (ch->ctx->batch.rq == &ch->own_rq)
		xr_rq_flush(ch->ctx);
	if (ch->tcp) {
		xr_tcp_qp_free(ch->tcp);
		ch->tcp = NULL;
		ch->qp = NULL;
	}
	if (ch->qp) {
		if (ch->by_qpn.tbl)
			HASH_DELETE(by_qpn, ch->ctx->by_qpn, ch);
		ch->by_qpn.tbl = NULL;
		if (!ended || !xr_qp_cache_put(ch->ctx, ch->qp, &ch->shape))
			(void)ibv_destroy_qp(ch->qp);
		ch->qp = NULL;
		ch->ctx->stats.qps--;
	}
	xr_channel_drop_posted(ch);
	if (ch->own_rq.slots)
		xr_rq_fini(&ch->own_rq);
}

void xr_qp_reset(struct xrdma_channel *ch)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	xr_mws_free(ch);
	if (!ch->qp || ch->tcp || xr_flow_outstanding(&ch->flow) || ch->own_rq.posted ||
	    ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE))
		close_qp(ch);
	else if (ch->rq == &ch->own_rq)
		xr_rq_withdraw(&ch->own_rq, ch->own_rq.promised);
}

int xr_qp_open(struct xrdma_channel *ch)
{
	uint32_t receives = receives_of(ch);
	int ret;

	ch->rq = ch->rx_promised ? &ch->ctx->srq : &ch->own_rq;
	if (ch->qp && to_init(ch->ctx, ch->qp)) /* the device has put it into error */
		close_qp(ch);
	ret = ch->qp ? 0 : open_qp(ch, receives);
	ch->own_rq.stopped = false;
	if (!ret && ch->rq == &ch->own_rq)
		ret = xr_rq_promise(&ch->own_rq, receives);
	if (!ret)
		ret = xr_mws_new(ch);
	if (ret)
		close_qp(ch);
	return ret;
}

static int to_rtr(struct xrdma_context *ctx, struct ibv_qp *qp, const struct xr_qp_link *link)
{
	const struct xr_conf *conf = &ctx->conf;
	const struct xr_hello *peer = link->peer;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = link->reads_in,
		.min_rnr_timer = (uint8_t)conf->min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .port_num = (uint8_t)ctx->port,
			    .grh = {.sgid_index = (uint8_t)link->gid_index,
				    .hop_limit = (uint8_t)conf->hop_limit,
				    .traffic_class = (uint8_t)conf->traffic_class}},
	};
	int ret;

	while (128U << attr.path_mtu < link->mtu)
		attr.path_mtu++;
	memcpy(&attr.ah_attr.grh.dgid, &peer->gid, sizeof(attr.ah_attr.grh.dgid));
	ret = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	return ret ? xr_error(-ret, "queue pair to RTR: %s", strerror(ret)) : 0;
}

int xr_qp_link(struct xrdma_context *ctx, struct ibv_qp *qp, const struct xr_qp_link *link)
{
	const struct xr_conf *conf = &ctx->conf;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)conf->timeout,
		.retry_cnt = (uint8_t)conf->retry_cnt,
		.rnr_retry = (uint8_t)conf->rnr_retry,
		.sq_psn = link->psn,
		.max_rd_atomic = link->reads_out,
	};
	int ret = to_rtr(ctx, qp, link);

	if (ret)
		return ret;
	ret = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return ret ? xr_error(-ret, "queue pair to RTS: %s", strerror(ret)) : 0;
}

/* Not inline: a message waits its turn in memory of its own. */
static int connect_tcp(struct xrdma_channel *ch)
{
	uint32_t receives = receives_of(ch);
	int ret;

	close_qp(ch);
	ch->rq = &ch->own_rq;
	ret = init_own_receives(ch, receives);
	if (ret)
		return ret;
	ch->tcp = xr_tcp_qp_new(ch, ch->flow.size, receives);
	if (!ch->tcp)
		return xr_error(-ENOMEM, "out of memory for a channel");
	ch->qp = ch->own_rq.qp = xr_tcp_qp_verbs(ch->tcp);
	ch->max_inline = 0;
	return xr_rq_promise(&ch->own_rq, receives);
}

int xr_qp_connect(struct xrdma_channel *ch, uint32_t gid_index)
{
	const struct xr_qp_link link = {.peer = &ch->theirs,
					.mtu = ch->agreed.mtu,
					.psn = ch->ours.psn,
					.gid_index = gid_index,
					.reads_in = ch->agreed.reads_in,
					.reads_out = ch->agreed.reads_out};

	return ch->mock.by_tcp ? connect_tcp(ch) : xr_qp_link(ch->ctx, ch->qp, &link);
}

int xr_qp_probe_new(struct xrdma_context *ctx, struct ibv_qp **ret_qp)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ctx->cq,
		.recv_cq = ctx->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(ctx->pd, &attr);
	int ret;

	if (!qp)
		return xr_error(-errno, "device %s makes no queue pair: %s", ctx->device,
				strerror(errno));
	ret = to_init(ctx, qp);
	if (ret)
		(void)ibv_destroy_qp(qp);
	else
		*ret_qp = qp;
	return ret;
}

void xr_qp_error(struct xrdma_channel *ch)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (ch->rq == &ch->own_rq)
		ch->own_rq.stopped = true;
	if (ch->tcp)
		xr_tcp_qp_error(ch->tcp);
	else if (ch->qp)
		(void)ibv_modify_qp(ch->qp, &attr, IBV_QP_STATE); /* it may be there already */
}

void xr_qp_free(struct xrdma_channel *ch)
{
	struct xrdma_context *ctx = ch->ctx;

	xr_faults_forget(ch);
	if (ch->rx_promised)
		xr_rq_withdraw(&ctx->srq, ch->rx_promised);
	ch->rx_promised = 0;
	close_qp(ch);
	xr_cq_promise(ctx, -(int32_t)ch->cq_promised);
	ch->cq_promised = 0;
	free(ch->wqes);
	ch->wqes = NULL;
	if (ch->heads.addr)
		xr_mem_release(ctx->mem, &ch->heads);
	ch->heads.addr = NULL;
}

int xr_wc_status(struct xrdma_context *ctx, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
		ctx->stats.wc_access++;
		return -EACCES;
	case IBV_WC_RETRY_EXC_ERR:
		ctx->stats.wc_silent++;
		return -ETIMEDOUT;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		ctx->stats.wc_rnr++;
		return -ENOBUFS;
	case IBV_WC_WR_FLUSH_ERR:
		ctx->stats.wc_flushed++;
		return -ECONNRESET;
	default:
		ctx->stats.wc_other++;
		return -EIO;
	}
}
