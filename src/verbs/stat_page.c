/* SPDX-License-Identifier: BSD-2-Clause */
/* What is in a page of counters: for who writes them and for who reads them. */
#include "verbs/stat.h"

#include <stddef.h>

#define SHM(field)                                                                                 \
	{                                                                                          \
		"shm_" #field, offsetof(struct urxe_stat_page, shm.field)                          \
	}
#define UDP(field)                                                                                 \
	{                                                                                          \
		"udp_" #field, offsetof(struct urxe_stat_page, udp.field)                          \
	}

static const struct {
	const char *name;
	size_t offset;
} of_links[] = {
	SHM(tx_pkts),    SHM(tx_bytes),    SHM(rx_pkts),   SHM(rx_bytes),     SHM(tx_no_peer),
	SHM(tx_full),    SHM(fwd_dropped), SHM(doorbells), SHM(rx_malformed), UDP(tx_pkts),
	UDP(tx_bytes),   UDP(tx_batches),  UDP(tx_calls),  UDP(tx_blocked),   UDP(tx_errors),
	UDP(rx_pkts),    UDP(rx_bytes),    UDP(rx_calls),  UDP(rx_bad_icrc),  UDP(rx_runt),
	UDP(rx_foreign), UDP(rx_overflow),
};

enum { N_LINK_COUNTERS = sizeof(of_links) / sizeof(of_links[0]) };

const char *urxe_stat_name(unsigned i)
{
	if (i < URXE_CNT_MAX)
		return urxe_counter_names[i];
	return i < URXE_CNT_MAX + N_LINK_COUNTERS ? of_links[i - URXE_CNT_MAX].name : NULL;
}

/* Who writes it goes on meanwhile, another process perhaps: a count is one word, and never torn. */
__attribute__((no_sanitize("thread"))) uint64_t urxe_stat_value(const struct urxe_stat_page *page,
								unsigned i)
{
	size_t offset = i < URXE_CNT_MAX
				? offsetof(struct urxe_stat_page, engine) + i * sizeof(uint64_t)
				: of_links[i - URXE_CNT_MAX].offset;

	return ((const volatile uint64_t *)page)[offset / sizeof(uint64_t)];
}
