/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC's protocol engine, sans I/O: no system call, thread or clock. Time is an argument (ns,
 * monotonic), packets go in by urxe_engine_rx() and are pulled out by urxe_txq_pull(). The same
 * engine runs under the verbs driver, the simulator, the script runner and the fuzzers.
 *
 * Vocabulary: types and values of <infiniband/verbs.h> (types only, no function of libibverbs).
 * Threads: one lock domain per engine, held by the caller around every call.
 * Errors: 0 or -errno; pointers out through a last ret_x, untouched on failure. Objects in use
 * cannot be freed: -EBUSY. free(NULL) is a no-op.
 * Memory: all of an object's memory is allocated when it is created.
 */
#ifndef URXE_ENGINE_ENGINE_H
#define URXE_ENGINE_ENGINE_H

#include "base/list.h"
#include "wire/frame.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct urxe_engine;
struct urxe_pd;
struct urxe_mr;
struct urxe_mw;
struct urxe_cq;
struct urxe_srq;
struct urxe_qp;
struct urxe_ah;
struct urxe_xrcd;

/* ---- engine ---------------------------------------------------------------------------------- */

enum urxe_key_mode {
	URXE_KEYS_FRESH, /* a key number is not reissued early */
	URXE_KEYS_REUSE, /* reissued at once: rehearses a stale key that names a foreign buffer */
};

struct urxe_engine_conf {
	const struct ibv_device_attr *limits; /* advertised and enforced; copied */
	uint32_t max_inline_data;             /* bytes, per QP at most */
	enum ibv_mtu active_mtu;              /* of the port: path_mtu may not exceed it */
	enum urxe_key_mode key_mode;
	bool ecn; /* congestion control: CNPs are sent and obeyed */
	/*
	 * Copy len bytes out of (write: into) memory that was registered on demand and may be gone;
	 * false if it is: that fails like a bad key. The engine touches such memory in no other
	 * way. NULL: it is memory like any other.
	 */
	bool (*copy)(void *to, const void *from, size_t len, bool write);
	uint64_t *counters; /* URXE_CNT_MAX of them, kept there; NULL: inside */
	uint64_t seed;      /* of every choice that is free: first keys, QPNs, UD's first PSN */
};

/* Defaults for limits: what urxe advertises unless told otherwise. */
void urxe_limits_default(struct ibv_device_attr *ret_limits);

int urxe_engine_new(const struct urxe_engine_conf *conf, struct urxe_engine **ret_engine);

/* Frees the engine and whatever objects are left in it. */
void urxe_engine_free(struct urxe_engine *e);

/* Give the engine QP numbers to hand out: a block of 1024 (URXE_QPN_BLOCK), base its multiple. */
enum { URXE_QPN_BLOCK = 1024 };
int urxe_engine_add_qpns(struct urxe_engine *e, uint32_t base);

/*
 * The port has another active MTU. Datagrams follow at once; a connected QP keeps the path MTU that
 * it agreed on with its peer, whether it fits or not.
 */
void urxe_engine_set_mtu(struct urxe_engine *e, enum ibv_mtu active_mtu);

/* Does this engine own the number, in use or not? */
bool urxe_engine_owns_qpn(const struct urxe_engine *e, uint32_t qpn);

/* The way to the peer of the connected QP with that number; NULL: there is none. */
const struct urxe_path *urxe_engine_path(const struct urxe_engine *e, uint32_t qpn);

void urxe_engine_rx(struct urxe_engine *e, uint64_t now, const struct urxe_rx *rx);

/* Run what is due. Call when now >= urxe_engine_deadline(); calling more often is harmless. */
void urxe_engine_advance(struct urxe_engine *e, uint64_t now);

/* When the next timer is due, never late, perhaps early; CLOCK_NEVER (UINT64_MAX): none is. */
uint64_t urxe_engine_deadline(const struct urxe_engine *e);
/* The same for who is going to sleep: costs more, and is never too early. */
uint64_t urxe_engine_alarm(struct urxe_engine *e);

/* Is there anything for the next two? */
bool urxe_engine_has_events(const struct urxe_engine *e);

/* The next CQ whose armed notification has fired, or NULL. Each firing is reported once. */
struct urxe_cq *urxe_engine_next_notify(struct urxe_engine *e);

/* An asynchronous event about one object; element is the object's user pointer. */
struct urxe_async {
	enum ibv_event_type type;
	void *user; /* as given at creation of the CQ, QP or SRQ it is about */
};
bool urxe_engine_next_async(struct urxe_engine *e, struct urxe_async *ret_event);

/* Counters: names as the kernel's rxe has them where it has them. */
enum urxe_counter {
	URXE_CNT_SENT_PKTS,
	URXE_CNT_RCVD_PKTS,
	URXE_CNT_DUPLICATE_REQUEST,
	URXE_CNT_OUT_OF_SEQ_REQUEST,
	URXE_CNT_RCVD_RNR_ERR,
	URXE_CNT_SEND_RNR_ERR,
	URXE_CNT_RCVD_SEQ_ERR,
	URXE_CNT_RETRY_EXCEEDED_ERR,
	URXE_CNT_RETRY_RNR_EXCEEDED_ERR,
	URXE_CNT_COMPLETER_RETRY_ERR,
	URXE_CNT_SEND_ERR,
	URXE_CNT_RDMA_SENDS,    /* SEND requests completed */
	URXE_CNT_RDMA_RECVS,    /* receives of SENDs completed */
	URXE_CNT_ACK_DEFERRED,  /* ACKs that a later one spoke for */
	URXE_CNT_LINK_DOWNED,   /* counted by the owner of the port */
	URXE_CNT_RETRANSMITS,   /* packets sent again */
	URXE_CNT_TIMEOUTS,      /* local ACK timeouts */
	URXE_CNT_RX_MALFORMED,  /* not a packet we know */
	URXE_CNT_RX_NO_QP,      /* QPN not in use, or not of that service, or in a deaf state */
	URXE_CNT_RX_DROPPED,    /* dropped as the specification says: UD without receive, ... */
	URXE_CNT_RX_UNEXPECTED, /* responses that match nothing outstanding */
	URXE_CNT_NP_ECN_MARKED, /* names of congestion control as NICs have them */
	URXE_CNT_NP_CNP_SENT,
	URXE_CNT_RP_CNP_HANDLED,
	URXE_CNT_RP_CNP_IGNORED, /* it is off */
	URXE_CNT_MAX
};
extern const char *const urxe_counter_names[URXE_CNT_MAX];
uint64_t urxe_engine_counter(const struct urxe_engine *e, enum urxe_counter c);

/* ---- transmit queues ------------------------------------------------------------------------- */

/*
 * One per destination that can push back on its own: a shared-memory peer, the loopback, all that
 * is behind UDP. Owned and embedded by the driver; must outlive every QP and AH that names it.
 */
struct urxe_txq {
	struct list ready;  /* QPs that may have something to send */
	struct list owing;  /* QPs that owe an ACK and nothing else: after all that are ready */
	struct list active; /* on the engine's list while one of them is not empty */
	struct urxe_engine *engine;
	void *user;
};

void urxe_txq_init(struct urxe_txq *q, struct urxe_engine *e, void *user);

/* Leave the engine's list, dropping the readiness of its QPs. */
void urxe_txq_fini(struct urxe_txq *q);

/* The next frame for this destination; false when there is none now. */
bool urxe_txq_pull(struct urxe_txq *q, uint64_t now, struct urxe_frame *ret_frame);

/*
 * While true, what is only an ACK stays: a request or an answer that follows soon takes it along,
 * behind itself. Whoever holds must let go before long, for the peer waits.
 */
void urxe_engine_hold_acks(struct urxe_engine *e, bool hold);

/*
 * The txq after q (NULL: the first) of those that may have something to send, NULL at the end.
 * The set changes only by engine calls.
 */
struct urxe_txq *urxe_engine_next_txq(struct urxe_engine *e, struct urxe_txq *q);

/* How packets of a QP or an AH reach their destination. */
struct urxe_route {
	struct urxe_path path;
	struct urxe_txq *txq;
	uint32_t mtu_bytes;   /* 0: the QP's path_mtu; else the link's own (shared memory) */
	uint32_t window_pkts; /* most unacknowledged packets of one QP; 0: the engine's default */
	uint32_t line_mbps;   /* where congestion control begins and ends; 0: 100,000 */
};

/* ---- protection domains, memory regions ------------------------------------------------------ */

int urxe_pd_new(struct urxe_engine *e, struct urxe_pd **ret_pd);
int urxe_pd_free(struct urxe_pd *pd);

/*
 * Register length bytes at addr, known to peers as iova. The memory must stay mapped until the
 * region is deregistered. On demand, addr NULL and length UINT64_MAX is the whole address space,
 * for local use only: a peer must not name memory that is not there. -EINVAL: rights that need
 * IBV_ACCESS_LOCAL_WRITE without it, unknown mandatory rights, length over max_mr_size or wrapping;
 * -ENOMEM: max_mr reached.
 */
int urxe_mr_reg(struct urxe_pd *pd, void *addr, uint64_t length, uint64_t iova, unsigned access,
		struct urxe_mr **ret_mr);

/* A region without memory, for local use only: reading gives zeros, what is written is discarded.
 */
int urxe_mr_new_null(struct urxe_pd *pd, struct urxe_mr **ret_mr);

/*
 * As ibv_rereg_mr: change what flags (ibv_rereg_mr_flags) say; the keys stay. -EBUSY: a window is
 * bound to it; else as urxe_mr_reg(). Nothing has changed on failure.
 */
int urxe_mr_rereg(struct urxe_mr *mr, int flags, struct urxe_pd *pd, void *addr, uint64_t length,
		  unsigned access);

/* The memory that an element of a list may read, or write; NULL: its key does not grant it. */
void *urxe_mr_memory(const struct urxe_pd *pd, const struct ibv_sge *sge, bool write);
/* -EBUSY: a window is bound to it. */
int urxe_mr_dereg(struct urxe_mr *mr);
uint32_t urxe_mr_lkey(const struct urxe_mr *mr);
uint32_t urxe_mr_rkey(const struct urxe_mr *mr);

/* ---- memory windows -------------------------------------------------------------------------- */

/*
 * A window, not bound. It is found by the index (the upper 24 bits) of its rkey, which stays the
 * same: a posted IBV_WR_BIND_MW looks at the rkey in the ibv_mw, at no more of it.
 */
int urxe_mw_new(struct urxe_pd *pd, enum ibv_mw_type type, struct urxe_mw **ret_mw);

/* Bound or not; what it showed is shown no more. */
int urxe_mw_free(struct urxe_mw *mw);
uint32_t urxe_mw_rkey(const struct urxe_mw *mw);

/* Type 1: the key that the next IBV_WR_BIND_MW has to ask for. Type 2: any of the same index. */
uint32_t urxe_mw_next_rkey(const struct urxe_mw *mw);

/* ---- completion queues ----------------------------------------------------------------------- */

/* Capacity cqe entries at least; user comes back from urxe_cq_user() and in async events. */
int urxe_cq_new(struct urxe_engine *e, unsigned cqe, void *user, struct urxe_cq **ret_cq);
int urxe_cq_free(struct urxe_cq *cq);
void *urxe_cq_user(const struct urxe_cq *cq);
unsigned urxe_cq_capacity(const struct urxe_cq *cq);

/* -EINVAL: fewer than are in it now, or above max_cqe. */
int urxe_cq_resize(struct urxe_cq *cq, unsigned cqe);

/*
 * Take up to n completions, oldest first; returns how many. -EIO: the queue has overrun and what
 * was in it has been taken.
 */
int urxe_cq_poll(struct urxe_cq *cq, int n, struct ibv_wc *wc);

/* A completion as it lies in the queue, and when it got there (the engine's time). */
struct urxe_cqe {
	struct ibv_wc wc;
	uint64_t ts_ns;
};

/* The oldest completion without taking it, or NULL; and taking it. */
const struct urxe_cqe *urxe_cq_peek(const struct urxe_cq *cq);
void urxe_cq_pop(struct urxe_cq *cq);

/* Fire once at the next completion (solicited_only: or at the next solicited or failed one). */
void urxe_cq_arm(struct urxe_cq *cq, bool solicited_only);

/*
 * Moderation: an armed queue fires at the count'th completion that would have fired it, or
 * period_ns after the first, whatever comes first; at once for one that failed. A count below 2 or
 * no period: always at once. -ENOMEM.
 */
int urxe_cq_moderate(struct urxe_cq *cq, uint32_t count, uint64_t period_ns);

/* ---- shared receive queues ------------------------------------------------------------------- */

int urxe_srq_new(struct urxe_pd *pd, const struct ibv_srq_attr *attr, void *user,
		 struct urxe_srq **ret_srq);
int urxe_srq_free(struct urxe_srq *srq);
int urxe_srq_modify(struct urxe_srq *srq, const struct ibv_srq_attr *attr, int mask);
void urxe_srq_query(const struct urxe_srq *srq, struct ibv_srq_attr *ret_attr);

/* As ibv_post_srq_recv, but returns -errno; *bad_wr is set on failure. */
int urxe_srq_post(struct urxe_srq *srq, const struct ibv_recv_wr *wr,
		  const struct ibv_recv_wr **bad_wr);

/*
 * XRC: a domain in which every XRC_RECV can reach every SRQ, by its number. The completions of such
 * an SRQ's receives go to its own CQ.
 */
int urxe_xrcd_new(struct urxe_engine *e, struct urxe_xrcd **ret_xrcd);
int urxe_xrcd_free(struct urxe_xrcd *xrcd);
int urxe_srq_new_xrc(struct urxe_pd *pd, const struct ibv_srq_attr *attr, struct urxe_xrcd *xrcd,
		     struct urxe_cq *cq, void *user, struct urxe_srq **ret_srq);
uint32_t urxe_srq_num(const struct urxe_srq *srq); /* 0: not of XRC */

/* ---- address handles (UD) -------------------------------------------------------------------- */

int urxe_ah_new(struct urxe_pd *pd, const struct urxe_route *route, struct urxe_ah **ret_ah);
int urxe_ah_free(struct urxe_ah *ah);

/* ---- queue pairs ----------------------------------------------------------------------------- */

/*
 * Where a QP's work queues lie, if not on the heap. Called while the engine is; returns NULL, or
 * URXE_MEMORY_DEFAULT to have them on the heap nevertheless.
 */
#define URXE_MEMORY_DEFAULT ((void *)-1)
struct urxe_memory {
	void *(*alloc)(void *arg, size_t size, size_t alignment);
	void (*free)(void *arg, void *p);
	void *arg;
};

struct urxe_qp_init {
	enum ibv_qp_type type;   /* RC, UC, UD, XRC_SEND or XRC_RECV */
	struct urxe_cq *send_cq; /* XRC_RECV: none */
	struct urxe_cq *recv_cq; /* XRC: none */
	struct urxe_srq *srq;    /* or NULL */
	struct urxe_xrcd *xrcd;  /* XRC_RECV only; the PD is NULL then */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	const struct urxe_memory *memory; /* NULL: the heap; outlives the QP */
	bool block_own_mcast;             /* UD: do not hear oneself in one's groups */
	void *user;
};

/*
 * Creates in RESET and writes the granted sizes to init->cap. -EINVAL: over a limit; -EAGAIN: no
 * QP number left, call urxe_engine_add_qpns() and try again; -ENOMEM; -EOPNOTSUPP: type.
 */
int urxe_qp_new(struct urxe_pd *pd, struct urxe_qp_init *init, struct urxe_qp **ret_qp);
/* -EBUSY: attached to a multicast group. */
int urxe_qp_free(struct urxe_qp *qp);
uint32_t urxe_qp_num(const struct urxe_qp *qp);
enum ibv_qp_state urxe_qp_state(const struct urxe_qp *qp);
void *urxe_qp_user(const struct urxe_qp *qp);

/* Where all that it sends goes; NULL: nowhere yet, or (UD) each datagram to its own destination. */
struct urxe_txq *urxe_qp_txq(const struct urxe_qp *qp);

/*
 * As ibv_modify_qp (IBA 10.3, 11.2.5.2). route must be given when mask has IBV_QP_AV, else it may
 * be NULL. -EINVAL: transition, mask or value not allowed; nothing has changed then.
 */
int urxe_qp_modify(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask,
		   const struct urxe_route *route, uint64_t now);

/* Everything of attr but ah_attr's addressing, which the caller keeps. */
void urxe_qp_query(const struct urxe_qp *qp, struct ibv_qp_attr *ret_attr);

/*
 * As ibv_post_send and ibv_post_recv, but return -errno; *bad_wr is set on failure. For UD,
 * resolve(wr->wr.ud.ah) gives the engine's AH: the ibv_ah's user pointer is the caller's matter.
 */
typedef struct urxe_ah *urxe_resolve_ah_fn(struct ibv_ah *ah);
int urxe_qp_post_send(struct urxe_qp *qp, uint64_t now, const struct ibv_send_wr *wr,
		      const struct ibv_send_wr **bad_wr, urxe_resolve_ah_fn *resolve);
int urxe_qp_post_recv(struct urxe_qp *qp, const struct ibv_recv_wr *wr,
		      const struct ibv_recv_wr **bad_wr);

/* As urxe_qp_post_send(), but all of a list or, if one of it cannot be posted, none. */
int urxe_qp_post_batch(struct urxe_qp *qp, uint64_t now, const struct ibv_send_wr *wr,
		       urxe_resolve_ah_fn *resolve);

/*
 * Multicast (IBA 10.5): a QP that is attached gets a copy of each datagram to the group, its own
 * too. It is the caller's matter that the link hears groups for which urxe_mcast_joined() is true.
 * -EINVAL: not UD, or not a group's GID, or (detach) not attached; -ENOMEM: over a limit.
 */
int urxe_qp_attach_mcast(struct urxe_qp *qp, const struct urxe_gid *gid);
int urxe_qp_detach_mcast(struct urxe_qp *qp, const struct urxe_gid *gid);
bool urxe_mcast_joined(const struct urxe_engine *e, const struct urxe_gid *gid);

#endif
