/* SPDX-License-Identifier: BSD-2-Clause */
/* K7: when all channels break at once they do not all dial at once, and yet all come back. */
#include "breaks.h"

#include "xrdma/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { CHANNELS = 40, DIALS = 3 };

struct storm {
	struct rig r;
	struct xrdma_channel *ch[CHANNELS]; /* of the client */
	struct xrdma_context *ctx;          /* of the client */
};

static unsigned waiting(const struct storm *s)
{
	unsigned n = 0;

	for (unsigned again = 0; again < 2; again++) {
		list_for_each (pos, &s->ctx->dials[again])
			n++;
	}
	return n;
}

/* Sockets over which the server has not said anything: not what the library counts. */
static unsigned dialing(const struct storm *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CHANNELS; i++) {
		const struct xrdma_channel *ch = s->ch[i];

		n += ch->boot && xr_boot_fd(ch->boot) >= 0 && ch->state == XR_CH_WAITING &&
		     !ch->rec.got;
	}
	return n;
}

/* All are broken, and the server, which is busy, answers none: those who may are dialing. */
static void storm_begin(struct storm *s, const char *options, unsigned dials)
{
	memset(s, 0, sizeof(*s));
	rig_open_each(&s->r, options, "backoff_max_ms=20");
	s->ctx = s->r.side[RIG_CLIENT].ctx;
	for (unsigned i = 0; i < CHANNELS; i++)
		s->ch[i] = rig_connect(&s->r);
	assert_int_equal(rig_stat(s->ctx, "dials"), 0);
	s->r.stalled[RIG_SERVER] = true;
	for (unsigned i = 0; i < CHANNELS; i++)
		(void)shutdown(xr_boot_fd(s->ch[i]->boot), SHUT_RDWR);
	rig_until(&s->r, dialing(s) + waiting(s) == CHANNELS);
	assert_int_equal(dialing(s), dials);
	assert_int_equal(rig_stat(s->ctx, "dials"), dials);
	assert_int_equal(rig_stat(s->ctx, "dials_delayed"), CHANNELS - dials);
}

static void storm_end(struct storm *s)
{
	rig_until(&s->r,
		  s->r.side[0].n_recovered == CHANNELS && s->r.side[1].n_recovered == CHANNELS);
	assert_int_equal(rig_stat(s->ctx, "dials"), 0);
	rig_close(&s->r);
}

static void few_dial_and_all_come_back(void **state)
{
	struct xrdma_channel *order[CHANNELS];
	unsigned first = 0, n = 0;
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	list_for_each (pos, &s.ctx->dials[1])
		order[n++] = container_of(pos, struct xrdma_channel, dial);
	assert_int_equal(n, CHANNELS - DIALS);
	s.r.stalled[RIG_SERVER] = false;
	while (s.r.side[RIG_CLIENT].n_recovered < CHANNELS) {
		rig_poll(&s.r);
		assert_in_range(dialing(&s), 0, DIALS);
		/* Who came first is served first: those who wait are the end of what it was. */
		while (first < n && !list_linked(&order[first]->dial))
			first++;
		for (unsigned i = first; i < n; i++)
			assert_true(list_linked(&order[i]->dial));
	}
	storm_end(&s);
}

static void without_a_bound_all_dial(void **state)
{
	struct storm s;

	storm_begin(&s, "max_dials=65536 backoff_max_ms=20", CHANNELS);
	s.r.stalled[RIG_SERVER] = false;
	storm_end(&s);
}

static void more_may_dial_at_any_time(void **state)
{
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	assert_int_equal(xrdma_set(s.ctx, "max_dials", "10"), 0);
	rig_until(&s.r, dialing(&s) == 10);
	s.r.stalled[RIG_SERVER] = false;
	storm_end(&s);
}

static void a_first_connection_does_not_wait_behind_all_that_recover(void **state)
{
	struct xrdma_channel *ch;
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	assert_int_equal(
		xrdma_connect(s.ctx, s.r.address, &rig_handlers, &s.r.side[RIG_CLIENT], &ch), 0);
	assert_int_equal(xr_boot_fd(ch->boot), -1);
	s.r.stalled[RIG_SERVER] = false;
	rig_until(&s.r, xr_boot_fd(ch->boot) >= 0);
	/* No more of the others than got their turn in the same moment, and one before. */
	assert_in_range(waiting(&s), CHANNELS - DIALS - 1 - DIALS, CHANNELS);
	rig_until(&s.r, s.r.side[RIG_CLIENT].n_connected == CHANNELS + 1);
	storm_end(&s);
}

static void a_channel_that_closes_waits_no_more(void **state)
{
	struct xrdma_channel *ch;
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	assert_int_equal(
		xrdma_connect(s.ctx, s.r.address, &rig_handlers, &s.r.side[RIG_CLIENT], &ch), 0);
	xrdma_channel_close(ch);
	rig_until(&s.r, s.r.side[RIG_CLIENT].n_closed == 1);
	assert_int_equal(s.r.side[RIG_CLIENT].status, -ECANCELED);
	assert_true(list_empty(&s.ctx->dials[0]));
	s.r.stalled[RIG_SERVER] = false;
	storm_end(&s);
}

static void a_turn_that_does_not_come_is_told(void **state)
{
	struct xrdma_channel *ch;
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	assert_int_equal(xrdma_set(s.ctx, "connect_timeout_ms", "5"), 0);
	assert_int_equal(
		xrdma_connect(s.ctx, s.r.address, &rig_handlers, &s.r.side[RIG_CLIENT], &ch), 0);
	rig_until(&s.r, s.r.side[RIG_CLIENT].n_closed == 1);
	assert_int_equal(s.r.side[RIG_CLIENT].status, -ETIMEDOUT);
	assert_non_null(strstr(xrdma_last_error(), "(max_dials)"));
	assert_int_equal(xrdma_set(s.ctx, "connect_timeout_ms", "10000"), 0);
	s.r.stalled[RIG_SERVER] = false;
	storm_end(&s);
}

/* The other side does not take the peer for dead, though some of its channels are long in coming.
 */
static void who_waits_long_for_a_turn_is_waited_for(void **state)
{
	enum { LONGER_THAN_FOR_A_DEAD_PEER_MS = 2500 };
	struct storm s;

	storm_begin(&s, "max_dials=1 backoff_max_ms=20", 1);
	s.r.stalled[RIG_SERVER] = false;
	rig_until(&s.r, s.r.side[RIG_SERVER].n_broken == CHANNELS &&
				s.r.side[RIG_SERVER].n_recovered > 0);
	s.r.stalled[RIG_CLIENT] = true;
	rig_poll_for(&s.r, LONGER_THAN_FOR_A_DEAD_PEER_MS);
	s.r.stalled[RIG_CLIENT] = false;
	storm_end(&s);
}

static void a_context_closes_while_channels_wait(void **state)
{
	struct storm s;

	storm_begin(&s, "max_dials=3 backoff_max_ms=20", DIALS);
	rig_close(&s.r);
	assert_int_equal(s.r.side[RIG_CLIENT].n_closed, CHANNELS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_dial_and_all_come_back),
		cmocka_unit_test(without_a_bound_all_dial),
		cmocka_unit_test(more_may_dial_at_any_time),
		cmocka_unit_test(a_first_connection_does_not_wait_behind_all_that_recover),
		cmocka_unit_test(a_channel_that_closes_waits_no_more),
		cmocka_unit_test(a_turn_that_does_not_come_is_told),
		cmocka_unit_test(who_waits_long_for_a_turn_is_waited_for),
		cmocka_unit_test(a_context_closes_while_channels_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
