/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/port.h"

#include "base/log.h"
#include "verbs/context_priv.h"
#include "verbs/drive_priv.h"
#include "verbs/netdev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	struct list contexts;
	int fd; /* -1: nobody has opened a device yet */
} port = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .contexts = {&port.contexts, &port.contexts}, .fd = -1};

/* What the messages say is not looked at: they may be lost, and reading anew is never wrong. */
static void drain(void)
{
	char buf[8192];

	while (recv(port.fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
}

static const struct urxe_netdev *find_netdev(const struct urxe_netdev *netdevs, int n, int ifindex)
{
	for (int i = 0; i < n; i++) {
		if (netdevs[i].ifindex == ifindex)
			return &netdevs[i];
	}
	return NULL;
}

static void tell(const struct urxe_device *dev, enum ibv_event_type type)
{
	list_for_each (pos, &port.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, port_node);

		if (ctx->dev != dev)
			continue;
		if (type == IBV_EVENT_PORT_ERR)
			urxe_stat_page(ctx->stat)->engine[URXE_CNT_LINK_DOWNED]++;
		urxe_events_put_port(ctx, type);
	}
}

/* First what engines accept: who reads of an MTU can use it. */
static void set_mtu(struct urxe_device *dev, enum ibv_mtu mtu)
{
	list_for_each (pos, &port.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, port_node);

		if (ctx->dev != dev || !urxe_context_lock(ctx))
			continue;
		urxe_engine_set_mtu(ctx->engine, mtu);
		urxe_context_unlock(ctx);
	}
	urxe_device_set_mtu(dev, mtu);
	log_info("%s: active MTU is %u", dev->ibv.name, 128U << mtu);
}

static void refresh_devices(void)
{
	struct urxe_device *devices;
	unsigned n_devices = urxe_devices(&devices);
	struct urxe_netdev *netdevs;
	int n = urxe_netdevs_read(&netdevs);

	if (n < 0) {
		log_warn("cannot list the network interfaces: %s", strerror(-n));
		return;
	}
	for (unsigned i = 0; i < n_devices; i++) {
		struct urxe_device *dev = &devices[i];
		const struct urxe_netdev *netdev = find_netdev(netdevs, n, dev->ifindex);
		struct urxe_change change = urxe_device_follow(dev, netdev);
		enum ibv_mtu mtu;

		if (urxe_device_mtu_changes(dev, netdev, &mtu))
			set_mtu(dev, mtu);
		if (change.port)
			log_info("%s: port is %s", dev->ibv.name,
				 urxe_device_is_up(dev) ? "active" : "down");
		if (change.gids)
			tell(dev, IBV_EVENT_GID_CHANGE);
		if (change.port)
			tell(dev,
			     urxe_device_is_up(dev) ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	}
	free(netdevs);
}

void urxe_port_service(void)
{
	pthread_mutex_lock(&port.lock);
	drain();
	urxe_gids_forget();
	/* First what packets are taken, then what programs are told. */
	list_for_each (pos, &port.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, port_node);

		if (!urxe_context_lock(ctx))
			continue;
		urxe_context_readdress(ctx);
		urxe_context_unlock(ctx);
	}
	refresh_devices();
	pthread_mutex_unlock(&port.lock);
}

static int open_netlink(void)
{
	const struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
					 .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						      RTMGRP_IPV6_IFADDR};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* Without it the devices stay as they were found. */
static void start(void)
{
	int ret;

	port.fd = open_netlink();
	ret = port.fd < 0 ? port.fd : urxe_driver_watch_port(port.fd);
	if (ret)
		log_info("changes of network interfaces go unnoticed: %s", strerror(-ret));
	if (ret && port.fd >= 0) {
		close(port.fd);
		port.fd = -1;
	}
}

void urxe_port_join(struct urxe_context *ctx)
{
	pthread_mutex_lock(&port.lock);
	if (port.fd < 0) {
		start();
		refresh_devices(); /* they may have been found long ago */
	}
	list_add_tail(&port.contexts, &ctx->port_node);
	urxe_engine_set_mtu(ctx->engine, urxe_device_mtu(ctx->dev)); /* it may be another by now */
	pthread_mutex_unlock(&port.lock);
}

void urxe_port_leave(struct urxe_context *ctx)
{
	pthread_mutex_lock(&port.lock);
	list_del(&ctx->port_node);
	pthread_mutex_unlock(&port.lock);
}

void urxe_port_after_fork(void)
{
	pthread_mutex_init(&port.lock, NULL);
	list_init(&port.contexts);
	if (port.fd >= 0)
		close(port.fd);
	port.fd = -1;
	urxe_devices_after_fork();
	urxe_stats_after_fork();
}
