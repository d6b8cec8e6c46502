/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t rig_now_ms(void)
{
	return clock_now_ns() / NSEC_PER_MSEC;
}

unsigned rig_slower(void)
{
	const char *slower = getenv("RIG_SLOWER");

	return slower ? (unsigned)strtoul(slower, NULL, 10) : 1;
}

uint64_t rig_patience_ms(void)
{
	return (uint64_t)20000 * rig_slower();
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	struct rig_side *side = arg;

	if (side->on_msg) {
		side->on_msg(ch, msg, side);
		return;
	}
	assert_true(side->n_msgs < RIG_KEPT);
	side->msgs[side->n_msgs++] = msg;
}

static void on_region(struct xrdma_channel *ch, struct xrdma_remote_region *remote, void *arg)
{
	((struct rig_side *)arg)->remote = remote;
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct rig_side *side = arg;

	switch (event) {
	case XRDMA_CONNECTED:
		assert_int_equal(status, 0);
		side->n_connected++;
		side->ch = ch;
		break;
	case XRDMA_BROKEN:
		assert_true(status < 0);
		side->n_broken++;
		side->why_broken = status;
		break;
	case XRDMA_RECOVERED:
		assert_int_equal(status, 0);
		side->n_recovered++;
		break;
	case XRDMA_MOCKED:
		assert_true(status <= 0);
		side->n_mocked++;
		side->why_mocked = status;
		break;
	case XRDMA_UNMOCKED:
		assert_int_equal(status, 0);
		side->n_unmocked++;
		break;
	case XRDMA_CLOSED:
		side->n_closed++;
		side->status = status;
		if (side->ch == ch)
			side->ch = NULL;
		break;
	}
}

const struct xrdma_handlers rig_handlers = {
	.on_msg = on_msg, .on_region = on_region, .on_event = on_event};

struct xrdma_context *rig_context(const char *options)
{
	struct xrdma_context *ctx;
	struct xrdma_conf *conf;
	char copy[512];

	assert_int_equal(xrdma_conf_new(&conf), 0);
	snprintf(copy, sizeof(copy), "%s", options ? options : "");
	for (char *save, *o = strtok_r(copy, " ", &save); o; o = strtok_r(NULL, " ", &save)) {
		char *value = strchr(o, '=');

		*value++ = '\0';
		if (xrdma_conf_set(conf, o, value))
			fail_msg("%s", xrdma_last_error());
	}
	if (xrdma_open(conf, &ctx))
		fail_msg("%s", xrdma_last_error());
	xrdma_conf_free(conf);
	return ctx;
}

void rig_open_each(struct rig *r, const char *client, const char *server)
{
	memset(r, 0, sizeof(*r));
	r->side[RIG_CLIENT].ctx = rig_context(client);
	r->side[RIG_SERVER].ctx = rig_context(server);
	if (xrdma_listen(r->side[RIG_SERVER].ctx, "127.0.0.1:0", &rig_handlers,
			 &r->side[RIG_SERVER], &r->listener))
		fail_msg("%s", xrdma_last_error());
	snprintf(r->address, sizeof(r->address), "127.0.0.1:%d", xrdma_listener_port(r->listener));
}

void rig_open(struct rig *r, const char *options)
{
	rig_open_each(r, options, options);
}

struct xrdma_channel *rig_connect(struct rig *r)
{
	unsigned n = r->side[RIG_SERVER].n_connected;
	struct xrdma_channel *ch;

	if (xrdma_connect(r->side[RIG_CLIENT].ctx, r->address, &rig_handlers, &r->side[RIG_CLIENT],
			  &ch))
		fail_msg("%s", xrdma_last_error());
	rig_until(r, r->side[RIG_CLIENT].ch == ch && r->side[RIG_SERVER].n_connected == n + 1);
	return ch;
}

void rig_close(struct rig *r)
{
	for (unsigned i = 0; i < RIG_SIDES; i++)
		xrdma_close(r->side[i].ctx);
}

void rig_poll(struct rig *r)
{
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		if (!r->stalled[i])
			assert_true(xrdma_poll(r->side[i].ctx) >= 0);
	}
}

void rig_poll_for(struct rig *r, unsigned ms)
{
	for (uint64_t end = rig_now_ms() + ms; rig_now_ms() < end;)
		rig_poll(r);
}

uint64_t rig_stat(const struct xrdma_context *ctx, const char *name)
{
	uint64_t value;

	if (xrdma_stat_by_name(ctx, name, &value))
		fail_msg("%s", xrdma_last_error());
	return value;
}

static void fill(uint8_t *p, size_t len, uint64_t seed)
{
	struct rng rng = {seed};

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

struct xrdma_msg *rig_msg(struct xrdma_channel *ch, size_t len, uint64_t seed)
{
	struct xrdma_msg *m;

	if (xrdma_msg_new(ch, len, &m))
		fail_msg("%s", xrdma_last_error());
	fill(xrdma_msg_data(m), len, seed);
	return m;
}

bool rig_is(struct xrdma_msg *m, size_t len, uint64_t seed)
{
	const uint8_t *p = xrdma_msg_data(m);
	struct rng rng = {seed};

	if (xrdma_msg_len(m) != len)
		return false;
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

void rig_send(struct xrdma_channel *ch, size_t len, uint64_t seed)
{
	if (xrdma_send_msg(ch, rig_msg(ch, len, seed)))
		fail_msg("%s", xrdma_last_error());
}

void rig_expect(struct rig *r, unsigned side, size_t len, uint64_t seed)
{
	struct rig_side *s = &r->side[side];

	rig_until(r, s->n_msgs > s->n_taken);
	assert_true(rig_is(s->msgs[s->n_taken], len, seed));
	xrdma_msg_free(s->msgs[s->n_taken++]);
	if (s->n_taken == s->n_msgs)
		s->n_taken = s->n_msgs = 0;
}

void rig_echo(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side)
{
	size_t len = xrdma_msg_len(msg);
	struct xrdma_msg *reply;

	if (xrdma_msg_new(ch, len, &reply)) {
		xrdma_msg_free(msg);
		return;
	}
	if (len)
		memcpy(xrdma_msg_data(reply), xrdma_msg_data(msg), len);
	if (xrdma_reply(msg, reply)) {
		xrdma_msg_free(reply);
		xrdma_msg_free(msg);
	}
}

void rig_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct rig_call *call = arg;

	assert_false(call->ended);
	*call = (struct rig_call){.ended = true, .status = status, .reply = reply};
}

struct xrdma_region *rig_export(struct rig *r, size_t slot_bytes, uint32_t n_slots, unsigned rights)
{
	const struct xrdma_region_attr attr = {
		.slot_bytes = slot_bytes, .n_slots = n_slots, .rights = rights, .numa_node = -1};
	struct xrdma_region *region;

	r->side[RIG_CLIENT].remote = NULL;
	if (xrdma_region_new(r->side[RIG_SERVER].ctx, &attr, &region) ||
	    xrdma_region_export(region, r->side[RIG_SERVER].ch, RIG_TAG))
		fail_msg("%s", xrdma_last_error());
	rig_until(r, r->side[RIG_CLIENT].remote);
	return region;
}

enum { LOAD_ROUND = 10, LOAD_SIZES = 5 };

static const size_t load_sizes[LOAD_SIZES] = {0, 64, 4096, 4097, 300000};

static void on_numbered(struct xrdma_channel *ch, struct xrdma_msg *m, struct rig_side *side)
{
	uint64_t *next = side->arg;

	if (!rig_is(m, load_sizes[*next % LOAD_SIZES], *next))
		fail_msg("message %llu is another one", (unsigned long long)*next);
	++*next;
	xrdma_msg_free(m);
}

void rig_load_begin(struct rig *r, struct rig_load *load)
{
	*load = (struct rig_load){0};
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		r->side[i].on_msg = on_numbered;
		r->side[i].arg = &load->next[i];
	}
}

void rig_load_round(struct rig *r, struct rig_load *load, unsigned polls)
{
	for (unsigned n = 0; n < LOAD_ROUND; n++, load->sent++) {
		for (unsigned i = 0; i < RIG_SIDES; i++)
			rig_send(r->side[i].ch, load_sizes[load->sent % LOAD_SIZES], load->sent);
	}
	while (polls--)
		rig_poll(r);
	if (r->side[0].n_closed + r->side[1].n_closed)
		fail_msg("closed: %d %d (%s)", r->side[0].status, r->side[1].status,
			 xrdma_last_error());
}

bool rig_load_done(const struct rig_load *load)
{
	return load->next[0] == load->sent && load->next[1] == load->sent;
}
