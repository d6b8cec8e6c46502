/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/negotiate.h"

#include "xrdma/error.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t clamp(uint32_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : min_u32(value, high);
}

/* The highest power of two that is not above. */
static uint32_t round_down(uint32_t value)
{
	while (value & (value - 1))
		value &= value - 1;
	return value;
}

/* A limit of the channel: the smaller offer, within what makes sense. */
struct limit {
	const char *name, *unit;
	uint32_t low, high;
	size_t offered; /* where struct xr_hello has it */
	size_t agreed;  /* where struct xr_agreed has it */
};

#define LIMIT(member, u, l, h)                                                                     \
	{                                                                                          \
		.name = #member, .unit = u, .low = l, .high = h,                                   \
		.offered = offsetof(struct xr_hello, member),                                      \
		.agreed = offsetof(struct xr_agreed, member),                                      \
	}

static const struct limit limits[] = {
	LIMIT(mtu, "bytes", 256, 4096),
	LIMIT(window, "messages", 1, 4096),
	LIMIT(control, "messages", 4, 128),
	LIMIT(small_bytes, "bytes", 64, 65536),
	LIMIT(frag_bytes, "bytes", 4096, 1u << 30),
	LIMIT(max_msg, "bytes", 4096, UINT32_MAX),
	LIMIT(max_calls, "requests", 16, 65536),
};

enum { N_LIMITS = sizeof(limits) / sizeof(limits[0]) };

static uint32_t field(const void *object, size_t offset)
{
	return *(const uint32_t *)(const void *)((const char *)object + offset);
}

/* Not 0: without a READ in flight no large message moves. */
static uint8_t min_reads(uint8_t requester, uint8_t responder)
{
	return (uint8_t)clamp(requester, 1, responder ? responder : 1);
}

int xr_negotiate(const struct xr_hello *ours, const struct xr_hello *theirs,
		 struct xr_agreed *ret_agreed)
{
	uint32_t version = min_u32(ours->version_max, theirs->version_max);

	if (version < ours->version_min || version < theirs->version_min)
		return xr_error(-EPROTONOSUPPORT,
				"the peer speaks versions %u..%u of the protocol, this side "
				"%u..%u: upgrade the older one",
				theirs->version_min, theirs->version_max, ours->version_min,
				ours->version_max);
	ret_agreed->version = (uint16_t)version;
	ret_agreed->epoch = ours->epoch > theirs->epoch ? ours->epoch : theirs->epoch;
	ret_agreed->reads_out = min_reads(ours->max_rd_atomic, theirs->max_dest_rd);
	ret_agreed->reads_in = min_reads(theirs->max_rd_atomic, ours->max_dest_rd);
	for (unsigned i = 0; i < N_LIMITS; i++) {
		const struct limit *l = &limits[i];
		uint32_t *agreed = (uint32_t *)(void *)((char *)ret_agreed + l->agreed);

		*agreed = clamp(min_u32(field(ours, l->offered), field(theirs, l->offered)), l->low,
				l->high);
	}
	ret_agreed->mtu = round_down(ret_agreed->mtu);
	return 0;
}

static const char *verdict(uint32_t ours, uint32_t theirs, uint32_t agreed)
{
	if (agreed != min_u32(ours, theirs))
		return "clamped";
	if (ours == theirs)
		return "both alike";
	return ours < theirs ? "this side limits" : "the peer limits";
}

static size_t explain_line(char text[static XR_AGREED_TEXT], size_t len, const char *name,
			   const char *unit, uint32_t ours, uint32_t theirs, uint32_t agreed)
{
	return len + (size_t)snprintf(text + len, XR_AGREED_TEXT - len,
				      "%s %u %s: this side offers %u, the peer %u: %s\n", name,
				      agreed, unit, ours, theirs, verdict(ours, theirs, agreed));
}

void xr_negotiate_explain(const struct xr_hello *ours, const struct xr_hello *theirs,
			  const struct xr_agreed *agreed, char text[static XR_AGREED_TEXT])
{
	/* The longest line has under 120 characters, and there are eleven: it fits. */
	size_t len = (size_t)snprintf(text, XR_AGREED_TEXT,
				      "version %u: this side speaks %u..%u, the peer %u..%u\n"
				      "epoch %u: this side proposes %u, the peer %u: the higher\n",
				      agreed->version, ours->version_min, ours->version_max,
				      theirs->version_min, theirs->version_max, agreed->epoch,
				      ours->epoch, theirs->epoch);

	len = explain_line(text, len, "reads_out", "READs", ours->max_rd_atomic,
			   theirs->max_dest_rd, agreed->reads_out);
	len = explain_line(text, len, "reads_in", "READs", ours->max_dest_rd, theirs->max_rd_atomic,
			   agreed->reads_in);
	for (unsigned i = 0; i < N_LIMITS; i++) {
		const struct limit *l = &limits[i];

		len = explain_line(text, len, l->name, l->unit, field(ours, l->offered),
				   field(theirs, l->offered), field(agreed, l->agreed));
	}
}
