/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whatever the system or the device refuses, at whatever moment: the call that needed it fails or
 * the channel closes, with a reason, and nothing stays behind. The nth request for memory, mapping
 * or object is refused, for every n until a whole life goes through without reaching it.
 */
#include "../unit/scarce.h"
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_objects; /* of the device: made and not destroyed */

#define OBJECT(type, make, parameters, arguments, destroy)                                         \
	struct type *__real_##make parameters;                                                     \
	struct type *__wrap_##make parameters;                                                     \
	int __real_##destroy(struct type *object);                                                 \
	int __wrap_##destroy(struct type *object);                                                 \
	struct type *__wrap_##make parameters                                                      \
	{                                                                                          \
		struct type *object = scarce_refuse() ? NULL : __real_##make arguments;            \
		n_objects += object != NULL;                                                       \
		return object;                                                                     \
	}                                                                                          \
	int __wrap_##destroy(struct type *object)                                                  \
	{                                                                                          \
		int ret = __real_##destroy(object);                                                \
		n_objects -= ret == 0;                                                             \
		return ret;                                                                        \
	}

OBJECT(ibv_context, ibv_open_device, (struct ibv_device * d), (d), ibv_close_device)
OBJECT(ibv_pd, ibv_alloc_pd, (struct ibv_context * c), (c), ibv_dealloc_pd)
OBJECT(ibv_comp_channel, ibv_create_comp_channel, (struct ibv_context * c), (c),
       ibv_destroy_comp_channel)
OBJECT(ibv_cq, ibv_create_cq,
       (struct ibv_context * c, int cqe, void *arg, struct ibv_comp_channel *comp, int vector),
       (c, cqe, arg, comp, vector), ibv_destroy_cq)
OBJECT(ibv_qp, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr), (pd, attr),
       ibv_destroy_qp)
OBJECT(ibv_srq, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *attr), (pd, attr),
       ibv_destroy_srq)
#undef ibv_reg_mr
OBJECT(ibv_mr, ibv_reg_mr_iova2,
       (struct ibv_pd * pd, void *addr, size_t len, uint64_t iova, unsigned access),
       (pd, addr, len, iova, access), ibv_dereg_mr)
struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = scarce_refuse() ? NULL : __real_ibv_reg_mr(pd, addr, len, access);

	n_objects += mr != NULL;
	return mr;
}

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return scarce_refuse() ? ENOMEM : __real_ibv_modify_qp(qp, attr, mask);
}

/* ---- a life ---- */

/* True: it went well. Else there is a reason. */
static bool good(int ret)
{
	if (ret == 0)
		return true;
	assert_true(ret < 0);
	assert_non_null(xrdma_last_error());
	assert_true(strlen(xrdma_last_error()) > 10);
	return false;
}

static bool call(struct rig *r, struct xrdma_channel *ch, size_t len, struct rig_call *c)
{
	struct xrdma_msg *m;

	*c = (struct rig_call){.ended = true};
	if (!good(xrdma_msg_new(ch, len, &m)))
		return false;
	memset(xrdma_msg_data(m), 0x5a, len);
	if (!good(xrdma_call(ch, m, 0, rig_done, c, NULL))) {
		xrdma_msg_free(m);
		return false;
	}
	c->ended = false;
	/* Where the server had no memory for a reply, the channel goes on. */
	rig_until(r, c->ended);
	if (c->status == 0)
		assert_int_equal(xrdma_msg_len(c->reply), len);
	xrdma_msg_free(c->reply);
	return c->status == 0;
}

static void use(struct rig *r, struct xrdma_channel *ch)
{
	const struct xrdma_region_attr attr = {
		.slot_bytes = 4096, .n_slots = 4, .rights = XRDMA_REMOTE_READ, .numa_node = -1};
	struct rig_side *client = &r->side[RIG_CLIENT], *server = &r->side[RIG_SERVER];
	static uint8_t own[100000];
	struct xrdma_region *region;
	struct xrdma_msg *m;
	struct rig_call c;

	rig_until(r, client->n_closed || (client->n_connected && server->n_connected));
	if (client->n_closed)
		return;
	if (!call(r, ch, 100, &c) || client->n_closed || !call(r, ch, 300000, &c) ||
	    client->n_closed)
		return;
	if (good(xrdma_msg_wrap(ch, own, sizeof(own), NULL, NULL, &m)) &&
	    !good(xrdma_send_msg(ch, m)))
		xrdma_msg_free(m);
	if (server->ch && good(xrdma_region_new(server->ctx, &attr, &region)) && server->ch)
		(void)good(xrdma_region_export(region, server->ch, 1));
	xrdma_channel_close(ch);
	rig_until(r, client->n_closed);
}

static struct xrdma_context *try_open(const char *srq)
{
	struct xrdma_context *ctx = NULL;
	struct xrdma_conf *conf;

	if (!good(xrdma_conf_new(&conf)))
		return NULL;
	if (good(xrdma_conf_set(conf, "srq", srq)))
		(void)good(xrdma_open(conf, &ctx));
	xrdma_conf_free(conf);
	return ctx;
}

static void one_life(const char *srq)
{
	static struct rig r;
	struct rig_side *client = &r.side[RIG_CLIENT], *server = &r.side[RIG_SERVER];
	struct xrdma_channel *ch;

	memset(&r, 0, sizeof(r));
	server->on_msg = rig_echo;
	server->ctx = try_open(srq);
	client->ctx = try_open(srq);
	if (server->ctx && client->ctx &&
	    good(xrdma_listen(server->ctx, "127.0.0.1:0", &rig_handlers, server, &r.listener))) {
		snprintf(r.address, sizeof(r.address), "127.0.0.1:%d",
			 xrdma_listener_port(r.listener));
		if (good(xrdma_connect(client->ctx, r.address, &rig_handlers, client, &ch)))
			use(&r, ch);
	}
	rig_close(&r);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void refuse_each(const char *srq)
{
	unsigned fds, n = 0;
	size_t heap;

	for (unsigned i = 0; i < 3; i++)
		one_life(srq); /* what is made once for the process */
	fds = count_fds();
	heap = mallinfo2().uordblks;
	do {
		scarce_begin(++n);
		one_life(srq);
		scarce_end();
		if (n_objects != 0)
			fail_msg("refusal %u: %d objects of the device are left", n, n_objects);
		if (count_fds() > fds)
			fail_msg("refusal %u: %u descriptors are left", n, count_fds() - fds);
	} while (scarce_refused());
	assert_true(n > 50);
	/* What was freed and is kept at hand for the thread counts as used. */
	assert_in_range(mallinfo2().uordblks, 0, heap + 32768);
}

static void any_one_refusal(void **state)
{
	refuse_each("off");
}

static void any_one_refusal_with_a_shared_receive_queue(void **state)
{
	refuse_each("on");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_one_refusal),
		cmocka_unit_test(any_one_refusal_with_a_shared_receive_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
