/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/sysfs.h"

#include "base/be.h"
#include "verbs/device.h"
#include "verbs/stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 128 };

static void show_text(char value[VALUE_BYTES], const char *text)
{
	snprintf(value, VALUE_BYTES, "%s", text);
}

static void show_guid(char value[VALUE_BYTES], __be64 guid)
{
	const uint8_t *raw = (const uint8_t *)&guid;

	snprintf(value, VALUE_BYTES, "%04x:%04x:%04x:%04x", get_be16(raw), get_be16(raw + 2),
		 get_be16(raw + 4), get_be16(raw + 6));
}

static void show_gid(char value[VALUE_BYTES], const struct urxe_gid *gid)
{
	size_t len = 0;

	for (unsigned i = 0; i < sizeof(gid->raw); i += 2)
		len += (size_t)snprintf(value + len, VALUE_BYTES - len, "%s%04x", i ? ":" : "",
					get_be16(&gid->raw[i]));
}

/* Attributes of the device. */
static void board_id(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, "urxe");
}

static void fw_ver(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, dev->limits.fw_ver);
}

static void node_desc(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	snprintf(value, VALUE_BYTES, "%s on %s", dev->ibv.name, dev->netdev);
}

static void node_guid(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_guid(value, dev->guid);
}

static void node_type(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, "1: CA");
}

static void link_layer(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, "Ethernet");
}

static void port_state(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, urxe_device_is_up(dev) ? "4: ACTIVE" : "1: DOWN");
}

static void phys_state(const struct urxe_device *dev, char value[VALUE_BYTES])
{
	show_text(value, urxe_device_is_up(dev) ? "5: LinkUp" : "3: Disabled");
}

static const struct {
	const char *name;
	void (*show)(const struct urxe_device *dev, char value[VALUE_BYTES]);
} attributes[] = {
	{"board_id", board_id},
	{"hca_type", board_id},
	{"fw_ver", fw_ver},
	{"node_desc", node_desc},
	{"node_guid", node_guid},
	{"sys_image_guid", node_guid},
	{"node_type", node_type},
	{"ports/1/link_layer", link_layer},
	{"ports/1/state", port_state},
	{"ports/1/phys_state", phys_state},
};

/* Attributes of a GID: the name ends in its index. An empty slot is shown as zero. */
static int gid_value(const struct urxe_device *dev, unsigned i, char value[VALUE_BYTES])
{
	struct urxe_gid gid = {0};

	urxe_device_gid(dev, i, &gid);
	show_gid(value, &gid);
	return 0;
}

static int gid_type(const struct urxe_device *dev, unsigned i, char value[VALUE_BYTES])
{
	struct urxe_gid gid;

	show_text(value, "RoCE v2");
	return urxe_device_gid(dev, i, &gid) ? 0 : -EINVAL;
}

static int gid_ndev(const struct urxe_device *dev, unsigned i, char value[VALUE_BYTES])
{
	struct urxe_gid gid;

	show_text(value, dev->netdev);
	return urxe_device_gid(dev, i, &gid) ? 0 : -EINVAL;
}

static const struct {
	const char *prefix;
	int (*show)(const struct urxe_device *dev, unsigned i, char value[VALUE_BYTES]);
} gid_attributes[] = {
	{"ports/1/gids/", gid_value},
	{"ports/1/gid_attrs/types/", gid_type},
	{"ports/1/gid_attrs/ndevs/", gid_ndev},
};

static bool parse_index(const char *text, unsigned limit, unsigned *ret_i)
{
	char *end;
	unsigned long i;

	if (text[0] < '0' || text[0] > '9')
		return false;
	i = strtoul(text, &end, 10);
	if (*end != '\0' || i >= limit)
		return false;
	*ret_i = (unsigned)i;
	return true;
}

static int show(const struct urxe_device *dev, const char *name, char value[VALUE_BYTES])
{
	static const char counters[] = "ports/1/hw_counters/";
	uint64_t sum;
	unsigned i;

	if (strncmp(name, counters, strlen(counters)) == 0 &&
	    urxe_stat_sum(dev, name + strlen(counters), &sum)) {
		snprintf(value, VALUE_BYTES, "%" PRIu64, sum);
		return 0;
	}

	for (unsigned a = 0; a < sizeof(attributes) / sizeof(attributes[0]); a++) {
		if (strcmp(name, attributes[a].name) == 0) {
			attributes[a].show(dev, value);
			return 0;
		}
	}
	for (unsigned a = 0; a < sizeof(gid_attributes) / sizeof(gid_attributes[0]); a++) {
		size_t len = strlen(gid_attributes[a].prefix);

		if (strncmp(name, gid_attributes[a].prefix, len) == 0 &&
		    parse_index(name + len, URXE_MAX_GIDS, &i))
			return gid_attributes[a].show(dev, i, value);
	}
	return -ENOENT;
}

/* The rest of path behind the device's own directory, or NULL. */
static const char *below(const struct urxe_device *dev, const char *path)
{
	size_t len = strlen(dev->ibv.ibdev_path);

	return strncmp(path, dev->ibv.ibdev_path, len) == 0 && path[len] == '/' ? path + len + 1
										: NULL;
}

int urxe_sysfs_read(const char *dir, const char *file, char *buf, size_t size)
{
	struct urxe_device *devices;
	unsigned n = urxe_devices(&devices);
	char path[512], value[VALUE_BYTES];
	int err;

	if (size == 0 || (size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return -ENXIO;
	for (unsigned i = 0; i < n; i++) {
		const char *name = below(&devices[i], path);

		if (!name)
			continue;
		err = show(&devices[i], name, value);
		if (err)
			return err;
		snprintf(buf, size, "%s", value);
		return (int)strlen(buf);
	}
	return -ENXIO;
}
