/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrdma: messages and remote calls over RDMA verbs.
 *
 * Three concepts. A *context* is one thread's world: device, completion queue, memory, timers. A
 * *channel* is a connection of a context to a peer. A *msg* is a message in registered memory.
 *
 *	client                                   server
 *	xrdma_open(&conf, &ctx)                  xrdma_open(&conf, &ctx)
 *	xrdma_connect(ctx, "host:port", ...)     xrdma_listen(ctx, "*:port", ...)
 *	m = xrdma_msg_new(ch, len)               on_msg(ch, m): handle, xrdma_reply(m, r)
 *	xrdma_call(ch, m, timeout, done, arg)
 *	while (...) xrdma_poll(ctx)              while (...) xrdma_poll(ctx)
 *
 * Threads: a context and everything made from it belong to one thread at a time; nothing in it is
 * locked. Different contexts are independent. No call blocks, except those whose comment says so.
 * After fork() only the parent may use a context: the child gets -EPERM, and must not touch message
 * or region memory, which need not be there.
 *
 * The end of a process: xrdma_close() is the good way. exit() deregisters the regions of contexts
 * that are open still. A signal whose action is the default (SIGTERM, SIGKILL) runs no code of
 *ours; peers' keys die with the process all the same, and peers learn of it by XRDMA_CLOSED. To
 *close in good order on a signal, call xrdma_stop() in its handler and xrdma_close() after
 *xrdma_run(). Keys are of one process and one registration: the next start has others.
 *
 * Errors: functions return 0 (or a count) or a negative errno value; pointers come out through a
 * last ret_x, untouched on failure. xrdma_last_error() explains the last failure of this thread in
 * one sentence: what is wrong, what was expected, what to do. Pointers must not be NULL unless
 * something else is said.
 *
 * Callbacks run inside xrdma_poll(), xrdma_process_event(), xrdma_run() or xrdma_close(), never
 * inside any other call. They may call anything here except those four (-EDEADLK). Every call and
 * one-sided operation that was accepted ends in exactly one callback; of one-way messages, those
 * that the peer had not consumed when XRDMA_CLOSED came are lost.
 *
 * Data path: xrdma_send_msg, xrdma_call, xrdma_reply, xrdma_poll and the msg functions make no
 * system call, take no lock and allocate nothing in the steady state.
 */
#ifndef XRDMA_XRDMA_H
#define XRDMA_XRDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XRDMA_API __attribute__((visibility("default")))

struct xrdma_context;
struct xrdma_channel;
struct xrdma_listener;
struct xrdma_msg;
struct xrdma_conf;
struct xrdma_region;        /* memory that peers may read or write */
struct xrdma_remote_region; /* a peer's, as exported to us over one channel */

/* ---- configuration --------------------------------------------------------------------------- */

/*
 * Options by name; `man xrdma` lists them with unit, range and default. Later wins: defaults, file
 * (XRDMA_CONFIG or xrdma_conf_load), environment (XRDMA_NAME), xrdma_conf_set. conf is the
 * caller's; contexts copy it.
 */
XRDMA_API int xrdma_conf_new(struct xrdma_conf **ret_conf);
XRDMA_API void xrdma_conf_free(struct xrdma_conf *conf);
XRDMA_API int xrdma_conf_load(struct xrdma_conf *conf, const char *path);
/* -ENOENT: no such option; -EINVAL: not a value of it; -ERANGE: out of its range. */
XRDMA_API int xrdma_conf_set(struct xrdma_conf *conf, const char *name, const char *value);
XRDMA_API int xrdma_conf_get(const struct xrdma_conf *conf, const char *name, char *value,
			     size_t size);

/* What failed last in this thread, for a person. Never NULL; valid until the next failure. */
XRDMA_API const char *xrdma_last_error(void);

/* ---- context --------------------------------------------------------------------------------- */

/* conf may be NULL: defaults, file and environment. */
XRDMA_API int xrdma_open(const struct xrdma_conf *conf, struct xrdma_context **ret_ctx);

/*
 * Change an option while the context runs, if `man xrdma` says that it may be. As xrdma_conf_set(),
 * and -EPERM for the others. log is of the whole process.
 */
XRDMA_API int xrdma_set(struct xrdma_context *ctx, const char *name, const char *value);

/* Closes what is open, without waiting for peers: every pending operation ends with -ECANCELED. */
XRDMA_API void xrdma_close(struct xrdma_context *ctx);

/* The name of its device, as `ibv_devices` has it; valid as long as the context. */
XRDMA_API const char *xrdma_device(const struct xrdma_context *ctx);

/* Handle what is there, without waiting. Returns how many completions, messages and events. */
XRDMA_API int xrdma_poll(struct xrdma_context *ctx);

/*
 * For the caller's own epoll loop: when the descriptor is readable, call xrdma_process_event(),
 * which handles everything and arms it again before it returns; nothing is left lying.
 */
XRDMA_API int xrdma_get_event_fd(struct xrdma_context *ctx);
XRDMA_API int xrdma_process_event(struct xrdma_context *ctx);

/*
 * Run for up to timeout_ms (-1: for ever) or until xrdma_stop(): busy polling while there is
 * traffic, sleeping after an idle spell (option idle_us). Blocks.
 */
XRDMA_API int xrdma_run(struct xrdma_context *ctx, int timeout_ms);
/* From a callback, another thread or a signal handler: xrdma_run() returns soon, or the next one at
 * once. */
XRDMA_API void xrdma_stop(struct xrdma_context *ctx);

/* ---- channels -------------------------------------------------------------------------------- */

enum xrdma_event {
	XRDMA_CONNECTED, /* ready: messages may be sent; status 0 */
	/* The end: status 0 when both sides closed, else why, as of XRDMA_BROKEN; -ECONNRESET also
	 * when the peer was restarted or has given up. */
	XRDMA_CLOSED,
	/*
	 * The path is broken and being recovered (options recovery_ms, backoff_*): -ETIMEDOUT, the
	 * peer's NIC is silent; -EACCES, the peer refused an access; -ECONNRESET, the peer's side
	 * broke or its TCP connection ended; -EKEYREVOKED, see xrdma_region_revoke(); others from
	 * the device. Sending goes on, into the queue; deadlines of calls run. XRDMA_RECOVERED or
	 * XRDMA_CLOSED follows.
	 */
	XRDMA_BROKEN,
	/*
	 * Whole again, in a new epoch; status 0. Every message arrives once and in order, as if
	 * nothing had happened; one-sided operations are done again, with the new keys of regions.
	 */
	XRDMA_RECOVERED,
	/*
	 * From now on TCP carries the channel, since RDMA does not work (option transport): what
	 * failed last at either side, as of XRDMA_BROKEN; of a device that brings no queue pair up
	 * its error: -EADDRINUSE, another program has its UDP port; -ENODEV...; -EHOSTUNREACH: no
	 * path leads to the peer's device, or the peer has none; 0: an option of either side wants
	 * it so. Follows XRDMA_CONNECTED or XRDMA_RECOVERED. All works as by RDMA, slower.
	 */
	XRDMA_MOCKED,
	/* RDMA works again, and carries it from now on; status 0. Nothing was lost, and nobody need
	 * do anything. */
	XRDMA_UNMOCKED,
};

enum xrdma_transport {
	XRDMA_RDMA,
	XRDMA_TCP,
};

struct xrdma_handlers {
	/* A message came. It is the receiver's until xrdma_msg_free() or xrdma_reply(). May be
	 * NULL: what comes is freed. */
	void (*on_msg)(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg);
	/* A peer exported a region; may be NULL. It is valid until XRDMA_CLOSED. */
	void (*on_region)(struct xrdma_channel *ch, struct xrdma_remote_region *remote, void *arg);
	/* May be NULL. After XRDMA_CLOSED the channel is gone when the callback returns. */
	void (*on_event)(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg);
};

/* address: "host:port", "[v6]:port", "*:port". */
XRDMA_API int xrdma_listen(struct xrdma_context *ctx, const char *address,
			   const struct xrdma_handlers *handlers, void *arg,
			   struct xrdma_listener **ret_listener);
XRDMA_API int xrdma_listener_port(const struct xrdma_listener *listener);
XRDMA_API void xrdma_listener_close(struct xrdma_listener *listener);

/* Returns at once; XRDMA_CONNECTED or XRDMA_CLOSED follows. Sending before is queued. */
XRDMA_API int xrdma_connect(struct xrdma_context *ctx, const char *address,
			    const struct xrdma_handlers *handlers, void *arg,
			    struct xrdma_channel **ret_ch);

/* Idempotent. What was accepted before is sent first; XRDMA_CLOSED follows. */
XRDMA_API void xrdma_channel_close(struct xrdma_channel *ch);

/* What carries it, or did before it broke. *ret_reason (may be NULL): status of XRDMA_MOCKED, or a
 * later failure of RDMA; 0 by RDMA. */
XRDMA_API enum xrdma_transport xrdma_channel_transport(const struct xrdma_channel *ch,
						       int *ret_reason);

/* That of its keys: 0 before it connects, and higher after each recovery. */
XRDMA_API uint32_t xrdma_channel_epoch(const struct xrdma_channel *ch);

XRDMA_API void xrdma_channel_set_user(struct xrdma_channel *ch, void *user);
XRDMA_API void *xrdma_channel_user(const struct xrdma_channel *ch);

/* ---- messages -------------------------------------------------------------------------------- */

/* A message of len bytes in the channel's registered memory, contents undefined. */
XRDMA_API int xrdma_msg_new(struct xrdma_channel *ch, size_t len, struct xrdma_msg **ret_msg);
XRDMA_API void *xrdma_msg_data(struct xrdma_msg *msg);
XRDMA_API size_t xrdma_msg_len(const struct xrdma_msg *msg);
/*
 * Give back a message that was not sent, or that was received and is done with; also after
 * XRDMA_CLOSED. To the sender a message counts as consumed when on_msg (or done) has returned, a
 * large one that is freed there at once: what is sent after it tells the sender. But if receive
 * memory is spent, what the application keeps makes the sender wait. A request that is freed
 * without reply ends at the caller with -ENOMSG.
 */
XRDMA_API void xrdma_msg_free(struct xrdma_msg *msg);

/* One way. On success the message is the library's. -EAGAIN: the queue of the channel is full. */
XRDMA_API int xrdma_send_msg(struct xrdma_channel *ch, struct xrdma_msg *msg);

/*
 * status: 0 and the reply (the caller's to free), or a negative errno value and NULL: -ETIMEDOUT,
 * -ECANCELED, -ECONNRESET...
 */
typedef void xrdma_done(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg);

/* A request; many may be in flight and replies come in any order. timeout_us 0: none. */
XRDMA_API int xrdma_call(struct xrdma_channel *ch, struct xrdma_msg *request, uint64_t timeout_us,
			 xrdma_done *done, void *arg, uint64_t *ret_id);
XRDMA_API int xrdma_cancel(struct xrdma_channel *ch, uint64_t id);

/* Answer a request; frees the request. Requests may be answered in any order, later too. */
XRDMA_API int xrdma_reply(struct xrdma_msg *request, struct xrdma_msg *reply);

/* ---- regions: memory registered once, named by slot -------------------------------------------
 */

/*
 * One large registration cut into slots of equal size, for data that stays: a peer learns one key
 * once, and messages name a slot by 16 bits instead of carrying 12 bytes of address and key.
 */
struct xrdma_region;        /* ours */
struct xrdma_remote_region; /* a peer's, as exported to us over one channel */

enum xrdma_rights {
	XRDMA_REMOTE_READ = 1,
	XRDMA_REMOTE_WRITE = 2,
};

struct xrdma_region_attr {
	size_t slot_bytes; /* rounded up to 64 */
	uint32_t n_slots;  /* 1..65536 */
	unsigned rights;   /* of peers: the least that will do */
	int numa_node;     /* -1: as the option numa says; a node that there is */
};

/* Sizes, limits and RLIMIT_MEMLOCK are checked first; huge pages as the option huge says,
 * xrdma_region_huge_bytes() tells how much of it is. */
XRDMA_API int xrdma_region_new(struct xrdma_context *ctx, const struct xrdma_region_attr *attr,
			       struct xrdma_region **ret_region);
/*
 * -EBUSY while a message uses it, that of its export too. Else it is gone, for its owner at once:
 * its slots are not to be touched any more. Peers that have a key are told; each lets go when its
 * operations under way have ended, and refuses others (-ESTALE). Meanwhile these reach memory that
 * nobody else uses, since until every such peer has let go, or its channel is broken or closed, the
 * region stays mapped and registered (counter regions_lingering): so no other gets its memory, or
 * the number of a key that somebody may use. To keep peers out at once revoke the keys before.
 */
XRDMA_API int xrdma_region_free(struct xrdma_region *region);
XRDMA_API void *xrdma_region_slot(struct xrdma_region *region, uint32_t slot);
XRDMA_API size_t xrdma_region_huge_bytes(const struct xrdma_region *region);

/* Tell the peer, which gets on_region. tag is the caller's way to say which region this is. */
XRDMA_API int xrdma_region_export(struct xrdma_region *region, struct xrdma_channel *ch,
				  uint32_t tag);
/*
 * Take the key back that the peer of one channel was given (ch NULL: those of all). It is dead on
 * return: who uses it is refused, with -EACCES at the peer, or when that has heard of it -ESTALE.
 * Slots that it names are still received. A device that cannot take the rights from a registration
 * has to begin a new epoch for it: XRDMA_BROKEN with -EKEYREVOKED; without recovery XRDMA_CLOSED.
 */
XRDMA_API int xrdma_region_revoke(struct xrdma_region *region, struct xrdma_channel *ch);
XRDMA_API uint32_t xrdma_remote_region_tag(const struct xrdma_remote_region *remote);
XRDMA_API uint32_t xrdma_remote_region_slots(const struct xrdma_remote_region *remote);
XRDMA_API size_t xrdma_remote_region_slot_bytes(const struct xrdma_remote_region *remote);

/*
 * One-sided: msg's bytes to or from a peer's slot at an offset. done gets msg back in place of a
 * reply; -EACCES: the peer refused; -ESTALE (or the call returns it): the peer has freed the region
 * or revoked the key.
 */
XRDMA_API int xrdma_put(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
			size_t offset, struct xrdma_msg *msg, xrdma_done *done, void *arg);
XRDMA_API int xrdma_get(struct xrdma_channel *ch, struct xrdma_remote_region *remote, uint32_t slot,
			size_t offset, struct xrdma_msg *msg, xrdma_done *done, void *arg);

/* A one-way message whose payload is what lies in the peer's slot: 16 bits on the wire, no copy. To
 * be sent when the put that filled the slot is done.
 * There xrdma_msg_slot() tells which; elsewhere it is -1. */
XRDMA_API int xrdma_send_slot(struct xrdma_channel *ch, struct xrdma_remote_region *remote,
			      uint32_t slot, size_t len);
XRDMA_API int xrdma_msg_slot(const struct xrdma_msg *msg);

/* ---- the caller's own memory ------------------------------------------------------------------
 */

/*
 * A message over len bytes at data, which stays the caller's. Registered through a cache: the
 * second time costs a look-up. The memory is in use until the message is freed by xrdma_msg_free(),
 * or else, once it was sent, until released (may be NULL) is called.
 */
typedef void xrdma_released(void *data, size_t len, void *arg);
XRDMA_API int xrdma_msg_wrap(struct xrdma_channel *ch, void *data, size_t len,
			     xrdma_released *released, void *arg, struct xrdma_msg **ret_msg);
/* Memory is about to be unmapped: forget registrations that overlap it. -EBUSY: in use. */
XRDMA_API int xrdma_forget(struct xrdma_context *ctx, const void *data, size_t len);

/* ---- figures ----------------------------------------------------------------------------------
 */

/* Counters by name; the set is `xrdma_stat_name(0..)` until NULL. Reading is cheap. */
XRDMA_API const char *xrdma_stat_name(unsigned index);
XRDMA_API uint64_t xrdma_stat(const struct xrdma_context *ctx, unsigned index);
XRDMA_API int xrdma_stat_by_name(const struct xrdma_context *ctx, const char *name,
				 uint64_t *ret_value);

/* ---- where the time goes ----------------------------------------------------------------------
 */

/*
 * Of a call, if both sides have the option trace: the shares add up to rtt_ns. Each side's times
 * are of its own clock, none is compared with the other's; the agreement of the clocks stands
 * beside.
 */
struct xrdma_trace {
	uint64_t rtt_ns;           /* from xrdma_call() to done */
	uint64_t send_queue_ns;    /* before the request was given to the NIC */
	uint64_t wire_ns;          /* both ways: NICs, network, and until each side polled */
	uint64_t peer_queue_ns;    /* there, before the handler and after its reply */
	uint64_t handler_ns;       /* from on_msg to xrdma_reply() */
	uint64_t receive_queue_ns; /* the reply's: payload to be read, handlers before it */
	int64_t clock_offset_ns;   /* the peer's monotonic clock minus ours... */
	uint64_t clock_error_ns;   /* ...right to this; 0: not known */
};

/* In done, of the reply. -ENODATA: this call was not traced; one in trace_sample is. */
XRDMA_API int xrdma_msg_trace(const struct xrdma_msg *reply, struct xrdma_trace *ret_trace);

/* What the system measures of the TCP connection that set the channel up. -ENOTCONN: none now. */
XRDMA_API int xrdma_channel_tcp_rtt(const struct xrdma_channel *ch, uint64_t *ret_ns);

#ifdef __cplusplus
}
#endif
#endif
