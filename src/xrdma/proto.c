/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/proto.h"

#include "base/be.h"

#include <errno.h>
#include <string.h>

enum { FLAG_LARGE = 1, FLAG_TRACED = 2, FLAG_STAMPED = 4 };
enum { MAX_ERRNO = 4095 };
/* Of the first eight bytes: flags, and what is zero. */
#define FIRST_FLAGS_AND_ZERO UINT64_C(0x00ff00ff00000000)

/*
 * One row a type. body: bytes behind the header when the message is not large. Traced, it carries
 * n_times from first_time on.
 */
static const struct {
	const char *name;
	bool payload;   /* len bytes follow in place */
	bool may_large; /* or are read from the peer */
	uint8_t body;
	uint8_t first_time, n_times;
} types[XR_N_TYPES] = {
	[XR_MSG] = {.name = "MSG", .payload = true, .may_large = true},
	[XR_REQ] = {.name = "REQ", .payload = true, .may_large = true, .n_times = 2},
	[XR_RSP] =
		{.name = "RSP", .payload = true, .may_large = true, .first_time = 2, .n_times = 4},
	[XR_ERR_RSP] = {.name = "ERR_RSP", .body = 4},
	[XR_REGION] = {.name = "REGION", .body = XR_KEY_BYTES + 16},
	[XR_SLOT] = {.name = "SLOT", .body = 2},
	[XR_ACK] = {.name = "ACK"},
	[XR_BYE] = {.name = "BYE"},
	[XR_GONE] = {.name = "GONE"},
};

const char *xr_type_name(enum xr_type type)
{
	return types[type].name;
}

size_t xr_head_extra(const struct xr_head *h)
{
	if (h->stamped)
		return XR_STAMP_BYTES;
	return h->traced ? types[h->type].n_times * sizeof(uint64_t) : 0;
}

static void put_stamp(uint8_t *p, const struct xr_head *h)
{
	put_be32(p, xr_imm(h->seq, h->ack));
	put_be32(p + 4, h->invalidates);
	put_be64(p + 8, 0);
}

size_t xr_head_put(uint8_t *p, const struct xr_head *h)
{
	size_t head = XR_HDR_BYTES + xr_head_extra(h);
	uint8_t *body = p + head;

	xr_head_put_plain(p, h->type, h->ctrl_ack, h->id, h->len, h->epoch);
	p[1] = (uint8_t)((h->large ? FLAG_LARGE : 0) | (h->traced ? FLAG_TRACED : 0) |
			 (h->stamped ? FLAG_STAMPED : 0));
	if (h->stamped)
		put_stamp(p + XR_HDR_BYTES, h);
	for (unsigned i = 0; h->traced && i < types[h->type].n_times; i++)
		put_be64(p + XR_HDR_BYTES + 8 * i, h->at[types[h->type].first_time + i]);
	if (h->large) {
		xr_key_encode(&h->key, body);
		return head + XR_KEY_BYTES;
	}
	if (h->type == XR_ERR_RSP) {
		put_be32(body, (uint32_t)-h->status);
	} else if (h->type == XR_REGION) {
		xr_key_encode(&h->key, body);
		put_be32(body + 16, h->n_slots);
		put_be32(body + 20, h->tag);
		put_be64(body + 24, h->slot_bytes);
	} else if (h->type == XR_SLOT) {
		put_be16(body, h->slot);
	}
	return head + types[h->type].body;
}

static const char *parse_region(const uint8_t *body, const struct xr_bounds *bounds,
				struct xr_head *h)
{
	uint64_t bytes;

	xr_key_decode(body, &h->key);
	h->n_slots = get_be32(body + 16);
	h->tag = get_be32(body + 20);
	h->slot_bytes = get_be64(body + 24);
	if (h->n_slots == 0 || h->n_slots > 65536 || h->slot_bytes == 0)
		return "a region without slots, or with more than 65536";
	if (__builtin_mul_overflow(h->slot_bytes, h->n_slots, &bytes) ||
	    h->key.addr + bytes < h->key.addr)
		return "a region beyond the end of the address space";
	if (h->key.epoch != bounds->epoch)
		return "a key of another epoch";
	return NULL;
}

static const char *parse_large(const uint8_t *body, const struct xr_bounds *bounds,
			       struct xr_head *h)
{
	xr_key_decode(body, &h->key);
	if (h->len <= bounds->small_bytes)
		return "a small payload announced as a large one";
	if (h->key.addr + h->len < h->key.addr)
		return "a payload beyond the end of the address space";
	if (h->key.epoch != bounds->epoch)
		return "a key of another epoch";
	return NULL;
}

static const char *parse_body(const uint8_t *body, const struct xr_bounds *bounds,
			      struct xr_head *h)
{
	if (h->large)
		return parse_large(body, bounds, h);
	switch (h->type) {
	case XR_REGION:
		return parse_region(body, bounds, h);
	case XR_ERR_RSP:
		if (get_be32(body) == 0 || get_be32(body) > MAX_ERRNO)
			return "an error that is none";
		h->status = -(int)get_be32(body);
		return NULL;
	case XR_SLOT:
		h->slot = get_be16(body);
		return NULL;
	default:
		return NULL;
	}
}

/* NULL if the lengths agree with each other and with what was agreed. */
static const char *check_lengths(size_t size, const struct xr_bounds *bounds,
				 const struct xr_head *h)
{
	bool payload = types[h->type].payload;
	size_t body = h->large ? (size_t)XR_KEY_BYTES : types[h->type].body;

	if (h->len > bounds->max_bytes)
		return "a payload longer than agreed";
	if (payload && !h->large) {
		if (h->len > bounds->small_bytes)
			return "a payload too long to come inside a message";
		body += h->len;
	}
	if (size != XR_HDR_BYTES + xr_head_extra(h) + body)
		return "a length that is not the message's";
	return NULL;
}

static bool flags_are_good(uint8_t flags, uint8_t type, const struct xr_bounds *bounds)
{
	uint8_t may = 0;

	if (types[type].may_large)
		may |= FLAG_LARGE;
	if (types[type].n_times && bounds->trace)
		may |= FLAG_TRACED;
	if (bounds->stamps && !(flags & FLAG_TRACED))
		may |= FLAG_STAMPED;
	return (flags & ~may) == 0;
}

static void parse_times(const uint8_t *p, struct xr_head *h)
{
	for (unsigned i = 0; i < types[h->type].n_times; i++)
		h->at[types[h->type].first_time + i] = get_be64(p + 8 * i);
}

static const char *parse_stamp(const uint8_t *p, struct xr_head *h)
{
	h->seq = xr_imm_seq(get_be32(p));
	h->ack = xr_imm_ack(get_be32(p));
	h->invalidates = get_be32(p + 4);
	return get_be64(p + 8) ? "a stamp that is none" : NULL;
}

/* What nearly all are: a header without flags and its payload. False: look closer. */
static bool parse_plain(const uint8_t *p, size_t size, const struct xr_bounds *bounds,
			struct xr_head *ret_h)
{
	size_t len = size - XR_HDR_BYTES;
	uint64_t first;

	if (size < XR_HDR_BYTES || len > bounds->small_bytes || len > bounds->max_bytes ||
	    get_be64(p + 8) != ((uint64_t)len << 32 | bounds->epoch))
		return false;
	first = get_be64(p);
	if ((first >> 56) - 1 >= XR_RSP || first & FIRST_FLAGS_AND_ZERO)
		return false;
	memset(ret_h, 0, offsetof(struct xr_head, at));
	ret_h->type = (enum xr_type)(first >> 56);
	ret_h->ctrl_ack = (uint8_t)(first >> 40);
	ret_h->id = (uint32_t)first;
	ret_h->len = (uint32_t)len;
	ret_h->epoch = bounds->epoch;
	return true;
}

static int parse(const uint8_t *p, size_t size, const struct xr_bounds *bounds,
		 struct xr_head *ret_h, const char **ret_why)
{
	struct xr_head h = {0};

	if (size < XR_HDR_BYTES)
		*ret_why = "shorter than its header";
	else if (p[0] == 0 || p[0] >= XR_N_TYPES)
		*ret_why = "an unknown type";
	else if (p[3] != 0 || !flags_are_good(p[1], p[0], bounds))
		*ret_why = "flags that its type does not have";
	if (*ret_why)
		return -EPROTO;
	h.type = (enum xr_type)p[0];
	h.large = p[1] & FLAG_LARGE;
	h.traced = p[1] & FLAG_TRACED;
	h.stamped = p[1] & FLAG_STAMPED;
	h.ctrl_ack = p[2];
	h.id = get_be32(p + 4);
	h.len = get_be32(p + 8);
	h.epoch = get_be32(p + 12);
	if (h.epoch != bounds->epoch) {
		*ret_why = "of another epoch";
		return -ESTALE;
	}
	*ret_why = check_lengths(size, bounds, &h);
	if (!*ret_why)
		*ret_why = parse_body(p + XR_HDR_BYTES + xr_head_extra(&h), bounds, &h);
	if (!*ret_why && h.stamped)
		*ret_why = parse_stamp(p + XR_HDR_BYTES, &h);
	if (*ret_why)
		return -EPROTO;
	if (h.traced)
		parse_times(p + XR_HDR_BYTES, &h);
	*ret_h = h;
	return 0;
}

int xr_head_parse(const uint8_t *p, size_t size, const struct xr_bounds *bounds,
		  struct xr_head *ret_h, const char **ret_why)
{
	*ret_why = NULL;
	return parse_plain(p, size, bounds, ret_h) ? 0 : parse(p, size, bounds, ret_h, ret_why);
}
