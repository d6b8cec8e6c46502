/* SPDX-License-Identifier: BSD-2-Clause */
/* Where channels come from: those that are dialed, and those that are accepted. */
#include "xrdma/channel.h"
#include "xrdma/error.h"
#include "xrdma/log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct xrdma_listener {
	struct xrdma_context *ctx;
	struct list link;
	struct xr_watch watch;
	struct xr_boot_listener *boot;
	struct xrdma_handlers handlers;
	void *arg;
};
static int check_handlers(const struct xrdma_handlers *handlers)
{
	return handlers ? 0 : xr_error(-EINVAL, "no handlers: give an empty struct at least");
}

int xrdma_connect(struct xrdma_context *ctx, const char *address,
		  const struct xrdma_handlers *handlers, void *arg, struct xrdma_channel **ret_ch)
{
	struct xrdma_channel *ch;
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = check_handlers(handlers);
	if (!ret)
		ret = xr_channel_new(ctx, handlers, arg, &ch);
	if (ret)
		return ret;
	ctx->now = clock_now_ns();
	ch->dialed = true;
	ch->announced = true;
	ret = xr_boot_connect(&ctx->boot, address, ctx->now, &ch->boot);
	if (!ret)
		ret = xr_dial(ch);
	if (ret) {
		xr_channel_discard(ch);
		return ret;
	}
	xr_context_kick(ctx);
	*ret_ch = ch;
	return 0;
}

static void accept_one(struct xrdma_listener *l, struct xr_boot *boot)
{
	struct xrdma_channel *ch;

	if (xr_channel_new(l->ctx, &l->handlers, l->arg, &ch)) {
		log_warn("a connection is refused: %s", xrdma_last_error());
		xr_boot_close(boot);
		return;
	}
	ch->boot = boot;
	if (xr_channel_boot_watch(ch))
		xr_channel_discard(ch);
	else
		xr_channel_boot_step(ch);
}

static void listener_ready(struct xr_watch *w, uint32_t events)
{
	struct xrdma_listener *l = container_of(w, struct xrdma_listener, watch);
	struct xr_boot *boot;
	int ret;

	for (;;) {
		ret = xr_boot_accept(l->boot, l->ctx->now, &boot);
		if (ret == -EAGAIN)
			return;
		if (ret) {
			log_info("a connection is refused: %s", xrdma_last_error());
			return; /* if another waits, epoll says so again */
		}
		accept_one(l, boot);
	}
}

int xrdma_listen(struct xrdma_context *ctx, const char *address,
		 const struct xrdma_handlers *handlers, void *arg,
		 struct xrdma_listener **ret_listener)
{
	struct xrdma_listener *l;
	int ret = xr_context_guard(ctx);

	if (!ret)
		ret = check_handlers(handlers);
	if (ret)
		return ret;
	l = calloc(1, sizeof(*l));
	if (!l)
		return xr_error(-ENOMEM, "out of memory for a listener");
	*l = (struct xrdma_listener){.ctx = ctx, .handlers = *handlers, .arg = arg};
	ret = xr_boot_listen(&ctx->boot, address, &l->boot);
	if (ret)
		goto err_free;
	ret = xr_watch_add(ctx, &l->watch, xr_boot_listener_fd(l->boot), EPOLLIN, listener_ready);
	if (ret)
		goto err_close;
	list_add_tail(&ctx->listeners, &l->link);
	if (ret_listener)
		*ret_listener = l;
	return 0;

err_close:
	xr_boot_listener_close(l->boot);
err_free:
	free(l);
	return ret;
}

int xrdma_listener_port(const struct xrdma_listener *listener)
{
	return xr_boot_listener_port(listener->boot);
}

void xrdma_listener_close(struct xrdma_listener *listener)
{
	if (!listener || xr_context_guard(listener->ctx))
		return;
	xr_watch_remove(listener->ctx, &listener->watch);
	list_del(&listener->link);
	xr_boot_listener_close(listener->boot);
	free(listener);
}

void xr_listeners_close(struct xrdma_context *ctx)
{
	list_for_each_safe (pos, &ctx->listeners)
		xrdma_listener_close(container_of(pos, struct xrdma_listener, link));
}
