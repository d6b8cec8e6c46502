/* SPDX-License-Identifier: BSD-2-Clause */
/* What applications do with their channels. */
#include "app.h"

#include <errno.h>
#include <string.h>

/* ---- receiving ---- */

struct held {
	struct app *app;
	struct xrdma_msg *m;
	struct label label;
	struct end *end;
};

static void reply(struct end *e, struct xrdma_msg *request, const struct label *to)
{
	const struct label label = {.end = to->end, .number = to->number, .kind = KIND_REPLY};
	size_t len = sizeof(label) + sim_below(sim_once_in(6) ? LARGEST : 700);
	struct xrdma_msg *m;

	if (e->ch && xrdma_msg_new(e->ch, len, &m) == 0) {
		content_fill(&label, xrdma_msg_data(m), len);
		if (xrdma_reply(request, m) == 0)
			return;
		xrdma_msg_free(m);
	}
	xrdma_msg_free(request);
}

static void let_go(void *owner, uint64_t arg)
{
	struct held *h = owner;

	if (h->app->proc.dead)
		return;
	app_enter(h->app);
	if (h->label.kind == KIND_REQUEST)
		reply(h->end, h->m, &h->label);
	else
		xrdma_msg_free(h->m);
}

static void hold(struct end *e, struct xrdma_msg *m, const struct label *label)
{
	struct held *h = sim_new(sizeof(*h));

	*h = (struct held){.app = e->app, .m = m, .label = *label, .end = e};
	sim_after(sim_between(0, sim_once_in(4) ? 500 * MSEC : MSEC), let_go, h, 0);
}

static void meet(struct end *e, const struct label *label)
{
	struct end *peer = label->end < world.n_ends ? world.ends[label->end] : NULL;

	if (!peer || peer == e || (e->peer && e->peer != peer) || (peer->peer && peer->peer != e)) {
		sim_fail("end %u got a message of end %u", e->serial, label->end);
		return;
	}
	e->peer = peer;
	peer->peer = e;
}

void app_on_msg(struct xrdma_channel *ch, struct xrdma_msg *m, void *arg)
{
	struct app *app = arg;
	struct end *e = end_of(app, ch);
	struct label label;

	if (app->proc.dead) {
		xrdma_msg_free(m);
		return;
	}
	memcpy(&label, xrdma_msg_data(m), sizeof(label));
	sim_note("end %u: gets %u of kind %u", e->serial, label.number, label.kind);
	meet(e, &label);
	/* A slot has the label of the put; and what names one that is no more, does not come. */
	if (xrdma_msg_slot(m) < 0)
		sim_expect(world.rights ? label.number >= e->received : label.number == e->received,
			   "end %u: got message %u for %u", e->serial, label.number, e->received);
	sim_expect(content_right(&label, xrdma_msg_data(m), xrdma_msg_len(m)),
		   "end %u: the bytes of message %u are wrong", e->serial, label.number);
	e->received = world.rights && xrdma_msg_slot(m) < 0 ? label.number + 1 : e->received + 1;
	if (label.kind == KIND_REQUEST && label.how == ANSWER_NOW)
		reply(e, m, &label);
	else if (label.kind == KIND_REQUEST && label.how == ANSWER_NEVER)
		xrdma_msg_free(m);
	else if (label.kind == KIND_REQUEST || sim_once_in(8))
		hold(e, m, &label);
	else
		xrdma_msg_free(m);
}

void app_on_region(struct xrdma_channel *ch, struct xrdma_remote_region *remote, void *arg)
{
	struct end *e = end_of(arg, ch);

	e->remote = remote;
}

/* ---- operations ---- */

static struct op *op_new(struct end *e, unsigned what)
{
	struct op *op = sim_new(sizeof(*op));

	op->end = e;
	op->what = what;
	op->number = e->sent;
	list_add_tail(&e->ops, &op->link);
	return op;
}

static void op_refused(struct op *op)
{
	list_del(&op->link);
}

static void send_slot(const struct op *op)
{
	struct end *e = op->end;

	if (e->ch && xrdma_send_slot(e->ch, op->remote, op->slot, SLOT_BYTES) == 0)
		e->sent++;
}

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *m, void *arg);

static void get_slot(const struct op *put)
{
	struct end *e = put->end;
	struct xrdma_msg *m;
	struct op *op;

	if (!e->ch || xrdma_msg_new(e->ch, SLOT_BYTES, &m))
		return;
	memset(xrdma_msg_data(m), 0, SLOT_BYTES);
	op = op_new(e, OP_GET);
	op->slot = put->slot;
	op->remote = put->remote;
	if (xrdma_get(e->ch, op->remote, op->slot, 0, m, done, op)) {
		op_refused(op);
		xrdma_msg_free(m);
	}
}

static void check_reply(const struct op *op, struct xrdma_msg *m)
{
	const struct label want = {
		.end = op->end->serial, .number = op->number, .kind = KIND_REPLY};

	sim_expect(memcmp(xrdma_msg_data(m), &want, sizeof(want)) == 0 &&
			   content_right(&want, xrdma_msg_data(m), xrdma_msg_len(m)),
		   "end %u: the reply to %u is another's", want.end, want.number);
}

static void check_slot(const struct op *op, const void *data)
{
	struct label label;

	memcpy(&label, data, sizeof(label));
	sim_expect(label.end == op->end->serial && label.kind == KIND_SLOT &&
			   content_right(&label, data, SLOT_BYTES),
		   "end %u: slot %u has not what was put there", op->end->serial, op->slot);
}

static void done(struct xrdma_channel *ch, int status, struct xrdma_msg *m, void *arg)
{
	struct op *op = arg;
	struct end *e = op->end;
	const struct app *server = world.apps[0];

	if (e->app->proc.dead) {
		xrdma_msg_free(m);
		return;
	}
	sim_note("end %u: operation %u of kind %u ends with %d", e->serial, op->number,
		 (unsigned)op->what, status);
	sim_expect(!op->ended, "end %u: operation %u ended twice", e->serial, op->number);
	op->ended = true;
	op->status = status;
	if (op->what == OP_CALL) {
		sim_expect((status == 0) == (m != NULL), "end %u: a reply with status %d",
			   e->serial, status);
		if (m)
			check_reply(op, m);
	} else if (op->what == OP_GET && status == 0) {
		check_slot(op, xrdma_msg_data(m));
	} else if (op->what == OP_PUT && status == 0 && server) {
		/* It may be freed since, or that of a process that has died. */
		if (server->tag == world.meant_for[op->slot])
			check_slot(op, xrdma_region_slot(server->region, op->slot));
		if (sim_once_in(2))
			send_slot(op);
		else
			get_slot(op);
	}
	xrdma_msg_free(m);
}

/* A message of this end; NULL: none to be had now. */
static struct xrdma_msg *message(struct end *e, const struct label *label, size_t len)
{
	struct xrdma_msg *m;

	if (xrdma_msg_new(e->ch, len, &m))
		return NULL;
	content_fill(label, xrdma_msg_data(m), len);
	return m;
}

static size_t some_length(void)
{
	return sizeof(struct label) + sim_below(sim_once_in(5) ? LARGEST : 600);
}

static void one_way(struct end *e)
{
	const struct label label = {.end = e->serial, .number = e->sent, .kind = KIND_ONE_WAY};
	struct xrdma_msg *m = message(e, &label, some_length());

	if (m && xrdma_send_msg(e->ch, m) == 0)
		e->sent++;
	else
		xrdma_msg_free(m);
}

static void call(struct end *e)
{
	struct label label = {.end = e->serial, .number = e->sent, .kind = KIND_REQUEST};
	uint64_t deadline_us = sim_once_in(4) ? sim_between(100, 2000000) : 0;
	struct xrdma_msg *m;
	struct op *op;

	label.how = sim_once_in(8) ? ANSWER_NEVER : sim_once_in(3) ? ANSWER_LATER : ANSWER_NOW;
	m = message(e, &label, some_length());
	if (!m)
		return;
	op = op_new(e, OP_CALL);
	op->how = label.how;
	op->has_deadline = deadline_us != 0;
	if (xrdma_call(e->ch, m, deadline_us, done, op, &op->id)) {
		op_refused(op);
		xrdma_msg_free(m);
		return;
	}
	e->sent++;
}

static void cancel(struct end *e)
{
	list_for_each (pos, &e->ops) {
		struct op *op = container_of(pos, struct op, link);

		if (op->what == OP_CALL && !op->ended && !op->cancelled) {
			op->cancelled = xrdma_cancel(e->ch, op->id) == 0;
			return;
		}
	}
}

/* Each slot is put once, so that what is there stays. */
static void put(struct end *e)
{
	const struct label label = {.end = e->serial, .number = e->sent, .kind = KIND_SLOT};
	struct xrdma_msg *m;
	struct op *op;

	if (!e->remote || world.n_slots == SLOTS)
		return;
	m = message(e, &label, SLOT_BYTES);
	if (!m)
		return;
	op = op_new(e, OP_PUT);
	op->slot = world.n_slots;
	op->remote = e->remote;
	world.meant_for[op->slot] = xrdma_remote_region_tag(op->remote);
	if (xrdma_put(e->ch, op->remote, op->slot, 0, m, done, op)) {
		op_refused(op);
		xrdma_msg_free(m);
		return;
	}
	world.n_slots++;
}

static void tick(void *owner, uint64_t arg)
{
	static void (*const all[])(struct end *) = {one_way, one_way, call,  call,
						    call,    put,     cancel};
	struct end *e = owner;
	uint64_t wait;

	if (e->app->proc.dead || !e->ch || e->close_asked || world.over)
		return;
	app_enter(e->app);
	all[sim_below(sizeof(all) / sizeof(all[0]))](e);
	if (--e->ops_left == 0 || world.quiet)
		return;
	wait = USEC << sim_below(sim_once_in(4) ? 19 : 12);
	sim_after(sim_between(wait / 2, wait), tick, e, 0);
}

void traffic_start(struct end *e)
{
	tick(e, 0);
}

bool traffic_done(const struct end *e)
{
	if (e->app->proc.dead || !e->ch)
		return true;
	if (!e->connected || !xr_channel_flows(e->ch) || !xr_channel_all_sent(e->ch))
		return false;
	list_for_each (pos, &e->ops) {
		if (!container_of(pos, struct op, link)->ended)
			return false;
	}
	return true;
}
