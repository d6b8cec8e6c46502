/* SPDX-License-Identifier: BSD-2-Clause */
/* What is right. */
#include "app.h"

#include <errno.h>
#include <string.h>

/* ---- contents ---- */

static struct rng content_rng(const struct label *label)
{
	return (struct rng){(uint64_t)label->end << 40 ^ (uint64_t)label->number << 8 ^
			    label->kind};
}

void content_fill(const struct label *label, void *data, size_t len)
{
	struct rng rng = content_rng(label);
	uint8_t *p = data;

	memcpy(p, label, sizeof(*label));
	for (size_t i = sizeof(*label); i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

bool content_right(const struct label *label, const void *data, size_t len)
{
	struct rng rng = content_rng(label);
	const uint8_t *p = data;

	for (size_t i = sizeof(*label); i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

/* ---- events ---- */

/* Has the other side told its application of the channel? */
static bool peer_connected(const struct end *e)
{
	uint64_t token = e->ch->rec.our_token;

	for (uint32_t i = 0; i < world.n_ends; i++) {
		const struct end *peer = world.ends[i];

		if (peer != e && token && peer->their_token == token)
			return peer->connected;
	}
	return false;
}

/* Why a channel may end; 0 is when both closed it. */
static bool right_reason(const struct end *e, int status)
{
	if (status == 0)
		return e->connected;
	if (status == -ECANCELED)
		return e->close_asked && !e->connected;
	/* TCP takes over where no queue pair comes up, but not if one that was up breaks so early.
	 */
	if (world.calm && world.mock)
		return status == -ECONNRESET && !e->connected;
	/* What both applications have outlives gentle faults. */
	if (e->connected && !world.harsh && (world.brief || peer_connected(e)))
		return false;
	switch (status) {
	case -ETIMEDOUT:
	case -ECONNRESET:
		return true;
	case -ENETUNREACH:
		return !e->connected;
	case -ECONNREFUSED:
		return !e->connected && world.harsh;
	case -EADDRINUSE:
	case -ENODEV:
		return world.refuses;
	case -EPROTO:
		return world.lossy || (world.refuses && world.mock);
	case -ESTALE:
		return world.lossy;
	case -EACCES:
		return sim.keys_refused || world.fails;
	case -EKEYREVOKED:
		return world.rights && world.revokes;
	case -EIO:
		return world.fails || world.refuses;
	default:
		return false;
	}
}

void oracle_event(struct end *e, enum xrdma_event event, int status)
{
	static const char *const names[] = {"connected", "closed", "broken",
					    "recovered", "mocked", "unmocked"};

	sim_note("end %u: %s %d", e->serial, names[event], status);
	sim_expect(!e->closed, "end %u: an event after the last", e->serial);
	switch (event) {
	case XRDMA_CONNECTED:
		sim_expect(!e->connected && status == 0, "end %u: connected twice", e->serial);
		e->connected = true;
		e->epoch = e->ch->epoch;
		break;
	case XRDMA_BROKEN:
		sim_expect(e->connected && !e->broken && status < 0, "end %u: broken, status %d",
			   e->serial, status);
		e->broken = true;
		break;
	case XRDMA_RECOVERED:
		sim_expect(e->broken && status == 0, "end %u: recovered out of order", e->serial);
		sim_expect((int32_t)(e->ch->epoch - e->epoch) > 0, "end %u: epoch %u after %u",
			   e->serial, e->ch->epoch, e->epoch);
		e->broken = false;
		e->epoch = e->ch->epoch;
		break;
	case XRDMA_MOCKED:
		sim_expect(e->connected && !e->broken && !e->mocked, "end %u: mocked out of order",
			   e->serial);
		e->mocked = true;
		break;
	case XRDMA_UNMOCKED:
		sim_expect(e->mocked && !e->broken && status == 0, "end %u: unmocked out of order",
			   e->serial);
		sim_expect((int32_t)(e->ch->epoch - e->epoch) > 0, "end %u: epoch %u after %u",
			   e->serial, e->ch->epoch, e->epoch);
		e->mocked = false;
		e->epoch = e->ch->epoch;
		break;
	case XRDMA_CLOSED:
		sim_expect(right_reason(e, status), "end %u: closed with status %d", e->serial,
			   status);
		e->closed = true;
		e->status = status;
		break;
	}
}

/* ---- the end ---- */

static bool right_end(const struct op *op)
{
	const struct end *e = op->end;

	switch (op->status) {
	case 0:
		return true;
	case -ENOMSG:
		return op->what == OP_CALL && op->how == ANSWER_NEVER;
	case -ECANCELED:
		if (op->cancelled || (e->closed && e->status == 0))
			return true;
		break;
	case -EACCES:
		if (sim.keys_refused && op->what != OP_CALL)
			return true;
		break;
	case -ESTALE:
		if (world.rights && op->what != OP_CALL)
			return true;
		break;
	case -ETIMEDOUT:
	case -ECONNRESET: /* of its own; the channel may have ended for another reason before */
		if (op->what == OP_CALL ? op->has_deadline && op->status == -ETIMEDOUT
					: e->closed && e->status)
			return true;
		break;
	default:
		break;
	}
	return e->closed && e->status && op->status == e->status;
}

static void check_end(const struct end *e)
{
	if (e->app->proc.dead)
		return;
	sim_expect(e->closed, "end %u has not closed", e->serial);
	list_for_each (pos, &e->ops) {
		const struct op *op = container_of(pos, struct op, link);

		sim_expect(op->ended, "end %u: operation %u never ended", e->serial, op->number);
		sim_expect(right_end(op), "end %u: operation %u ended with %d", e->serial,
			   op->number, op->status);
	}
	if (e->status || !e->peer || e->peer->app->proc.dead || world.rights)
		return;
	sim_expect(e->peer->received == e->sent, "end %u sent %u, its peer %u got %u", e->serial,
		   e->sent, e->peer->serial, e->peer->received);
}

static void check_gauges(struct app *app)
{
	static const char *const zero[] = {"channels",         "qps",           "receives_posted",
					   "sends_posted",     "messages_held", "wc_rnr",
					   "regions_lingering"};
	uint64_t value;

	for (unsigned i = 0; i < sizeof(zero) / sizeof(zero[0]); i++) {
		if (xrdma_stat_by_name(app->ctx, zero[i], &value))
			sim_fail("no figure %s", zero[i]);
		if (world.shared && i == 2)
			continue; /* what is posted to the shared queue stays there */
		sim_expect(value == 0, "host %u: %s is %llu at the end", app->proc.host, zero[i],
			   (unsigned long long)value);
	}
}

static void check_decoy(const struct app *app)
{
	const uint8_t *p = app->decoy ? xrdma_region_slot(app->decoy, 0) : NULL;

	for (size_t i = 0; p && i < SLOTS * SLOT_BYTES; i++) {
		if (p[i] != 0xdd) {
			sim_fail("a region that was told to nobody was written to");
			return;
		}
	}
}

/* A key that a peer had of one region must not lead to the next. */
static void check_slots(const struct app *app)
{
	static const uint8_t untouched[SLOT_BYTES];

	for (uint32_t i = 0; app->region && i < SLOTS; i++)
		sim_expect(world.meant_for[i] == app->tag ||
				   memcmp(xrdma_region_slot(app->region, i), untouched,
					  SLOT_BYTES) == 0,
			   "slot %u was put to region %u, and is in %u", i, world.meant_for[i],
			   app->tag);
}

void oracle_end_of_run(void)
{
	for (uint32_t i = 0; i < world.n_ends; i++)
		check_end(world.ends[i]);
	for (unsigned i = 0; i < N_HOSTS; i++) {
		if (!world.apps[i])
			continue;
		check_gauges(world.apps[i]);
		check_decoy(world.apps[i]);
		check_slots(world.apps[i]);
	}
}

void oracle_nothing_left(void)
{
	struct nic_counts left = nic_counts();

	sim_expect(files_open() == 0, "%u descriptors are left open", files_open());
	sim_expect(left.contexts + left.pds + left.cqs + left.channels + left.qps + left.srqs +
				   left.mrs ==
			   0,
		   "left: %u contexts, %u queue pairs, %u regions, %u others", left.contexts,
		   left.qps, left.mrs, left.pds + left.cqs + left.channels + left.srqs);
}
