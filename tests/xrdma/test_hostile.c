/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that sets up a channel in good order, with verbs of its own, and then lies. Whatever it
 * says, the channel closes with a clear error, every operation ends, and a second channel of the
 * same context does not notice.
 */
#include "rig.h"

#include "base/be.h"
#include "base/clock.h"
#include "base/rng.h"
#include "xrdma/boot.h"
#include "xrdma/conf.h"
#include "xrdma/gid.h"
#include "xrdma/hello.h"
#include "xrdma/keys.h"
#include "xrdma/negotiate.h"
#include "xrdma/proto.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum { BUF = 1 << 20, PROBE = 64, EPOCH = 1, SENDS = 128, A_SEND = 1 };

/* The peer that lies. */
struct liar {
	struct xr_boot_world world;
	struct xr_boot *boot;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct xr_hello ours, theirs;
	bool ready, open;
	unsigned n_sending; /* of a send queue of SENDS */
	struct xr_gid_table gids;
	const struct xr_gid *gid;
};

/* The device that the victim has, too. */
static void liar_verbs(struct liar *l, const struct xr_conf *conf)
{
	const struct xr_gid_want want = {.device = conf->device, .port = XR_AUTO, .gid = "auto"};
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_int_equal(xr_gid_read_all(&l->gids), 0);
	assert_int_equal(xr_gid_choose(&l->gids, &want, &l->gid), 0);
	for (unsigned i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), l->gid->device) == 0)
			l->verbs = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	assert_non_null(l->verbs);
}

static void liar_device(struct liar *l)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = SENDS,
			.max_recv_wr = 512,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};

	l->pd = ibv_alloc_pd(l->verbs);
	l->cq = ibv_create_cq(l->verbs, 1024, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = l->cq;
	l->qp = ibv_create_qp(l->pd, &attr);
	assert_non_null(l->qp);
	l->buf = aligned_alloc(4096, BUF);
	l->mr = ibv_reg_mr(l->pd, l->buf, BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_int_equal(
		ibv_modify_qp(l->qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_sge sge = {(uintptr_t)l->buf + BUF / 2, 65536, l->mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(ibv_post_recv(l->qp, &wr, &bad), 0);
	}
}

static void liar_hello(struct liar *l)
{
	struct xr_key key = {(uintptr_t)l->buf, l->mr->rkey, EPOCH};
	struct rng rng;

	l->ours = (struct xr_hello){
		.version_min = 1,
		.version_max = 1,
		.incarnation = 42,
		.epoch = EPOCH,
		.qpn = l->qp->qp_num,
		.psn = 7,
		.gid_type = XR_GID_ROCE_V2,
		.mtu = 1024,
		.max_rd_atomic = 16,
		.max_dest_rd = 16,
		.window = 64,
		.control = 8,
		.small_bytes = 4096,
		.frag_bytes = 65536,
		.max_msg = 1 << 30,
		.max_calls = 1024,
		.probe_bytes = PROBE,
	};
	l->ours.gid = l->gid->addr;
	xr_key_encode(&key, l->ours.probe_block);
	rng = (struct rng){l->ours.incarnation ^ (uint64_t)EPOCH << 32 ^ l->ours.qpn};
	for (unsigned i = 0; i < PROBE; i += 8)
		put_be64(l->buf + i, rng_next(&rng));
}

static void liar_connect_qp(struct liar *l)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = l->theirs.qpn,
		.rq_psn = l->theirs.psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.hop_limit = 64, .sgid_index = (uint8_t)l->gid->index}},
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = 7,
				  .max_rd_atomic = 16};

	memcpy(&rtr.ah_attr.grh.dgid, &l->theirs.gid, 16);
	assert_int_equal(ibv_modify_qp(l->qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(ibv_modify_qp(l->qp, &rts,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void liar_step(struct liar *l)
{
	const uint8_t *data;
	struct ibv_wc wc;
	uint8_t type;
	size_t len;

	while (ibv_poll_cq(l->cq, 1, &wc) > 0)
		l->n_sending -= wc.wr_id == A_SEND;
	(void)xr_boot_io(l->boot, clock_now_ns());
	while (xr_boot_next(l->boot, &type, &data, &len)) {
		if (type == XR_BLOCK_HELLO) {
			assert_int_equal(xr_hello_decode(data, len, &l->theirs), 0);
			liar_connect_qp(l);
			xr_boot_send(l->boot, XR_BLOCK_READY, NULL, 0, clock_now_ns());
		} else if (type == XR_BLOCK_READY) {
			l->ready = true;
		} else if (type == XR_BLOCK_OPEN) {
			l->open = true;
		}
	}
}

static void liar_calls(struct liar *l, const struct rig *r)
{
	assert_int_equal(xr_boot_connect(&l->world, r->address, clock_now_ns(), &l->boot), 0);
	assert_int_equal(xr_boot_start(l->boot, clock_now_ns()), 0);
}

static void liar_dial(struct liar *l, struct rig *r)
{
	uint8_t block[XR_HELLO_BYTES];
	struct xrdma_conf *conf;

	memset(l, 0, sizeof(*l));
	assert_int_equal(xrdma_conf_new(&conf), 0);
	assert_int_equal(xr_boot_world_init(&l->world, xr_conf_values(conf)), 0);
	liar_verbs(l, xr_conf_values(conf));
	xrdma_conf_free(conf);
	liar_device(l);
	liar_hello(l);
	liar_calls(l, r);
	xr_boot_send(l->boot, XR_BLOCK_HELLO, block, xr_hello_encode(&l->ours, block),
		     clock_now_ns());
}

static void liar_open(struct liar *l, struct rig *r)
{
	unsigned n = r->side[RIG_SERVER].n_connected;

	liar_dial(l, r);
	while (!l->open) {
		liar_step(l);
		rig_poll(r);
	}
	xr_boot_send(l->boot, XR_BLOCK_OPEN, NULL, 0, clock_now_ns());
	rig_until(r, (liar_step(l), r->side[RIG_SERVER].n_connected == n + 1));
}

static void liar_close(struct liar *l)
{
	xr_boot_close(l->boot);
	ibv_destroy_qp(l->qp);
	ibv_destroy_cq(l->cq);
	ibv_dereg_mr(l->mr);
	ibv_dealloc_pd(l->pd);
	ibv_close_device(l->verbs);
	free(l->buf);
	xr_gid_table_fini(&l->gids);
	xr_boot_world_fini(&l->world);
}

static void liar_send(struct liar *l, const void *bytes, size_t len, uint32_t imm, bool with_imm)
{
	struct ibv_sge sge = {(uintptr_t)l->buf + 4096, (uint32_t)len, l->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = A_SEND,
				 .opcode = with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				 .imm_data = htobe32(imm),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	memcpy(l->buf + 4096, bytes, len);
	assert_int_equal(ibv_post_send(l->qp, &wr, &bad), 0);
	l->n_sending++;
	for (unsigned i = 0; i < 3; i++)
		liar_step(l);
}

static void liar_say(struct liar *l, const struct xr_head *h, uint32_t imm)
{
	uint8_t p[XR_MAX_HEAD_BYTES + 64] = {0};
	size_t n = xr_head_put(p, h) + (h->type <= XR_RSP && !h->large && h->len < 64 ? h->len : 0);

	liar_send(l, p, n, imm, true);
}

/* ---- what it says ---- */

static const struct xr_head hello = {.type = XR_MSG, .epoch = EPOCH};

static void wrong_seq(struct liar *l)
{
	liar_say(l, &hello, xr_imm(5, 0));
}

static void ack_of_nothing(struct liar *l)
{
	liar_say(l, &hello, xr_imm(0, 1));
}

static void report_of_nothing(struct liar *l)
{
	struct xr_head h = hello;

	h.ctrl_ack = 1;
	liar_say(l, &h, 0);
}

static void absurd_len(struct liar *l)
{
	struct xr_head h = hello;

	h.len = UINT32_MAX;
	liar_say(l, &h, 0);
}

static void absurd_large(struct liar *l)
{
	struct xr_head h = hello;

	h.large = true;
	h.len = UINT32_MAX;
	h.key = (struct xr_key){UINT64_MAX - 10, 1, EPOCH};
	liar_say(l, &h, 0);
}

static void more_than_fits(struct liar *l)
{
	struct xr_head h = hello;

	h.large = true;
	h.len = 600 << 20; /* within max_msg, beyond rx_budget_bytes */
	h.key = (struct xr_key){(uintptr_t)l->buf, l->mr->rkey, EPOCH};
	liar_say(l, &h, 0);
}

static void unknown_type(struct liar *l)
{
	uint8_t p[16] = {99};

	put_be32(p + 12, EPOCH);
	liar_send(l, p, sizeof(p), 0, true);
}

static void too_short(struct liar *l)
{
	liar_send(l, "abc", 3, 0, true);
}

static void no_immediate(struct liar *l)
{
	uint8_t p[XR_MAX_HEAD_BYTES];

	liar_send(l, p, xr_head_put(p, &hello), 0, false);
}

static void stale_epoch(struct liar *l)
{
	struct xr_head h = hello;

	h.epoch = EPOCH + 1;
	liar_say(l, &h, 0);
}

static void stale_key(struct liar *l)
{
	struct xr_head h = hello;

	h.large = true;
	h.len = 100000;
	h.key = (struct xr_key){(uintptr_t)l->buf, l->mr->rkey, EPOCH + 1};
	liar_say(l, &h, 0);
}

static void key_of_nothing(struct liar *l)
{
	struct xr_head h = hello;

	h.large = true;
	h.len = 100000;
	h.key = (struct xr_key){0x1000, 0x12345678, EPOCH};
	liar_say(l, &h, 0);
}

static void control_overrun(struct liar *l)
{
	struct xr_head h = {.type = XR_ACK, .epoch = EPOCH};

	for (unsigned i = 0; i < 40; i++)
		liar_say(l, &h, 0);
}

static void slot_of_nothing(struct liar *l)
{
	struct xr_head h = {.type = XR_SLOT, .epoch = EPOCH, .id = 3, .slot = 9};

	liar_say(l, &h, 0);
}

static void gone_of_nothing(struct liar *l)
{
	struct xr_head h = {.type = XR_GONE, .epoch = EPOCH, .id = 3};

	liar_say(l, &h, 0);
}

static void exports_out_of_order(struct liar *l)
{
	struct xr_head h = {.type = XR_REGION,
			    .epoch = EPOCH,
			    .id = 7,
			    .n_slots = 1,
			    .slot_bytes = 64,
			    .key = {64, 1, EPOCH}};

	liar_say(l, &h, 0);
}

static void message_after_bye(struct liar *l)
{
	struct xr_head h = {.type = XR_BYE, .epoch = EPOCH};

	liar_say(l, &h, 0);
	liar_say(l, &hello, 0);
}

static void longer_than_the_buffer(struct liar *l)
{
	static uint8_t p[20000];

	liar_send(l, p, sizeof(p), 0, true);
}

static const struct {
	const char *name;
	void (*lie)(struct liar *l);
	int status;
} lies[] = {
	{"wrong sequence", wrong_seq, -EPROTO},
	{"acknowledges nothing", ack_of_nothing, -EPROTO},
	{"reports nothing", report_of_nothing, -EPROTO},
	{"absurd length", absurd_len, -EPROTO},
	{"absurd announcement", absurd_large, -EPROTO},
	{"more than fits", more_than_fits, -EPROTO},
	{"unknown type", unknown_type, -EPROTO},
	{"too short", too_short, -EPROTO},
	{"no immediate data", no_immediate, -EPROTO},
	{"stale epoch", stale_epoch, -ESTALE},
	{"stale key", stale_key, -EPROTO},
	{"key of nothing", key_of_nothing, -EACCES},
	{"control overrun", control_overrun, -EPROTO},
	{"slot of nothing", slot_of_nothing, -EPROTO},
	{"the end of nothing", gone_of_nothing, -EPROTO},
	{"exports out of order", exports_out_of_order, -EPROTO},
	{"message after BYE", message_after_bye, -EPROTO},
	{"longer than the buffer", longer_than_the_buffer, -EIO},
};

static void every_lie_closes_its_channel(void **state)
{
	struct xrdma_channel *honest;
	struct rig r;

	rig_open(&r, NULL);
	honest = rig_connect(&r);
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct rig_side *victim = &r.side[RIG_SERVER];
		unsigned n = victim->n_closed;
		struct liar l;

		liar_open(&l, &r);
		lies[i].lie(&l);
		rig_until(&r, (liar_step(&l), victim->n_closed == n + 1));
		if (victim->status != lies[i].status)
			fail_msg("%s: status %d, not %d (%s)", lies[i].name, victim->status,
				 lies[i].status, xrdma_last_error());
		while (victim->n_msgs)
			xrdma_msg_free(victim->msgs[--victim->n_msgs]);
		liar_close(&l);
		rig_send(honest, 100, i);
		rig_expect(&r, RIG_SERVER, 100, i);
	}
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "qps"), 1);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "messages_held"), 0);
	rig_close(&r);
}

/* Acknowledgements that it never reports come to an end; the liar goes on sending. */
static void window_overrun(void **state)
{
	struct rig_side *victim;
	struct rig r;
	struct liar l;

	rig_open(&r, NULL);
	victim = &r.side[RIG_SERVER];
	liar_open(&l, &r);
	for (unsigned seq = 0; victim->n_closed == 0; seq++) {
		assert_true(seq < 1000);
		liar_say(&l, &hello, xr_imm((uint16_t)seq, 0));
		rig_poll(&r);
		rig_until(&r, (liar_step(&l), l.n_sending < SENDS || victim->n_closed));
	}
	assert_int_equal(victim->status, -EPROTO);
	assert_true(victim->n_msgs >= 64);
	liar_close(&l);
	rig_close(&r);
}

/* The memory that proves the path holds something else. */
static void wrong_probe(void **state)
{
	struct rig r;
	struct liar l;

	rig_open(&r, NULL);
	liar_dial(&l, &r);
	l.buf[13] ^= 1;
	rig_until(&r, (liar_step(&l), *xr_boot_why(l.boot)));
	assert_int_equal(r.side[RIG_SERVER].n_connected, 0); /* never heard of */
	liar_close(&l);
	rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "qps") == 0);
	rig_close(&r);
}

/* Random bytes for messages, some behind a good beginning. */
static void noise(void **state)
{
	struct rng rng = {20261129};
	struct rig r;

	rig_open(&r, NULL);
	for (unsigned i = 0; i < 100; i++) {
		struct rig_side *victim = &r.side[RIG_SERVER];
		unsigned n = victim->n_closed;
		struct liar l;

		liar_open(&l, &r);
		for (unsigned k = 0; k < 50 && victim->n_closed == n; k++) {
			uint8_t p[64];

			for (unsigned j = 0; j < sizeof(p); j++)
				p[j] = (uint8_t)rng_next(&rng);
			p[0] = (uint8_t)(1 + rng_below(&rng, XR_N_TYPES));
			p[1] &= 1;
			p[2] = p[3] = 0;
			if (rng_below(&rng, 2))
				memset(p + 4, 0, 7);
			put_be32(p + 12, EPOCH);
			liar_send(&l, p, 16 + rng_below(&rng, 49), xr_imm((uint16_t)k, 0), true);
			rig_poll(&r);
		}
		xr_boot_close(l.boot);
		rig_until(&r, victim->n_closed == n + 1);
		while (victim->n_msgs)
			xrdma_msg_free(victim->msgs[--victim->n_msgs]);
		liar_calls(&l, &r);
		liar_close(&l);
	}
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "messages_held"), 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_lie_closes_its_channel),
		cmocka_unit_test(window_overrun),
		cmocka_unit_test(wrong_probe),
		cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
