/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated world: nodes (engines), a clock that jumps from event to event, pairs of connected
 * QPs with a workload each, and a network between them. One seed decides all of it.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "engine/engine.h"

#include <setjmp.h>

enum {
	MAX_NODES = 4,
	MAX_PAIRS = 5,
	MAX_PIECES = 4,
	MAX_CQS = 4 * MAX_PAIRS + MAX_NODES,
	N_XSRQS = 2,     /* of a node that answers XRC */
	N_WORDS = 8,     /* 64-bit words for atomics at the head of every target region */
	GRH_BYTES = 40,  /* in front of a UD receive */
	FILL = 0xee,     /* what sinks and receive slots hold before the NIC writes them */
	SCRIBBLE = 0x5b, /* what an inline source is overwritten with after the post */
};

struct world;
struct node;
struct pair;
struct end;

/* Memory of exactly len bytes, registered under an address that is the same in every run. */
struct buf {
	uint8_t *mem;
	size_t len;
	uint64_t iova;
	struct urxe_mr *mr;
};

struct piece {
	uint32_t off;
	uint32_t len;
};

struct op {
	enum ibv_wr_opcode opcode;
	unsigned flags;          /* ibv_send_flags */
	enum ibv_wc_status fail; /* what it must end with, SUCCESS for a proper one */
	uint32_t len;
	uint32_t imm;      /* or the key to invalidate */
	uint32_t roff;     /* offset in the peer's target region */
	uint32_t sink_off; /* where a READ or an atomic puts its result */
	bool shared;       /* a FETCH_ADD on the node's word that every QP increments */
	unsigned xsrq;     /* XRC: which of the peer's node it names */
	uint64_t operand;  /* addend, or the value to compare with */
	uint64_t swap;
	unsigned n_pieces;
	struct piece piece[MAX_PIECES]; /* of src, or of the sink for a READ */
};

/*
 * Windows over an end's own target. The door (type 1) is bound by the end's first operation, and
 * the peer may use its key from then on. The shutter (type 2) is bound now and then, and is
 * invalidated either by the end itself or by a SEND of the peer's.
 */
struct windows {
	struct urxe_mw *door, *shutter;
	bool by_peer;
	bool door_open;
	enum { SHUT, OPENING, OPEN, CLAIMED } shutter_is;
	uint32_t shutter_key;
};

enum cq_mode { CQ_POLLED, CQ_ARMED, CQ_ARMED_SOLICITED };

struct cq {
	struct urxe_cq *cq;
	struct node *node;
	enum cq_mode mode;
	unsigned size; /* that it needs; it may have more */
	bool armed;
	bool fired;
	bool poll_due; /* a poll is on the event queue */
};

/* Receives in order of posting: one QP's own queue, or an SRQ. */
struct inbox {
	struct node *node;
	struct end *end; /* owner of the queue, NULL: an SRQ */
	struct urxe_srq *srq;
	struct buf buf;
	uint32_t slot_len;
	unsigned cap;
	unsigned total; /* to be posted in all */
	unsigned posted;
	unsigned done; /* completed, for RQs also the next index to complete */
	uint8_t *seen; /* per slot: has completed */
	bool late;     /* posts so late that RNR happens */
	bool post_due;
};

struct end {
	struct pair *pair;
	struct end *peer;
	struct node *node;
	unsigned id;
	struct urxe_qp *qp;
	struct urxe_ah *ah; /* UD */
	uint32_t qpn;
	struct cq *scq, *rcq;
	struct inbox *inbox; /* of an XRC_RECV the first of its node's */
	struct inbox own_inbox;
	bool sig_all;
	unsigned sq_cap;
	unsigned max_inline;
	struct buf src, sink, target;
	struct windows windows;
	struct op *ops;
	unsigned n_ops, posted, done;
	uint64_t posted_at; /* the last time */
	bool post_due;
	/* What went wrong, and why it was allowed to. */
	bool gone;      /* destroyed, reset or on a vanished node: nothing is expected of it */
	bool failed;    /* a completion with an error was seen */
	bool may_flush; /* somebody moved it to ERR */
	unsigned recv_flushed;
	unsigned ok; /* operations below are known to have succeeded */
	unsigned last_wqe_events;
	unsigned fatal_events;
	/* The model: targets as they must be. */
	uint8_t *at_send; /* the peer's target after this end's ops below done */
	uint8_t *at_recv; /* the same after the ops below heard, as the peer's receives tell */
	unsigned heard;   /* first op that the peer's receive completions say nothing about */
	unsigned got;     /* successful receive completions at this end */
};

struct pair {
	struct world *w;
	enum ibv_qp_type type;
	bool xrc; /* in all but the QPs' own types an RC whose first end asks and second end answers
		   */
	struct end end[2];
	uint32_t mtu; /* bytes of payload per packet */
	uint32_t max_msg;
	enum ibv_mtu path_mtu;
	uint32_t link_mtu; /* route.mtu_bytes */
	uint32_t window;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
	bool error_prone;   /* its retry counts may run out in this world */
	uint64_t silent_at; /* when one end stopped answering for good, 0: never */
};

struct net_link {
	struct urxe_txq txq;
	struct node *from;
	unsigned to;
	uint64_t busy_until;
	bool wake_due;
	unsigned burst; /* packets still to be lost */
};

struct node {
	struct world *w;
	unsigned id;
	struct urxe_engine *engine;
	struct urxe_pd *pd;
	struct net_link links[MAX_NODES];
	struct inbox srq_inbox;
	struct urxe_xrcd *xrcd; /* or NULL */
	struct cq *xrc_cq;
	struct inbox xrc_inbox[N_XSRQS];
	struct buf word; /* one shared 64-bit counter */
	uint8_t *word_seen;
	unsigned word_adds; /* increments posted by anybody */
	bool gone;
};

/* Chances are per million. */
struct net_profile {
	uint32_t loss, burst, dup, reorder, corrupt;
	unsigned burst_len;
	uint64_t delay_ns, jitter_ns, reorder_ns;
	uint64_t pace_ns; /* a link is busy this long with each packet */
	uint32_t stall;   /* a link takes nothing for a while */
	uint32_t mark;    /* packets are marked as by a congested switch */
	uint64_t stall_ns;
	uint64_t cut_at, cut_until;
	unsigned cut_a, cut_b; /* nodes that cannot hear each other meanwhile; equal: all */
	bool no_addresses;     /* the link gives no path where the engine does not ask for one */
	bool ipv4;
	bool perfect; /* nothing is lost, repeated, or overtaken */
	bool in_order;
};

enum disaster { NO_DISASTER, AN_END_DIES, A_NODE_VANISHES };

typedef void event_fn(struct world *w, void *arg);

struct event {
	uint64_t at_ns;
	uint64_t order;
	event_fn *fn;
	void *arg;
};

struct world {
	uint64_t seed;
	bool trace;
	uint64_t now;
	struct rng rng;     /* the scenario */
	struct rng net_rng; /* what the network does */
	struct rng app_rng; /* what applications do when */
	struct net_profile net;
	enum disaster disaster;
	struct node node[MAX_NODES];
	unsigned n_nodes;
	struct pair pair[MAX_PAIRS];
	unsigned n_pairs;
	struct cq cq[MAX_CQS];
	unsigned n_cqs;
	uint64_t next_iova;
	struct event *heap;
	size_t n_events, cap_events;
	uint64_t event_order;
	uint64_t steps;
	struct list frames; /* in flight */
	uint64_t hash;      /* of everything that was seen */
	jmp_buf on_failure;
};

void world_at(struct world *w, uint64_t at_ns, event_fn *fn, void *arg);
void world_touched(struct node *n); /* the engine of n may have new completions */
void world_hash(struct world *w, const void *data, size_t len);

_Noreturn void world_fail(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void world_trace(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define check(w, cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			world_fail(w, __VA_ARGS__);                                                \
	} while (0)

/*
 * What came to the worlds later is there in some of them only, so that the seeds which failed
 * before still mean what they meant.
 */
static inline bool world_has_xrc(const struct world *w)
{
	return w->seed % 4 == 0 || w->seed % 4 == 3;
}

static inline bool world_has_ecn(const struct world *w)
{
	return w->seed % 5 < 2;
}

static inline bool chance(struct rng *r, uint32_t per_million)
{
	return rng_below(r, 1000000) < per_million;
}

static inline uint32_t between(struct rng *r, uint32_t lo, uint32_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

#endif
