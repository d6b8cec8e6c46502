/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Incast: 32 hosts write to one through a switch port with a finite buffer, which marks as RED does
 * (thresholds and probability of the DCQCN paper, SIGCOMM 2015, section 5.2). All lines have 40
 * Gb/s. Once without congestion control and once with it: what that is good for has to show. It is
 * looked at after 10 ms: all begin at once and at full speed, and no notification is as fast as
 * that.
 */
#include "connect.h"

#include "base/clock.h"
#include "base/rng.h"
#include "wire/packet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	N_HOSTS = 32,
	LINE_MBPS = 40000,
	DELAY_NS = 2000, /* of each of the two legs */
	BUFFER_BYTES = 1 << 20,
	K_MIN = 5000,
	K_MAX = 200000,
	P_MAX = 10000, /* per million */
	FRAMING = 62,  /* Ethernet with preamble and gap, IPv4, UDP, ICRC */
	MTU = 1024,
	WINDOW = 256,
	MSG_BYTES = 256 << 10,
	OUTSTANDING = 2, /* messages of each host */
	ECT0 = 2,
	WARM_UP_MS = 10,
	RUN_MS = 30,
};

struct packet {
	struct packet *next;
	uint64_t at_ns; /* when it is through with what it is in */
	uint32_t len;
	bool ect, ce;
	uint8_t bytes[];
};

/* A leg that takes all packets the same time, or the switch's queue. */
struct fifo {
	struct packet *head, **tail;
};

struct host {
	struct urxe_txq txq;
	struct urxe_qp *qp;
	uint64_t busy_until;
};

struct result {
	uint64_t goodput[N_HOSTS]; /* bytes of messages completed after the warm-up */
	uint64_t drops, start_drops, forwarded_bytes;
	uint64_t queue_sum, n_arrivals, queue_max; /* as arriving packets find it */
};

struct net {
	uint64_t now;
	struct rng rng;
	struct urxe_engine *senders, *receiver;
	struct urxe_pd *pd, *receiver_pd;
	struct urxe_cq *cq, *receiver_cq;
	struct urxe_mr *source, *target;
	struct urxe_txq answers;
	struct host host[N_HOSTS];
	struct fifo to_switch, queue, to_receiver, to_senders;
	uint64_t queue_bytes, port_free_at;
	uint8_t memory[MSG_BYTES];
	struct result result;
};

static bool warm(const struct net *n)
{
	return n->now >= WARM_UP_MS * NSEC_PER_MSEC;
}

static uint64_t ns_of(uint32_t len)
{
	return (uint64_t)(len + FRAMING) * 8000 / LINE_MBPS;
}

/* ---- packets --------------------------------------------------------------------------------- */

static void put(struct fifo *f, struct packet *p, uint64_t at_ns)
{
	p->at_ns = at_ns;
	p->next = NULL;
	*f->tail = p;
	f->tail = &p->next;
}

static struct packet *take_due(struct fifo *f, uint64_t now)
{
	struct packet *p = f->head;

	if (!p || p->at_ns > now)
		return NULL;
	f->head = p->next;
	if (!f->head)
		f->tail = &f->head;
	return p;
}

static struct packet *packet_of(const struct urxe_frame *f)
{
	uint32_t len = f->hdr_len + f->payload_len + f->pad;
	struct packet *p = malloc(sizeof(*p) + len);
	uint8_t *at = p->bytes + f->hdr_len;

	*p = (struct packet){.len = len, .ect = (f->path->tclass & 3) == ECT0};
	memcpy(p->bytes, f->hdr, f->hdr_len);
	for (unsigned i = 0; i < f->n_iov; i++) {
		memcpy(at, f->iov[i].iov_base, f->iov[i].iov_len);
		at += f->iov[i].iov_len;
	}
	memset(at, 0, f->pad);
	return p;
}

static void deliver(struct net *n, struct fifo *f, struct urxe_engine *to)
{
	struct packet *p;

	while ((p = take_due(f, n->now))) {
		const struct urxe_rx rx = {.data = p->bytes, .len = p->len, .ce = p->ce};

		urxe_engine_rx(to, n->now, &rx);
		free(p);
	}
}

/* ---- the switch ------------------------------------------------------------------------------ */

static bool red_marks(struct net *n)
{
	uint64_t above = n->queue_bytes - K_MIN;

	if (n->queue_bytes <= K_MIN)
		return false;
	return n->queue_bytes >= K_MAX ||
	       rng_below(&n->rng, 1000000) < P_MAX * above / (K_MAX - K_MIN);
}

static void arrive_at_switch(struct net *n, struct packet *p)
{
	struct result *r = &n->result;

	if (n->queue_bytes + p->len > BUFFER_BYTES) {
		*(warm(n) ? &r->drops : &r->start_drops) += 1;
		free(p);
		return;
	}
	p->ce = p->ect && red_marks(n);
	n->queue_bytes += p->len;
	if (n->port_free_at < n->now)
		n->port_free_at = n->now;
	n->port_free_at += ns_of(p->len);
	put(&n->queue, p, n->port_free_at);
	if (!warm(n))
		return;
	r->n_arrivals++;
	r->queue_sum += n->queue_bytes;
	if (n->queue_bytes > r->queue_max)
		r->queue_max = n->queue_bytes;
}

static void run_switch(struct net *n)
{
	struct packet *p;

	while ((p = take_due(&n->to_switch, n->now)))
		arrive_at_switch(n, p);
	while ((p = take_due(&n->queue, n->now))) {
		n->queue_bytes -= p->len;
		if (warm(n))
			n->result.forwarded_bytes += p->len + FRAMING;
		put(&n->to_receiver, p, n->now + DELAY_NS);
	}
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static void post(struct net *n, unsigned host)
{
	struct ibv_sge sge = {.addr = 0, .length = MSG_BYTES, .lkey = urxe_mr_lkey(n->source)};
	struct ibv_send_wr wr = {.wr_id = host,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};
	const struct ibv_send_wr *bad;
	int err;

	wr.wr.rdma.rkey = urxe_mr_rkey(n->target);
	err = urxe_qp_post_send(n->host[host].qp, n->now, &wr, &bad, NULL);
	assert(!err);
}

static void poll(struct net *n)
{
	struct ibv_wc wc;

	while (urxe_cq_poll(n->cq, 1, &wc) == 1) {
		assert(wc.status == IBV_WC_SUCCESS);
		if (warm(n))
			n->result.goodput[wc.wr_id] += MSG_BYTES;
		post(n, (unsigned)wc.wr_id);
	}
}

static void run_hosts(struct net *n)
{
	struct urxe_frame f;

	for (unsigned i = 0; i < N_HOSTS; i++) {
		struct host *h = &n->host[i];

		if (h->busy_until > n->now || !urxe_txq_pull(&h->txq, n->now, &f))
			continue;
		struct packet *p = packet_of(&f);

		h->busy_until = n->now + ns_of(p->len);
		put(&n->to_switch, p, n->now + DELAY_NS);
	}
	while (urxe_txq_pull(&n->answers, n->now, &f))
		put(&n->to_senders, packet_of(&f), n->now + 2 * DELAY_NS);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void soonest(uint64_t *least, uint64_t at_ns)
{
	if (at_ns < *least)
		*least = at_ns;
}

static uint64_t next_event(const struct net *n)
{
	const struct fifo *const fifos[] = {&n->to_switch, &n->queue, &n->to_receiver,
					    &n->to_senders};
	uint64_t least = urxe_engine_deadline(n->senders);

	soonest(&least, urxe_engine_deadline(n->receiver));
	for (unsigned i = 0; i < sizeof(fifos) / sizeof(fifos[0]); i++)
		soonest(&least, fifos[i]->head ? fifos[i]->head->at_ns : CLOCK_NEVER);
	for (unsigned i = 0; i < N_HOSTS; i++) {
		if (list_linked(&n->host[i].txq.active))
			soonest(&least, n->host[i].busy_until);
	}
	return least;
}

static void run(struct net *n)
{
	while (n->now < RUN_MS * NSEC_PER_MSEC) {
		run_hosts(n);
		poll(n);
		run_hosts(n);
		n->now = next_event(n);
		urxe_engine_advance(n->senders, n->now);
		urxe_engine_advance(n->receiver, n->now);
		run_switch(n);
		deliver(n, &n->to_receiver, n->receiver);
		deliver(n, &n->to_senders, n->senders);
	}
}

/* ---- setting up ------------------------------------------------------------------------------ */

static struct urxe_qp *new_qp(struct urxe_pd *pd, struct urxe_cq *cq)
{
	struct urxe_qp_init init = {.type = IBV_QPT_RC,
				    .send_cq = cq,
				    .recv_cq = cq,
				    .cap = {.max_send_wr = OUTSTANDING, .max_send_sge = 1}};
	struct urxe_qp *qp;
	int err = urxe_qp_new(pd, &init, &qp);

	assert(!err);
	return qp;
}

static void connect_qp(struct urxe_qp *qp, uint32_t dqpn, struct urxe_txq *txq, bool ecn)
{
	struct connect_attr attr = {
		.type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		.dqpn = dqpn,
		.timeout = 10,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.access = IBV_ACCESS_REMOTE_WRITE,
		.route = {.txq = txq, .window_pkts = WINDOW, .line_mbps = LINE_MBPS}};
	int err;

	connect_path(&attr.route.path, 0, 1, true);
	attr.route.path.tclass = ecn ? ECT0 : 0;
	err = connect_init(qp, &attr, 0) || connect_up(qp, &attr, 0);
	assert(!err);
}

static struct urxe_engine *new_engine(bool ecn, struct urxe_pd **ret_pd, struct urxe_cq **ret_cq)
{
	struct ibv_device_attr limits;
	const struct urxe_engine_conf conf = {
		.limits = &limits, .active_mtu = IBV_MTU_1024, .ecn = ecn, .seed = 1};
	struct urxe_engine *e;
	int err;

	urxe_limits_default(&limits);
	err = urxe_engine_new(&conf, &e) || urxe_engine_add_qpns(e, 0) || urxe_pd_new(e, ret_pd) ||
	      urxe_cq_new(e, 2 * OUTSTANDING * N_HOSTS, NULL, ret_cq);
	assert(!err);
	return e;
}

static void set_up(struct net *n, bool ecn)
{
	struct fifo *const fifos[] = {&n->to_switch, &n->queue, &n->to_receiver, &n->to_senders};
	int err;

	n->rng.state = 1;
	for (unsigned i = 0; i < sizeof(fifos) / sizeof(fifos[0]); i++)
		fifos[i]->tail = &fifos[i]->head;
	n->senders = new_engine(ecn, &n->pd, &n->cq);
	n->receiver = new_engine(ecn, &n->receiver_pd, &n->receiver_cq);
	urxe_txq_init(&n->answers, n->receiver, NULL);
	err = urxe_mr_reg(n->pd, n->memory, MSG_BYTES, 0, 0, &n->source) ||
	      urxe_mr_reg(n->receiver_pd, n->memory, MSG_BYTES, 0,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &n->target);
	assert(!err);
	for (unsigned i = 0; i < N_HOSTS; i++) {
		struct urxe_qp *peer = new_qp(n->receiver_pd, n->receiver_cq);
		struct host *h = &n->host[i];

		h->qp = new_qp(n->pd, n->cq);
		urxe_txq_init(&h->txq, n->senders, h);
		connect_qp(h->qp, urxe_qp_num(peer), &h->txq, ecn);
		connect_qp(peer, urxe_qp_num(h->qp), &n->answers, ecn);
		for (unsigned k = 0; k < OUTSTANDING; k++)
			post(n, i);
	}
}

static void tear_down(struct net *n)
{
	struct fifo *const fifos[] = {&n->to_switch, &n->queue, &n->to_receiver, &n->to_senders};
	struct packet *p;

	for (unsigned i = 0; i < sizeof(fifos) / sizeof(fifos[0]); i++) {
		while ((p = take_due(fifos[i], CLOCK_NEVER)))
			free(p);
	}
	urxe_engine_free(n->senders);
	urxe_engine_free(n->receiver);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

struct verdict {
	double goodput, utilisation, queue_mean, fairness; /* shares of the line, but for bytes */
	double lost;                                       /* share of the packets */
};

static struct verdict judge(const struct result *r)
{
	const double line = LINE_MBPS * 125000.0 * (RUN_MS - WARM_UP_MS) / 1000;
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < N_HOSTS; i++) {
		sum += (double)r->goodput[i];
		squares += (double)r->goodput[i] * (double)r->goodput[i];
	}
	return (struct verdict){
		.goodput = sum / line,
		.utilisation = (double)r->forwarded_bytes / line,
		.queue_mean = (double)r->queue_sum / (double)r->n_arrivals,
		.fairness = squares > 0 ? sum * sum / (N_HOSTS * squares) : 0,
		.lost = (double)r->drops / (double)(r->drops + r->n_arrivals),
	};
}

static struct verdict simulate(bool ecn)
{
	struct net *n = calloc(1, sizeof(*n));
	struct verdict v;

	set_up(n, ecn);
	run(n);
	v = judge(&n->result);
	printf("# %s DCQCN: port used %.1f %%, goodput %.1f %%, fairness (Jain) %.3f, queue %.0f "
	       "KB "
	       "(at most %.0f), lost %llu packets (%.3f %%), in the first %d ms %llu; %llu CNPs\n",
	       ecn ? "with" : "without", 100 * v.utilisation, 100 * v.goodput, v.fairness,
	       v.queue_mean / 1e3, (double)n->result.queue_max / 1e3,
	       (unsigned long long)n->result.drops, 100 * v.lost, WARM_UP_MS,
	       (unsigned long long)n->result.start_drops,
	       (unsigned long long)urxe_engine_counter(n->senders, URXE_CNT_RP_CNP_HANDLED));
	tear_down(n);
	free(n);
	return v;
}

static bool expect(bool ok, const char *what)
{
	printf("%s - %s\n", ok ? "ok" : "not ok", what);
	return ok;
}

int main(void)
{
	struct verdict without = simulate(false), with = simulate(true);
	bool ok = true;

	ok &= expect(without.lost > 0.002, "without congestion control the port overflows");
	ok &= expect(with.lost < 0.0001, "with it hardly a packet is lost");
	ok &= expect(with.queue_mean < without.queue_mean / 5, "the queue is short");
	ok &= expect(with.utilisation > 0.9, "the port is used");
	ok &= expect(with.fairness > 0.95, "all get about the same");
	return !ok;
}
