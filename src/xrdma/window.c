/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/window.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

/* So many unreported control messages must be reported: see the top of window.h. */
static uint8_t report_from(const struct xr_window *w)
{
	return (uint8_t)(w->control / 2 > 2 ? w->control / 2 : 2);
}

static uint8_t unreported(const struct xr_window *w)
{
	return (uint8_t)(w->ctl_seen - w->ctl_told);
}

static uint64_t *word_of(const struct xr_window *w, uint16_t seq)
{
	return &w->done[(seq & w->mask) / 64];
}

static uint64_t bit_of(uint16_t seq)
{
	return UINT64_C(1) << (seq % 64);
}

static void advance(struct xr_window *w)
{
	while (w->consumed != w->expected && (*word_of(w, w->consumed) & bit_of(w->consumed))) {
		*word_of(w, w->consumed) &= ~bit_of(w->consumed);
		w->consumed++;
	}
}

void xr_window_init(struct xr_window *w, uint32_t size, uint32_t control, uint64_t *done)
{
	assert(size >= 1 && size <= XR_WINDOW_MAX);
	assert(control >= XR_CONTROL_MIN && control <= XR_CONTROL_MAX);
	*w = (struct xr_window){
		.size = (uint16_t)size,
		.control = (uint8_t)control,
		.mask = (uint16_t)(xr_window_words(size) * 64 - 1),
		.done = done,
	};
}

bool xr_window_control_open(const struct xr_window *w)
{
	uint8_t out = (uint8_t)(w->ctl_next - w->ctl_acked);

	if (out < w->control - 1)
		return true;
	return out < w->control && unreported(w) > 0;
}

void xr_window_sent(struct xr_window *w, bool windowed)
{
	assert(windowed ? xr_window_open(w) : xr_window_control_open(w));
	if (windowed)
		w->next++;
	else
		w->ctl_next++;
	w->told = w->consumed;
	w->ctl_told = w->ctl_seen;
}

static const char *check_acks(const struct xr_window *w, const struct xr_stamp *s)
{
	if ((uint16_t)(s->ack - w->acked) > xr_window_unacked(w))
		return "acknowledges messages that were not sent";
	if ((uint8_t)(s->ctrl_ack - w->ctl_acked) > (uint8_t)(w->ctl_next - w->ctl_acked))
		return "reports control messages that were not sent";
	if (s->seq != w->expected)
		return "is out of sequence";
	return NULL;
}

int xr_window_receive(struct xr_window *w, const struct xr_stamp *s, bool windowed,
		      const char **ret_why)
{
	const char *why = check_acks(w, s);

	if (!why && windowed && (uint16_t)(w->expected - w->told) >= w->size)
		why = "overruns the window";
	if (!why && !windowed && unreported(w) >= w->control)
		why = "overruns the control window";
	if (why) {
		*ret_why = why;
		return -EPROTO;
	}
	w->acked = s->ack;
	w->ctl_acked = s->ctrl_ack;
	if (!windowed) {
		w->ctl_seen++;
		return 1;
	}
	w->expected++;
	if (*word_of(w, s->seq) & bit_of(s->seq)) {
		advance(w);
		return 0;
	}
	return 1;
}

void xr_window_consume(struct xr_window *w, uint16_t seq)
{
	assert(!(*word_of(w, seq) & bit_of(seq)));
	if (seq == w->consumed)
		w->consumed++;
	else
		*word_of(w, seq) |= bit_of(seq);
	advance(w);
}

enum xr_ack xr_window_ack(const struct xr_window *w)
{
	uint16_t news = (uint16_t)(w->consumed - w->told);

	if (unreported(w) >= report_from(w))
		return XR_ACK_AT_ONCE;
	if (news == 0)
		return XR_ACK_NONE;
	/* The peer has filled the window as far as it knows: nothing of it will come to answer. */
	if ((uint16_t)(w->expected - w->told) == w->size || news * 2 >= w->size)
		return XR_ACK_AT_ONCE;
	return XR_ACK_LATER;
}

struct xr_window_state xr_window_export(const struct xr_window *w)
{
	return (struct xr_window_state){.next = w->next, .consumed = w->consumed};
}

void xr_window_interrupt(struct xr_window *w)
{
	w->expected = w->consumed;
}

int xr_window_resume(struct xr_window *w, const struct xr_window_state *peer)
{
	if ((uint16_t)(peer->consumed - w->acked) > xr_window_unacked(w))
		return -EPROTO; /* it has consumed what was never sent, or unconsumed */
	if ((uint16_t)(peer->next - w->expected) > w->size ||
	    (uint16_t)(peer->next - w->consumed) > w->size)
		return -EPROTO; /* it denies what came, or sent more than it may */
	w->acked = peer->consumed;
	w->next = w->acked;
	xr_window_interrupt(w);
	w->told = w->consumed;
	w->ctl_next = w->ctl_acked = w->ctl_seen = w->ctl_told = 0;
	return 0;
}
