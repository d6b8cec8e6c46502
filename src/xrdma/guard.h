/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guard mode: every buffer is a mapping of its own that ends at a page that must not be touched,
 * and a registration of exactly its bytes. A write past the end faults where it happens, the NIC's
 * ends with a protection error, and so does every use after the release. What lies before the
 * buffer in its first page, and up to 7 bytes behind it, is filled with a pattern and looked at on
 * release: damage aborts the program.
 */
#ifndef XRDMA_GUARD_H
#define XRDMA_GUARD_H

#include "base/list.h"
#include "xrdma/mem_reg.h"

#include <stddef.h>
#include <stdint.h>

struct xr_guard {
	struct list link; /* the owner's */
	uint8_t *map;     /* a guard page, the pages of the buffer, a guard page */
	size_t map_bytes;
	uint8_t *addr; /* aligned to 8 */
	size_t len;
	struct ibv_mr *mr;
};

/* -ENOMEM; else as xr_reg_mr(). */
int xr_guard_new(struct xr_reg *reg, size_t len, unsigned access, struct xr_guard **ret_guard);
void xr_guard_free(struct xr_reg *reg, struct xr_guard *guard);

#endif
