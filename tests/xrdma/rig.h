/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two contexts of one thread, polled in turn: a client and a server, with a channel between them.
 * Messages that come are kept in lists until the test looks at them, unless it has its own handler.
 */
#ifndef XR_TEST_RIG_H
#define XR_TEST_RIG_H

#include "../unit/unit.h"

#include <stdbool.h>
#include <xrdma/xrdma.h>

enum { RIG_CLIENT, RIG_SERVER, RIG_SIDES, RIG_KEPT = 8192 };

struct rig_side {
	struct xrdma_context *ctx;
	struct xrdma_channel *ch; /* the latest that was connected; NULL after the last closed */
	unsigned n_connected, n_closed, n_broken, n_recovered;
	int status;     /* of the last XRDMA_CLOSED */
	int why_broken; /* of the last XRDMA_BROKEN */
	unsigned n_mocked, n_unmocked;
	int why_mocked; /* of the last XRDMA_MOCKED */
	struct xrdma_msg *msgs[RIG_KEPT];
	unsigned n_msgs; /* came, of which the first n_taken are the test's */
	unsigned n_taken;
	struct xrdma_remote_region *remote;
	/* Instead of keeping it. */
	void (*on_msg)(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side);
	void *arg;
};

struct rig {
	struct rig_side side[RIG_SIDES];
	struct xrdma_listener *listener;
	char address[32];
	bool stalled[RIG_SIDES]; /* this side is not polled: its thread is busy */
};

/* options: "name=value name=value", for both sides, or NULL. */
void rig_open(struct rig *r, const char *options);
void rig_open_each(struct rig *r, const char *client, const char *server);
struct xrdma_channel *rig_connect(struct rig *r); /* and wait until both sides know */
void rig_close(struct rig *r);                    /* contexts and all */

void rig_poll(struct rig *r);
/* Poll until the condition holds; the test fails after some seconds. */
#define rig_until(r, condition)                                                                    \
	do {                                                                                       \
		uint64_t end_ = rig_now_ms() + rig_patience_ms();                                  \
		while (!(condition)) {                                                             \
			rig_poll(r);                                                               \
			if (rig_now_ms() > end_)                                                   \
				fail_msg("never: %s (%s)", #condition, xrdma_last_error());        \
		}                                                                                  \
	} while (0)
/* Poll for a while in which something must not happen. */
void rig_poll_for(struct rig *r, unsigned ms);
uint64_t rig_now_ms(void);
/* RIG_SLOWER of the environment, for an emulated machine: so much more patience, so many times
 * fewer rounds of what is repeated. */
unsigned rig_slower(void);
uint64_t rig_patience_ms(void);

struct xrdma_context *rig_context(const char *options);
uint64_t rig_stat(const struct xrdma_context *ctx, const char *name);

/* Messages with contents that a seed determines. */
struct xrdma_msg *rig_msg(struct xrdma_channel *ch, size_t len, uint64_t seed);
bool rig_is(struct xrdma_msg *m, size_t len, uint64_t seed);
void rig_send(struct xrdma_channel *ch, size_t len, uint64_t seed);
/* Wait for the next message and compare and free it. */
void rig_expect(struct rig *r, unsigned side, size_t len, uint64_t seed);

/* A handler that answers requests with their own bytes, and frees what is not a request. */
void rig_echo(struct xrdma_channel *ch, struct xrdma_msg *msg, struct rig_side *side);

/* A region of the server's, exported to the client, which has been told. */
enum { RIG_TAG = 0xabcd };
struct xrdma_region *rig_export(struct rig *r, size_t slot_bytes, uint32_t n_slots,
				unsigned rights);

/*
 * Numbered messages of all sizes, both ways at once: a round sends some and polls that often. What
 * a side receives is the other's in order, and no channel closes, or the test fails.
 */
struct rig_load {
	uint64_t sent, next[RIG_SIDES];
};
void rig_load_begin(struct rig *r, struct rig_load *load);
void rig_load_round(struct rig *r, struct rig_load *load, unsigned polls);
/* All that was sent was received. */
bool rig_load_done(const struct rig_load *load);

/* What became of calls. */
struct rig_call {
	bool ended;
	int status;
	struct xrdma_msg *reply;
};
void rig_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *call);
extern const struct xrdma_handlers rig_handlers;

#endif
