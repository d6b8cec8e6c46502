/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices urxe0, urxe1...: one per network interface that has an address. */
#ifndef URXE_VERBS_DEVICE_H
#define URXE_VERBS_DEVICE_H

#include "wire/frame.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

enum { URXE_MAX_DEVICES = 16, URXE_MAX_GIDS = 16 };

struct urxe_device {
	struct ibv_device ibv;
	const void *no_provider; /* NULL: providers look here (verbs_device) for their own ops */
	int index;               /* the N of urxeN */
	char netdev[IFNAMSIZ];
	int ifindex;
	uint32_t netdev_mtu;
	enum ibv_mtu active_mtu;
	unsigned n_gids; /* all in use, real addresses first */
	struct urxe_gid gids[URXE_MAX_GIDS];
	__be64 guid;
	struct ibv_device_attr limits;
};

/* Is it one of ours? Any pointer that libibverbs could hand out may be asked about. */
bool urxe_device_is_ours(const struct ibv_device *device);

static inline struct urxe_device *urxe_device_of(const struct ibv_device *device)
{
	return (struct urxe_device *)device; /* ibv is the first member */
}

/* Find the devices once per process. Returns how many; *ret_devices is ours, forever. */
unsigned urxe_devices(struct urxe_device **ret_devices);

/* Is this an address of this network namespace (any interface; loopback addresses too)? */
bool urxe_gid_is_local(const struct urxe_gid *gid);

#endif
