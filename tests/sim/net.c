/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

struct carried {
	struct list node;
	struct world *w;
	unsigned to;
	bool has_path, ce;
	struct urxe_path path;
	uint32_t len;
	uint8_t *bytes; /* exactly len: an overread is one for the sanitizer too */
};

static void choose_losses(struct world *w)
{
	static const uint32_t losses[] = {1000, 10000, 50000, 150000, 300000};
	struct net_profile *p = &w->net;
	struct rng *r = &w->rng;

	if (chance(r, 700000))
		p->loss = losses[rng_below(r, 5)];
	if (chance(r, 400000))
		p->dup = between(r, 1000, 200000);
	if (chance(r, 400000)) {
		p->reorder = between(r, 1000, 200000);
		p->reorder_ns = between(r, 1000, 200000);
	}
	if (chance(r, 200000))
		p->corrupt = between(r, 1000, 100000);
	if (chance(r, 200000)) {
		p->burst = between(r, 500, 5000);
		p->burst_len = between(r, 2, 60);
	}
	if (chance(r, 200000)) {
		p->cut_at = between(r, 10, 3000) * NSEC_PER_USEC;
		p->cut_until = chance(r, 300000)
				       ? CLOCK_NEVER
				       : p->cut_at + between(r, 10, 400000) * NSEC_PER_USEC;
		p->cut_a = rng_below(r, w->n_nodes);
		p->cut_b = rng_below(r, w->n_nodes);
	}
}

void net_choose(struct world *w)
{
	struct net_profile *p = &w->net;
	struct rng *r = &w->rng;

	*p = (struct net_profile){.cut_at = CLOCK_NEVER};
	p->delay_ns = between(r, 200, 20000);
	p->pace_ns = rng_below(r, 1000);
	if (chance(r, 200000)) {
		p->stall = between(r, 500, 20000);
		p->stall_ns = between(r, 1000, 400000);
	}
	p->no_addresses = chance(r, 300000);
	p->ipv4 = chance(r, 500000);
	p->perfect = chance(r, 250000);
	if (!p->perfect) {
		choose_losses(w);
		p->jitter_ns = chance(r, 500000) ? rng_below(r, 50000) : 0;
	}
	p->in_order = !p->dup && !p->reorder && !p->jitter_ns;
	if (world_has_ecn(w))
		p->mark = 1000 << w->seed % 9;
}

static bool is_cut(const struct world *w, unsigned a, unsigned b)
{
	const struct net_profile *p = &w->net;

	if (w->node[a].gone || w->node[b].gone)
		return true;
	if (w->now < p->cut_at || w->now >= p->cut_until)
		return false;
	return p->cut_a == p->cut_b || (a == p->cut_a && b == p->cut_b) ||
	       (a == p->cut_b && b == p->cut_a);
}

static void forget(struct carried *c)
{
	list_del(&c->node);
	free(c->bytes);
	free(c);
}

static void arrive(struct world *w, void *arg)
{
	struct carried *c = arg;
	struct node *n = &w->node[c->to];
	struct urxe_rx rx = {
		.data = c->bytes,
		.len = c->len,
		.path = c->has_path ? &c->path : NULL,
		.ce = c->ce,
	};

	if (!n->gone) {
		urxe_engine_rx(n->engine, w->now, &rx);
		world_touched(n);
	}
	forget(c);
}

/* What every frame of ours must be, whatever else happens. */
static void check_frame(struct world *w, const struct urxe_frame *f, const uint8_t *bytes,
			uint32_t len)
{
	struct urxe_pkt pkt;
	int err = urxe_pkt_parse(bytes, len, &pkt);
	unsigned service;

	check(w, !err, "sent a frame that does not parse: %d", err);
	service = pkt.opcode & URXE_SERVICE_MASK;
	check(w, pkt.payload_len == f->payload_len && pkt.pad == f->pad,
	      "payload %u pad %u in "
	      "the frame, %u %u on the wire",
	      f->payload_len, f->pad, pkt.payload_len, pkt.pad);
	check(w, pkt.dqpn == f->dqpn, "dqpn %x in the frame, %x on the wire", f->dqpn, pkt.dqpn);
	check(w, pkt.pkey == 0xffff, "pkey %x", pkt.pkey);
	check(w, service == URXE_RC || service == URXE_XRC || !pkt.ack_req, "%s asks for an ACK",
	      urxe_opcodes[pkt.opcode].name);
	check(w, !pkt.payload_len || urxe_opcodes[pkt.opcode].payload, "%s with payload",
	      urxe_opcodes[pkt.opcode].name);
	if (w->trace)
		world_trace(w, "  %s qpn %x psn %06x len %u%s", urxe_opcodes[pkt.opcode].name,
			    pkt.dqpn, pkt.psn, pkt.payload_len, pkt.ack_req ? " A" : "");
}

static uint8_t *flatten(struct world *w, const struct urxe_frame *f, uint32_t *ret_len)
{
	uint32_t len = f->hdr_len + f->payload_len + f->pad;
	uint8_t *bytes = malloc(len);
	uint8_t *at = bytes + f->hdr_len;

	check(w,
	      f->hdr_len >= BTH_LEN && f->hdr_len <= URXE_HDR_MAX && f->pad < 4 &&
		      f->n_iov <= URXE_FRAME_IOV,
	      "impossible frame");
	memcpy(bytes, f->hdr, f->hdr_len);
	for (unsigned i = 0; i < f->n_iov; i++) {
		check(w, f->iov[i].iov_len <= (size_t)(bytes + len - f->pad - at),
		      "iov holds more than payload_len %u", f->payload_len);
		memcpy(at, f->iov[i].iov_base, f->iov[i].iov_len);
		at += f->iov[i].iov_len;
	}
	check(w, at + f->pad == bytes + len, "iov holds less than payload_len %u", f->payload_len);
	memset(at, 0, f->pad);
	*ret_len = len;
	return bytes;
}

static void carry(struct net_link *l, const struct urxe_frame *f, const uint8_t *bytes,
		  uint32_t len)
{
	struct world *w = l->from->w;
	const struct net_profile *p = &w->net;
	uint64_t delay = p->delay_ns;
	struct carried *c = malloc(sizeof(*c));

	*c = (struct carried){.w = w, .to = l->to, .len = len, .path = *f->path};
	c->has_path = f->grh || !p->no_addresses;
	c->ce = p->mark && chance(&w->net_rng, p->mark);
	c->bytes = malloc(len);
	memcpy(c->bytes, bytes, len);
	list_add_tail(&w->frames, &c->node);
	if (p->jitter_ns)
		delay += rng_below(&w->net_rng, (uint32_t)p->jitter_ns);
	if (chance(&w->net_rng, p->reorder))
		delay += rng_below(&w->net_rng, (uint32_t)p->reorder_ns) + 1;
	world_at(w, w->now + delay, arrive, c);
}

static bool is_lost(struct net_link *l)
{
	struct world *w = l->from->w;
	const struct net_profile *p = &w->net;

	if (is_cut(w, l->from->id, l->to))
		return true;
	if (l->burst) {
		l->burst--;
		return true;
	}
	if (chance(&w->net_rng, p->burst))
		l->burst = p->burst_len;
	/* A link discards what has a wrong ICRC. */
	return chance(&w->net_rng, p->loss) || chance(&w->net_rng, p->corrupt);
}

static void transmit(struct net_link *l, const struct urxe_frame *f)
{
	struct world *w = l->from->w;
	uint32_t len;
	uint8_t *bytes = flatten(w, f, &len);

	world_hash(w, &w->now, sizeof(w->now));
	world_hash(w, bytes, len);
	world_hash(w, f->path, sizeof(*f->path));
	if (is_lost(l)) {
		world_trace(w, "%u -> %u LOST", l->from->id, l->to);
	} else {
		world_trace(w, "%u -> %u", l->from->id, l->to);
		carry(l, f, bytes, len);
		if (chance(&w->net_rng, w->net.dup))
			carry(l, f, bytes, len);
	}
	check_frame(w, f, bytes, len);
	free(bytes);
}

static void wake(struct world *w, void *arg)
{
	struct net_link *l = arg;

	l->wake_due = false;
}

static void pump_link(struct net_link *l)
{
	struct world *w = l->from->w;
	struct urxe_frame f;

	while (w->now >= l->busy_until && urxe_txq_pull(&l->txq, w->now, &f)) {
		transmit(l, &f);
		l->busy_until = w->now + w->net.pace_ns;
		if (chance(&w->net_rng, w->net.stall))
			l->busy_until += w->net.stall_ns;
	}
	if (w->now < l->busy_until && !l->wake_due) {
		l->wake_due = true;
		world_at(w, l->busy_until, wake, l);
	}
}

void net_pump(struct world *w)
{
	for (unsigned i = 0; i < w->n_nodes; i++) {
		struct node *n = &w->node[i];
		struct urxe_txq *q = n->gone ? NULL : urxe_engine_next_txq(n->engine, NULL);
		bool any = q;

		while (q) {
			struct urxe_txq *next = urxe_engine_next_txq(n->engine, q);

			pump_link(q->user);
			q = next;
		}
		/* A pull completes requests, also when it gives no frame. */
		if (any)
			world_touched(n);
	}
}

void net_fini(struct world *w)
{
	list_for_each_safe (pos, &w->frames)
		forget(container_of(pos, struct carried, node));
}
