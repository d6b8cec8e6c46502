/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/engine_priv.h"

#include "engine/mcast.h"
#include "engine/mw.h"
#include "engine/qp.h"
#include "engine/xrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A QP hands over to the next one after so many packets in a row: long enough to batch. */
enum { BURST = 32 };

const char *const urxe_counter_names[URXE_CNT_MAX] = {
	[URXE_CNT_SENT_PKTS] = "sent_pkts",
	[URXE_CNT_RCVD_PKTS] = "rcvd_pkts",
	[URXE_CNT_DUPLICATE_REQUEST] = "duplicate_request",
	[URXE_CNT_OUT_OF_SEQ_REQUEST] = "out_of_seq_request",
	[URXE_CNT_RCVD_RNR_ERR] = "rcvd_rnr_err",
	[URXE_CNT_SEND_RNR_ERR] = "send_rnr_err",
	[URXE_CNT_RCVD_SEQ_ERR] = "rcvd_seq_err",
	[URXE_CNT_RETRY_EXCEEDED_ERR] = "retry_exceeded_err",
	[URXE_CNT_RETRY_RNR_EXCEEDED_ERR] = "retry_rnr_exceeded_err",
	[URXE_CNT_COMPLETER_RETRY_ERR] = "completer_retry_err",
	[URXE_CNT_SEND_ERR] = "send_err",
	[URXE_CNT_RDMA_SENDS] = "rdma_sends",
	[URXE_CNT_RDMA_RECVS] = "rdma_recvs",
	[URXE_CNT_ACK_DEFERRED] = "ack_deferred",
	[URXE_CNT_LINK_DOWNED] = "link_downed",
	[URXE_CNT_RETRANSMITS] = "retransmits",
	[URXE_CNT_TIMEOUTS] = "timeouts",
	[URXE_CNT_RX_MALFORMED] = "rx_malformed",
	[URXE_CNT_RX_NO_QP] = "rx_no_qp",
	[URXE_CNT_RX_DROPPED] = "rx_dropped",
	[URXE_CNT_RX_UNEXPECTED] = "rx_unexpected",
	[URXE_CNT_NP_ECN_MARKED] = "np_ecn_marked_roce_packets",
	[URXE_CNT_NP_CNP_SENT] = "np_cnp_sent",
	[URXE_CNT_RP_CNP_HANDLED] = "rp_cnp_handled",
	[URXE_CNT_RP_CNP_IGNORED] = "rp_cnp_ignored",
};

void urxe_limits_default(struct ibv_device_attr *ret_limits)
{
	*ret_limits = (struct ibv_device_attr){
		.max_mr_size = UINT64_C(1) << 46,
		.page_size_cap = 0xfffff000,
		.max_qp = 65536,
		.max_qp_wr = 16384,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC,
		.max_sge = 16,
		.max_sge_rd = 16,
		.max_cq = 65536,
		.max_cqe = 1 << 20,
		.max_mr = 1 << 20,
		.max_mw = 1 << 20,
		.max_pd = 65536,
		.max_qp_rd_atom = 16,
		.max_res_rd_atom = 16 * 65536,
		.max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = 65536,
		.max_srq = 65536,
		.max_srq_wr = 65536,
		.max_srq_sge = 16,
		/* Linux lets a socket join 20 IPv4 groups (net.ipv4.igmp_max_memberships). */
		.max_mcast_grp = 16,
		.max_mcast_qp_attach = 64,
		.max_total_mcast_qp_attach = 16 * 64,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
}

int urxe_engine_new(const struct urxe_engine_conf *conf, struct urxe_engine **ret_engine)
{
	struct urxe_engine *e;

	if (conf->limits->max_sge > URXE_FRAME_IOV || conf->limits->max_qp_rd_atom > MAX_RD_ATOMIC)
		return -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->limits = *conf->limits;
	e->max_inline_data = conf->max_inline_data;
	e->active_mtu = conf->active_mtu;
	e->ecn = conf->ecn;
	e->copy = conf->copy;
	e->counters = conf->counters ? conf->counters : e->own_counters;
	e->rng.state = conf->seed;
	key_table_init(&e->keys, (uint32_t)e->limits.max_mr + (uint32_t)e->limits.max_mw,
		       conf->key_mode == URXE_KEYS_REUSE, rng_next(&e->rng));
	list_init(&e->active_txqs);
	list_init(&e->notify);
	list_init(&e->async);
	list_init(&e->pds);
	list_init(&e->cqs);
	list_init(&e->srqs);
	list_init(&e->ahs);
	list_init(&e->qps);
	list_init(&e->mws);
	list_init(&e->xrcds);
	list_init(&e->mcast_groups);
	*ret_engine = e;
	return 0;
}

void urxe_engine_free(struct urxe_engine *e)
{
	if (!e)
		return;
	list_for_each_safe (node, &e->qps) {
		struct urxe_qp *qp = container_of(node, struct urxe_qp, node);

		mcast_release_qp(qp);
		urxe_qp_free(qp);
	}
	list_for_each_safe (node, &e->ahs)
		urxe_ah_free(container_of(node, struct urxe_ah, node));
	list_for_each_safe (node, &e->srqs)
		urxe_srq_free(container_of(node, struct urxe_srq, node));
	list_for_each_safe (node, &e->xrcds)
		urxe_xrcd_free(container_of(node, struct urxe_xrcd, node));
	free(e->xrc_srqs);
	list_for_each_safe (node, &e->cqs)
		urxe_cq_free(container_of(node, struct urxe_cq, node));
	list_for_each_safe (node, &e->mws)
		urxe_mw_free(container_of(node, struct urxe_mw, node));
	for (uint32_t i = 1; i <= e->keys.n; i++)
		urxe_mr_dereg(e->keys.entries[i].mr);
	list_for_each_safe (node, &e->pds)
		urxe_pd_free(container_of(node, struct urxe_pd, node));
	for (uint32_t i = 0; i < QPN_BLOCKS; i++)
		free(e->blocks[i]);
	free(e->free_qpns.ring);
	timerq_fini(&e->timers);
	timerq_fini(&e->cq_timers);
	timerq_fini(&e->pace_timers);
	key_table_fini(&e->keys);
	free(e->staging);
	free(e);
}

/* ---- QP numbers ------------------------------------------------------------------------------ */

static int qpn_fifo_grow(struct qpn_fifo *fifo)
{
	uint32_t n = fifo->tail - fifo->head;
	uint32_t capacity = fifo->capacity ? fifo->capacity * 2 : URXE_QPN_BLOCK;
	uint32_t *ring = malloc(capacity * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = fifo->ring[(fifo->head + i) & (fifo->capacity - 1)];
	free(fifo->ring);
	*fifo = (struct qpn_fifo){.ring = ring, .capacity = capacity, .tail = n};
	return 0;
}

int urxe_engine_add_qpns(struct urxe_engine *e, uint32_t base)
{
	uint32_t index = base / URXE_QPN_BLOCK;
	uint32_t start = rng_below(&e->rng, URXE_QPN_BLOCK);
	struct qpn_fifo *fifo = &e->free_qpns;
	struct qpn_block *block;
	uint32_t n_blocks = 1;

	if (base % URXE_QPN_BLOCK || index >= QPN_BLOCKS || e->blocks[index])
		return -EINVAL;
	/* The ring has room for every number there is, so that giving one back cannot fail. */
	for (uint32_t i = 0; i < QPN_BLOCKS; i++)
		n_blocks += e->blocks[i] != NULL;
	while (fifo->capacity < n_blocks * URXE_QPN_BLOCK) {
		if (qpn_fifo_grow(fifo) < 0)
			return -ENOMEM;
	}
	block = calloc(1, sizeof(*block));
	if (!block)
		return -ENOMEM;
	e->blocks[index] = block;
	for (uint32_t i = 0; i < URXE_QPN_BLOCK; i++) {
		uint32_t qpn = base + (start + i) % URXE_QPN_BLOCK;

		if (qpn != MCAST_QPN)
			qpn_give(e, qpn);
	}
	return 0;
}

void urxe_engine_set_mtu(struct urxe_engine *e, enum ibv_mtu active_mtu)
{
	e->active_mtu = active_mtu;
	list_for_each (node, &e->qps) {
		struct urxe_qp *qp = container_of(node, struct urxe_qp, node);

		if (qp->type == IBV_QPT_UD)
			qp->mtu = 128u << active_mtu;
	}
}

bool urxe_engine_owns_qpn(const struct urxe_engine *e, uint32_t qpn)
{
	return e->blocks[(qpn / URXE_QPN_BLOCK) & (QPN_BLOCKS - 1)] != NULL;
}

const struct urxe_path *urxe_engine_path(const struct urxe_engine *e, uint32_t qpn)
{
	const struct urxe_qp *qp = engine_find_qp(e, qpn);

	return qp && qp->route.txq ? &qp->route.path : NULL;
}

int qpn_take(struct urxe_engine *e, struct urxe_qp *qp, uint32_t *ret_qpn)
{
	struct qpn_fifo *fifo = &e->free_qpns;
	uint32_t qpn;

	if (fifo->head == fifo->tail)
		return -EAGAIN;
	qpn = fifo->ring[fifo->head++ & (fifo->capacity - 1)];
	e->blocks[qpn / URXE_QPN_BLOCK]->qp[qpn % URXE_QPN_BLOCK] = qp;
	*ret_qpn = qpn;
	return 0;
}

void qpn_give(struct urxe_engine *e, uint32_t qpn)
{
	struct qpn_fifo *fifo = &e->free_qpns;

	e->blocks[qpn / URXE_QPN_BLOCK]->qp[qpn % URXE_QPN_BLOCK] = NULL;
	fifo->ring[fifo->tail++ & (fifo->capacity - 1)] = qpn;
}

/* ---- protection domains, address handles ----------------------------------------------------- */

int urxe_pd_new(struct urxe_engine *e, struct urxe_pd **ret_pd)
{
	struct urxe_pd *pd;

	if (e->n_pd >= (uint32_t)e->limits.max_pd)
		return -ENOMEM;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->engine = e;
	list_add_tail(&e->pds, &pd->node);
	e->n_pd++;
	*ret_pd = pd;
	return 0;
}

int urxe_pd_free(struct urxe_pd *pd)
{
	if (!pd)
		return 0;
	if (pd->refs)
		return -EBUSY;
	list_del(&pd->node);
	pd->engine->n_pd--;
	free(pd);
	return 0;
}

int urxe_ah_new(struct urxe_pd *pd, const struct urxe_route *route, struct urxe_ah **ret_ah)
{
	struct urxe_engine *e = pd->engine;
	struct urxe_ah *ah;

	if (!route->txq)
		return -EINVAL;
	if (e->n_ah >= (uint32_t)e->limits.max_ah)
		return -ENOMEM;
	ah = malloc(sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	*ah = (struct urxe_ah){.pd = pd, .route = *route};
	pd->refs++;
	e->n_ah++;
	list_add_tail(&e->ahs, &ah->node);
	*ret_ah = ah;
	return 0;
}

int urxe_ah_free(struct urxe_ah *ah)
{
	if (!ah)
		return 0;
	ah->pd->refs--;
	ah->pd->engine->n_ah--;
	list_del(&ah->node);
	free(ah);
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

void async_init(struct async_src *src, void *user)
{
	list_init(&src->node);
	src->pending = 0;
	src->user = user;
}

void async_raise(struct urxe_engine *e, struct async_src *src, enum ibv_event_type type)
{
	src->pending |= 1u << type;
	if (!list_linked(&src->node))
		list_add_tail(&e->async, &src->node);
}

bool urxe_engine_has_events(const struct urxe_engine *e)
{
	return !list_empty(&e->notify) || !list_empty(&e->async);
}

bool urxe_engine_next_async(struct urxe_engine *e, struct urxe_async *ret_event)
{
	struct async_src *src;
	int type;

	if (list_empty(&e->async))
		return false;
	src = container_of(e->async.next, struct async_src, node);
	type = __builtin_ctz(src->pending);
	src->pending &= src->pending - 1;
	if (!src->pending)
		list_del(&src->node);
	*ret_event = (struct urxe_async){.type = (enum ibv_event_type)type, .user = src->user};
	return true;
}

uint64_t urxe_engine_counter(const struct urxe_engine *e, enum urxe_counter c)
{
	return e->counters[c];
}

static bool has_overrun(const struct urxe_cq *cq)
{
	return cq && cq->overrun;
}

/* QPs of a CQ that has overrun cannot report any more: they end (IBA 11.6.3.1). */
void engine_end_overrun(struct urxe_engine *e)
{
	while (e->cq_overrun) {
		e->cq_overrun = false;
		list_for_each (node, &e->qps) {
			struct urxe_qp *qp = container_of(node, struct urxe_qp, node);

			if ((!has_overrun(qp->send_cq) && !has_overrun(qp->recv_cq)) ||
			    qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR)
				continue;
			async_raise(e, &qp->async, IBV_EVENT_QP_FATAL);
			qp_fail(qp);
		}
	}
}

/* ---- time ------------------------------------------------------------------------------------ */

void urxe_engine_advance(struct urxe_engine *e, uint64_t now)
{
	struct timer *t;

	e->now = now;
	while ((t = timerq_expire(&e->timers, now)))
		completer_timer(container_of(t, struct urxe_qp, timer), now);
	while ((t = timerq_expire(&e->cq_timers, now)))
		cq_fire(container_of(t, struct urxe_cq, timer));
	while ((t = timerq_expire(&e->pace_timers, now)))
		qp_ready(container_of(t, struct urxe_qp, dcqcn.timer));
	engine_settle(e);
}

uint64_t urxe_engine_deadline(const struct urxe_engine *e)
{
	uint64_t qp = timerq_next(&e->timers), cq = timerq_next(&e->cq_timers);
	uint64_t pace = timerq_next(&e->pace_timers);
	uint64_t least = qp < cq ? qp : cq;

	return least < pace ? least : pace;
}

uint64_t urxe_engine_alarm(struct urxe_engine *e)
{
	timerq_settle(&e->timers);
	timerq_settle(&e->cq_timers);
	timerq_settle(&e->pace_timers);
	return urxe_engine_deadline(e);
}

/* ---- receive --------------------------------------------------------------------------------- */

static bool is_up(const struct urxe_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
	       qp->state == IBV_QPS_SQE;
}

bool qp_listens(const struct urxe_qp *qp, const struct urxe_pkt *pkt)
{
	return (pkt->opcode & URXE_SERVICE_MASK) == qp->service && (pkt->pkey & 0x7fff) == 0x7fff &&
	       is_up(qp);
}

/* A connected QP hears its peer only. */
static bool is_from_peer(const struct urxe_qp *qp, const struct urxe_rx *rx)
{
	return !rx->path ||
	       memcmp(&rx->path->sgid, &qp->route.path.dgid, sizeof(rx->path->sgid)) == 0;
}

/* The QP that is to have this packet, or NULL (IBA 9.6.1). */
static struct urxe_qp *find_listener(struct urxe_engine *e, const struct urxe_pkt *pkt,
				     const struct urxe_rx *rx)
{
	struct urxe_qp *qp = engine_find_qp(e, pkt->dqpn);

	if (!qp || !qp_listens(qp, pkt))
		return NULL;
	/* Of XRC's two kinds one only asks and the other only answers. */
	if ((qp->type == IBV_QPT_XRC_SEND && !urxe_opcodes[pkt->opcode].response) ||
	    (qp->type == IBV_QPT_XRC_RECV && urxe_opcodes[pkt->opcode].response))
		return NULL;
	if (type_is_connected(qp->type) && !is_from_peer(qp, rx))
		return NULL;
	return qp;
}

static void cnp_rx(struct urxe_engine *e, uint64_t now, const struct urxe_pkt *pkt,
		   const struct urxe_rx *rx)
{
	struct urxe_qp *qp = engine_find_qp(e, pkt->dqpn);

	if (!qp || !is_up(qp) || !type_is_connected(qp->type) || !is_from_peer(qp, rx)) {
		count(e, URXE_CNT_RX_NO_QP);
	} else if (!e->ecn) {
		count(e, URXE_CNT_RP_CNP_IGNORED);
	} else {
		count(e, URXE_CNT_RP_CNP_HANDLED);
		dcqcn_on_cnp(qp, now);
	}
}

void urxe_engine_rx(struct urxe_engine *e, uint64_t now, const struct urxe_rx *rx)
{
	struct urxe_pkt pkt;
	struct urxe_qp *qp;

	e->now = now;
	count(e, URXE_CNT_RCVD_PKTS);
	if (urxe_pkt_parse(rx->data, rx->len, &pkt) < 0) {
		count(e, URXE_CNT_RX_MALFORMED);
		return;
	}
	if (pkt.dqpn == MCAST_QPN) {
		mcast_rx(e, &pkt, rx);
		engine_settle(e);
		return;
	}
	if (__builtin_expect(pkt.opcode == URXE_OPCODE_CNP, 0)) {
		cnp_rx(e, now, &pkt, rx);
		return;
	}
	qp = find_listener(e, &pkt, rx);
	if (!qp) {
		count(e, URXE_CNT_RX_NO_QP);
		return;
	}
	if (__builtin_expect(rx->ce, 0))
		dcqcn_marked(qp, now);
	if (qp->state == IBV_QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		async_raise(e, &qp->async, IBV_EVENT_COMM_EST);
	}
	if (qp->type == IBV_QPT_UD)
		ud_rx(qp, &pkt, rx);
	else if (urxe_opcodes[pkt.opcode].response)
		completer_rx(qp, now, &pkt);
	else
		responder_rx(qp, &pkt);
	engine_settle(e);
}

/* ---- transmit -------------------------------------------------------------------------------- */

void urxe_txq_init(struct urxe_txq *q, struct urxe_engine *e, void *user)
{
	list_init(&q->ready);
	list_init(&q->owing);
	list_init(&q->active);
	q->engine = e;
	q->user = user;
}

void urxe_txq_fini(struct urxe_txq *q)
{
	list_for_each_safe (node, &q->ready)
		list_del(node);
	list_for_each_safe (node, &q->owing)
		list_del(node);
	list_del(&q->active);
}

void urxe_engine_hold_acks(struct urxe_engine *e, bool hold)
{
	e->hold_acks = hold;
}

static bool owes_only_ack(const struct urxe_qp *qp)
{
	return qp->resp.answer == ANSWER_ACK && !qp->resp.n_pending;
}

/* Requests and answers take turns, so that neither starves; data that is waiting goes first. */
static bool pull_in_turn(struct urxe_qp *qp, uint64_t now, struct urxe_frame *f)
{
	bool answered;

	if (qp->engine->hold_acks && owes_only_ack(qp))
		return requester_pull(qp, now, f);
	if (qp->turn && answer_pull(qp, f)) {
		qp->turn = false;
		return true;
	}
	if (requester_pull(qp, now, f)) {
		qp->turn = true;
		return true;
	}
	answered = !qp->turn && answer_pull(qp, f);
	qp->turn = false;
	return answered;
}

/* The same under congestion control: data waits for its time, ACKs and NAKs do not. */
static bool pull_in_time(struct urxe_qp *qp, uint64_t now, struct urxe_frame *f)
{
	if (dcqcn_pull(qp, f))
		return true;
	if (!dcqcn_may_send(qp, now))
		return answer_is_bare(qp) && answer_pull(qp, f);
	if (!pull_in_turn(qp, now, f))
		return false;
	dcqcn_sent(qp, now, f);
	return true;
}

static bool qp_pull(struct urxe_qp *qp, uint64_t now, struct urxe_frame *f)
{
	if (__builtin_expect(qp->dcqcn.flags != 0, 0))
		return pull_in_time(qp, now, f);
	return pull_in_turn(qp, now, f);
}

/* Nothing more to send: asking it again can be saved. */
static bool is_spent(const struct urxe_qp *qp)
{
	return qp->sq.cur == qp->sq.tail && qp->resp.answer == ANSWER_NONE && !qp->resp.n_pending;
}

/* Datagrams go wherever their own address says. */
static bool belongs(const struct urxe_qp *qp, const struct urxe_txq *q)
{
	return qp->type != IBV_QPT_UD || qp->sq.cur == qp->sq.tail ||
	       sq_at(&qp->sq, qp->sq.cur)->ud.txq == q;
}

/* The QP whose turn it is, or NULL. */
static struct urxe_qp *next_qp(const struct urxe_txq *q)
{
	if (!list_empty(&q->ready))
		return container_of(q->ready.next, struct urxe_qp, ready);
	if (list_empty(&q->owing) || q->engine->hold_acks)
		return NULL;
	return container_of(q->owing.next, struct urxe_qp, ready);
}

static void idle_if_empty(struct urxe_txq *q)
{
	if (list_empty(&q->ready) && list_empty(&q->owing))
		list_del(&q->active);
}

bool urxe_txq_pull(struct urxe_txq *q, uint64_t now, struct urxe_frame *ret_frame)
{
	struct urxe_qp *qp;

	q->engine->now = now;
	while ((qp = next_qp(q)) != NULL) {
		if (!belongs(qp, q)) {
			list_del(&qp->ready);
			qp_ready(qp);
			continue;
		}
		if (!qp_pull(qp, now, ret_frame)) {
			list_del(&qp->ready);
			if (owes_only_ack(qp))
				qp_owes_ack(qp);
			continue;
		}
		count(q->engine, URXE_CNT_SENT_PKTS);
		if (is_spent(qp)) {
			list_del(&qp->ready);
		} else if (++qp->burst >= BURST) {
			list_del(&qp->ready);
			qp_ready(qp);
		}
		ret_frame->last = !next_qp(q);
		idle_if_empty(q);
		engine_settle(q->engine);
		return true;
	}
	idle_if_empty(q);
	engine_settle(q->engine);
	return false;
}

struct urxe_txq *urxe_engine_next_txq(struct urxe_engine *e, struct urxe_txq *q)
{
	struct list *next = q ? q->active.next : e->active_txqs.next;

	return next == &e->active_txqs ? NULL : container_of(next, struct urxe_txq, active);
}
