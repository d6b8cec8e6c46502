/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbs device that is a few queues in memory, in place of libibverbs: what a peer sends is put
 * into the receives by fake_receive(), READs of the other side are done as told.
 */
#ifndef FUZZ_FAKE_NIC_H
#define FUZZ_FAKE_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_nic {
	const uint8_t *readable; /* by READs: so many bytes here, elsewhere anything comes */
	uint32_t readable_bytes;
	bool refuse_reads;
	int n_mrs, n_qps;
};

extern struct fake_nic fake_nic;

/* A message arrives at the newest queue pair; false: no receive is posted, it would be resent. */
bool fake_receive(const void *bytes, uint32_t len, uint32_t imm, bool with_imm);

#endif
