/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer of a channel can send: records of u8 size, u32 immediate data, u8 flag bits (bit 0:
 * the application consumes what came so far), the message. As the channel does: header, then
 * window. Whatever comes, the receives posted for the window suffice, what is delivered comes once
 * and in order, and what parses builds to the same bytes.
 */
#include "base/be.h"
#include "xrdma/proto.h"
#include "xrdma/window.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { WINDOW = 4, CONTROL = 4, RECORD = 6, PRIOR = 3 };

static const struct xr_bounds bounds = {
	.small_bytes = 100, .max_bytes = 100000, .epoch = 1, .trace = true};

static void check_head(const uint8_t *p, size_t size, const struct xr_head *h)
{
	uint8_t again[XR_MAX_HEAD_BYTES];
	size_t n = xr_head_put(again, h);

	assert(n <= size && memcmp(p, again, n) == 0);
	assert(n + (size - n) == size && (size - n == 0 || size - n == h->len));
	assert(h->len <= bounds.max_bytes && (!h->large || h->len > bounds.small_bytes));
}

struct receiver {
	struct xr_window w;
	uint64_t done;
	unsigned posted;
	uint16_t delivered; /* the next to be delivered */
	uint16_t consumed;
};

static void consume(struct receiver *r)
{
	for (; r->consumed != r->delivered; r->consumed++) {
		r->posted++;
		xr_window_consume(&r->w, r->consumed);
	}
}

/* False: the channel closes. */
static bool receive(struct receiver *r, const uint8_t *p, size_t size, uint32_t imm)
{
	struct xr_stamp stamp = {.seq = xr_imm_seq(imm), .ack = xr_imm_ack(imm)};
	const char *why = NULL;
	struct xr_head h;

	if (xr_head_parse(p, size, &bounds, &h, &why)) {
		assert(why);
		return false;
	}
	check_head(p, size, &h);
	stamp.ctrl_ack = h.ctrl_ack;
	if (xr_window_receive(&r->w, &stamp, xr_type_windowed(h.type), &why) < 0) {
		assert(why);
		return false;
	}
	assert(r->posted > 0);
	if (xr_type_windowed(h.type)) {
		assert(stamp.seq == r->delivered);
		r->delivered++;
		r->posted--;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct receiver r = {.posted = WINDOW + CONTROL};

	xr_window_init(&r.w, WINDOW, CONTROL, &r.done);
	for (unsigned i = 0; i < PRIOR; i++) /* something that can be acknowledged */
		xr_window_sent(&r.w, true);
	xr_window_sent(&r.w, false);
	while (len >= RECORD) {
		size_t size = data[0];
		uint32_t imm = get_be32(data + 1);

		if (data[5] & 1)
			consume(&r);
		data += RECORD;
		len -= RECORD;
		if (size > len)
			size = len;
		if (!receive(&r, data, size, imm))
			return 0;
		data += size;
		len -= size;
		/* The channel acknowledges as it must. */
		if (xr_window_ack(&r.w) != XR_ACK_NONE && xr_window_control_open(&r.w))
			xr_window_sent(&r.w, false);
	}
	return 0;
}
