/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/device.h"

#include "base/be.h"
#include "base/log.h"
#include "verbs/netdev.h"
#include "verbs/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct urxe_device devices[URXE_MAX_DEVICES];
static unsigned n_devices;

/* Of what changes in a device: the port's state and the GID table. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *p = data;

	/* FNV-1a */
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_file(uint64_t hash, const char *path)
{
	char text[64];
	FILE *f = fopen(path, "re");

	if (!f)
		return hash;
	hash = hash_bytes(hash, text, fread(text, 1, sizeof(text), f));
	fclose(f);
	return hash;
}

/* For interfaces without a MAC: from machine, network namespace and interface. */
static uint64_t guid_of_machine(int ifindex)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	struct stat ns;

	hash = hash_file(hash, "/etc/machine-id");
	hash = hash_file(hash, "/proc/sys/kernel/random/boot_id");
	if (stat("/proc/self/ns/net", &ns) == 0)
		hash = hash_bytes(hash, &ns.st_ino, sizeof(ns.st_ino));
	hash = hash_bytes(hash, &ifindex, sizeof(ifindex));
	/* An EUI-64 of local administration and not a group's: never zero. */
	return (hash | UINT64_C(2) << 56) & ~(UINT64_C(1) << 56);
}

/*
 * The EUI-64 of the MAC as it is: the kernel's rxe on the same interface uses the modified one, and
 * librdmacm tells devices apart by their GUIDs.
 */
static uint64_t guid_of_mac(const uint8_t mac[6])
{
	return (uint64_t)get_be24(mac) << 40 | UINT64_C(0xfffe) << 24 | get_be24(mac + 3);
}

static __be64 choose_guid(const struct urxe_netdev *netdev)
{
	uint64_t guid = netdev->has_mac ? guid_of_mac(netdev->mac) : 0;

	for (unsigned i = 0; i < n_devices; i++) {
		if (devices[i].guid == htobe64(guid)) /* a VLAN has its parent's MAC */
			guid = 0;
	}
	return htobe64(guid != 0 ? guid : guid_of_machine(netdev->ifindex));
}

/* Nobody assigns us a number: an OUI of local administration, "rx" behind it. */
enum { VENDOR_ID = 0x027278, VENDOR_PART_ID = 1, HW_VER = 1 };

static void set_limits(struct urxe_device *dev)
{
	const struct urxe_settings *s = urxe_settings();
	struct ibv_device_attr *l = &dev->limits;

	urxe_limits_default(l);
	snprintf(l->fw_ver, sizeof(l->fw_ver), "%s", URXE_VERSION);
	l->vendor_id = VENDOR_ID;
	l->vendor_part_id = VENDOR_PART_ID;
	l->hw_ver = HW_VER;
	l->node_guid = dev->guid;
	l->sys_image_guid = dev->guid;
	l->max_qp = (int)s->max_qp;
	l->max_cq = (int)s->max_cq;
	l->max_mr = (int)s->max_mr;
	l->max_pd = (int)s->max_pd;
	l->max_srq = (int)s->max_srq;
	l->max_ah = (int)s->max_ah;
	l->max_qp_wr = (int)s->max_qp_wr;
	l->max_cqe = (int)s->max_cqe;
	l->max_sge = (int)s->max_sge;
	l->max_sge_rd = (int)s->max_sge;
	l->max_srq_sge = (int)s->max_sge;
	l->max_qp_rd_atom = (int)s->max_rd_atomic;
	l->max_res_rd_atom = (int)(s->max_rd_atomic * s->max_qp);
	l->max_qp_init_rd_atom = (int)s->max_rd_atomic;
}

static void add_device(const struct urxe_netdev *netdev, enum ibv_mtu mtu)
{
	struct urxe_device *dev = &devices[n_devices];
	struct ibv_device *ibv = &dev->ibv;

	dev->index = (int)n_devices;
	memcpy(dev->netdev, netdev->name, sizeof(dev->netdev));
	dev->ifindex = netdev->ifindex;
	dev->active_mtu = mtu;
	urxe_device_follow(dev, netdev);
	dev->guid = choose_guid(netdev);
	set_limits(dev);
	ibv->node_type = IBV_NODE_CA;
	ibv->transport_type = IBV_TRANSPORT_IB;
	snprintf(ibv->name, sizeof(ibv->name), "urxe%d", dev->index);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "urxe%d", dev->index);
	/* Where a kernel's device would be: nothing is there, ibv_read_sysfs_file() answers. */
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/urxe%d",
		 dev->index);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/urxe%d",
		 dev->index);
	n_devices++;
	log_debug("%s is %s: %u GIDs, MTU %u", ibv->name, dev->netdev, netdev->n_gids, 128U << mtu);
}

/* NULL if a device can be made of it, else why not. */
static const char *why_unfit(const struct urxe_netdev *netdev)
{
	if (!netdev->up)
		return "is down";
	if (netdev->n_gids == 0)
		return "has no IP address";
	if (urxe_netdev_ib_mtu(netdev->mtu, urxe_settings()->mtu) == 0)
		return "has too small an MTU for RoCE";
	if (n_devices == URXE_MAX_DEVICES)
		return "is one more than urxe makes devices of; URXE_NETDEV chooses";
	return NULL;
}

static void add_all(const struct urxe_netdev *netdevs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const char *why = why_unfit(&netdevs[i]);

		if (why)
			log_info("no device of %s: it %s", netdevs[i].name, why);
		else
			add_device(&netdevs[i],
				   urxe_netdev_ib_mtu(netdevs[i].mtu, urxe_settings()->mtu));
	}
}

static const struct urxe_netdev *find_netdev(const struct urxe_netdev *netdevs, unsigned n,
					     const char *name, size_t len)
{
	for (unsigned i = 0; i < n; i++) {
		if (strlen(netdevs[i].name) == len && memcmp(netdevs[i].name, name, len) == 0)
			return &netdevs[i];
	}
	return NULL;
}

static bool is_taken(const struct urxe_netdev *netdev)
{
	for (unsigned i = 0; i < n_devices; i++) {
		if (devices[i].ifindex == netdev->ifindex)
			return true;
	}
	return false;
}

static void report_unknown(const struct urxe_netdev *netdevs, unsigned n, const char *name,
			   size_t len)
{
	char names[512] = "";

	for (unsigned i = 0; i < n; i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
			 netdevs[i].name);
	}
	log_error("URXE_NETDEV: there is no interface \"%.*s\"; there are: %s; no urxe device is "
		  "offered",
		  (int)len, name, names);
}

/* False, and the error logged, if one of the chosen interfaces cannot be had. */
static bool add_chosen(const struct urxe_netdev *netdevs, unsigned n, const char *chosen)
{
	for (const char *name = chosen;; name++) {
		size_t len = strcspn(name, ",");
		const struct urxe_netdev *netdev = find_netdev(netdevs, n, name, len);
		const char *why;

		if (!netdev) {
			report_unknown(netdevs, n, name, len);
			return false;
		}
		why = is_taken(netdev) ? "is named twice" : why_unfit(netdev);
		if (why) {
			log_error("URXE_NETDEV: interface %s %s; no urxe device is offered",
				  netdev->name, why);
			return false;
		}
		add_device(netdev, urxe_netdev_ib_mtu(netdev->mtu, urxe_settings()->mtu));
		name += len;
		if (*name == '\0')
			return true;
	}
}

void urxe_devices_make(const struct urxe_netdev *netdevs, unsigned n)
{
	const char *chosen = urxe_settings()->netdev;

	memset(devices, 0, sizeof(devices));
	n_devices = 0;
	if (!chosen)
		add_all(netdevs, n);
	else if (!add_chosen(netdevs, n, chosen))
		n_devices = 0;
}

static void find_devices(void)
{
	struct urxe_netdev *netdevs;
	int n;

	if (!urxe_settings_valid())
		return;
	n = urxe_netdevs_read(&netdevs);
	if (n < 0) {
		log_error("cannot list the network interfaces: %s", strerror(-n));
		return;
	}
	urxe_devices_make(netdevs, (unsigned)n);
	free(netdevs);
}

/* ---- the port and its GID table ---------------------------------------------------------------
 */

bool urxe_device_gid(const struct urxe_device *dev, unsigned i, struct urxe_gid *ret_gid)
{
	bool live;

	pthread_mutex_lock(&table_lock);
	live = i < URXE_MAX_GIDS && dev->gids[i].live;
	if (live)
		*ret_gid = dev->gids[i].gid;
	pthread_mutex_unlock(&table_lock);
	return live;
}

enum ibv_mtu urxe_device_mtu(const struct urxe_device *dev)
{
	enum ibv_mtu mtu;

	pthread_mutex_lock(&table_lock);
	mtu = dev->active_mtu;
	pthread_mutex_unlock(&table_lock);
	return mtu;
}

bool urxe_device_is_up(const struct urxe_device *dev)
{
	bool up;

	pthread_mutex_lock(&table_lock);
	up = dev->up;
	pthread_mutex_unlock(&table_lock);
	return up;
}

static bool has_gid(const struct urxe_netdev *netdev, const struct urxe_gid *gid)
{
	for (unsigned i = 0; netdev && i < netdev->n_gids; i++) {
		if (memcmp(&netdev->gids[i], gid, sizeof(*gid)) == 0)
			return true;
	}
	return false;
}

/* For this GID: its own slot, or else one that nobody had, or else any that is free. */
static struct urxe_gid_slot *choose_slot(struct urxe_device *dev, const struct urxe_gid *gid)
{
	static const struct urxe_gid nobody;
	struct urxe_gid_slot *fresh = NULL, *dead = NULL;

	for (struct urxe_gid_slot *slot = dev->gids; slot < dev->gids + URXE_MAX_GIDS; slot++) {
		if (memcmp(&slot->gid, gid, sizeof(*gid)) == 0)
			return slot;
		if (!fresh && memcmp(&slot->gid, &nobody, sizeof(nobody)) == 0)
			fresh = slot;
		else if (!dead && !slot->live)
			dead = slot;
	}
	return fresh ? fresh : dead;
}

static bool follow_gids(struct urxe_device *dev, const struct urxe_netdev *netdev)
{
	bool changed = false;

	for (struct urxe_gid_slot *slot = dev->gids; slot < dev->gids + URXE_MAX_GIDS; slot++) {
		if (slot->live && !has_gid(netdev, &slot->gid)) {
			slot->live = false;
			changed = true;
		}
	}
	for (unsigned i = 0; netdev && i < netdev->n_gids; i++) {
		struct urxe_gid_slot *slot = choose_slot(dev, &netdev->gids[i]);

		if (!slot || slot->live)
			continue;
		*slot = (struct urxe_gid_slot){.gid = netdev->gids[i], .live = true};
		changed = true;
	}
	return changed;
}

/* An interface whose MTU has become too small for any of InfiniBand's keeps the smallest. */
bool urxe_device_mtu_changes(const struct urxe_device *dev, const struct urxe_netdev *netdev,
			     enum ibv_mtu *ret_mtu)
{
	enum ibv_mtu mtu;

	if (!netdev || !netdev->mtu)
		return false;
	mtu = urxe_netdev_ib_mtu(netdev->mtu, urxe_settings()->mtu);
	*ret_mtu = mtu ? mtu : IBV_MTU_256;
	return *ret_mtu != urxe_device_mtu(dev);
}

void urxe_device_set_mtu(struct urxe_device *dev, enum ibv_mtu mtu)
{
	pthread_mutex_lock(&table_lock);
	dev->active_mtu = mtu;
	pthread_mutex_unlock(&table_lock);
}

struct urxe_change urxe_device_follow(struct urxe_device *dev, const struct urxe_netdev *netdev)
{
	bool up = netdev && netdev->running;
	struct urxe_change change;

	pthread_mutex_lock(&table_lock);
	change.gids = follow_gids(dev, netdev);
	change.port = dev->up != up;
	dev->up = up;
	pthread_mutex_unlock(&table_lock);
	return change;
}

void urxe_devices_after_fork(void)
{
	pthread_mutex_init(&table_lock, NULL);
}

unsigned urxe_devices(struct urxe_device **ret_devices)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_devices);
	*ret_devices = devices;
	return n_devices;
}

bool urxe_device_is_ours(const struct ibv_device *device)
{
	uintptr_t p = (uintptr_t)device;

	return p >= (uintptr_t)devices && p < (uintptr_t)(devices + URXE_MAX_DEVICES);
}
