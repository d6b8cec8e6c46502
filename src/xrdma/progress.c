/* SPDX-License-Identifier: BSD-2-Clause */
/* What makes a context go: completions, timers, descriptors. */
#include "base/ticks.h"
#include "xrdma/channel.h"
#include "xrdma/context.h"
#include "xrdma/error.h"
#include "xrdma/log.h"
#include "xrdma/monitor.h"
#include "xrdma/tcp_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { CLOCK_EVERY = 16 /* polls without completions, or with */ };

/* ---- descriptors ---- */

static int epoll_change(struct xrdma_context *ctx, int op, struct xr_watch *w)
{
	struct epoll_event event = {.events = w->events, .data.ptr = w};

	return epoll_ctl(ctx->epoll_fd, op, w->fd, &event) ? -errno : 0;
}

int xr_watch_add(struct xrdma_context *ctx, struct xr_watch *w, int fd, uint32_t events,
		 void (*ready)(struct xr_watch *w, uint32_t events))
{
	int ret;

	w->fd = fd;
	w->events = events;
	w->ready = ready;
	ret = epoll_change(ctx, EPOLL_CTL_ADD, w);
	if (ret) {
		w->fd = -1;
		return xr_error(ret, "a descriptor cannot be watched: %s", strerror(-ret));
	}
	return 0;
}

void xr_watch_change(struct xrdma_context *ctx, struct xr_watch *w, int fd, uint32_t events)
{
	if (w->fd == fd && w->events == events)
		return;
	w->events = events;
	if (w->fd == fd) {
		(void)epoll_change(ctx, EPOLL_CTL_MOD, w);
		return;
	}
	/* The old one is closed, which took it out of the set. */
	w->fd = fd;
	(void)epoll_change(ctx, EPOLL_CTL_ADD, w);
}

void xr_watch_remove(struct xrdma_context *ctx, struct xr_watch *w)
{
	if (w->fd < 0)
		return;
	(void)epoll_change(ctx, EPOLL_CTL_DEL, w);
	w->fd = -1;
	for (int i = 0; i < ctx->n_ready; i++) {
		if (ctx->ready[i].data.ptr == w)
			ctx->ready[i].data.ptr = NULL;
	}
}

static int handle_descriptors(struct xrdma_context *ctx, int timeout_ms)
{
	struct epoll_event events[XR_MAX_EVENTS];
	int n = epoll_wait(ctx->epoll_fd, events, XR_MAX_EVENTS, timeout_ms);

	if (n <= 0)
		return 0;
	ctx->now = clock_now_ns();
	ctx->ready = events;
	ctx->n_ready = n;
	for (int i = 0; i < n; i++) {
		struct xr_watch *w = events[i].data.ptr;

		if (w)
			w->ready(w, events[i].events);
	}
	ctx->n_ready = 0;
	return n;
}

static void drain_counter(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_warn("a descriptor of a context cannot be read: %s", strerror(errno));
}

static void wake_ready(struct xr_watch *w, uint32_t events)
{
	drain_counter(w->fd);
}

static void comp_ready(struct xr_watch *w, uint32_t events)
{
	struct xrdma_context *ctx = container_of(w, struct xrdma_context, comp_watch);
	struct ibv_cq *cq;
	void *cq_context;

	while (ibv_get_cq_event(ctx->comp, &cq, &cq_context) == 0) {
		/* Acknowledged in lots: each takes a lock. */
		if (++ctx->unacked_events == 1024) {
			ibv_ack_cq_events(ctx->cq, ctx->unacked_events);
			ctx->unacked_events = 0;
		}
	}
}

void xr_progress_async(struct xrdma_context *ctx)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(ctx->verbs, &event) == 0) {
		struct xrdma_channel *ch = NULL;

		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
			uint32_t qpn = event.element.qp->qp_num;

			HASH_FIND(by_qpn, ctx->by_qpn, &qpn, sizeof(qpn), ch);
			if (ch) {
				ch->last_wqe = true;
				xr_channel_touch(ch);
			}
		} else {
			ctx->gids_old = true;
			log_info("device %s: %s", ctx->device,
				 ibv_event_type_str(event.event_type));
		}
		ibv_ack_async_event(&event);
	}
}

static void async_ready(struct xr_watch *w, uint32_t events)
{
	xr_progress_async(container_of(w, struct xrdma_context, async_watch));
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

int xr_progress_init(struct xrdma_context *ctx)
{
	int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), ret;

	ctx->wake_watch.fd = wake;
	ctx->timer_watch.fd = timer;
	ctx->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (wake < 0 || timer < 0 || ctx->epoll_fd < 0)
		return xr_error(-errno, "no descriptors for a context: %s",
				xr_system_error(-errno));
	ret = set_nonblocking(ctx->comp->fd);
	if (!ret)
		ret = set_nonblocking(ctx->verbs->async_fd);
	if (!ret)
		ret = xr_watch_add(ctx, &ctx->wake_watch, wake, EPOLLIN, wake_ready);
	if (!ret)
		ret = xr_watch_add(ctx, &ctx->timer_watch, timer, EPOLLIN, wake_ready);
	if (!ret)
		ret = xr_watch_add(ctx, &ctx->comp_watch, ctx->comp->fd, EPOLLIN, comp_ready);
	if (!ret)
		ret = xr_watch_add(ctx, &ctx->async_watch, ctx->verbs->async_fd, EPOLLIN,
				   async_ready);
	ctx->now = clock_now_ns();
	return ret;
}

void xr_progress_fini(struct xrdma_context *ctx)
{
	const int fds[] = {ctx->epoll_fd, ctx->wake_watch.fd, ctx->timer_watch.fd};

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void write_wake(const struct xrdma_context *ctx)
{
	uint64_t one = 1;

	if (write(ctx->wake_watch.fd, &one, sizeof(one)) < 0) {
		/* Full: awake already. */
	}
}

void xr_context_wake(struct xrdma_context *ctx)
{
	ctx->armed = false;
	write_wake(ctx);
}

/* ---- completions ---- */

static void handle_receive(struct xrdma_context *ctx, const struct ibv_wc *wc)
{
	bool shared = wc->wr_id >> 62 == XR_WR_SHARED;
	struct xrdma_channel *ch = NULL;
	struct xrdma_msg *m;

	if (shared)
		HASH_FIND(by_qpn, ctx->by_qpn, &wc->qp_num, sizeof(uint32_t), ch);
	else
		ch = xr_channel_by_handle(ctx, (uint32_t)(wc->wr_id >> 32) & 0x3fffffff);
	m = shared || ch ? xr_rq_take(shared ? &ctx->srq : ch->rq, wc->wr_id) : NULL;
	if (!m || !ch || wc->status != IBV_WC_SUCCESS) {
		int status = xr_wc_status(ctx, wc->status);

		if (wc->wr_id >> 62 == XR_WR_PROBE) {
			if (ch)
				xr_mock_probe_ended(ch, (uint32_t)wc->wr_id, status);
			return;
		}
		ctx->stats.stale_completions += !m || !ch;
		if (m && shared)
			(void)xr_rq_refill(&ctx->srq, m, NULL, 0);
		else if (m)
			xr_msg_put(m);
		if (m && ch && status)
			xr_channel_break(ch, status, ibv_wc_status_str(wc->status));
		if (ch)
			xr_channel_touch(ch);
		return;
	}
	if (xr_mw_invalidates(wc))
		xr_mw_invalidated(ch, wc->invalidated_rkey);
	xr_channel_received(ch, m, wc);
}

static void handle_completion(struct xrdma_context *ctx, const struct ibv_wc *wc)
{
	struct xrdma_channel *ch;

	if (wc->wr_id >> 62 != XR_WR_SEND) {
		handle_receive(ctx, wc);
		return;
	}
	ch = xr_channel_by_handle(ctx, (uint32_t)(wc->wr_id >> 32) & 0x3fffffff);
	if (ch && ch->qp)
		xr_channel_send_completed(ch, (uint32_t)wc->wr_id, wc->status);
	else
		ctx->stats.stale_completions++;
}

/* Everything that follows from a batch: receives posted again, then acknowledged; turns taken. */
static void settle(struct xrdma_context *ctx)
{
	struct xr_flow_queue *q;

	if (ctx->fed) {
		ctx->fed = false;
		xr_large_feed(ctx);
		xr_rq_pay_all(ctx);
		xr_tcp_qp_poll(ctx);
	}
	xr_rq_flush(ctx);
	for (struct list *node = list_pop(&ctx->touched); node; node = list_pop(&ctx->touched))
		xr_channel_settle(container_of(node, struct xrdma_channel, touched));
	for (unsigned i = 0; i < XR_POLL_BATCH && (q = xr_flow_next(&ctx->flow)); i++)
		xr_channel_settle(container_of(q, struct xrdma_channel, flow));
}

static bool anything_due(const struct xrdma_context *ctx)
{
	return !list_empty(&ctx->touched) || !list_empty(&ctx->flow.circle) || ctx->fed;
}

int xr_progress_completions(struct xrdma_context *ctx)
{
	struct ibv_wc wcs[XR_POLL_BATCH];
	int n = ibv_poll_cq(ctx->cq, XR_POLL_BATCH, wcs);

	ctx->behind = n == XR_POLL_BATCH;
	for (int i = 0; i < n; i++) {
		if (ctx->faults && wcs[i].status != IBV_WC_SUCCESS)
			xr_fault_completion(ctx, &wcs[i]);
		handle_completion(ctx, &wcs[i]);
	}
	if (n > 0 || anything_due(ctx))
		settle(ctx);
	return n > 0 ? n : 0;
}

/* ---- polling ---- */

static int fire_timers(struct xrdma_context *ctx)
{
	struct timer *t;
	int n = 0;

	while ((t = timerq_expire(&ctx->timers, ctx->now))) {
		struct xr_timer *xt = container_of(t, struct xr_timer, timer);

		xt->fire(xt);
		n++;
	}
	return n;
}

static void trim_when_due(struct xrdma_context *ctx)
{
	if (ctx->now < ctx->trim_at)
		return;
	ctx->trim_at = ctx->now + ctx->conf.trim_ms * NSEC_PER_MSEC;
	xr_msgs_cool(ctx);
	(void)xr_mem_trim(ctx->mem, ctx->now);
	ctx->fed = true; /* the system may have memory by now */
}

static int housekeeping(struct xrdma_context *ctx)
{
	uint64_t every_ns = ctx->conf.housekeeping_us * NSEC_PER_USEC;

	/* Channels being set up, and those over TCP, wait for sockets, not for completions. */
	if (ctx->n_setting_up || ctx->stats.tcp_channels)
		every_ns /= 16;
	ctx->housekeeping_at = ctx->now + every_ns;
	trim_when_due(ctx);
	xr_monitor_publish(ctx);
	return handle_descriptors(ctx, 0) + xr_dials_go_on(ctx);
}

static int poll_once(struct xrdma_context *ctx)
{
	int n = xr_progress_completions(ctx);
	uint64_t before = ctx->now;

	if (!list_empty(&ctx->ended))
		n += xr_calls_end_cancelled(ctx);
	if (++ctx->polls % CLOCK_EVERY && n < XR_POLL_BATCH && !ctx->conf.slow_poll_us)
		return n;
	ctx->now = ticks_now_ns();
	if (ctx->conf.slow_poll_us)
		xr_trace_poll(ctx, before);
	if (timerq_next(&ctx->timers) <= ctx->now)
		n += fire_timers(ctx);
	if (ctx->now >= ctx->housekeeping_at)
		n += housekeeping(ctx);
	return n;
}

static int enter(struct xrdma_context *ctx)
{
	int ret = xr_context_guard(ctx);

	if (ret)
		return ret;
	if (ctx->inside)
		return xr_error(-EDEADLK, "not from a callback: it runs inside a poll already");
	ctx->inside = true;
	ctx->armed = false;
	return 0;
}

int xrdma_poll(struct xrdma_context *ctx)
{
	int n = enter(ctx);

	if (n)
		return n;
	n = poll_once(ctx);
	ctx->inside = false;
	return n;
}

/* ---- sleeping ---- */

static void set_timer(struct xrdma_context *ctx)
{
	uint64_t due = timerq_settle(&ctx->timers);
	struct itimerspec spec = {0};

	if (ctx->trim_at < due && (ctx->n_warm || xr_mem_may_shrink(ctx->mem)))
		due = ctx->trim_at;
	if (due == ctx->armed_until)
		return;
	ctx->armed_until = due;
	if (due != CLOCK_NEVER) {
		spec.it_value.tv_sec = (time_t)(due / NSEC_PER_SEC);
		spec.it_value.tv_nsec = (long)(due % NSEC_PER_SEC);
	}
	(void)timerfd_settime(ctx->timer_watch.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Handle all there is, until asking for an event and looking again find nothing. */
static int handle_and_arm(struct xrdma_context *ctx)
{
	uint64_t posted;
	int total = 0, n;

	do {
		do {
			posted = ctx->flow.posted;
			n = xr_progress_completions(ctx);
			n += xr_calls_end_cancelled(ctx);
			n += ctx->flow.posted != posted; /* turns may be left */
			total += n;
		} while (n);
		n = handle_descriptors(ctx, 0);
		ctx->now = clock_now_ns();
		n += fire_timers(ctx);
		n += xr_dials_go_on(ctx);
		trim_when_due(ctx);
		if (ibv_req_notify_cq(ctx->cq, 0))
			log_error("device %s gives no completion events", ctx->device);
		/* What came before the request raises no event (case of every event loop). */
		n += xr_progress_completions(ctx);
		n += xr_calls_end_cancelled(ctx);
		total += n;
	} while (n || ctx->fed);
	xr_monitor_publish(ctx);
	set_timer(ctx);
	ctx->armed = true;
	return total;
}

int xrdma_get_event_fd(struct xrdma_context *ctx)
{
	int ret = xr_context_guard(ctx);

	if (ret)
		return ret;
	/* Readable at first, so that the caller's loop begins by arming it. */
	write_wake(ctx);
	return ctx->epoll_fd;
}

int xrdma_process_event(struct xrdma_context *ctx)
{
	int n = enter(ctx);

	if (n)
		return n;
	n = handle_and_arm(ctx);
	ctx->inside = false;
	return n;
}

static int sleep_ms(const struct xrdma_context *ctx, uint64_t until)
{
	if (until == CLOCK_NEVER)
		return -1;
	return until > ctx->now ? (int)((until - ctx->now) / NSEC_PER_MSEC) + 1 : 0;
}

int xrdma_run(struct xrdma_context *ctx, int timeout_ms)
{
	uint64_t until = CLOCK_NEVER, busy_until = 0;
	int n = enter(ctx);

	if (n)
		return n;
	ctx->now = clock_now_ns();
	if (timeout_ms >= 0)
		until = ctx->now + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	while (!atomic_exchange_explicit(&ctx->stop, false, memory_order_acquire) &&
	       ctx->now < until) {
		if (poll_once(ctx)) {
			busy_until = ctx->now + ctx->conf.idle_us * NSEC_PER_USEC;
		} else if (ctx->now >= busy_until && handle_and_arm(ctx) == 0) {
			ctx->stats.sleeps++;
			(void)handle_descriptors(ctx, sleep_ms(ctx, until));
			ctx->armed = false;
			ctx->now = clock_now_ns();
		}
	}
	ctx->inside = false;
	return 0;
}

void xrdma_stop(struct xrdma_context *ctx)
{
	int err = errno; /* of what a signal handler interrupted */

	if (ctx->forks != xr_forks)
		return; /* the descriptor is the parent's, too */
	atomic_store_explicit(&ctx->stop, true, memory_order_release);
	write_wake(ctx);
	errno = err;
}
