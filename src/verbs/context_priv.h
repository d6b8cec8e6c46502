/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands behind an ibv_context: one engine with its links, one lock around all of it. To
 * scale, open more contexts.
 *
 * Locks, outermost first: a context's lock; the driver thread's list, whose holder only tries a
 * context's lock; a channel's or an async queue's lock; the mutex inside an ibv_cq, ibv_qp or
 * ibv_srq (event counts only).
 */
#ifndef URXE_VERBS_CONTEXT_PRIV_H
#define URXE_VERBS_CONTEXT_PRIV_H

#include "base/list.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "link/shm.h"
#include "link/udp.h"
#include "verbs/device.h"
#include "verbs/event_priv.h"
#include "verbs/stat.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Who runs the engine; see drive_priv.h. */
enum drive_mode {
	DRIVE_POLLED, /* the application's own calls do */
	DRIVE_SERVED, /* nobody polls: the driver thread does, woken by doorbells */
};

enum { FORWARD_CACHE = 64 };

/* Is there an owner for this block of QPNs? Asked of the kernel once in a while only. */
struct forward_entry {
	uint32_t block;
	bool exists;
	uint64_t valid_until_ns;
};

/* A shared-memory peer as the engine sees it. Lives as long as the endpoint keeps the peer. */
struct lane {
	struct urxe_txq txq;
	struct urxe_shm_peer *peer;
	struct list all;
};

/* What an application did each time so far; it is trusted to go on after min times. */
struct habit {
	unsigned times;
	unsigned min; /* higher after each time that it did not */
};

struct drive {
	struct list node; /* on the driver thread's list once there is a QP */
	uint64_t id;      /* names the context in epoll data: never reused */
	_Atomic enum drive_mode mode;
	atomic_ulong polls; /* grows whenever the application runs the engine */

	/* The rest is under the context's lock. */
	uint64_t now_ns;       /* 0: the clock has not been read in this round */
	unsigned empty_rounds; /* since the clock was last read */
	unsigned served_polls; /* polls by the application since it was last seen to wait */
	unsigned posts;        /* calls that posted since it polled */
	unsigned udp_credit;   /* rounds for which the UDP sockets are polled inline */
	uint64_t alarm_ns;     /* the deadline that the driver thread knows of */
	bool active;           /* packets came or went since the thread slept last */
	bool unfinished;       /* the last round sent as much as a round may */
	uint64_t sticky_until_ns, sticky_ns, left_served_ns;
	unsigned wait_spin_us; /* how long ibv_get_cq_event() polls before it blocks */
	bool held;             /* the last round kept acknowledgements back */
	bool heard;            /* packets came by UDP at its last poll; it did nothing since */
	struct habit answers;  /* it then sends something first thing */
	uint64_t posted_ns;    /* when it last posted for UDP since it polled; 0: it has not */
	struct habit returns;  /* it then polls soon */
	bool armed;            /* peers ring the doorbell */

	/* A descriptor was readable: whoever runs the engine next serves it. */
	atomic_bool shm_event;
	atomic_bool udp_event;

	/* Touched by the driver thread only. */
	unsigned long seen_polls;
	uint64_t seen_polls_ns; /* when they last grew */
};

struct urxe_pcap;

struct urxe_context {
	struct urxe_device *dev;
	struct lock lock;
	unsigned generation; /* of forks: another process than the one that opened has another */
	uint64_t seed;
	struct urxe_engine *engine;
	struct urxe_shm *shm; /* NULL until the first QP */
	struct urxe_udp *udp; /* NULL until a QP needs it */
	int udp_errno;        /* why it could not be opened last, which the user was told */
	struct urxe_txq udp_txq;
	struct urxe_txq ud_local_txq; /* datagrams to this namespace: the peer is told by each */
	struct list lanes;
	struct forward_entry forward[FORWARD_CACHE];
	struct drive drive;
	struct urxe_stat *stat;
	struct urxe_pcap *pcap; /* NULL: nothing is recorded */
	unsigned pcap_interface;
	struct urxe_async_queue async;
	struct list port_node;     /* among all contexts */
	struct verbs_context vctx; /* ends in the ibv_context */
};

static inline struct urxe_context *urxe_context_of(struct ibv_context *context)
{
	return container_of(context, struct urxe_context, vctx.context);
}

/* The verbs objects: libibverbs' part first, so that a pointer to one is a pointer to the other. */
struct vpd {
	struct ibv_pd ibv;
	struct urxe_pd *pd;    /* a parent domain's is that of the domain it is made of */
	unsigned refs;         /* parent domains made of it */
	struct parent *parent; /* NULL: a plain protection domain */
	const struct urxe_memory *memory; /* the parent's; or NULL */
};

struct vtd {
	struct ibv_td ibv;
	unsigned refs; /* parent domains */
};

struct parent {
	struct vpd *of;
	struct vtd *td;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
	struct urxe_memory memory;
	unsigned allocated; /* blocks by its allocator */
};

enum { URXE_MAX_DM_BYTES = 1 << 20 };

struct vdm {
	struct ibv_dm ibv;
	uint8_t *memory;
	size_t length;
	unsigned refs; /* regions */
};

struct vmr {
	struct ibv_mr ibv;
	struct urxe_mr *mr;
	unsigned access;
	struct vdm *dm; /* what it is of, or NULL: the program's memory */
};

struct vxrcd {
	struct ibv_xrcd ibv;
	struct urxe_xrcd *xrcd;
};

struct vmw {
	struct ibv_mw ibv;
	struct urxe_mw *mw;
};

struct vcq {
	struct ibv_cq_ex ibv; /* begins as an ibv_cq does */
	struct urxe_cq *cq;
	struct urxe_event_source events;
	struct urxe_cq_firing firing;
	/* ibv_start_poll() until ibv_end_poll() */
	pthread_mutex_t poll_lock;
	bool single_threaded;
	struct ibv_wc wc;
	uint64_t completion_ns;
};

struct vsrq {
	struct ibv_srq ibv;
	struct urxe_srq *srq;
	struct urxe_event_source events;
};

struct vah {
	struct ibv_ah ibv;
	struct urxe_ah *ah;
};

struct qp_batch;

struct vqp {
	struct ibv_qp_ex ibv; /* begins with the ibv_qp */
	struct urxe_qp *qp;
	struct urxe_event_source events;
	struct ibv_ah_attr ah_attr; /* as given when the QP went to RTR */
	uint32_t dqpn;
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	struct qp_batch *batch; /* NULL: not made for ibv_wr_* */
};

static inline struct vpd *vpd_of(struct ibv_pd *pd)
{
	return container_of(pd, struct vpd, ibv);
}

static inline struct vcq *vcq_of(struct ibv_cq *cq)
{
	return (struct vcq *)(void *)cq;
}

static inline struct vqp *vqp_of(struct ibv_qp *qp)
{
	return container_of(qp, struct vqp, ibv.qp_base);
}

static inline struct vsrq *vsrq_of(struct ibv_srq *srq)
{
	return container_of(srq, struct vsrq, ibv);
}

/* Grows in the child of every fork. */
extern unsigned urxe_fork_generation;

/*
 * A child process shares rings and sockets with its parent, who goes on using them: there, every
 * call on the parent's objects fails with EPERM. Returns false then; else the lock is held.
 */
static inline bool urxe_context_lock(struct urxe_context *ctx)
{
	if (__builtin_expect(ctx->generation != urxe_fork_generation, 0))
		return false;
	lock_take(&ctx->lock);
	return true;
}

static inline void urxe_context_unlock(struct urxe_context *ctx)
{
	lock_give(&ctx->lock);
}

/* Open what a new QP needs: shared memory, UDP where a remote peer may reach it. Lock held. */
int urxe_context_open_links(struct urxe_context *ctx);

/* Claim another block of QP numbers. Lock held. */
int urxe_context_claim_qpns(struct urxe_context *ctx);

/*
 * How to reach av's destination: -EINVAL (logged) for an address that is none, or -errno of a
 * network that does not lead there. dqpn is 0 for an address handle. Lock held.
 */
int urxe_context_route(struct urxe_context *ctx, const struct ibv_ah_attr *av, uint32_t qpn,
		       uint32_t dqpn, struct urxe_route *ret_route);

/* The addresses of the namespace have changed. Lock held. */
void urxe_context_readdress(struct urxe_context *ctx);

/* Hear a multicast group on the device's interface; failing is logged. Lock held. */
int urxe_context_join(struct urxe_context *ctx, const struct urxe_gid *group);

/* Data path, for the table of operations. */
int urxe_verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int urxe_verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int urxe_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int urxe_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int urxe_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);
int urxe_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_mr *urxe_verbs_alloc_null_mr(struct ibv_pd *pd);
int urxe_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_td *urxe_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int urxe_verbs_dealloc_td(struct ibv_td *td);
struct ibv_pd *urxe_verbs_alloc_parent_domain(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
struct ibv_dm *urxe_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int urxe_verbs_free_dm(struct ibv_dm *dm);
struct ibv_mr *urxe_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				    size_t length, unsigned access);
struct ibv_xrcd *urxe_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int urxe_verbs_close_xrcd(struct ibv_xrcd *xrcd);
int urxe_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_mw *urxe_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urxe_verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int urxe_verbs_dealloc_mw(struct ibv_mw *mw);
struct ibv_cq_ex *urxe_verbs_create_cq_ex(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *urxe_verbs_create_qp_ex(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *urxe_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr);

/* context_refuse.c: every operation that is not offered, in the convention of its call. */
void urxe_context_refuse_all(struct verbs_context *vctx);

/* Poll, making progress where the queue is empty. Returns how many, or -errno. */
int urxe_cq_take(struct vcq *vcq, int n, struct ibv_wc *wc);

/* The oldest into vcq->wc, with the time when it got into the queue. 1, 0 or -errno. */
int urxe_cq_take_one(struct vcq *vcq);

/* Copy from (write: to) memory of this process that may not be there; false: it is not. */
bool urxe_mr_copy(void *to, const void *from, size_t len, bool write);

enum { URXE_MAX_CQ_COUNT = 65535, URXE_MAX_CQ_PERIOD_US = 65535 };

/* cq_ex.c: offer the extended polling interface. */
void urxe_cq_fill_ex(struct vcq *vcq, uint64_t wc_flags);

/* Post all of a list or, if one of it is wrong or there is no room, none. Returns an errno. */
int urxe_qp_post_all(struct vqp *vqp, const struct ibv_send_wr *wr);

/* qp_ex.c */
int urxe_qp_batch_new(struct vqp *vqp);
void urxe_qp_batch_free(struct vqp *vqp);

#endif
