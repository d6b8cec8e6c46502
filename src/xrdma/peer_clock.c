/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/peer_clock.h"

#include "base/clock.h"

#include <errno.h>

enum { DRIFT_PER_SEC_NS = 1000000, TICKS_NS = 2000 };
#define KEEP_NS (8 * NSEC_PER_SEC)

static uint64_t error_at(const struct xr_clock_sample *s, uint64_t now)
{
	uint64_t age_ns = now > s->at_ns ? now - s->at_ns : 0;

	return s->ways_ns / 2 + age_ns / NSEC_PER_SEC * DRIFT_PER_SEC_NS +
	       age_ns % NSEC_PER_SEC * DRIFT_PER_SEC_NS / NSEC_PER_SEC + TICKS_NS;
}

bool xr_peer_clock_add(struct xr_peer_clock *c, uint64_t sent, uint64_t peer_received,
		       uint64_t peer_answered, uint64_t received)
{
	struct xr_clock_sample s = {.at_ns = received};
	uint64_t inside = peer_answered - peer_received;

	if (received < sent || peer_answered < peer_received || inside > received - sent)
		return false;
	s.ways_ns = received - sent - inside;
	/* Halved first: clocks may be anything. */
	s.offset_ns = (int64_t)(peer_received - sent) / 2 + (int64_t)(peer_answered - received) / 2;
	if (!c->known || received - c->began_ns > KEEP_NS) {
		c->best = c->known ? c->next : s;
		c->next = s;
		c->began_ns = received;
		c->known = true;
	} else if (s.ways_ns < error_at(&c->next, received) * 2) {
		c->next = s;
	}
	return true;
}

int xr_peer_clock_offset(const struct xr_peer_clock *c, uint64_t now, int64_t *ret_offset_ns,
			 uint64_t *ret_error_ns)
{
	const struct xr_clock_sample *s = &c->next;

	if (!c->known)
		return -ENODATA;
	if (error_at(&c->best, now) < error_at(s, now))
		s = &c->best;
	*ret_offset_ns = s->offset_ns;
	*ret_error_ns = error_at(s, now);
	return 0;
}
