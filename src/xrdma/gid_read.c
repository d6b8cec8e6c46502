/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of GIDs from verbs, and the subnets from the network interfaces. */
#include "xrdma/address.h"
#include "xrdma/error.h"
#include "xrdma/gid.h"

#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t mask_bits(const struct sockaddr *mask)
{
	struct in6_addr raw = xr_address_raw(mask);
	unsigned first = mask->sa_family == AF_INET ? 12 : 0, bits = 0;

	for (unsigned i = first; i < sizeof(raw.s6_addr); i++)
		bits += (unsigned)__builtin_popcount(raw.s6_addr[i]);
	return (uint8_t)(first * 8 + bits);
}

/* Of the interface that has this address; 0: none has. */
static uint8_t prefix_of(const struct ifaddrs *interfaces, const struct in6_addr *addr)
{
	for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		struct in6_addr raw;

		if (!i->ifa_addr || !i->ifa_netmask)
			continue;
		raw = xr_address_raw(i->ifa_addr);
		if (IN6_ARE_ADDR_EQUAL(&raw, addr))
			return mask_bits(i->ifa_netmask);
	}
	return 0;
}

static enum xr_gid_type type_of(uint32_t verbs_type)
{
	switch (verbs_type) {
	case IBV_GID_TYPE_ROCE_V1:
		return XR_GID_ROCE_V1;
	case IBV_GID_TYPE_ROCE_V2:
		return XR_GID_ROCE_V2;
	default:
		return XR_GID_IB;
	}
}

static int add_entries(struct ibv_context *verbs, const struct ibv_gid_entry *entries, size_t n,
		       const struct ifaddrs *interfaces, struct xr_gid_table *table)
{
	uint32_t last_port = 0;
	bool up = false;

	for (size_t i = 0; i < n; i++) {
		struct ibv_port_attr port;
		struct xr_gid gid = {
			.port = entries[i].port_num,
			.index = entries[i].gid_index,
			.type = type_of(entries[i].gid_type),
		};
		int err;

		if (gid.port != last_port) {
			up = ibv_query_port(verbs, (uint8_t)gid.port, &port) == 0 &&
			     port.state == IBV_PORT_ACTIVE;
			last_port = gid.port;
		}
		gid.port_up = up;
		snprintf(gid.device, sizeof(gid.device), "%s", ibv_get_device_name(verbs->device));
		memcpy(&gid.addr, &entries[i].gid, sizeof(gid.addr));
		gid.prefix_len = prefix_of(interfaces, &gid.addr);
		err = xr_gid_table_add(table, &gid);
		if (err)
			return err;
	}
	return 0;
}

/* Entries of all GID tables; 0: unknown. */
static size_t count_entries(struct ibv_context *verbs)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	size_t n = 0;

	if (ibv_query_device(verbs, &device))
		return 0;
	for (unsigned i = 1; i <= device.phys_port_cnt; i++) {
		if (ibv_query_port(verbs, (uint8_t)i, &port) == 0 && port.gid_tbl_len > 0)
			n += (size_t)port.gid_tbl_len;
	}
	return n;
}

int xr_gid_read_device(struct ibv_context *verbs, struct xr_gid_table *table)
{
	size_t capacity = count_entries(verbs);
	struct ibv_gid_entry *entries = calloc(capacity ? capacity : 1, sizeof(*entries));
	struct ifaddrs *interfaces = NULL;
	ssize_t n;
	int err;

	if (!entries)
		return xr_error(-ENOMEM, "no memory for the GID table");
	n = ibv_query_gid_table(verbs, entries, capacity, 0);
	if (n < 0) {
		err = xr_error((int)n, "%s: its GID table cannot be read: %s",
			       ibv_get_device_name(verbs->device), strerror((int)-n));
	} else {
		if (getifaddrs(&interfaces))
			interfaces = NULL; /* then no subnet is known */
		err = add_entries(verbs, entries, (size_t)n, interfaces, table);
	}
	freeifaddrs(interfaces);
	free(entries);
	return err;
}

static int read_closed(struct ibv_device *device, struct xr_gid_table *table)
{
	struct ibv_context *verbs = ibv_open_device(device);
	int err;

	/* One device without its node, or without permission, must not hide the others. */
	if (!verbs)
		return xr_gid_table_note(table, ibv_get_device_name(device),
					 errno ? -errno : -ENODEV);
	err = xr_gid_read_device(verbs, table);
	ibv_close_device(verbs);
	if (err && err != -ENOMEM)
		err = xr_gid_table_note(table, ibv_get_device_name(device), err);
	return err;
}

int xr_gid_read_all(struct xr_gid_table *table)
{
	int n = 0, err = 0;
	struct ibv_device **devices;

	errno = 0;
	devices = ibv_get_device_list(&n);
	/* ENOSYS: the kernel has no RDMA at all, which is the same as no device. */
	if (!devices && errno != ENOSYS)
		return xr_error(errno ? -errno : -ENODEV, "RDMA devices cannot be listed: %s",
				strerror(errno));
	for (int i = 0; i < n && !err; i++) {
		errno = 0;
		err = read_closed(devices[i], table);
	}
	if (devices)
		ibv_free_device_list(devices);
	return err;
}
