/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair whose cable is the bootstrap connection, for channels that RDMA does not carry. What
 * is posted to it by ibv_post_send() and ibv_post_recv() goes to the peer's as blocks, and ends as
 * on a NIC: in order, and all of it after an error. So nobody above knows the difference.
 *
 *	SEND	immediate data, bytes of the message
 *	READ	key block (keys.h), u32 bytes
 *	WRITE	key block, u32 bytes of the operation that are still to come, bytes
 *	ANSWER	u32 an errno value or 0, bytes that were READ; in the order of READs and WRITEs
 *
 * All in network order. Operations are cut into pieces, so that messages come between them. The
 * peer reaches what it could reach by RDMA: exported regions by their key of this epoch, within
 * bounds and rights; large messages that it has not consumed; the probe.
 */
#ifndef XR_TCP_QP_H
#define XR_TCP_QP_H

#include "xrdma/hello.h"

#include <infiniband/verbs.h>
#include <stdint.h>

struct xrdma_channel;
struct xrdma_context;
struct xr_tcp_qp;

/* The channel's, for so many requests outstanding. NULL: no memory. */
struct xr_tcp_qp *xr_tcp_qp_new(struct xrdma_channel *ch, uint32_t sends, uint32_t receives);
void xr_tcp_qp_free(struct xr_tcp_qp *t);
/* To post to, and for nothing else that takes a queue pair. */
struct ibv_qp *xr_tcp_qp_verbs(struct xr_tcp_qp *t);
/* All that is posted ends, at the next poll. */
void xr_tcp_qp_error(struct xr_tcp_qp *t);

/* A block of the peer: 0 or -EPROTO. */
int xr_tcp_qp_got(struct xrdma_channel *ch, enum xr_block_type type, const uint8_t *data,
		  size_t len);
/* The connection may have room again. */
void xr_tcp_qp_writable(struct xr_tcp_qp *t);
/* Move what can move, and complete what has ended, of all of the context. */
void xr_tcp_qp_poll(struct xrdma_context *ctx);

#endif
