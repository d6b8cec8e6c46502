/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/fault.h"

#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/filter.h"
#include "xrdma/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct xr_faults {
	struct xr_filter filter;
	struct list delayed; /* messages that came, by the time when they are due */
	struct xr_timer timer;
	struct xrdma_context *ctx;
};

struct delayed {
	struct list link;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct ibv_wc wc;
	uint64_t due;
};

/* ---- messages that came and wait ---- */

static struct delayed *first(const struct xr_faults *f)
{
	return list_empty(&f->delayed) ? NULL : container_of(f->delayed.next, struct delayed, link);
}

static uint64_t due_at(const struct list *pos)
{
	return container_of(pos, struct delayed, link)->due;
}

static void drop_delayed(struct delayed *d)
{
	d->ch->faults.delayed--;
	list_del(&d->link);
	free(d);
}

static void set_timer(struct xr_faults *f, uint64_t due)
{
	if (due < f->timer.timer.due_ns)
		xr_timer_set(f->ctx, &f->timer, due);
}

static void timer_fired(struct xr_timer *t)
{
	struct xr_faults *f = container_of(t, struct xr_faults, timer);
	struct xrdma_context *ctx = f->ctx;
	struct delayed *d;

	/* What is received may close channels, and so take others out of the list. */
	for (d = first(f); d && d->due <= ctx->now; d = first(f)) {
		struct xrdma_channel *ch = d->ch;
		struct xrdma_msg *m = d->m;
		struct ibv_wc wc = d->wc;

		drop_delayed(d);
		ch->faults.pass_in = true;
		xr_channel_received(ch, m, &wc);
	}
	if (d)
		set_timer(f, d->due);
	list_for_each (pos, &ctx->channels) {
		struct xrdma_channel *ch = container_of(pos, struct xrdma_channel, link);

		if (ch->faults.held_until == 0)
			continue;
		if (ch->faults.held_until <= ctx->now)
			xr_channel_touch(ch);
		else
			set_timer(f, ch->faults.held_until);
	}
	if (f->filter.n == 0 && !d)
		xr_faults_free(ctx);
}

/* Behind what came before by the same channel, however short its own delay. */
static bool delay(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc,
		  uint64_t delay_ns)
{
	struct xr_faults *f = ch->ctx->faults;
	struct delayed *d = malloc(sizeof(*d));
	struct list *pos;

	if (!d)
		return false;
	m->ch = ch;
	m->state = XR_M_ARRIVED;
	*d = (struct delayed){.ch = ch, .m = m, .wc = *wc, .due = clock_now_ns() + delay_ns};
	if (d->due < ch->faults.last_due)
		d->due = ch->faults.last_due;
	ch->faults.last_due = d->due;
	ch->faults.delayed++;
	for (pos = f->delayed.prev; pos != &f->delayed && due_at(pos) > d->due;)
		pos = pos->prev;
	list_add_tail(pos->next, &d->link);
	set_timer(f, d->due);
	return true;
}

void xr_faults_forget(struct xrdma_channel *ch)
{
	struct xr_faults *f = ch->ctx->faults;

	if (f && ch->faults.delayed) {
		list_for_each_safe (pos, &f->delayed) {
			struct delayed *d = container_of(pos, struct delayed, link);

			if (d->ch != ch)
				continue;
			(void)xr_rq_refill(ch->rq, d->m, NULL, 0);
			drop_delayed(d);
		}
	}
	ch->faults = (struct xr_ch_faults){0};
}

/* ---- rules ---- */

static int begin(struct xrdma_context *ctx)
{
	struct xr_faults *f = calloc(1, sizeof(*f));

	if (!f || xr_timers_reserve(ctx, 1)) {
		free(f);
		return xr_error(-ENOMEM, "out of memory for a filter");
	}
	f->ctx = ctx;
	list_init(&f->delayed);
	xr_timer_init(&f->timer, timer_fired);
	ctx->faults = f;
	return 0;
}

int xr_faults_set(struct xrdma_context *ctx, const char *text)
{
	struct xr_filter filter;
	int ret = xr_filter_parse(text, &filter);

	if (!ret && filter.n && !ctx->faults)
		ret = begin(ctx);
	if (ret)
		return ret;
	if (!ctx->faults)
		return 0;
	log_info("filter: %s", filter.n ? text : "none");
	ctx->faults->filter = filter;
	/* With no rules left: lets go what waits, and itself. */
	xr_timer_set(ctx, &ctx->faults->timer, clock_now_ns());
	return 0;
}

void xr_faults_free(struct xrdma_context *ctx)
{
	struct xr_faults *f = ctx->faults;

	if (!f)
		return;
	list_for_each (pos, &ctx->channels)
		xr_faults_forget(container_of(pos, struct xrdma_channel, link));
	timer_remove(&ctx->timers, &f->timer.timer);
	ctx->n_timers--;
	ctx->faults = NULL;
	free(f);
}

/* ---- faults ---- */

/* One bit of what the codec checks in every header: a reserved byte, or the epoch. */
static void corrupt(struct xr_faults *f, uint8_t *head)
{
	uint32_t bit = rng_below(&f->filter.rng, 40);

	head[bit < 8 ? 3 : 11 + bit / 8] ^= (uint8_t)(1U << bit % 8);
}

static void fail(struct xrdma_channel *ch, const struct xr_rule *rule)
{
	ch->faults.status = (uint8_t)rule->argument;
	xr_qp_error(ch);
}

bool xr_fault_held(struct xrdma_channel *ch)
{
	struct xr_ch_faults *cf = &ch->faults;

	if (cf->held_until == 0)
		return false;
	if (clock_now_ns() < cf->held_until)
		return true;
	cf->held_until = 0;
	cf->pass_out = true; /* what was held goes */
	return false;
}

enum xr_verdict xr_fault_out(struct xrdma_channel *ch, uint8_t *head)
{
	struct xr_faults *f = ch->ctx->faults;
	struct xr_ch_faults *cf = &ch->faults;
	const struct xr_rule *rule;

	if (xr_fault_held(ch))
		return XR_VERDICT_HOLD;
	if (cf->pass_out) {
		cf->pass_out = false;
		return XR_VERDICT_PASS;
	}
	rule = xr_filter_match(&f->filter, XR_DIR_OUT, ch->handle, (enum xr_type)head[0]);
	if (!rule)
		return XR_VERDICT_PASS;
	ch->ctx->stats.faults++;
	switch (rule->fault) {
	case XR_FAULT_DROP:
		return XR_VERDICT_LOSE;
	case XR_FAULT_DELAY:
		cf->held_until = clock_now_ns() + rule->argument * NSEC_PER_USEC;
		set_timer(f, cf->held_until);
		return XR_VERDICT_HOLD;
	case XR_FAULT_DUPLICATE:
		cf->again = true;
		return XR_VERDICT_PASS;
	case XR_FAULT_CORRUPT:
		corrupt(f, head);
		return XR_VERDICT_PASS;
	case XR_FAULT_FAIL:
		fail(ch, rule); /* and it is posted, to be flushed */
		return XR_VERDICT_PASS;
	}
	return XR_VERDICT_PASS;
}

void xr_fault_probe(struct xrdma_channel *ch, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	const struct xr_rule *rule =
		xr_filter_match(&ch->ctx->faults->filter, XR_DIR_OUT, ch->handle, XR_FILTER_PROBE);

	if (!rule)
		return;
	ch->ctx->stats.faults++;
	ch->faults.status = (uint8_t)rule->argument;
	ch->faults.probe = true;
	(void)ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

bool xr_fault_again(struct xrdma_channel *ch)
{
	if (!ch->faults.again)
		return false;
	ch->faults.again = false;
	ch->faults.pass_out = true;
	return true;
}

static void duplicate(struct xrdma_channel *ch, const struct xrdma_msg *m, const struct ibv_wc *wc)
{
	struct xrdma_msg *copy = xr_msg_rx_new(ch->ctx);

	if (!copy)
		return;
	memcpy((uint8_t *)copy->buf.addr + XR_RX_HEAD, (const uint8_t *)m->buf.addr + XR_RX_HEAD,
	       wc->byte_len);
	/* Behind this one, from the next poll on. */
	if (!delay(ch, copy, wc, 0))
		xr_msg_put(copy);
}

bool xr_fault_in(struct xrdma_channel *ch, struct xrdma_msg *m, const struct ibv_wc *wc)
{
	struct xr_faults *f = ch->ctx->faults;
	uint8_t *head = (uint8_t *)m->buf.addr + XR_RX_HEAD;
	const struct xr_rule *rule;
	enum ibv_wc_status status;

	if (ch->faults.pass_in) {
		ch->faults.pass_in = false;
		return false;
	}
	if (ch->faults.delayed && delay(ch, m, wc, 0))
		return true;
	if (wc->byte_len < XR_HDR_BYTES || head[0] >= XR_N_TYPES)
		return false;
	rule = xr_filter_match(&f->filter, XR_DIR_IN, ch->handle, (enum xr_type)head[0]);
	if (!rule)
		return false;
	ch->ctx->stats.faults++;
	switch (rule->fault) {
	case XR_FAULT_DROP:
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
		xr_channel_touch(ch);
		return true;
	case XR_FAULT_DELAY:
		return delay(ch, m, wc, rule->argument * NSEC_PER_USEC);
	case XR_FAULT_DUPLICATE:
		duplicate(ch, m, wc);
		return false;
	case XR_FAULT_CORRUPT:
		corrupt(f, head);
		return false;
	case XR_FAULT_FAIL:
		status = (enum ibv_wc_status)rule->argument;
		(void)xr_rq_refill(ch->rq, m, NULL, 0);
		xr_channel_break(ch, xr_wc_status(ch->ctx, status), ibv_wc_status_str(status));
		return true;
	}
	return false;
}

void xr_fault_completion(struct xrdma_context *ctx, struct ibv_wc *wc)
{
	struct xrdma_channel *ch = NULL;

	if (wc->wr_id >> 62 == XR_WR_SHARED)
		HASH_FIND(by_qpn, ctx->by_qpn, &wc->qp_num, sizeof(uint32_t), ch);
	else
		ch = xr_channel_by_handle(ctx, (uint32_t)(wc->wr_id >> 32) & 0x3fffffff);
	if (!ch || !ch->faults.status)
		return;
	if (ch->faults.probe && (wc->wr_id >> 62 == XR_WR_RECV || wc->wr_id >> 62 == XR_WR_SHARED))
		return; /* a bystander */
	wc->status = (enum ibv_wc_status)ch->faults.status;
	ch->faults.status = 0;
	ch->faults.probe = false;
}
