/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of a context: one line each. */
#ifndef XR_STAT_H
#define XR_STAT_H

#include <stdbool.h>
#include <stdint.h>

struct xrdma_context;

#define XR_STATS(X)                                                                                \
	X(msgs_sent)  /* windowed messages */                                                      \
	X(bytes_sent) /* of their payloads */                                                      \
	X(msgs_received)                                                                           \
	X(bytes_received)                                                                          \
	X(acks_sent) /* bare acknowledgements */                                                   \
	X(acks_received)                                                                           \
	X(large_read)    /* large payloads fetched */                                              \
	X(fragments)     /* posted, by READs and WRITEs */                                         \
	X(queue_full)    /* sends that got -EAGAIN */                                              \
	X(window_closed) /* sends that had to wait for the peer */                                 \
	X(calls)                                                                                   \
	X(calls_timed_out)                                                                         \
	X(calls_cancelled)                                                                         \
	X(late_replies) /* of calls that had ended */                                              \
	X(unanswered)   /* requests freed without a reply */                                       \
	X(rx_starved)   /* receives that had to wait for memory */                                 \
	X(channels)     /* open now */                                                             \
	X(channels_opened)                                                                         \
	X(channels_closed) /* in good order */                                                     \
	X(channels_failed)                                                                         \
	X(protocol_errors) /* peers that did not keep to the protocol */                           \
	X(stale_epochs)                                                                            \
	X(keepalives) /* questions to silent peers */                                              \
	X(breaks)     /* of channels that were open */                                             \
	X(recoveries)                                                                              \
	X(redials)        /* TCP connections to a peer we had one with */                          \
	X(dials)          /* TCP connections that no peer has answered over yet, now */            \
	X(dials_delayed)  /* that had to wait for others: max_dials */                             \
	X(tls_handshakes) /* that succeeded, of either side */                                     \
	X(tls_resumed)    /* of them without certificates */                                       \
	X(resent)         /* messages sent again after a recovery */                               \
	X(mocks)          /* channels that TCP took over */                                        \
	X(unmocks)        /* and RDMA again */                                                     \
	X(mock_probes)    /* whether RDMA works again */                                           \
	X(mock_probes_failed)                                                                      \
	X(tcp_channels)   /* that TCP carries, now */                                              \
	X(tcp_msgs_sent)  /* control messages too */                                               \
	X(tcp_bytes_sent) /* of messages and one-sided operations, heads too */                    \
	X(tcp_bytes_received)                                                                      \
	X(stale_completions) /* of queue pairs that are no more */                                 \
	X(qps_cached)        /* of closed channels, for the next, now */                           \
	X(qps_reused)                                                                              \
	X(qps)             /* of channels, now */                                                  \
	X(receives_posted) /* now */                                                               \
	X(sends_posted)    /* now */                                                               \
	X(messages_held)   /* by the application, now */                                           \
	X(wc_access)       /* completions by status: the peer refused */                           \
	X(wc_silent)       /* the peer's NIC does not answer */                                    \
	X(wc_rnr)          /* the peer had no receive posted */                                    \
	X(wc_flushed)      /* bystanders of an error */                                            \
	X(wc_other)                                                                                \
	X(memory_regions) /* now */                                                                \
	X(memory_bytes)   /* registered now */                                                     \
	X(memory_huge_bytes)                                                                       \
	X(regions_lingering)     /* freed, and within reach of peers that do not know, now */      \
	X(pool_hits)             /* buffers found in registered memory */                          \
	X(pool_misses)           /* that had to be registered first */                             \
	X(pool_refused)          /* for which the budget was spent */                              \
	X(windows_bound)         /* memory windows, each for one large message */                  \
	X(windows_ended)         /* invalidated by us */                                           \
	X(windows_ended_by_peer) /* by its message */                                              \
	X(regcache_hits)         /* callers' memory that was registered already */                 \
	X(regcache_misses)       /* that had to be */                                              \
	X(odp_registrations)                                                                       \
	X(sleeps) /* of xrdma_run() */                                                             \
	X(faults) /* that the filter made */                                                       \
	X(calls_traced)                                                                            \
	X(trace_dropped) /* spans for which the trace file had no room */                          \
	X(slow_polls)    /* gaps between polls over slow_poll_us */                                \
	X(slow_handlers) /* callbacks over slow_handler_us */

struct xr_stats {
#define X(name) uint64_t name;
	XR_STATS(X)
#undef X
};

/* All of them as of now. */
void xr_stats_read(const struct xrdma_context *ctx, struct xr_stats *ret_stats);
/* A gauge goes up and down, a counter up. */
bool xr_stat_is_gauge(unsigned index);

#endif
