/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * M9: every order of events of two sides with small windows, tried out. Two sides, a lossless FIFO
 * each way (what a reliable connection is). At each moment any of these may happen: a side sends
 *its next message; the first message under way arrives; an application consumes any message that
 * arrived; the acknowledgement timer fires; the acknowledgement due at once is sent. Checked in
 * every state that can be reached:
 *
 *	- what arrives finds a receive posted (there are window + control of them), in order, once;
 *	- where nothing more can happen, all messages of both sides have been consumed;
 *	- acknowledgements alone come to rest: they do not answer each other for ever.
 *
 * Applications that hoard are among the orders: consuming may come as late as it likes.
 */
#include "xrdma/window.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FLIGHT = 9 };

struct flight {
	struct xr_stamp stamp;
	bool windowed;
};

struct side {
	struct xr_window w;
	uint64_t done;    /* w's bitmap */
	uint8_t sent;     /* of our messages */
	uint8_t arrived;  /* of the peer's */
	uint8_t consumed; /* a bit each of those */
	uint8_t posted;   /* receives */
	uint8_t n_flight; /* from us, under way */
	struct flight flight[MAX_FLIGHT];
};

struct state {
	struct side side[2];
};

static unsigned window, control, n_msgs;
static uint64_t n_states, n_ends;

/* ---- a set of states by hash ---- */

static struct state *seen;
static uint32_t *table;
static uint64_t capacity, table_size;

static uint64_t hash(const struct state *s)
{
	const uint8_t *p = (const void *)s;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*s); i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

static void rehash(void)
{
	table_size = table_size ? table_size * 2 : 1 << 16;
	free(table);
	table = calloc(table_size, sizeof(*table));
	for (uint64_t i = 0; i < n_states; i++) {
		uint64_t at = hash(&seen[i]) & (table_size - 1);

		while (table[at])
			at = (at + 1) & (table_size - 1);
		table[at] = (uint32_t)i + 1;
	}
}

static void add(const struct state *s)
{
	struct state key = *s;
	uint64_t at;

	key.side[0].w.done = key.side[1].w.done = NULL; /* pointers are no part of it */
	if (n_states * 2 >= table_size)
		rehash();
	at = hash(&key) & (table_size - 1);
	for (; table[at]; at = (at + 1) & (table_size - 1)) {
		if (memcmp(&seen[table[at] - 1], &key, sizeof(key)) == 0)
			return;
	}
	if (n_states == capacity) {
		capacity = capacity ? capacity * 2 : 1 << 12;
		seen = realloc(seen, capacity * sizeof(*seen));
		if (!seen)
			abort();
	}
	seen[n_states] = key;
	table[at] = (uint32_t)++n_states;
}

/* ---- the two sides ---- */

static void fail(const char *what, const struct state *s)
{
	fprintf(stderr, "window %u, control %u: %s\n", window, control, what);
	for (unsigned i = 0; i < 2; i++) {
		const struct side *d = &s->side[i];

		fprintf(stderr,
			"side %u: sent %u arrived %u consumed %#x posted %u flight %u; next %u "
			"acked %u expected %u consumed %u told %u; control next %u acked %u seen "
			"%u told %u\n",
			i, d->sent, d->arrived, d->consumed, d->posted, d->n_flight, d->w.next,
			d->w.acked, d->w.expected, d->w.consumed, d->w.told, d->w.ctl_next,
			d->w.ctl_acked, d->w.ctl_seen, d->w.ctl_told);
	}
	exit(1);
}

static void launch(struct side *d, bool windowed)
{
	struct flight f;

	memset(&f, 0, sizeof(f)); /* padding is compared */
	f.stamp = xr_window_stamp(&d->w);
	f.windowed = windowed;
	xr_window_sent(&d->w, windowed);
	d->flight[d->n_flight++] = f;
}

static bool send(struct state *s, unsigned i, unsigned nothing)
{
	struct side *d = &s->side[i];

	(void)nothing;
	if (d->sent == n_msgs || !xr_window_open(&d->w))
		return false;
	d->sent++;
	launch(d, true);
	return true;
}

static bool arrive(struct state *s, unsigned i, unsigned nothing)
{
	struct side *from = &s->side[!i], *to = &s->side[i];
	struct flight f = from->flight[0];
	const char *why;

	(void)nothing;
	if (from->n_flight == 0)
		return false;
	from->n_flight--;
	memmove(from->flight, from->flight + 1, from->n_flight * sizeof(f));
	memset(&from->flight[from->n_flight], 0, sizeof(f));
	if (to->posted == 0)
		fail("a message arrives and no receive is posted", s);
	to->posted--;
	if (xr_window_receive(&to->w, &f.stamp, f.windowed, &why) != 1)
		fail("a message is refused", s);
	if (!f.windowed) {
		to->posted++; /* at once: nobody keeps it */
		return true;
	}
	if (f.stamp.seq != to->arrived)
		fail("out of order", s);
	to->arrived++;
	return true;
}

static bool consume(struct state *s, unsigned i, unsigned seq)
{
	struct side *d = &s->side[i];

	if (seq >= d->arrived || (d->consumed & 1 << seq))
		return false;
	d->consumed |= (uint8_t)(1 << seq);
	d->posted++;
	xr_window_consume(&d->w, (uint16_t)seq);
	return true;
}

static bool acknowledge(struct state *s, unsigned i, unsigned nothing)
{
	struct side *d = &s->side[i];

	(void)nothing;
	if (xr_window_ack(&d->w) == XR_ACK_NONE || !xr_window_control_open(&d->w))
		return false;
	launch(d, false);
	return true;
}

static bool try(const struct state *s, bool (*event)(struct state *s, unsigned i, unsigned seq),
		unsigned i, unsigned seq)
{
	struct state next = *s;

	next.side[0].w.done = &next.side[0].done;
	next.side[1].w.done = &next.side[1].done;
	if (!event(&next, i, seq))
		return false;
	for (unsigned k = 0; k < 2; k++) {
		if (next.side[k].n_flight == MAX_FLIGHT)
			fail("acknowledgements without end", &next);
	}
	add(&next);
	return true;
}

/* With every application prompt and no new messages, in how few steps does it come to rest? */
static void check_rest(const struct state *s)
{
	struct state now = *s;
	unsigned steps = 0;
	bool any;

	now.side[0].w.done = &now.side[0].done;
	now.side[1].w.done = &now.side[1].done;
	do {
		any = false;
		for (unsigned i = 0; i < 2; i++) {
			for (unsigned seq = 0; seq < n_msgs; seq++)
				any |= consume(&now, i, seq);
			any |= acknowledge(&now, i, 0);
			any |= arrive(&now, i, 0);
		}
		if (++steps > 200)
			fail("acknowledgements answer each other for ever", &now);
	} while (any);
	for (unsigned i = 0; i < 2; i++) {
		if (now.side[i].w.acked != now.side[i].w.next)
			fail("all is consumed, and the sender never learns it", &now);
	}
}

static void explore(const struct state *s)
{
	bool any = false;

	check_rest(s);
	for (unsigned i = 0; i < 2; i++) {
		any |= try(s, send, i, 0);
		any |= try(s, arrive, i, 0);
		any |= try(s, acknowledge, i, 0);
		for (unsigned seq = 0; seq < n_msgs; seq++)
			any |= try(s, consume, i, seq);
	}
	if (any)
		return;
	n_ends++;
	for (unsigned i = 0; i < 2; i++) {
		const struct side *d = &s->side[i];

		if (d->sent != n_msgs || d->arrived != n_msgs || d->consumed != (1 << n_msgs) - 1 ||
		    d->w.acked != d->w.next)
			fail("deadlock", s);
	}
}

int main(void)
{
	/* window, control, messages of each side; the last is the one where acknowledgements run
	 * out */
	static const unsigned sizes[][3] = {{1, 3, 4}, {1, 4, 4}, {2, 3, 4},
					    {2, 4, 4}, {3, 4, 3}, {4, 3, 4}};

	for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		struct state first;

		window = sizes[k][0];
		control = sizes[k][1];
		n_msgs = sizes[k][2];
		n_states = n_ends = 0;
		table_size = 0;
		memset(&first, 0, sizeof(first));
		for (unsigned i = 0; i < 2; i++) {
			xr_window_init(&first.side[i].w, window, control, &first.side[i].done);
			first.side[i].posted = (uint8_t)(window + control);
		}
		add(&first);
		for (uint64_t i = 0; i < n_states; i++) {
			struct state s = seen[i]; /* the array may move */

			explore(&s);
		}
		printf("window %u, control %u, %u messages each way: %llu states, %llu ends\n",
		       window, control, n_msgs, (unsigned long long)n_states,
		       (unsigned long long)n_ends);
	}
	free(seen);
	free(table);
	return 0;
}
