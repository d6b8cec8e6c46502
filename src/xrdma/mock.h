/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP in place of RDMA, while that does not work. TCP takes over when RDMA has failed to set up or
 * recover the channel mock_after times (to bring a queue pair up, or to READ by it), or an option
 * says so; both are one more recovery, whose queue pairs are those of tcp_qp.h. At first it needs
 * none if a side has no queue pair to offer. Then the side that dialed asks for a pair of real ones
 * apart, and READs by it what the peer says is there; after mock_back_after such probes in a row
 * RDMA takes over, by one more recovery. Timer: the next probe.
 */
#ifndef XR_MOCK_H
#define XR_MOCK_H

#include "xrdma/context.h"
#include "xrdma/hello.h"

struct xr_mock {
	bool by_tcp;       /* the epoch at hand, as agreed */
	bool mocked;       /* by TCP when it was open last: what the application knows */
	bool back;         /* RDMA works again: the next attempt is by it */
	int reason;        /* why by TCP: what failed last, or 0: an option of either side */
	int unlinked;      /* why our queue pair is not connected, though we say READY */
	unsigned failures; /* of RDMA in a row, to set up or recover */
	unsigned level;    /* of back-off between probes */
	/* probes */
	unsigned good; /* in a row */
	uint32_t number;
	bool asked;   /* for a queue pair of the peer */
	bool reading; /* by it */
	struct ibv_qp *qp;
	uint32_t gid_index;
	struct xrdma_msg *sink;
	struct xr_hello ours, theirs;
	uint64_t left_at; /* TCP, for RDMA */
	struct xr_timer timer;
};

void xr_mock_init(struct xrdma_channel *ch);
/* Flags of our HELLO. */
uint32_t xr_mock_offer(const struct xrdma_channel *ch);
/* Is TCP to be proposed? */
bool xr_mock_wanted(const struct xrdma_channel *ch);
/* There is no queue pair to offer. True: propose TCP instead. */
bool xr_mock_instead(struct xrdma_channel *ch, int status);
/*
 * Our queue pair cannot be connected, and maybe the peer's is. True: TCP may take over, by a
 * recovery; for that each needs the other's READY first.
 */
bool xr_mock_later(struct xrdma_channel *ch, int status);
/* Both HELLOs are known: what they come to. */
int xr_mock_agree(struct xrdma_channel *ch);

/* Could TCP take over from a set-up that fails? */
bool xr_mock_possible(const struct xrdma_channel *ch);
/* Of a broken channel: what keeps it from RDMA, as far as this side knows. */
int xr_mock_status(const struct xrdma_channel *ch);
/* RDMA was tried, and did not work. */
void xr_mock_failed(struct xrdma_channel *ch, int status);
/* An attempt is over: if it was to go back to RDMA, the next is by TCP. */
void xr_mock_not_back(struct xrdma_channel *ch);
void xr_mock_opened(struct xrdma_channel *ch);
/* The channel is open no more. */
void xr_mock_stop(struct xrdma_channel *ch);

int xr_mock_got_probe(struct xrdma_channel *ch, const uint8_t *data, size_t len);
void xr_mock_probe_ended(struct xrdma_channel *ch, uint32_t number, int status);

#endif
