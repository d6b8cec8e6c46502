/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry points about GIDs and what addresses say, where our side needs nothing but the device:
 * GID tables, P_Key look-up, the address of who sent a datagram.
 */
#include "base/be.h"
#include "verbs/entry.h"
#include "verbs/objects.h"

#include <errno.h>
#include <string.h>

enum {
	THE_PORT = 1,
	SYSFS_IB_ROCE_V1 = 0,
	SYSFS_ROCE_V2 = 1 /* of libibverbs' private ibv_gid_type_sysfs */
};

/* libibverbs exports it as private; ibv_devinfo and pyverbs use it, no header declares it. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);

/* ---- GID tables -------------------------------------------------------------------------------
 */

/* False: the slot is empty. */
static bool fill_entry(const struct urxe_device *dev, unsigned i, void *entry, size_t entry_size)
{
	struct ibv_gid_entry e = {
		.gid_index = i,
		.port_num = THE_PORT,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = (uint32_t)dev->ifindex,
	};
	struct urxe_gid gid;

	if (!urxe_device_gid(dev, i, &gid))
		return false;
	memcpy(e.gid.raw, gid.raw, sizeof(e.gid.raw));
	memset(entry, 0, entry_size);
	memcpy(entry, &e, sizeof(e));
	return true;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, void *entry,
			uint32_t flags, size_t entry_size)
{
	const struct urxe_device *dev = urxe_device_of(context->device);

	if (port != THE_PORT || flags != 0 || entry_size < sizeof(struct ibv_gid_entry) ||
	    index >= URXE_MAX_GIDS)
		return EINVAL;
	return fill_entry(dev, index, entry, entry_size) ? 0 : ENODATA;
}

static ssize_t query_gid_table(struct ibv_context *context, void *entries, size_t max_entries,
			       uint32_t flags, size_t entry_size)
{
	const struct urxe_device *dev = urxe_device_of(context->device);

	size_t n = 0;

	if (flags != 0 || entry_size < sizeof(struct ibv_gid_entry))
		return -EINVAL;
	for (unsigned i = 0; i < URXE_MAX_GIDS; i++) {
		struct urxe_gid gid;

		if (!urxe_device_gid(dev, i, &gid))
			continue;
		if (n == max_entries)
			return -EINVAL;
		n += fill_entry(dev, i, (char *)entries + n * entry_size, entry_size);
	}
	return (ssize_t)n;
}

static int query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
	struct urxe_gid gid;

	if (port != THE_PORT || index >= URXE_MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	/* libibverbs says so of empty slots. */
	*type = urxe_device_gid(urxe_device_of(context->device), index, &gid) ? SYSFS_ROCE_V2
									      : SYSFS_IB_ROCE_V1;
	return 0;
}

static int get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 own;

	for (int i = 0; urxe_verbs_query_pkey(context, port, i, &own) == 0; i++) {
		if (own == pkey)
			return i;
	}
	errno = EINVAL;
	return -1;
}

/* ---- the sender of a datagram ------------------------------------------------------------------
 */

enum { GRH_BYTES = 40, IPV4_BYTES = 20, IPV4_OFFSET = GRH_BYTES - IPV4_BYTES };

struct datagram_path {
	struct urxe_gid src;
	struct urxe_gid dst;
	uint32_t flow_label;
	uint8_t tclass;
};

static void map_ipv4(struct urxe_gid *gid, const uint8_t addr[4])
{
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, addr, 4);
}

static bool ipv4_checksum_is_good(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IPV4_BYTES; i += 2)
		sum += get_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16) == 0xffff;
}

/*
 * In front of a datagram's data is the IPv6 header, or the IPv4 header in the last 20 of those 40
 * bytes with nothing defined before it (annex A17.4.5.3).
 */
static int parse_grh(const uint8_t *grh, struct datagram_path *ret_path)
{
	const uint8_t *ip = grh + IPV4_OFFSET;

	if (ip[0] == 0x45 && ipv4_checksum_is_good(ip)) {
		ret_path->tclass = ip[1];
		ret_path->flow_label = 0;
		map_ipv4(&ret_path->src, ip + 12);
		map_ipv4(&ret_path->dst, ip + 16);
		return 0;
	}
	if (grh[0] >> 4 != 6)
		return -EINVAL;
	ret_path->tclass = (uint8_t)(get_be16(grh) >> 4);
	ret_path->flow_label = get_be32(grh) & 0xfffff;
	memcpy(ret_path->src.raw, grh + 8, sizeof(ret_path->src.raw));
	memcpy(ret_path->dst.raw, grh + 24, sizeof(ret_path->dst.raw));
	return 0;
}

static int find_gid(const struct urxe_device *dev, const struct urxe_gid *gid, uint8_t *ret_index)
{
	for (unsigned i = 0; i < URXE_MAX_GIDS; i++) {
		struct urxe_gid own;

		if (urxe_device_gid(dev, i, &own) && memcmp(&own, gid, sizeof(*gid)) == 0) {
			*ret_index = (uint8_t)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int init_ah_from_wc(struct ibv_context *context, uint8_t port, const struct ibv_wc *wc,
			   const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct datagram_path path;
	uint8_t sgid_index;

	/* RoCE has no address but the GRH's. */
	if (port != THE_PORT || !(wc->wc_flags & IBV_WC_GRH) ||
	    parse_grh((const uint8_t *)grh, &path) ||
	    find_gid(urxe_device_of(context->device), &path.dst, &sgid_index)) {
		errno = EINVAL;
		return -1;
	}
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = port;
	attr->sl = wc->sl;
	memcpy(attr->grh.dgid.raw, path.src.raw, sizeof(attr->grh.dgid.raw));
	attr->grh.sgid_index = sgid_index;
	attr->grh.flow_label = path.flow_label;
	attr->grh.traffic_class = path.tclass;
	attr->grh.hop_limit = 0xff;
	return 0;
}

static struct ibv_ah *create_ah_from_wc(struct ibv_pd *pd, const struct ibv_wc *wc,
					const struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return urxe_verbs_create_ah(pd, &attr);
}

/* clang-format off */

ENTRY_AS(int, _ibv_query_gid_ex,
	 (struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
	  uint32_t flags, size_t entry_size),
	 (context, port, index, entry, flags, entry_size), context,
	 query_gid_ex(context, port, index, entry, flags, entry_size))
ENTRY_AS(ssize_t, _ibv_query_gid_table,
	 (struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
	  uint32_t flags, size_t entry_size),
	 (context, entries, max_entries, flags, entry_size), context,
	 query_gid_table(context, entries, max_entries, flags, entry_size))
ENTRY_AS(int, ibv_query_gid_type,
	 (struct ibv_context *context, uint8_t port, unsigned index, int *type),
	 (context, port, index, type), context, query_gid_type(context, port, index, type))
ENTRY_AS(int, ibv_get_pkey_index, (struct ibv_context *context, uint8_t port, __be16 pkey),
	 (context, port, pkey), context, get_pkey_index(context, port, pkey))
ENTRY_AS(int, ibv_init_ah_from_wc,
	 (struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
	  struct ibv_ah_attr *attr),
	 (context, port, wc, grh, attr), context, init_ah_from_wc(context, port, wc, grh, attr))
ENTRY_AS(struct ibv_ah *, ibv_create_ah_from_wc,
	 (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port),
	 (pd, wc, grh, port), pd->context, create_ah_from_wc(pd, wc, grh, port))

/* clang-format on */
