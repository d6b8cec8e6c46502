/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/gid.h"

#include "xrdma/address.h"
#include "xrdma/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How good a candidate is: the first of the highest is chosen. */
enum rank {
	REFUSED,
	LAST_RESORT, /* loopback, or of another family than the peer */
	ROUTED,
	PEER_SUBNET,
	LOCAL_ADDRESS,
	DEMANDED, /* by its index or address */
};

struct verdict {
	enum rank rank;
	const char *why;
};

static bool is_auto(const char *option)
{
	return strcmp(option, "auto") == 0;
}

static bool is_set(const struct in6_addr *addr)
{
	return !IN6_IS_ADDR_UNSPECIFIED(addr);
}

static bool is_link_local(const struct in6_addr *addr)
{
	if (IN6_IS_ADDR_V4MAPPED(addr))
		return addr->s6_addr[12] == 169 && addr->s6_addr[13] == 254;
	return IN6_IS_ADDR_LINKLOCAL(addr);
}

static bool same_family(const struct in6_addr *a, const struct in6_addr *b)
{
	return IN6_IS_ADDR_V4MAPPED(a) == IN6_IS_ADDR_V4MAPPED(b);
}

static bool same_subnet(const struct xr_gid *gid, const struct in6_addr *peer)
{
	unsigned bytes = gid->prefix_len / 8, bits = gid->prefix_len % 8;
	unsigned mask = 0xff00u >> bits & 0xff;

	if (gid->prefix_len == 0 || gid->prefix_len > 128 || memcmp(&gid->addr, peer, bytes) != 0)
		return false;
	return bits == 0 || ((gid->addr.s6_addr[bytes] ^ peer->s6_addr[bytes]) & mask) == 0;
}

/* The option gid: an index, an IPv6 address, or an IPv4 one. */
static bool is_demanded(const struct xr_gid *gid, const char *option)
{
	char mapped[XR_NAME_BYTES + 8];
	struct in6_addr addr;

	if (strspn(option, "0123456789") == strlen(option))
		return strtoul(option, NULL, 10) == gid->index;
	snprintf(mapped, sizeof(mapped), "::ffff:%s", option);
	return (inet_pton(AF_INET6, option, &addr) == 1 ||
		inet_pton(AF_INET6, mapped, &addr) == 1) &&
	       IN6_ARE_ADDR_EQUAL(&addr, &gid->addr);
}

static struct verdict judge_automatic(const struct xr_gid *gid, const struct xr_gid_want *want)
{
	bool loopback = xr_address_is_loopback(&gid->addr);

	if (gid->type == XR_GID_ROCE_V1)
		return (struct verdict){REFUSED, "RoCE v1: not IP, cannot be routed"};
	if (gid->type != XR_GID_ROCE_V2)
		return (struct verdict){REFUSED, "InfiniBand: this library speaks RoCE v2"};
	if (is_link_local(&gid->addr))
		return (struct verdict){REFUSED, "link-local: valid on one link only"};
	if (!is_set(&want->peer))
		return loopback ? (struct verdict){LAST_RESORT, "loopback: this host only"}
				: (struct verdict){ROUTED, "RoCE v2, global"};
	if (loopback && !xr_address_is_loopback(&want->peer))
		return (struct verdict){REFUSED, "loopback: the peer is another host"};
	if (is_set(&want->local) && IN6_ARE_ADDR_EQUAL(&gid->addr, &want->local))
		return (struct verdict){LOCAL_ADDRESS, "the address the TCP connection uses"};
	if (same_subnet(gid, &want->peer))
		return (struct verdict){PEER_SUBNET, "in the subnet of the peer"};
	if (!same_family(&gid->addr, &want->peer))
		return (struct verdict){LAST_RESORT, "RoCE v2, but not of the peer's IP version"};
	return (struct verdict){ROUTED, "RoCE v2, global, not in the subnet of the peer"};
}

static struct verdict judge(const struct xr_gid *gid, const struct xr_gid_want *want)
{
	if (!is_auto(want->device) && strcmp(want->device, gid->device) != 0)
		return (struct verdict){REFUSED, "another device is asked for"};
	if (want->port != XR_AUTO && want->port != gid->port)
		return (struct verdict){REFUSED, "another port is asked for"};
	if (!gid->port_up)
		return (struct verdict){REFUSED, "the port is down"};
	if (!is_set(&gid->addr))
		return (struct verdict){REFUSED, "empty"};
	if (is_auto(want->gid))
		return judge_automatic(gid, want);
	if (is_demanded(gid, want->gid))
		return (struct verdict){DEMANDED, "asked for by the option gid"};
	return (struct verdict){REFUSED, "the option gid asks for another"};
}

static const struct xr_gid *best(const struct xr_gid_table *table, const struct xr_gid_want *want)
{
	const struct xr_gid *found = NULL;
	enum rank highest = REFUSED;

	for (uint32_t i = 0; i < table->n_gids; i++) {
		struct verdict v = judge(&table->gids[i], want);

		if (v.rank > highest) {
			highest = v.rank;
			found = &table->gids[i];
		}
	}
	return found;
}

int xr_gid_choose(const struct xr_gid_table *table, const struct xr_gid_want *want,
		  const struct xr_gid **ret_gid)
{
	const struct xr_gid *found = best(table, want);
	char text[XR_ERROR_BYTES], port[12] = "auto";

	if (!found) {
		xr_gid_explain(table, want, text, sizeof(text));
		text[strlen(text) - 1] = '\0'; /* the end of the last line */
		if (want->port != XR_AUTO)
			snprintf(port, sizeof(port), "%u", want->port);
		return xr_error(-ENODEV,
				"no RDMA device and GID will do (device = %.32s, gid = %.64s, port "
				"= %s); candidates:\n%s",
				want->device, want->gid, port, text);
	}
	*ret_gid = found;
	return 0;
}

/* ---- explanation ----------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t size, len; /* len: as if there were room */
};

static void append(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void append(struct text *t, const char *fmt, ...)
{
	size_t done = t->len < t->size ? t->len : t->size;
	va_list ap;

	va_start(ap, fmt);
	t->len += (size_t)vsnprintf(t->at + done, t->size - done, fmt, ap);
	va_end(ap);
}

static const char *type_name(enum xr_gid_type type)
{
	static const char *const names[] = {
		[XR_GID_IB] = "InfiniBand",
		[XR_GID_ROCE_V1] = "RoCE v1",
		[XR_GID_ROCE_V2] = "RoCE v2",
	};

	return (unsigned)type <= XR_GID_ROCE_V2 ? names[type] : "of unknown type";
}

size_t xr_gid_explain(const struct xr_gid_table *table, const struct xr_gid_want *want, char *text,
		      size_t size)
{
	struct text t = {.at = text, .size = size};
	const struct xr_gid *found = best(table, want);
	char addr[XR_HOST_BYTES];

	if (table->n_gids == 0 && table->n_notes == 0)
		append(&t, "there is no RDMA device: no card, nor a network interface that is up "
			   "and has an address (`ip address`)\n");
	for (uint32_t i = 0; i < table->n_gids; i++) {
		const struct xr_gid *gid = &table->gids[i];
		struct verdict v = judge(gid, want);

		xr_address_text(&gid->addr, addr);
		append(&t, "%s port %u gid %u %s %s: %s: %s\n", gid->device, gid->port, gid->index,
		       addr, type_name(gid->type),
		       gid == found        ? "chosen"
		       : v.rank == REFUSED ? "refused"
					   : "not needed",
		       v.why);
	}
	for (uint32_t i = 0; i < table->n_notes; i++)
		append(&t, "%s: skipped: it cannot be opened: %s\n", table->notes[i].device,
		       xr_system_error(table->notes[i].err));
	return t.len;
}

int xr_gid_reachable(enum xr_gid_type our_type, const struct in6_addr *ours,
		     enum xr_gid_type their_type, const struct in6_addr *theirs)
{
	char our_text[XR_HOST_BYTES], their_text[XR_HOST_BYTES];
	const char *why;

	if (our_type != their_type)
		why = "the types differ; choose one of the same type with the option gid";
	else if (!same_family(ours, theirs))
		why = "one is IPv4 and one IPv6; choose others with the option gid";
	else if (xr_address_is_loopback(ours) != xr_address_is_loopback(theirs))
		why = "one is a loopback device; choose others with the option device";
	else
		return 0;
	xr_address_text(ours, our_text);
	xr_address_text(theirs, their_text);
	return xr_error(-EHOSTUNREACH,
			"packets from our GID %s (%s) cannot reach the peer's %s (%s): %s",
			our_text, type_name(our_type), their_text, type_name(their_type), why);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Room for one more of `size` bytes in an array of n; NULL: no memory. */
static void *grow(void *array, uint32_t n, uint32_t *capacity, size_t size)
{
	uint32_t wanted = n < 8 ? 8 : 2 * n;
	void *bigger;

	if (n < *capacity)
		return array;
	bigger = reallocarray(array, wanted, size);
	if (bigger)
		*capacity = wanted;
	return bigger;
}

int xr_gid_table_add(struct xr_gid_table *table, const struct xr_gid *gid)
{
	struct xr_gid *gids = grow(table->gids, table->n_gids, &table->gid_capacity, sizeof(*gids));

	if (!gids)
		return xr_error(-ENOMEM, "no memory for the list of GIDs");
	table->gids = gids;
	gids[table->n_gids++] = *gid;
	return 0;
}

int xr_gid_table_note(struct xr_gid_table *table, const char *device, int err)
{
	struct xr_gid_note *notes =
		grow(table->notes, table->n_notes, &table->note_capacity, sizeof(*notes));
	struct xr_gid_note *note;

	if (!notes)
		return xr_error(-ENOMEM, "no memory for the list of devices");
	table->notes = notes;
	note = &notes[table->n_notes++];
	snprintf(note->device, sizeof(note->device), "%s", device);
	note->err = err;
	return 0;
}

void xr_gid_table_fini(struct xr_gid_table *table)
{
	free(table->gids);
	free(table->notes);
	*table = (struct xr_gid_table){.n_gids = 0};
}
