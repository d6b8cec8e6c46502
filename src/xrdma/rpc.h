/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls in flight of a channel. An id is index:16 | generation:16 of a table that grows by chunks,
 * so the reply of a call that has ended finds nothing. Timers: one a call, its deadline.
 */
#ifndef XR_RPC_H
#define XR_RPC_H

#include "xrdma/context.h"

struct xr_call {
	struct xr_timer deadline;
	struct list ended; /* in the context's list, to be ended by the next poll */
	struct xrdma_channel *ch;
	xrdma_done *done; /* NULL: free */
	void *arg;
	int status;
	uint16_t index, generation;
	uint16_t next_free;
	uint64_t called_ns, sent_ns; /* traced; else 0 */
};

struct xr_calls {
	struct xr_call **chunks;
	uint32_t n, max;
	uint32_t n_chunks;
	uint32_t free; /* index of the first, or none */
	uint32_t busy;
};

int xr_calls_init(struct xrdma_channel *ch);
void xr_calls_fini(struct xrdma_channel *ch);

/* Ends every call with status. */
void xr_calls_end_all(struct xrdma_channel *ch, int status);

/* The call a reply belongs to; NULL: it has ended. */
struct xr_call *xr_call_find(struct xrdma_channel *ch, uint32_t id);
/* A traced request goes, whose call may not be in flight yet. */
void xr_call_note(struct xrdma_channel *ch, uint32_t id, const uint64_t at[static XR_AT_WIRE]);
/* Its one callback. reply NULL: failed with status. */
void xr_call_end(struct xr_call *call, int status, struct xrdma_msg *reply);

/* The calls cancelled since the last poll. */
int xr_calls_end_cancelled(struct xrdma_context *ctx);

/* Tell the peer that this request will not be answered. */
void xr_rpc_refuse(struct xrdma_msg *request);

#endif
