/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that only registers memory, with limits and failures at will: the definitions of
 * ibv_reg_mr() and its like that a test linked with it gets instead of the library's.
 */
#ifndef TEST_MEM_FAKE_H
#define TEST_MEM_FAKE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct fake_device {
	int max_mr;
	uint64_t max_mr_bytes;
	uint32_t odp_caps; /* of reliable connections */
	int query_error;
	int reg_error;         /* what fails, fails with it */
	uint32_t regs_to_go;   /* registrations that still succeed */
	uint32_t allocs_to_go; /* calls of calloc() that still succeed */

	/* What happened. */
	uint32_t mrs;
	uint64_t bytes;
	uint32_t regs;
	unsigned last_access;
	void *last_addr;
	size_t last_len;
};

extern struct fake_device fake;

/* A new device, without limits or failures, and its PD. */
struct ibv_pd *fake_reset(void);

#endif
