/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a device, and what can be asked of it. */
#include "base/clock.h"
#include "base/log.h"
#include "verbs/capture.h"
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/objects.h"
#include "verbs/port.h"
#include "verbs/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	PORT_PHYS_DISABLED = 3,
	PORT_PHYS_LINK_UP = 5,
	PORT_WIDTH_4X = 2,
	PORT_SPEED_EDR = 32,
	MAX_MSG_BYTES = 1u << 31, /* IBA 9.7: the largest message of a connected service */
	CLOCK_KHZ = 1000000,      /* completion timestamps are nanoseconds */
	/* Whatever a QP does it can do with memory that is paged out. */
	ODP_UD = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
	ODP_UC = ODP_UD | IBV_ODP_SUPPORT_WRITE,
	ODP_RC = ODP_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
};

/* Copy what fits of an extensible structure: the caller may be older than we are. */
static void copy_attr(void *to, size_t to_len, const void *from, size_t from_len)
{
	memset(to, 0, to_len);
	memcpy(to, from, to_len < from_len ? to_len : from_len);
}

int urxe_verbs_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = urxe_context_of(context)->dev->limits;
	return 0;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex ex = {
		.orig_attr = urxe_context_of(context)->dev->limits,
		.completion_timestamp_mask = UINT64_MAX,
		.hca_core_clock = CLOCK_KHZ,
		.odp_caps = {.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
			     .per_transport_caps = {.rc_odp_caps = ODP_RC,
						    .uc_odp_caps = ODP_UC,
						    .ud_odp_caps = ODP_UD}},
		.xrc_odp_caps = ODP_RC,
		.cq_mod_caps = {.max_cq_count = URXE_MAX_CQ_COUNT,
				.max_cq_period = URXE_MAX_CQ_PERIOD_US},
		.max_dm_size = URXE_MAX_DM_BYTES,
		.phys_port_cnt_ex = 1,
	};

	if (input && input->comp_mask)
		return EINVAL;
	if (attr_size < sizeof(ex.orig_attr))
		return EINVAL;
	ex.device_cap_flags_ex = ex.orig_attr.device_cap_flags;
	copy_attr(attr, attr_size, &ex, sizeof(ex));
	return 0;
}

int urxe_verbs_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			  size_t attr_len)
{
	const struct urxe_device *dev = urxe_context_of(context)->dev;
	bool up = urxe_device_is_up(dev);
	struct ibv_port_attr port_attr = {
		.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = urxe_device_mtu(dev),
		.gid_tbl_len = URXE_MAX_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = MAX_MSG_BYTES,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = PORT_WIDTH_4X,
		.active_speed = PORT_SPEED_EDR,
		.phys_state = up ? PORT_PHYS_LINK_UP : PORT_PHYS_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};

	if (port != 1)
		return EINVAL;
	copy_attr(attr, attr_len, &port_attr, sizeof(port_attr));
	return 0;
}

/* These two return -1 and errno, as libibverbs does since it reads them from files. */
int urxe_verbs_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct urxe_gid found = {0}; /* what an empty slot holds */

	if (port != 1 || index < 0 || index >= URXE_MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	urxe_device_gid(urxe_context_of(context)->dev, (unsigned)index, &found);
	memcpy(gid->raw, found.raw, sizeof(gid->raw));
	return 0;
}

int urxe_verbs_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff); /* the default partition, full member: all that RoCE has */
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		/* Ticks of the device's clock, all of them in tv_nsec, as providers do. */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)clock_now_ns();
	}
	return 0;
}

static void fill_ops(struct verbs_context *vctx)
{
	struct ibv_context_ops *ops = &vctx->context.ops;

	urxe_context_refuse_all(vctx);
	vctx->sz = sizeof(*vctx);
	vctx->query_port = urxe_verbs_query_port;
	vctx->query_device_ex = query_device_ex;
	vctx->query_rt_values = query_rt_values;
	vctx->advise_mr = urxe_verbs_advise_mr;
	vctx->alloc_null_mr = urxe_verbs_alloc_null_mr;
	vctx->modify_cq = urxe_verbs_modify_cq;
	vctx->alloc_td = urxe_verbs_alloc_td;
	vctx->dealloc_td = urxe_verbs_dealloc_td;
	vctx->alloc_parent_domain = urxe_verbs_alloc_parent_domain;
	vctx->alloc_dm = urxe_verbs_alloc_dm;
	vctx->free_dm = urxe_verbs_free_dm;
	vctx->reg_dm_mr = urxe_verbs_reg_dm_mr;
	vctx->open_xrcd = urxe_verbs_open_xrcd;
	vctx->close_xrcd = urxe_verbs_close_xrcd;
	vctx->get_srq_num = urxe_verbs_get_srq_num;
	vctx->create_cq_ex = urxe_verbs_create_cq_ex;
	vctx->create_qp_ex = urxe_verbs_create_qp_ex;
	vctx->create_srq_ex = urxe_verbs_create_srq_ex;
	vctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ops->_compat_query_device = urxe_verbs_query_device;
	ops->alloc_mw = urxe_verbs_alloc_mw;
	ops->bind_mw = urxe_verbs_bind_mw;
	ops->dealloc_mw = urxe_verbs_dealloc_mw;
	ops->poll_cq = urxe_verbs_poll_cq;
	ops->req_notify_cq = urxe_verbs_req_notify_cq;
	ops->post_send = urxe_verbs_post_send;
	ops->post_recv = urxe_verbs_post_recv;
	ops->post_srq_recv = urxe_verbs_post_srq_recv;
}

static uint64_t pick_seed(const struct urxe_settings *settings)
{
	uint64_t seed = settings->seed;

	if (seed)
		return seed;
	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = clock_now_ns();
	return seed;
}

static int new_engine(struct urxe_context *ctx)
{
	const struct urxe_settings *settings = urxe_settings();
	const struct urxe_engine_conf conf = {
		.limits = &ctx->dev->limits,
		.max_inline_data = settings->max_inline,
		.active_mtu = urxe_device_mtu(ctx->dev),
		.key_mode = settings->keys,
		.ecn = settings->ecn == URXE_ECN_ON,
		.copy = urxe_mr_copy,
		.counters = urxe_stat_page(ctx->stat)->engine,
		.seed = ctx->seed,
	};

	return urxe_engine_new(&conf, &ctx->engine);
}

struct ibv_context *urxe_verbs_open_device(struct urxe_device *dev)
{
	struct urxe_context *ctx = calloc(1, sizeof(*ctx));
	int ret = -ENOMEM;

	if (!ctx)
		goto err;
	fill_ops(&ctx->vctx);
	ctx->dev = dev;
	ctx->generation = urxe_fork_generation;
	ctx->seed = pick_seed(urxe_settings());
	list_init(&ctx->lanes);
	ctx->stat = urxe_stat_open(dev);
	if (!ctx->stat)
		goto err_free;
	ret = new_engine(ctx);
	if (ret)
		goto err_close_stat;
	ret = urxe_async_queue_init(&ctx->async);
	if (ret)
		goto err_free_engine;
	/* Programs dup() it to hand the device to somebody; nothing is ever read from it. */
	ctx->vctx.context.cmd_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->vctx.context.cmd_fd < 0) {
		ret = -errno;
		goto err_fini_async;
	}
	ret = urxe_capture_open(ctx);
	if (ret)
		goto err_close_cmd;
	lock_init(&ctx->lock);
	urxe_txq_init(&ctx->udp_txq, ctx->engine, ctx);
	urxe_txq_init(&ctx->ud_local_txq, ctx->engine, ctx);
	urxe_drive_init(ctx);
	ctx->vctx.context.device = &dev->ibv;
	ctx->vctx.context.async_fd = ctx->async.fd;
	ctx->vctx.context.num_comp_vectors = 1;
	pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
	urxe_port_join(ctx);
	return &ctx->vctx.context;

err_close_cmd:
	close(ctx->vctx.context.cmd_fd);
err_fini_async:
	urxe_async_queue_fini(&ctx->async);
err_free_engine:
	urxe_engine_free(ctx->engine);
err_close_stat:
	urxe_stat_close(ctx->stat);
err_free:
	free(ctx);
err:
	errno = -ret;
	return NULL;
}

/* Objects that are left go with the engine; what libibverbs allocated of them is leaked. */
int urxe_verbs_close_device(struct ibv_context *context)
{
	struct urxe_context *ctx = urxe_context_of(context);

	if (ctx->generation != urxe_fork_generation)
		return EPERM;
	urxe_port_leave(ctx);
	urxe_driver_leave(ctx);
	urxe_engine_free(ctx->engine);
	for (struct list *pos = list_pop(&ctx->lanes); pos; pos = list_pop(&ctx->lanes))
		free(container_of(pos, struct lane, all));
	urxe_udp_close(ctx->udp);
	urxe_shm_close(ctx->shm);
	urxe_stat_close(ctx->stat);
	urxe_async_queue_fini(&ctx->async);
	close(context->cmd_fd);
	pthread_mutex_destroy(&context->mutex);
	free(ctx);
	return 0;
}
