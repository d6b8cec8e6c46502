/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * M11: a device that refuses to bring a queue pair up, at either side or both, at first or when a
 * channel recovers: TCP takes over if it may, and gives back when the device has changed its mind;
 * where it may not the channel ends, and both sides know why.
 */
#include "mock_rig.h"
#include "xrdma/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- a device that refuses ---- */

static struct {
	enum ibv_qp_state state; /* to go to it */
	int error;               /* 0: it does not refuse */
	const struct ibv_context *only;
} refused;

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (refused.error && attr->qp_state == refused.state &&
	    (!refused.only || refused.only == qp->context))
		return refused.error;
	return __real_ibv_modify_qp(qp, attr, mask);
}

enum { BOTH = RIG_SIDES };

static void refuse(struct rig *r, unsigned side, enum ibv_qp_state state, int error)
{
	refused.only = side == BOTH ? NULL : r->side[side].ctx->verbs;
	refused.state = state;
	refused.error = error;
}

static int relent(void **state)
{
	refused.error = 0;
	return 0;
}

static const struct {
	enum ibv_qp_state state;
	int error;
} refusals[] = {
	{IBV_QPS_INIT, ENODEV},
	{IBV_QPS_RTR, EADDRINUSE},
	{IBV_QPS_RTR, EPROTO}, /* as errors of the peer that end a channel */
	{IBV_QPS_RTS, ETIMEDOUT},
};

enum { N_REFUSALS = sizeof(refusals) / sizeof(refusals[0]) };

/* ---- TCP takes over ---- */

static void goes_by_tcp(struct rig *r, int error, unsigned side)
{
	assert_true(both(r, XRDMA_TCP));
	for (unsigned i = 0; i < RIG_SIDES; i++) {
		int reason;

		assert_int_equal(r->side[i].n_connected, 1);
		assert_int_equal(r->side[i].n_mocked, 1);
		/* Before a queue pair is offered the peer only hears that there is none. */
		if (i != side && side != BOTH && refused.state == IBV_QPS_INIT &&
		    r->side[i].n_broken == 0)
			error = EHOSTUNREACH;
		/* Where all is slow, a READ's own timeout may come before the peer's word. */
		if (rig_slower() > 1 && r->side[i].why_mocked == -ETIMEDOUT)
			error = ETIMEDOUT;
		assert_int_equal(r->side[i].why_mocked, -error);
		assert_int_equal(xrdma_channel_transport(inside(r, i), &reason), XRDMA_TCP);
		assert_int_equal(reason, -error);
		error = refused.error;
	}
	rig_send(r->side[RIG_CLIENT].ch, 100000, 1);
	rig_expect(r, RIG_SERVER, 100000, 1);
	rig_send(r->side[RIG_SERVER].ch, 100, 2);
	rig_expect(r, RIG_CLIENT, 100, 2);
}

static void and_back(struct rig *r)
{
	rig_until(r, rig_stat(r->side[RIG_CLIENT].ctx, "mock_probes_failed") >= 2);
	assert_true(both(r, XRDMA_TCP));
	refused.error = 0;
	rig_until(r, both(r, XRDMA_RDMA));
	rig_send(r->side[RIG_SERVER].ch, 5000, 3);
	rig_expect(r, RIG_CLIENT, 5000, 3);
	close_in_order(r);
}

static void set_up(const char *options)
{
	for (unsigned side = 0; side <= BOTH; side++) {
		for (unsigned i = 0; i < N_REFUSALS; i++) {
			struct rig r;

			rig_open(&r, options);
			refuse(&r, side, refusals[i].state, refusals[i].error);
			rig_connect(&r);
			rig_until(&r, both(&r, XRDMA_TCP));
			assert_int_equal(r.side[0].n_broken + r.side[1].n_broken, 0);
			goes_by_tcp(&r, refusals[i].error, side);
			and_back(&r);
		}
	}
}

static void m11_at_the_set_up(void **state)
{
	set_up(QUICK);
}

static void m11_with_shared_receives(void **state)
{
	set_up(QUICK "srq=on window=8");
}

static void m11_in_a_recovery(void **state)
{
	for (unsigned side = 0; side <= BOTH; side++) {
		for (unsigned i = 0; i < N_REFUSALS; i++) {
			struct rig r;

			rig_open(&r, QUICK);
			rig_connect(&r);
			refuse(&r, side, refusals[i].state, refusals[i].error);
			break_qp(&r, RIG_CLIENT);
			for (unsigned n = 0; n < 50; n++)
				rig_send(r.side[RIG_CLIENT].ch, 3000, n);
			for (unsigned n = 0; n < 50; n++)
				rig_expect(&r, RIG_SERVER, 3000, n);
			rig_until(&r, both(&r, XRDMA_TCP));
			assert_int_equal(r.side[0].n_broken, 1);
			assert_int_equal(r.side[0].n_recovered, 1);
			goes_by_tcp(&r, refusals[i].error, side);
			and_back(&r);
		}
	}
}

/* RDMA passed its probes, and its queue pair is refused all the same. */
static void m11_on_the_way_back(void **state)
{
	struct rig r;

	rig_open(&r, QUICK);
	rig_connect(&r);
	to_tcp(&r);
	set_both(&r, "filter", "");
	rig_until(&r, inside(&r, RIG_CLIENT)->rec.planned);
	inside(&r, RIG_CLIENT)->mock.level = 0;
	refuse(&r, RIG_SERVER, IBV_QPS_RTR, EADDRINUSE);
	rig_until(&r, r.side[0].n_recovered == 2 && both(&r, XRDMA_TCP));
	assert_true(inside(&r, RIG_CLIENT)->mock.level > 0); /* it is not asked again so soon */
	assert_int_equal(r.side[0].n_mocked, 1);
	assert_int_equal(r.side[0].n_unmocked, 0);
	and_back(&r);
}

/* ---- TCP may not ---- */

static char said[512]; /* when the client's channel closed */

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	snprintf(said, sizeof(said), "%s", xrdma_last_error());
	rig_handlers.on_event(ch, event, status, arg);
}

static void begin(struct rig *r, const char *client, const char *server)
{
	const struct xrdma_handlers handlers = {.on_event = on_event};
	struct xrdma_channel *ch;

	rig_open_each(r, client, server);
	assert_int_equal(xrdma_connect(r->side[RIG_CLIENT].ctx, r->address, &handlers,
				       &r->side[RIG_CLIENT], &ch),
			 0);
}

static void m11_where_one_side_does_not_want_tcp(void **state)
{
	static const char *const options[][2] = {
		{"transport=force-rdma", "transport=force-rdma"},
		{"transport=force-rdma", "transport=auto"},
		{"transport=auto", "transport=force-rdma"},
		{"recovery_ms=0", "recovery_ms=0"}, /* that is how TCP would come in later */
	};

	for (unsigned side = 0; side <= BOTH; side++) {
		for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
			struct rig r;

			begin(&r, options[i][0], options[i][1]);
			refuse(&r, side, IBV_QPS_RTR, EADDRINUSE);
			rig_until(&r, r.side[RIG_CLIENT].n_closed);
			assert_int_equal(r.side[RIG_CLIENT].status, -EADDRINUSE);
			assert_non_null(strstr(said, "queue pair to RTR: Address already in use"));
			rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "channels") == 0);
			assert_int_equal(r.side[0].n_mocked + r.side[1].n_mocked, 0);
			rig_close(&r);
		}
	}
}

/* A side that has nothing to offer asks for TCP at once; refused, it says what it lacks. */
static void m11_where_the_peer_does_not_want_tcp(void **state)
{
	static const char *const options[][2] = {
		{"transport=auto srq=on", "transport=force-rdma"},
		{"transport=force-rdma", "transport=auto srq=on"},
	};

	for (unsigned side = 0; side < RIG_SIDES; side++) {
		struct rig r;

		begin(&r, options[side][0], options[side][1]);
		refuse(&r, side, IBV_QPS_INIT, ENODEV);
		rig_until(&r, r.side[RIG_CLIENT].n_closed);
		rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "channels") == 0);
		if (side == RIG_CLIENT) {
			assert_int_equal(r.side[side].status, -ENODEV);
			assert_non_null(strstr(said, "does not work at this side (No such device"));
		} else {
			assert_int_equal(r.side[!side].status, -EPROTONOSUPPORT);
			assert_non_null(strstr(said, "see option transport of both"));
		}
		/* Nor was a queue pair waited for that never came up. */
		assert_false(r.side[side].ctx->no_last_wqe);
		rig_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(m11_at_the_set_up, relent),
		cmocka_unit_test_teardown(m11_with_shared_receives, relent),
		cmocka_unit_test_teardown(m11_in_a_recovery, relent),
		cmocka_unit_test_teardown(m11_on_the_way_back, relent),
		cmocka_unit_test_teardown(m11_where_one_side_does_not_want_tcp, relent),
		cmocka_unit_test_teardown(m11_where_the_peer_does_not_want_tcp, relent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
