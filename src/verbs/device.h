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
	/* By the functions below; an empty slot remembers whose it was. */
	enum ibv_mtu active_mtu;
	struct urxe_gid_slot {
		struct urxe_gid gid;
		bool live;
	} gids[URXE_MAX_GIDS];
	bool up;
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

/*
 * What urxe_devices() does at its first call, with interfaces of the caller's instead of the
 * machine's; devices made before are gone. No other thread may look meanwhile.
 */
struct urxe_netdev;
void urxe_devices_make(const struct urxe_netdev *netdevs, unsigned n);

/* The GID in slot i of the table of URXE_MAX_GIDS; false: it is empty. */
bool urxe_device_gid(const struct urxe_device *dev, unsigned i, struct urxe_gid *ret_gid);

/* Can the port's packets reach anybody? */
bool urxe_device_is_up(const struct urxe_device *dev);

/* The active MTU of the port; whether it must be another, as the interface is now; and set it. */
enum ibv_mtu urxe_device_mtu(const struct urxe_device *dev);
bool urxe_device_mtu_changes(const struct urxe_device *dev, const struct urxe_netdev *netdev,
			     enum ibv_mtu *ret_mtu);
void urxe_device_set_mtu(struct urxe_device *dev, enum ibv_mtu mtu);

/*
 * Be as the interface is now (NULL: it is gone). GIDs that stay keep their slots, and one that
 * comes back gets its old one if that is still free. Returns what has changed.
 */
struct urxe_change {
	bool port, gids;
};
struct urxe_change urxe_device_follow(struct urxe_device *dev, const struct urxe_netdev *netdev);

/* In the child of a fork, where another thread of the parent's may have held the table's lock. */
void urxe_devices_after_fork(void);

/* Is this an address of this network namespace (any interface; loopback addresses too)? */
bool urxe_gid_is_local(const struct urxe_gid *gid);

/* Addresses have changed: what urxe_gid_is_local() knows is out of date. */
void urxe_gids_forget(void);

#endif
