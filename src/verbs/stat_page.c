/* SPDX-License-Identifier: BSD-2-Clause */
/* What is in a page of counters: for who writes them and for who reads them. */
#include "verbs/stat.h"

#include <stddef.h>
#include <string.h>

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
	SHM(tx_pkts),     SHM(tx_bytes),    SHM(rx_pkts),     SHM(rx_bytes),     SHM(tx_no_peer),
	SHM(tx_full),     SHM(fwd_dropped), SHM(doorbells),   SHM(rx_malformed), UDP(tx_pkts),
	UDP(tx_bytes),    UDP(tx_calls),    UDP(tx_blocked),  UDP(tx_errors),    UDP(rx_pkts),
	UDP(rx_bytes),    UDP(rx_calls),    UDP(rx_bad_icrc), UDP(rx_runt),      UDP(rx_foreign),
	UDP(rx_overflow),
};

enum { N_LINK_COUNTERS = sizeof(of_links) / sizeof(of_links[0]) };

const char *urxe_stat_name(unsigned i)
{
	if (i < URXE_CNT_MAX)
		return urxe_counter_names[i];
	return i < URXE_CNT_MAX + N_LINK_COUNTERS ? of_links[i - URXE_CNT_MAX].name : NULL;
}

uint64_t urxe_stat_value(const struct urxe_stat_page *page, unsigned i)
{
	uint64_t value;

	if (i < URXE_CNT_MAX)
		return page->engine[i];
	memcpy(&value, (const char *)page + of_links[i - URXE_CNT_MAX].offset, sizeof(value));
	return value;
}
