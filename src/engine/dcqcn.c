/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/dcqcn.h"

#include "engine/qp.h"

/* The parameters of the paper: sections 3.1 to 3.3, table 14 and section 5.2. */
#define CNP_INTERVAL_NS (50 * NSEC_PER_USEC) /* N: of one QP's CNPs */
#define ALPHA_NS        (55 * NSEC_PER_USEC) /* K: without a CNP for so long, alpha decays */
#define RAISE_NS        (55 * NSEC_PER_USEC) /* T: the timer */
#define RAISE_BYTES     UINT64_C(10000000)   /* B: the byte counter */
enum {
	G_SHIFT = 8, /* g is 1/256 */
	FAST = 5,    /* F: raises of fast recovery */
	RAISE_MBPS = 40,
	/* Not in the paper: QCN, whose increase it takes over, has them in this proportion. */
	HYPER_MBPS = 10 * RAISE_MBPS,
	MIN_MBPS = 10,
	DEFAULT_LINE_MBPS = 100000,
};

#define ALPHA_ONE (UINT32_C(1) << 16)

/*
 * Whoever drives the engine is a program too and comes late: what could have left meanwhile may
 * follow in one go. It is about what a thread takes to wake up, and a small part of a switch's
 * buffer.
 */
#define CATCH_UP_NS (50 * NSEC_PER_USEC)

/* DSCP 48, what NICs send CNPs with by default, so that switches let them pass; not marked. */
enum { CNP_TCLASS = 48 << 2 };

static uint64_t rate_of(uint32_t mbps)
{
	return mbps * UINT64_C(125000);
}

static uint64_t line_rate(const struct urxe_qp *qp)
{
	return rate_of(qp->route.line_mbps ? qp->route.line_mbps : DEFAULT_LINE_MBPS);
}

void dcqcn_reset(struct urxe_qp *qp)
{
	timer_remove(&qp->engine->pace_timers, &qp->dcqcn.timer);
	qp->dcqcn = (struct dcqcn){0};
	timer_init(&qp->dcqcn.timer);
}

/* ---- notification point: who receives ---------------------------------------------------------
 */

void dcqcn_marked(struct urxe_qp *qp, uint64_t now)
{
	struct dcqcn *d = &qp->dcqcn;

	count(qp->engine, URXE_CNT_NP_ECN_MARKED);
	if (!qp->engine->ecn || !type_is_connected(qp->type) || now < d->cnp_due_ns)
		return;
	d->cnp_due_ns = now + CNP_INTERVAL_NS;
	d->flags |= DCQCN_CNP_OWED;
	qp_ready(qp);
}

bool dcqcn_pull(struct urxe_qp *qp, struct urxe_frame *f)
{
	const struct urxe_pkt pkt = {.opcode = URXE_OPCODE_CNP,
				     .becn = true,
				     .pkey = 0xffff,
				     .dqpn = qp->attr.dest_qp_num};
	struct urxe_path *path = &qp->engine->cnp_path;

	if (!(qp->dcqcn.flags & DCQCN_CNP_OWED))
		return false;
	qp->dcqcn.flags &= (uint8_t)~DCQCN_CNP_OWED;
	if (qp->state == IBV_QPS_ERR)
		return false;
	*path = qp->route.path;
	path->tclass = CNP_TCLASS;
	frame_begin(qp, f);
	f->path = path;
	f->dqpn = pkt.dqpn;
	f->hdr_len = (uint8_t)urxe_pkt_build(&pkt, f->hdr);
	count(qp->engine, URXE_CNT_NP_CNP_SENT);
	return true;
}

/* ---- reaction point: who sends ----------------------------------------------------------------
 */

/* Acknowledgements are asked for with each packet: the next one may be a long time off. */
static void set_limited(struct urxe_qp *qp, bool limited)
{
	qp->dcqcn.flags &= (uint8_t)~DCQCN_LIMITED;
	if (limited)
		qp->dcqcn.flags |= DCQCN_LIMITED;
	qp->req.ack_mask = limited ? 0 : ACK_MASK;
}

/* One of the two counters has completed another round. */
static void raise(struct urxe_qp *qp)
{
	struct dcqcn *d = &qp->dcqcn;
	uint64_t line = line_rate(qp);
	uint32_t most = d->by_time > d->by_bytes ? d->by_time : d->by_bytes;
	uint32_t least = d->by_time < d->by_bytes ? d->by_time : d->by_bytes;

	if (least > FAST)
		d->target += (least - FAST) * rate_of(HYPER_MBPS);
	else if (most >= FAST)
		d->target += rate_of(RAISE_MBPS);
	if (d->target > line)
		d->target = line;
	d->rate = (d->rate + d->target) / 2;
	if (d->rate + rate_of(RAISE_MBPS) >= line)
		set_limited(qp, false);
}

/* What time has done since anybody looked. */
static void catch_up(struct urxe_qp *qp, uint64_t now)
{
	struct dcqcn *d = &qp->dcqcn;

	while (d->flags & DCQCN_LIMITED && now >= d->raise_ns + RAISE_NS) {
		d->raise_ns += RAISE_NS;
		d->by_time++;
		raise(qp);
	}
	while (d->alpha >> G_SHIFT && now >= d->alpha_ns + ALPHA_NS) {
		d->alpha_ns += ALPHA_NS;
		d->alpha -= d->alpha >> G_SHIFT;
	}
}

void dcqcn_on_cnp(struct urxe_qp *qp, uint64_t now)
{
	struct dcqcn *d = &qp->dcqcn;
	uint64_t least = rate_of(MIN_MBPS);

	if (d->flags & DCQCN_LIMITED)
		catch_up(qp, now);
	if (!(d->flags & DCQCN_LIMITED)) {
		set_limited(qp, true);
		d->alpha = ALPHA_ONE;
		d->rate = line_rate(qp);
		d->next_ns = now;
	}
	d->target = d->rate;
	d->rate -= d->rate * d->alpha / (2 * ALPHA_ONE);
	if (d->rate < least)
		d->rate = least;
	d->alpha += (ALPHA_ONE - d->alpha) >> G_SHIFT;
	d->alpha_ns = d->raise_ns = now;
	d->by_time = d->by_bytes = 0;
	d->bytes = 0;
}

bool dcqcn_may_send(struct urxe_qp *qp, uint64_t now)
{
	struct dcqcn *d = &qp->dcqcn;

	catch_up(qp, now);
	if (!dcqcn_holds(d, now))
		return true;
	timer_set(&qp->engine->pace_timers, &d->timer, d->next_ns);
	return false;
}

void dcqcn_sent(struct urxe_qp *qp, uint64_t now, const struct urxe_frame *f)
{
	struct dcqcn *d = &qp->dcqcn;
	uint32_t len = f->hdr_len + f->payload_len + f->pad;

	if (!(d->flags & DCQCN_LIMITED))
		return;
	if (d->next_ns + CATCH_UP_NS < now)
		d->next_ns = now - CATCH_UP_NS;
	d->next_ns += len * NSEC_PER_SEC / d->rate;
	d->bytes += len;
	if (d->bytes < RAISE_BYTES)
		return;
	d->bytes = 0;
	d->by_bytes++;
	raise(qp);
}
