/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion events: none lost between arming and completing, none for what is gone. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static struct end a, b;

static int open_pair(void **state)
{
	pair_open(&a, &b, false);
	return 0;
}

static int close_pair(void **state)
{
	pair_close(&a, &b, false);
	return 0;
}

static void send_one(bool solicited)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags =
					 IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	end_wait(&a, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Nobody polls b here: its driver thread has to see the packet. */
static bool event_within(int ms)
{
	struct pollfd p = {.fd = b.channel->fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *cq_context;

	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, b.cq);
	assert_ptr_equal(cq_context, &b);
	ibv_ack_cq_events(cq, 1);
}

static void test_one_shot(void **state)
{
	struct ibv_wc wc[3];

	for (int i = 0; i < 3; i++)
		end_recv(&b, (uint64_t)i, 0, 64);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	assert_false(event_within(0));
	send_one(false);
	assert_true(event_within(5000));
	send_one(false); /* not armed again: no event */
	take_event();
	assert_false(event_within(0));
	assert_int_equal(ibv_req_notify_cq(b.cq, 1), 0);
	send_one(false);
	assert_false(event_within(0));
	end_recv(&b, 3, 0, 64);
	send_one(true);
	assert_true(event_within(5000));
	take_event();
	end_wait(&b, wc, 3);
	end_wait(&b, wc, 1);
}

static void test_nonblocking(void **state)
{
	int flags = fcntl(b.channel->fd, F_GETFL);
	struct ibv_cq *cq;
	void *cq_context;

	fcntl(b.channel->fd, F_SETFL, flags | O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(b.channel->fd, F_SETFL, flags);
}

/* A queue that dies takes its events along, and waits for those that were fetched. */
static void *ack_later(void *arg)
{
	ibv_ack_cq_events(arg, 1);
	return NULL;
}

static void test_destroyed_queue(void **state)
{
	struct end c, d;
	struct end_address to_c, to_d;
	struct ibv_cq *cq, *doomed;
	struct ibv_wc wc;
	void *cq_context;
	pthread_t thread;

	end_open(&c, a.context);
	end_open(&d, b.context);
	end_qp(&c, false);
	doomed = d.cq;
	d.cq = ibv_create_cq(d.context, 16, NULL, d.channel, 0);
	end_qp(&d, false);
	to_c = end_address(&c);
	to_d = end_address(&d);
	end_connect(&c, &to_d);
	end_connect(&d, &to_c);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad;

		end_recv(&d, 0, 0, 64);
		assert_int_equal(ibv_req_notify_cq(d.cq, 0), 0);
		assert_int_equal(ibv_post_send(c.qp, &wr, &bad), 0);
		end_wait(&c, &wc, 1);
		end_wait(&d, &wc, 1);
	}
	assert_int_equal(ibv_get_cq_event(d.channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, d.cq);
	assert_int_equal(ibv_destroy_cq(d.cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(d.channel), EBUSY);
	assert_int_equal(ibv_destroy_qp(d.qp), 0);
	pthread_create(&thread, NULL, ack_later, cq);
	assert_int_equal(ibv_destroy_cq(d.cq), 0); /* one event fetched, one not */
	pthread_join(thread, NULL);
	fcntl(d.channel->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(d.channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	d.cq = doomed;
	d.qp = NULL;
	end_close(&c, false);
	end_close(&d, false);
}

static void *ack_async_later(void *arg)
{
	ibv_ack_async_event(arg);
	return NULL;
}

/* In ERR, a QP that takes its receives from an SRQ says that it takes no more. */
static void fail_new_qp(struct ibv_qp_init_attr *init, struct ibv_qp **ret_qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(b.pd, init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	*ret_qp = qp;
}

static void test_async_events(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(b.pd, &init);
	struct ibv_qp_init_attr qp_init = {.send_cq = b.cq,
					   .recv_cq = b.cq,
					   .srq = srq,
					   .qp_type = IBV_QPT_RC,
					   .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_async_event event;
	struct ibv_qp *qp;
	pthread_t thread;

	fcntl(b.context->async_fd, F_SETFL, O_NONBLOCK);
	while (ibv_get_async_event(b.context, &event) == 0) { /* of the connection */
		assert_int_equal(event.event_type, IBV_EVENT_COMM_EST);
		ibv_ack_async_event(&event);
	}
	assert_int_equal(errno, EAGAIN);

	fail_new_qp(&qp_init, &qp);
	assert_int_equal(ibv_get_async_event(b.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, qp);
	pthread_create(&thread, NULL, ack_async_later, &event);
	assert_int_equal(ibv_destroy_qp(qp), 0); /* waits */
	pthread_join(thread, NULL);

	/* An event that was not fetched goes with its object. */
	fail_new_qp(&qp_init, &qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_get_async_event(b.context, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void next_async(struct ibv_context *context, struct ibv_async_event *event)
{
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};

	do {
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(ibv_get_async_event(context, event), 0);
		ibv_ack_async_event(event);
	} while (event->event_type == IBV_EVENT_COMM_EST);
}

/* The limit is told once, when fewer receives than that are left, and then has to be set anew. */
static void test_srq_limit(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(b.pd, &init);
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_async_event event;

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 2); /* armed */
	attr.srq_limit = 3;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	next_async(b.context, &event);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* A queue that overruns says so, and its QPs are dead (field case R71). */
static void test_overrun(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_async_event event;
	bool cq_err = false, fatal = false;
	struct end_address to_c, to_d;
	struct ibv_cq *usual;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end c, d;
	struct ibv_wc wc[4];

	end_open(&c, NULL);
	end_open(&d, NULL);
	usual = c.cq;
	c.cq = ibv_create_cq(c.context, 1, NULL, NULL, 0);
	end_qp(&c, false);
	end_qp(&d, false);
	to_c = end_address(&c);
	to_d = end_address(&d);
	end_connect(&c, &to_d);
	end_connect(&d, &to_c);
	for (int i = 0; i < 3; i++)
		end_recv(&d, 0, 0, 64);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_send(c.qp, &wr, &bad), 0);
	end_wait(&d, wc, 3);
	while (!cq_err || !fatal) {
		next_async(c.context, &event);
		cq_err |= event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == c.cq;
		fatal |= event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == c.qp;
	}
	assert_int_equal(ibv_query_qp(c.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(ibv_poll_cq(c.cq, 4, wc), 1); /* what was in it is there */
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_true(ibv_poll_cq(c.cq, 4, wc) < 0);
	assert_int_equal(ibv_destroy_qp(c.qp), 0);
	c.qp = NULL;
	assert_int_equal(ibv_destroy_cq(c.cq), 0);
	c.cq = usual;
	end_close(&c, true);
	end_close(&d, true);
}

static void moderate(uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {count, period_us}};

	assert_int_equal(ibv_modify_cq(b.cq, &attr), 0);
}

/* An event for several completions, or for what has come when the time is over. */
static void test_moderation(void **state)
{
	struct ibv_modify_cq_attr unknown = {.attr_mask = 2};
	struct ibv_device_attr_ex attr;
	double start;
	struct ibv_wc wc[4];

	assert_int_equal(ibv_query_device_ex(b.context, NULL, &attr), 0);
	assert_int_equal(attr.cq_mod_caps.max_cq_count, 65535);
	assert_int_equal(attr.cq_mod_caps.max_cq_period, 65535);
	for (int i = 0; i < 4; i++)
		end_recv(&b, 0, 0, 64);
	moderate(3, 65535);
	start = seconds();
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	send_one(false);
	send_one(false);
	if (event_within(10))
		assert_true(seconds() - start > 0.065); /* on a very slow machine */
	send_one(false);
	assert_true(event_within(5000));
	take_event();
	end_wait(&b, wc, 3);
	moderate(100, 30000);
	start = seconds();
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	send_one(false);
	assert_true(event_within(5000));
	assert_true(seconds() - start >= 0.029);
	take_event();
	end_wait(&b, wc, 1);
	moderate(0, 0);
	assert_int_equal(ibv_modify_cq(b.cq, &unknown), EINVAL);
}

static unsigned race_messages(void)
{
	const char *n = getenv("TEST_ARMS");

	return n ? (unsigned)atoi(n) : 50000;
}

/* Sends at changing distances, so that completions fall before, into and behind the arming. */
static void *producer(void *arg)
{
	unsigned n = race_messages();
	unsigned in_flight = 0;
	struct ibv_wc wc[RIG_DEPTH];

	for (unsigned i = 0; i < n; i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad;
		unsigned pause = i * 2654435761u >> 22; /* up to 1024 polls */

		do {
			int got = ibv_poll_cq(a.cq, RIG_DEPTH, wc);

			REQUIRE(got >= 0);
			for (int k = 0; k < got; k++)
				REQUIRE(wc[k].status == IBV_WC_SUCCESS);
			in_flight -= (unsigned)got;
		} while (in_flight == RIG_DEPTH || (pause > 16 && pause--));
		REQUIRE(ibv_post_send(a.qp, &wr, &bad) == 0);
		in_flight++;
	}
	end_wait(&a, wc, (int)in_flight);
	return NULL;
}

static void test_arm_race(void **state)
{
	unsigned n = race_messages(), received = 0, arms = 0, events = 0;
	struct ibv_wc wc[RIG_DEPTH];
	pthread_t thread;

	alarm(n / 2000 + 60); /* a lost event is a hang */
	for (int i = 0; i < RIG_DEPTH; i++)
		end_recv(&b, 0, 0, 64);
	pthread_create(&thread, NULL, producer, NULL);
	while (received < n) {
		int got;

		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		arms++;
		while ((got = ibv_poll_cq(b.cq, RIG_DEPTH, wc)) > 0) {
			for (int i = 0; i < got; i++) {
				assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
				end_recv(&b, 0, 0, 64);
			}
			received += (unsigned)got;
		}
		assert_int_equal(got, 0);
		if (received < n) {
			take_event();
			events++;
		}
	}
	pthread_join(thread, NULL);
	alarm(0);
	print_message("%u messages, %u arms, %u events\n", received, arms, events);
	assert_int_equal(received, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_shot),   cmocka_unit_test(test_nonblocking),
		cmocka_unit_test(test_moderation), cmocka_unit_test(test_destroyed_queue),
		cmocka_unit_test(test_arm_race),   cmocka_unit_test(test_async_events),
		cmocka_unit_test(test_srq_limit),  cmocka_unit_test(test_overrun),
	};

	return cmocka_run_group_tests(tests, open_pair, close_pair);
}
