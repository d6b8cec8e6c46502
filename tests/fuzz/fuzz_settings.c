/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The input is text. A line "@FAMILIES FLAGS NAME" is an address of an interface, a line "/NAME" an
 * attribute that a program reads of urxe0; other lines are the environment. Bad variables are told
 * and change nothing; devices are made of the interfaces chosen, in their order, or there are none.
 */
#include "verbs/netdev.h"
#include "verbs/settings.h"
#include "verbs/sysfs.h"

#include <assert.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
const struct urxe_settings *__wrap_urxe_settings(void);
unsigned __wrap_if_nametoindex(const char *name);
void __wrap_log_write(const struct log_source *source, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

enum { MAX_LINES = 64, BY_V4 = 1, BY_V6 = 2, BY_PACKET = 4, BY_ETHER = 8, BY_NONE = 16 };

struct input {
	char *env[MAX_LINES + 1];
	char *attribute[MAX_LINES];
	unsigned n_env, n_attributes;
	struct ifaddrs ifa[MAX_LINES];
	struct sockaddr_storage addr[MAX_LINES];
	unsigned n_ifa;
};

static struct urxe_settings settings;
static unsigned n_errors; /* told */

const struct urxe_settings *__wrap_urxe_settings(void)
{
	return &settings;
}

unsigned __wrap_if_nametoindex(const char *name)
{
	return (unsigned char)name[0];
}

void __wrap_log_write(const struct log_source *source, enum log_level level, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	n_errors += level == LOG_ERROR;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
}

/* ---- the input ------------------------------------------------------------------------------- */

static void set_address(struct sockaddr_storage *addr, unsigned families, const char *name)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = (in_addr_t)name[0]};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_ll ll = {.sll_family = AF_PACKET,
				 .sll_ifindex = name[0],
				 .sll_hatype = families & BY_ETHER ? ARPHRD_ETHER : ARPHRD_LOOPBACK,
				 .sll_halen = 6};

	memcpy(&in6.sin6_addr, name, strnlen(name, sizeof(in6.sin6_addr)));
	if (families & BY_PACKET)
		memcpy(addr, &ll, sizeof(ll));
	else if (families & BY_V6)
		memcpy(addr, &in6, sizeof(in6));
	else if (families & BY_V4)
		memcpy(addr, &in, sizeof(in));
}

/* The line lives as long as the list. */
static void add_interface(struct input *in, char *line)
{
	struct ifaddrs *ifa = &in->ifa[in->n_ifa];

	if (strlen(line) < 4)
		return;
	set_address(&in->addr[in->n_ifa], (unsigned)line[1], line + 3);
	*ifa = (struct ifaddrs){
		.ifa_name = line + 3,
		.ifa_flags = (unsigned)line[2] & (IFF_UP | IFF_LOOPBACK | IFF_RUNNING),
		.ifa_addr = line[1] & BY_NONE ? NULL : (struct sockaddr *)&in->addr[in->n_ifa],
	};
	if (in->n_ifa > 0)
		in->ifa[in->n_ifa - 1].ifa_next = ifa;
	in->n_ifa++;
}

/* Of the line's own length, so that a sanitizer sees what is read beyond it. */
static char *next_line(const uint8_t **data, size_t *len)
{
	const uint8_t *end = memchr(*data, '\n', *len);
	size_t n = end ? (size_t)(end - *data) : *len;
	char *line = strndup((const char *)*data, n);

	assert(line);
	*data += n + !!end;
	*len -= n + !!end;
	return line;
}

/* Returns the number of lines. */
static unsigned read_lines(struct input *in, char *lines[MAX_LINES], const uint8_t *data,
			   size_t len)
{
	unsigned n = 0;

	while (len > 0 && n < MAX_LINES) {
		char *line = lines[n++] = next_line(&data, &len);

		if (line[0] == '@')
			add_interface(in, line);
		else if (line[0] == '/')
			in->attribute[in->n_attributes++] = line + 1;
		else
			in->env[in->n_env++] = line;
	}
	return n;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_ranges(const struct urxe_settings *s)
{
	assert(s->mtu >= 256 && s->mtu <= 4096 && (s->mtu & (s->mtu - 1)) == 0);
	assert(s->udp_port >= 1 && s->udp_port <= 65535);
	assert(s->window_pkts >= 1 && s->window_pkts <= 65536);
	assert(s->real <= URXE_REAL_HIDE && s->link <= URXE_LINK_UDP && s->ecn <= URXE_ECN_ON);
	assert(s->log <= LOG_DEBUG);
	assert((int)s->max_qp > 0 && (int)s->max_cq > 0 && (int)s->max_cqe > 0);
	assert(s->max_sge >= 1 && s->max_sge <= URXE_FRAME_IOV);
	assert(s->max_inline <= 4096 && s->max_rd_atomic >= 1 && s->max_rd_atomic <= 128);
	assert(!s->netdev || s->netdev[0]);
	assert(!s->pcap || s->pcap[0]);
}

/* As if the variables that are bad by themselves were not there; each of them is told once. */
static void check_environment(struct input *in)
{
	char *good[MAX_LINES + 1] = {NULL};
	struct urxe_settings alone, of_good;
	unsigned n_good = 0, told;
	int err;

	n_errors = 0;
	err = urxe_settings_parse(in->env, &settings);
	told = n_errors;
	assert(err == (told ? -EINVAL : 0));
	check_ranges(&settings);
	n_errors = 0;
	for (unsigned i = 0; i < in->n_env; i++) {
		char *one[] = {in->env[i], NULL};

		if (urxe_settings_parse(one, &alone) == 0)
			good[n_good++] = in->env[i];
	}
	assert(n_errors == told && n_good + told == in->n_env);
	assert(urxe_settings_parse(good, &of_good) == 0);
	assert(memcmp(&settings, &of_good, sizeof(settings)) == 0);
}

/* The names of devices, as URXE_NETDEV would have them. */
static char *device_names(const struct urxe_device *devices, unsigned n)
{
	char *names = calloc(n + 1, IFNAMSIZ + 1);

	assert(names);
	for (unsigned i = 0; i < n; i++) {
		assert(strlen(devices[i].netdev) < IFNAMSIZ);
		strcat(strcat(names, i ? "," : ""), devices[i].netdev);
	}
	return names;
}

static void check_devices(struct input *in)
{
	struct urxe_device *devices;
	struct urxe_netdev *netdevs;
	int n_netdevs = urxe_netdevs_from(in->n_ifa ? in->ifa : NULL, &netdevs);
	unsigned n;
	char *names;

	for (int i = 0; i < n_netdevs; i++)
		netdevs[i].mtu = (uint32_t)netdevs[i].name[0] << 6;
	urxe_devices(&devices); /* those of this machine, once */
	n_errors = 0;
	urxe_devices_make(netdevs, (unsigned)n_netdevs);
	n = urxe_devices(&devices);
	assert(n <= URXE_MAX_DEVICES && (int)n <= n_netdevs);
	names = device_names(devices, n);
	if (!settings.netdev)
		assert(n_errors == 0);
	else if (n == 0)
		assert(n_errors == 1);
	else
		assert(n_errors == 0 && strcmp(names, settings.netdev) == 0);
	free(names);
	free(netdevs);
}

static void check_attribute(const char *name)
{
	char *value = malloc(64), shorter[3];
	int len = urxe_sysfs_read("/sys/class/infiniband/urxe0", name, value, 64);

	assert(value);
	if (len >= 0)
		assert(strlen(value) == (size_t)len);
	assert((urxe_sysfs_read("/sys/class/infiniband/urxe0", name, shorter, sizeof(shorter)) >=
		0) == (len >= 0));
	free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {.n_env = 0};
	char *lines[MAX_LINES];
	unsigned n = read_lines(&in, lines, data, len);

	check_environment(&in);
	check_devices(&in);
	for (unsigned i = 0; i < in.n_attributes; i++)
		check_attribute(in.attribute[i]);
	for (unsigned i = 0; i < n; i++)
		free(lines[i]);
	return 0;
}
