/* SPDX-License-Identifier: BSD-2-Clause */
/* A context: one thread's device, completion queue, memory, timers and descriptors. */
#ifndef XR_CONTEXT_H
#define XR_CONTEXT_H

#include "base/list.h"
#include "base/rng.h"
#include "base/timerq.h"
#include "xrdma/boot.h"
#include "xrdma/conf.h"
#include "xrdma/flow.h"
#include "xrdma/gid.h"
#include "xrdma/mem.h"
#include "xrdma/msg.h"
#include "xrdma/stat.h"
#include "xrdma/verbs_rq.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { XR_POLL_BATCH = 16, XR_MAX_EVENTS = 16 };

/* A descriptor in the epoll set. */
struct xr_watch {
	int fd; /* -1: not watched */
	uint32_t events;
	void (*ready)(struct xr_watch *w, uint32_t events);
};

struct xr_timer {
	struct timer timer;
	void (*fire)(struct xr_timer *t);
};

/*
 * Completions name their channel by handle: index:20 and generation:10. A handle of a channel that
 * is no more finds nothing, however late its completion comes; nor, by the epoch, does that of a
 * queue pair that the channel had before.
 */
enum xr_wr_kind {
	XR_WR_SEND,   /* kind:2 handle:30 position:32 */
	XR_WR_RECV,   /* kind:2 handle:30 epoch:16 place:16 */
	XR_WR_SHARED, /* kind:2 0:30 place:32 */
	XR_WR_PROBE,  /* kind:2 handle:30 1:1 number:31, which is no place: mock.c */
};

struct xr_entry {
	struct xrdma_channel *ch;
	uint32_t generation;
	uint32_t next_free;
};

struct xrdma_context {
	struct xr_conf conf;
	unsigned forks; /* the process's count at xrdma_open() */
	uint64_t incarnation;
	struct rng rng; /* for back-off: no secrets */

	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	uint32_t cq_promised; /* completions that may be in it at once */
	bool behind;          /* there were more than the last poll took, maybe */
	uint32_t port;
	enum ibv_mtu active_mtu;
	char device[XR_DEVICE_BYTES];
	struct xr_gid_table gids;
	bool gids_old; /* something has happened to the device since they were read */
	struct xr_mem *mem;
	struct xr_region_mem probes; /* where nothing else is readable: with mem_windows */
	struct xr_flow flow;

	struct xrdma_msg *free_msgs;
	struct xrdma_msg *warm_msgs; /* free, each with a small buffer to send from */
	uint32_t n_warm;
	struct list msg_chunks;
	struct list hungry;  /* large messages that wait for receive memory, first come first */
	struct list owing;   /* receive queues that wait for it too */
	struct list tcp_due; /* channels' tcp_qp.h with something to do */
	bool fed; /* receive memory was released, or the former joined, since they were looked at */

	struct xr_rq srq; /* for many channels */
	bool no_last_wqe; /* the device does not tell when a queue pair is done with it */
	struct xr_rq_batch batch;

	struct xr_entry *entries;
	uint32_t n_entries, free_entry;
	struct xrdma_channel *by_qpn; /* those in the shared receive queue: a hash table */
	struct list channels;
	struct list touched;  /* channels to look at when this batch is handled */
	struct list ended;    /* calls to be ended by the next poll */
	struct list dials[2]; /* channels whose turn to dial is to come: the first time, again */
	bool dial_again;      /* whose turn is next, of those two */
	struct list listeners;
	struct list regions;
	uint32_t n_channels, n_setting_up;

	struct timerq timers;
	uint32_t n_timers;
	uint64_t now; /* a moment ago */
	uint64_t housekeeping_at, trim_at;
	unsigned polls;

	struct xr_boot_world boot;
	bool boot_open;
	int epoll_fd;
	struct xr_watch comp_watch, async_watch, wake_watch, timer_watch;
	struct epoll_event *ready; /* of the epoll_wait() being handled */
	int n_ready;
	uint64_t armed_until; /* what the timer descriptor is set to; CLOCK_NEVER: nothing */
	bool armed;           /* the application may be asleep on our descriptor */
	bool inside;          /* a poll */
	unsigned unacked_events;
	atomic_bool stop;

	struct xr_faults *faults;         /* NULL: no rules, no faults on purpose */
	struct xr_monitor_page *monitor;  /* NULL: none */
	struct xr_trace_file *trace_file; /* NULL: none */
	unsigned number;                  /* within the process */
	uint32_t untraced;                /* calls since the last traced one */
	uint64_t slow_told_at;
	struct list qp_cache; /* in RESET */
	struct xr_stats stats;
};

/* 0; -EPERM in a child of the process that opened it. */
extern unsigned xr_forks; /* of this process's ancestry, since the first context */
int xr_context_refuse(void);
static inline int xr_context_guard(const struct xrdma_context *ctx)
{
	return ctx->forks == xr_forks ? 0 : xr_context_refuse();
}

/* Room for n more timers. */
int xr_timers_reserve(struct xrdma_context *ctx, uint32_t n);
void xr_timer_init(struct xr_timer *t, void (*fire)(struct xr_timer *t));
void xr_timer_set(struct xrdma_context *ctx, struct xr_timer *t, uint64_t due_ns);

/* Room in the completion queue for n more completions (n < 0: for fewer). */
int xr_cq_promise(struct xrdma_context *ctx, int32_t n);

int xr_watch_add(struct xrdma_context *ctx, struct xr_watch *w, int fd, uint32_t events,
		 void (*ready)(struct xr_watch *w, uint32_t events));
void xr_watch_change(struct xrdma_context *ctx, struct xr_watch *w, int fd, uint32_t events);
void xr_watch_remove(struct xrdma_context *ctx, struct xr_watch *w);

/* Something waits for the next poll: wake whoever sleeps on the event descriptor. */
void xr_context_wake(struct xrdma_context *ctx);
static inline void xr_context_kick(struct xrdma_context *ctx)
{
	if (ctx->armed && !ctx->inside)
		xr_context_wake(ctx);
}

int xr_progress_init(struct xrdma_context *ctx);
void xr_progress_fini(struct xrdma_context *ctx);
/* Completions only; returns how many. */
int xr_progress_completions(struct xrdma_context *ctx);
/* Events of the device: queue pairs with which a shared receive queue is done. */
void xr_progress_async(struct xrdma_context *ctx);

#endif
