/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/context.h"

#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/exit.h"
#include "xrdma/fault.h"
#include "xrdma/log.h"
#include "xrdma/mem_numa.h"
#include "xrdma/monitor.h"
#include "xrdma/region.h"
#include "xrdma/trace_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { QUANTUM = 16, CQ_FIRST = 1024, CLOSE_NS = 1000000000 };

/* ---- fork, exit ---- */

unsigned xr_forks;

static void forked(void)
{
	xr_forks++;
	xr_exit_forked();
}

static void watch_process(void)
{
	pthread_atfork(NULL, NULL, forked);
	if (xr_exit_init())
		log_warn("regions are not deregistered at exit: no room for the handler");
	/* Refused where verbs were used before us; whoever did that has decided. */
	(void)ibv_fork_init();
}

int xr_context_refuse(void)
{
	return xr_error(-EPERM, "this context is the parent process's: open one after fork()");
}

/* ---- timers ---- */

int xr_timers_reserve(struct xrdma_context *ctx, uint32_t n)
{
	if (timerq_reserve(&ctx->timers, ctx->n_timers + n))
		return xr_error(-ENOMEM, "out of memory for timers");
	ctx->n_timers += n;
	return 0;
}

void xr_timer_init(struct xr_timer *t, void (*fire)(struct xr_timer *t))
{
	timer_init(&t->timer);
	t->fire = fire;
}

void xr_timer_set(struct xrdma_context *ctx, struct xr_timer *t, uint64_t due_ns)
{
	if (due_ns == CLOCK_NEVER) {
		timer_off(&t->timer);
		return;
	}
	timer_set(&ctx->timers, &t->timer, due_ns);
	if (ctx->armed && due_ns < ctx->armed_until)
		xr_context_kick(ctx);
}

/* ---- completion queue ---- */

int xr_cq_promise(struct xrdma_context *ctx, int32_t n)
{
	uint32_t need = ctx->cq_promised + (uint32_t)n;
	int ret, size = ctx->cq->cqe;

	if (n > 0 && need > (uint32_t)size) {
		size = size * 2 > (int)need ? size * 2 : (int)need;
		if (size > ctx->attr.max_cqe)
			size = ctx->attr.max_cqe;
		ret = (uint32_t)size < need ? ENOSPC : ibv_resize_cq(ctx->cq, size);
		if (ret)
			return xr_error(-ret,
					"the completion queue holds %d and must hold %u (device "
					"%s: at most %d): %s",
					ctx->cq->cqe, need, ctx->device, ctx->attr.max_cqe,
					strerror(ret));
	}
	ctx->cq_promised = need;
	return 0;
}

/* ---- opening ---- */

static int open_device(struct xrdma_context *ctx)
{
	const struct xr_gid_want want = {
		.device = ctx->conf.device, .port = ctx->conf.port, .gid = ctx->conf.gid};
	struct ibv_device **list;
	const struct xr_gid *gid;
	int ret = xr_gid_read_all(&ctx->gids), n;

	if (!ret)
		ret = xr_gid_choose(&ctx->gids, &want, &gid);
	if (ret)
		return ret;
	snprintf(ctx->device, sizeof(ctx->device), "%s", gid->device);
	ctx->port = gid->port;
	list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n && !ctx->verbs; i++) {
		if (strcmp(ibv_get_device_name(list[i]), ctx->device) == 0)
			ctx->verbs = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!ctx->verbs)
		return xr_error(-ENODEV, "device %s cannot be opened: %s", ctx->device,
				strerror(errno));
	return 0;
}

static int query_device(struct xrdma_context *ctx)
{
	struct ibv_port_attr port;
	int ret = ibv_query_device(ctx->verbs, &ctx->attr);

	if (!ret)
		ret = ibv_query_port(ctx->verbs, (uint8_t)ctx->port, &port);
	if (ret)
		return xr_error(-ret, "device %s does not tell its limits: %s", ctx->device,
				strerror(ret));
	ctx->active_mtu = port.active_mtu;
	return 0;
}

static int open_queues(struct xrdma_context *ctx)
{
	int cqe = (int)ctx->conf.max_wr + CQ_FIRST;

	if (cqe > ctx->attr.max_cqe)
		cqe = ctx->attr.max_cqe;
	ctx->pd = ibv_alloc_pd(ctx->verbs);
	ctx->comp = ctx->pd ? ibv_create_comp_channel(ctx->verbs) : NULL;
	ctx->cq = ctx->comp ? ibv_create_cq(ctx->verbs, cqe, NULL, ctx->comp, 0) : NULL;
	if (!ctx->cq)
		return xr_error(-errno, "device %s: no completion queue of %d: %s", ctx->device,
				cqe, xr_system_error(-errno));
	ctx->cq_promised = ctx->conf.max_wr;
	return 0;
}

static const enum xr_huge huge_of[] = {
	[XR_CHOICE_AUTO] = XR_HUGE_AUTO,
	[XR_CHOICE_ON] = XR_HUGE_ON,
	[XR_CHOICE_OFF] = XR_HUGE_OFF,
};

/* What must not fail only at the first message: a slab of each pool. */
static int try_memory(struct xrdma_context *ctx)
{
	struct xr_buf buf;
	int ret = 0;

	for (unsigned use = 0; use < XR_N_USES && !ret; use++) {
		ret = xr_mem_alloc(ctx->mem, (enum xr_mem_use)use, 1, &buf);
		if (!ret)
			xr_mem_release(ctx->mem, &buf);
	}
	return ret;
}

static int open_memory(struct xrdma_context *ctx)
{
	const struct xr_conf *conf = &ctx->conf;
	struct xr_mem_conf mem = xr_mem_conf_default;
	int ret = conf->numa == XR_AUTO ? 0 : xr_numa_check(conf->numa);

	if (!ret && conf->guard && conf->huge == XR_CHOICE_ON)
		ret = xr_error(-EINVAL, "guard = on ends each message at an ordinary page: it "
					"cannot be had with huge = on");
	if (ret)
		return ret;
	mem.budget_bytes[XR_TX] = conf->tx_budget_bytes;
	mem.budget_bytes[XR_RX] = conf->rx_budget_bytes;
	mem.keep_bytes[XR_TX] = mem.keep_bytes[XR_RX] = conf->slabs_min * conf->slab_bytes;
	mem.slab_bytes = conf->slab_bytes;
	mem.small_bytes = conf->small_bytes;
	mem.headroom_bytes = xr_rx_bytes(conf) - conf->small_bytes;
	mem.trim_ns = conf->trim_ms * NSEC_PER_MSEC;
	mem.huge = huge_of[conf->huge];
	mem.numa_node = conf->numa == XR_AUTO ? xr_numa_of_device(ctx->verbs->device->ibdev_path)
					      : (int)conf->numa;
	mem.access[XR_TX] = xr_mw_access(ctx);
	mem.odp = conf->odp ? XR_ODP_TRY : XR_ODP_OFF;
	mem.guard = conf->guard;
	mem.cache_entries = conf->regcache_entries;
	mem.cache_bytes = conf->regcache_bytes;
	ret = xr_mem_new(&mem, ctx->pd, &ctx->mem);
	if (!ret)
		ret = try_memory(ctx);
	if (!ret && conf->mem_windows)
		ret = xr_mem_region_new(ctx->mem, (size_t)conf->max_channels * XR_PROBE_BYTES,
					IBV_ACCESS_REMOTE_READ, -1, &ctx->probes);
	return ret;
}

static int open_shared_receives(struct xrdma_context *ctx)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ctx->conf.srq_max, .max_sge = 1}};

	if (ctx->conf.srq == XR_CHOICE_OFF)
		return 0;
	if (ctx->attr.max_srq == 0 || ctx->attr.max_srq_wr == 0) {
		if (ctx->conf.srq == XR_CHOICE_ON)
			return xr_error(-EOPNOTSUPP, "device %s has no shared receive queues",
					ctx->device);
		return 0;
	}
	if (attr.attr.max_wr > (uint32_t)ctx->attr.max_srq_wr)
		attr.attr.max_wr = (uint32_t)ctx->attr.max_srq_wr;
	if (xr_rq_init(&ctx->srq, ctx, attr.attr.max_wr, (uint64_t)XR_WR_SHARED << 62))
		return -ENOMEM;
	ctx->srq.srq = ibv_create_srq(ctx->pd, &attr);
	return ctx->srq.srq ? 0
			    : xr_error(-errno, "no shared receive queue of %u: %s",
				       attr.attr.max_wr, strerror(errno));
}

static int open_all(struct xrdma_context *ctx)
{
	int ret = open_device(ctx);

	if (!ret)
		ret = query_device(ctx);
	if (!ret)
		ret = xr_mw_check_device(ctx);
	if (!ret)
		ret = open_queues(ctx);
	if (!ret)
		ret = open_memory(ctx);
	if (!ret)
		ret = xr_msgs_init(ctx);
	if (!ret)
		ret = open_shared_receives(ctx);
	if (!ret)
		ret = xr_faults_set(ctx, ctx->conf.filter);
	if (!ret && ctx->conf.trace_file[0])
		ret = xr_trace_file_new(ctx->conf.trace_file, ctx->number, &ctx->trace_file);
	if (!ret)
		ret = xr_boot_world_init(&ctx->boot, &ctx->conf);
	if (ret)
		return ret;
	ctx->boot_open = true;
	xr_monitor_open(ctx);
	return xr_progress_init(ctx);
}

static void close_all(struct xrdma_context *ctx)
{
	if (ctx->boot_open)
		xr_boot_world_fini(&ctx->boot);
	xr_progress_fini(ctx);
	xr_qp_cache_free(ctx);
	if (ctx->srq.srq)
		(void)ibv_destroy_srq(ctx->srq.srq);
	if (ctx->srq.slots)
		xr_rq_fini(&ctx->srq);
	xr_msgs_fini(ctx);
	xr_regions_free_all(ctx);
	if (ctx->probes.mr)
		xr_mem_region_free(ctx->mem, &ctx->probes);
	xr_mem_free(ctx->mem);
	if (ctx->cq) {
		ibv_ack_cq_events(ctx->cq, ctx->unacked_events);
		(void)ibv_destroy_cq(ctx->cq);
	}
	if (ctx->comp)
		(void)ibv_destroy_comp_channel(ctx->comp);
	if (ctx->pd)
		(void)ibv_dealloc_pd(ctx->pd);
	if (ctx->verbs)
		(void)ibv_close_device(ctx->verbs);
	xr_gid_table_fini(&ctx->gids);
	xr_faults_free(ctx);
	xr_monitor_close(ctx);
	xr_trace_file_free(ctx->trace_file);
	timerq_fini(&ctx->timers);
	free(ctx->entries);
	free(ctx);
}

int xrdma_open(const struct xrdma_conf *conf, struct xrdma_context **ret_ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_uint opened;
	struct xrdma_conf *own = NULL;
	struct xrdma_context *ctx;
	int ret;

	pthread_once(&once, watch_process);
	if (!conf) {
		ret = xrdma_conf_new(&own);
		if (ret)
			return ret;
		conf = own;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx) {
		xrdma_conf_free(own);
		return xr_error(-ENOMEM, "out of memory for a context");
	}
	ctx->conf = *xr_conf_values(conf);
	xrdma_conf_free(own);
	log_set_threshold(ctx->conf.log);
	ctx->forks = xr_forks;
	ctx->number = atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
	ctx->free_entry = UINT32_MAX;
	list_init(&ctx->msg_chunks);
	list_init(&ctx->hungry);
	list_init(&ctx->owing);
	list_init(&ctx->tcp_due);
	list_init(&ctx->srq.debts);
	list_init(&ctx->channels);
	list_init(&ctx->touched);
	list_init(&ctx->ended);
	list_init(&ctx->dials[0]);
	list_init(&ctx->dials[1]);
	list_init(&ctx->qp_cache);
	list_init(&ctx->listeners);
	list_init(&ctx->regions);
	ctx->epoll_fd = ctx->wake_watch.fd = ctx->timer_watch.fd = -1;
	xr_flow_init(&ctx->flow, ctx->conf.max_wr, QUANTUM, ctx->conf.signal_every);
	ret = open_all(ctx);
	if (ret == 0 &&
	    getrandom(&ctx->incarnation, sizeof(ctx->incarnation), 0) != sizeof(ctx->incarnation))
		ret = xr_error(-EIO, "no random numbers");
	ctx->rng = (struct rng){ctx->incarnation};
	if (ret) {
		close_all(ctx);
		return ret;
	}
	*ret_ctx = ctx;
	return 0;
}

int xrdma_set(struct xrdma_context *ctx, const char *name, const char *value)
{
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = xr_conf_change(&ctx->conf, name, value);
	if (!ret && strcmp(name, "filter") == 0) /* others do not make its rules begin anew */
		ret = xr_faults_set(ctx, ctx->conf.filter);
	if (ret)
		return ret;
	/* Who has a copy of it; what else may change is read where it is used. */
	ctx->boot.conf = ctx->conf;
	xr_mem_set_trim(ctx->mem, ctx->conf.trim_ms * NSEC_PER_MSEC);
	log_set_threshold(ctx->conf.log);
	ctx->housekeeping_at = ctx->trim_at = 0;
	xr_context_kick(ctx); /* more may be dialed at once */
	return 0;
}

const char *xrdma_device(const struct xrdma_context *ctx)
{
	return ctx->device;
}

void xrdma_close(struct xrdma_context *ctx)
{
	uint64_t until = clock_now_ns() + CLOSE_NS;

	if (!ctx || xr_context_guard(ctx))
		return;
	xr_listeners_close(ctx);
	list_for_each (pos, &ctx->channels)
		xr_channel_abort(container_of(pos, struct xrdma_channel, link));
	ctx->inside = true;
	while (ctx->n_channels && clock_now_ns() < until) {
		xr_progress_async(ctx);
		xr_progress_completions(ctx);
	}
	list_for_each_safe (pos, &ctx->channels)
		xr_channel_force(container_of(pos, struct xrdma_channel, link));
	/* Those of which the application holds messages: they go with the context. */
	list_for_each_safe (pos, &ctx->channels)
		xr_channel_forget(container_of(pos, struct xrdma_channel, link));
	close_all(ctx);
}
