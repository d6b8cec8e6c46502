/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far the peer's clock is ahead of ours, from the four times of requests and their replies:
 *sent (ours), received (its), answered (its), received (ours). As NTP does (RFC 5905, section 8):
 *
 *	offset = ((received' - sent) + (answered' - received)) / 2
 *
 * is wrong by at most half of what the two ways took together, whatever their shares. So of the
 * samples of the last 8 to 16 seconds the quickest is kept, and the bound grows by 1 ms a second:
 * the kernel slews each clock by 500 ppm at most. 2 us are added because each side reads the
 * processor's counter, which is within one of its clock (base/ticks.h).
 *
 * Pure. The peer's times are not trusted: impossible ones are refused, and those that lie make the
 * offset wrong, nothing else.
 */
#ifndef XR_PEER_CLOCK_H
#define XR_PEER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct xr_clock_sample {
	int64_t offset_ns;
	uint64_t ways_ns; /* both together */
	uint64_t at_ns;   /* our clock */
};

struct xr_peer_clock {
	struct xr_clock_sample best, next; /* of the time before began_ns, and since */
	uint64_t began_ns;
	bool known;
};

/* False: there are no such times. */
bool xr_peer_clock_add(struct xr_peer_clock *c, uint64_t sent, uint64_t peer_received,
		       uint64_t peer_answered, uint64_t received);

/*
 * 0 and the peer's clock minus ours, which is right to *ret_error_ns. -ENODATA: nothing is known.
 */
int xr_peer_clock_offset(const struct xr_peer_clock *c, uint64_t now, int64_t *ret_offset_ns,
			 uint64_t *ret_error_ns);

#endif
