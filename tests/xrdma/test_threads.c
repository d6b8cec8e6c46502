/* SPDX-License-Identifier: BSD-2-Clause */
/* M2: a context for each thread: nothing between them is locked, and nothing needs to be. */
#include "rig.h"

#include <pthread.h>

enum { THREADS = 8, PIPELINE = 32, CALLS = 400 };

struct client {
	struct xrdma_context *ctx;
	struct xrdma_channel *ch;
	const char *address;
	unsigned n_asked, n_answered;
	bool wrong;
};

static void answered(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg);

static void ask(struct client *c)
{
	unsigned i = c->n_asked++;

	if (xrdma_call(c->ch, rig_msg(c->ch, i * 37 % 9000, i), 0, answered, c, NULL))
		fail_msg("%s", xrdma_last_error());
}

static void answered(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct client *c = arg;

	c->wrong |= status != 0;
	c->n_answered++;
	xrdma_msg_free(reply);
	if (c->n_asked < CALLS)
		ask(c);
	else if (c->n_answered == CALLS)
		xrdma_channel_close(ch);
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct client *c = arg;

	if (event == XRDMA_CLOSED) {
		xrdma_stop(c->ctx);
		return;
	}
	for (unsigned i = 0; i < PIPELINE; i++)
		ask(c);
}

static void *run_client(void *arg)
{
	static const struct xrdma_handlers handlers = {.on_event = on_event};
	struct client *c = arg;

	c->ctx = rig_context(NULL);
	if (xrdma_connect(c->ctx, c->address, &handlers, c, &c->ch) == 0)
		xrdma_run(c->ctx, 60000);
	xrdma_close(c->ctx);
	return NULL;
}

static void *run_server(void *arg)
{
	xrdma_run(arg, -1);
	return NULL;
}

static void m2_a_context_for_each_thread(void **state)
{
	pthread_t server, threads[THREADS];
	struct client clients[THREADS];
	struct rig r;

	rig_open(&r, NULL);
	r.side[RIG_SERVER].on_msg = rig_echo;
	pthread_create(&server, NULL, run_server, r.side[RIG_SERVER].ctx);
	for (unsigned i = 0; i < THREADS; i++) {
		clients[i] = (struct client){.address = r.address};
		pthread_create(&threads[i], NULL, run_client, &clients[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_false(clients[i].wrong);
		assert_int_equal(clients[i].n_answered, CALLS);
	}
	xrdma_stop(r.side[RIG_SERVER].ctx);
	pthread_join(server, NULL);
	rig_close(&r);
}

/* Case M45: many contexts, one call each, at once. */
static void m2_many_contexts_one_server(void **state)
{
	enum { CONTEXTS = 32 };
	/* One thread sets them all up, which an emulated machine takes its time for. */
	static const char patient[] = "connect_timeout_ms=200000";
	struct xrdma_context *ctx[CONTEXTS];
	struct rig_call calls[CONTEXTS] = {0};
	unsigned n_ended = 0;
	struct rig r;

	rig_open(&r, patient);
	r.side[RIG_SERVER].on_msg = rig_echo;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct xrdma_channel *ch;

		ctx[i] = rig_context(patient);
		assert_int_equal(
			xrdma_connect(ctx[i], r.address, &rig_handlers, &r.side[RIG_CLIENT], &ch),
			0);
		assert_int_equal(xrdma_call(ch, rig_msg(ch, 100, i), 0, rig_done, &calls[i], NULL),
				 0);
	}
	for (uint64_t end = rig_now_ms() + rig_patience_ms();
	     n_ended < CONTEXTS && rig_now_ms() < end;) {
		rig_poll(&r);
		n_ended = 0;
		for (unsigned i = 0; i < CONTEXTS; i++) {
			xrdma_poll(ctx[i]);
			n_ended += calls[i].ended;
		}
	}
	for (unsigned i = 0; i < CONTEXTS; i++) {
		assert_true(calls[i].ended);
		assert_int_equal(calls[i].status, 0);
		xrdma_msg_free(calls[i].reply);
		xrdma_close(ctx[i]);
	}
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(m2_a_context_for_each_thread),
		cmocka_unit_test(m2_many_contexts_one_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
