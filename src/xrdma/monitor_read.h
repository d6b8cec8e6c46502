/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the figures of contexts of other processes (monitor_page.h), which notice nothing of it.
 * What is read is not trusted: it is mapped only if it cannot shrink, checked once, and copied.
 */
#ifndef XR_MONITOR_READ_H
#define XR_MONITOR_READ_H

#include "xrdma/hist.h"
#include "xrdma/monitor_page.h"

#include <stdio.h>
#include <sys/types.h>

struct xr_monitor;

/* What does not change. */
struct xr_monitor_info {
	pid_t pid;        /* as we see the process; 0: not known */
	uint32_t context; /* number within the process */
	uint32_t n_counters, n_hists, n_slots;
	uint64_t incarnation;
	uint64_t opened_ns; /* CLOCK_REALTIME */
	char program[XR_PAGE_TEXT_BYTES];
	char device[XR_PAGE_TEXT_BYTES];
};

/*
 * fd stays the caller's, and may be closed. -EINVAL: not such a page, or one that could change its
 * size; -EPROTONOSUPPORT: of another version; -EPROTO: it contradicts itself.
 */
int xr_monitor_map(int fd, pid_t pid, struct xr_monitor **ret_m);
void xr_monitor_unmap(struct xr_monitor *m); /* NULL is none */

/*
 * All contexts of all processes whose pages we may read, in order of process and context. Returns
 * how many, or a negative errno value; the list and its members are the caller's.
 */
int xr_monitor_find(struct xr_monitor ***ret_list);
void xr_monitor_free_list(struct xr_monitor **list, int n);

const struct xr_monitor_info *xr_monitor_info(const struct xr_monitor *m);
/* CLOCK_MONOTONIC: the counters are as of then. */
uint64_t xr_monitor_updated_ns(const struct xr_monitor *m);

/* i < n_counters, < n_hists. Names are of [a-z0-9_]. */
const char *xr_monitor_counter_name(const struct xr_monitor *m, uint32_t i);
enum xr_page_kind xr_monitor_counter_kind(const struct xr_monitor *m, uint32_t i);
const char *xr_monitor_hist_name(const struct xr_monitor *m, uint32_t i);

/* Counters, n_counters of them, of one moment. -EAGAIN: the writer never let go of them. */
int xr_monitor_counters(const struct xr_monitor *m, uint64_t *ret_values);
void xr_monitor_hist_copy(const struct xr_monitor *m, uint32_t i, struct xr_hist_copy *ret_copy);

/* slot < n_slots. -ENOENT: no channel there. Texts are printable. ret_rtt may be NULL. */
int xr_monitor_channel(const struct xr_monitor *m, uint32_t slot, struct xr_page_channel *ret_ch,
		       struct xr_hist_copy *ret_rtt);

/* In the Prometheus text exposition format 0.0.4: counters and histograms of n contexts. */
void xr_monitor_expose(struct xr_monitor *const *list, int n, FILE *out);

#endif
