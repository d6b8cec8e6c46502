/* SPDX-License-Identifier: BSD-2-Clause */
/* URXE_PCAP: what crosses a context's links, recorded. */
#ifndef URXE_VERBS_CAPTURE_H
#define URXE_VERBS_CAPTURE_H

#include "link/pcapng.h"
#include "verbs/context_priv.h"

/* If it is asked for: -errno, logged, if that cannot be. */
int urxe_capture_open(struct urxe_context *ctx);

/* Record a packet on its way to the engine. */
void urxe_capture_rx(struct urxe_context *ctx, const struct urxe_rx *rx);

static inline void urxe_capture_tx(struct urxe_context *ctx, const struct urxe_frame *frame)
{
	if (__builtin_expect(ctx->pcap != NULL, false))
		urxe_pcap_tx(ctx->pcap, ctx->pcap_interface, frame);
}

static inline void urxe_capture_flush(struct urxe_context *ctx)
{
	if (__builtin_expect(ctx->pcap != NULL, false))
		urxe_pcap_flush(ctx->pcap);
}

#endif
