/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of a context, in memory that others may read while it runs: a page in a memfd by the
 * name of URXE_STAT_NAME, found among a process's descriptors. It goes with the process.
 */
#ifndef URXE_VERBS_STAT_H
#define URXE_VERBS_STAT_H

#include "engine/engine.h"
#include "link/shm.h"
#include "link/udp.h"

#include <stdbool.h>
#include <stdint.h>

#define URXE_STAT_NAME "urxe-stat"

/* Written by the context's owner with plain stores; a reader may find a packet counted half. */
struct urxe_stat_page {
	uint64_t magic; /* URXE_STAT_MAGIC */
	uint32_t size;  /* of this structure: differs between versions */
	int32_t pid;
	char device[16];
	char netdev[16];
	uint64_t engine[URXE_CNT_MAX];
	struct urxe_shm_stats shm;
	struct urxe_udp_stats udp;
};

#define URXE_STAT_MAGIC UINT64_C(0x7461747365787275) /* "urxestat" */

/* The i'th counter of a page and its name; NULL behind the last. Link counters begin shm_, udp_. */
const char *urxe_stat_name(unsigned i);
uint64_t urxe_stat_value(const struct urxe_stat_page *page, unsigned i);

struct urxe_device;
struct urxe_stat;

/* A context's counters; NULL: out of memory. Without a memfd nobody else can read them. */
struct urxe_stat *urxe_stat_open(const struct urxe_device *dev);
void urxe_stat_close(struct urxe_stat *stat);
struct urxe_stat_page *urxe_stat_page(struct urxe_stat *stat);

/* A counter of the device by name, over all contexts that this process has and had; false: none. */
bool urxe_stat_sum(const struct urxe_device *dev, const char *name, uint64_t *ret_sum);

/* In the child of a fork: it has counted nothing yet. */
void urxe_stats_after_fork(void);

#endif
