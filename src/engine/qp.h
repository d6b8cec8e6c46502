/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair: a requester that sends what is posted and completes it, and a responder that
 * executes what the peer asks for. Who calls what:
 *
 *   post.c       ibv_post_*            -> work requests in the queues, the QP ready to be pulled
 *   requester.c  urxe_txq_pull()       -> request packets
 *   completer.c  urxe_engine_rx(), timers: ACKs, READ responses, NAKs -> completions, retries
 *   responder.c  urxe_engine_rx()      -> requests executed, receives completed, answers noted
 *   answer.c     urxe_txq_pull()       -> READ responses, ACKs and NAKs in order of PSN
 *   qp_state.c   ibv_modify_qp, errors -> state, flushes
 *   dcqcn.c      marked packets -> CNPs; CNPs -> a rate, and when the next packet may be pulled
 */
#ifndef URXE_ENGINE_QP_H
#define URXE_ENGINE_QP_H

#include "engine/cq.h"
#include "engine/dcqcn.h"
#include "engine/wq.h"
#include "wire/packet.h"
#include "wire/psn.h"

enum {
	MAX_RD_ATOMIC = 128,
	ACK_MASK = 15, /* every 16th packet of a long message asks for an ACK */
};

/* The longest message (IBA 9.7.4.1.6). */
#define MAX_MSG_BYTES (UINT32_C(1) << 31)

struct requester {
	uint32_t psn;      /* next to send */
	uint32_t una;      /* oldest not acknowledged */
	uint32_t high;     /* one past the newest ever sent */
	uint32_t next_psn; /* for the next request that begins */
	uint32_t begun;    /* send queue index: requests before it have their PSNs */
	uint32_t window;   /* most PSNs in flight: congestion window, grows back after loss */
	uint32_t max_window;
	uint32_t window_credit; /* acknowledged PSNs towards the next growth */
	uint32_t ack_mask;      /* a long message's packets that ask for an ACK: these bits are 1 */
	uint32_t rd_out;        /* READ and ATOMIC requests in flight */
	uint32_t recv_begun;    /* messages begun that need a receive at the peer */
	uint32_t recv_limit;    /* those allowed by its credits, as an ordinal */
	bool credits;           /* the peer does end-to-end flow control */
	bool implied_nak;       /* a READ was asked for again; not twice before progress */
	bool rnr_wait;          /* the timer ends a wait that an RNR NAK asked for */
	uint8_t failed;         /* enum ibv_wc_status of the request at cur: stop there; 0: none */
	uint8_t retries_left;
	uint8_t backoff; /* timeouts without progress, at most MAX_BACKOFF: log2 of the patience */
	uint8_t rnr_retries_left;
	bool sq_drained; /* of an SQD: reported */
};

/* A READ or ATOMIC being answered, or kept for a repeat of the request (IBA 9.4.5, 9.7.5.1.2). */
struct resource {
	bool valid;
	bool pending;  /* not all of it has been sent */
	bool answered; /* all of it has been sent once: what is pending is a repeat */
	bool atomic;
	uint32_t first_psn;
	uint32_t n_psn;
	uint32_t start_psn; /* where this round of answering began: FIRST, not MIDDLE */
	uint32_t cur_psn;   /* next to send */
	uint32_t msn;
	uint64_t va;
	uint64_t orig;
	const struct urxe_pd *pd; /* whose rkey it is; NULL: gone */
	uint32_t rkey;
	uint32_t length;
};

enum answer {
	ANSWER_NONE,
	ANSWER_ACK,
	ANSWER_RNR,
	ANSWER_NAK,
};

struct responder {
	uint32_t psn; /* expected */
	uint32_t msn;
	bool nak_sent; /* sequence or RNR NAK: silent until the expected PSN comes */
	/* The message in progress. */
	enum urxe_kind kind; /* KIND_SEND, KIND_WRITE or KIND_NONE */
	bool have_wqe;       /* *wqe has been taken from the receive queue */
	uint32_t received;   /* bytes of it */
	uint32_t length;     /* WRITE: as the RETH announced */
	uint32_t rkey;
	uint64_t va;
	/* What to answer when next asked. */
	enum answer answer;
	uint8_t syndrome; /* of a NAK or RNR */
	uint32_t answer_psn;
	/* READs and ATOMICs: a ring of max_dest_rd_atomic. */
	uint32_t n_res;
	uint32_t next_res;
	uint32_t n_pending;
	struct resource *res;
	struct recv_wqe *wqe; /* private copy of the receive in use */
};

struct urxe_qp {
	struct urxe_engine *engine;
	struct urxe_pd *pd;
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	uint32_t qpn;
	uint8_t service; /* enum urxe_service */
	bool reliable;   /* RC or XRC */
	bool sq_sig_all;
	bool comm_est;           /* reported */
	bool turn;               /* whose: false the requester's, true the responder's */
	uint8_t burst;           /* packets pulled in a row */
	uint32_t mtu;            /* bytes */
	struct ibv_qp_attr attr; /* as modified so far */
	struct urxe_route route;
	struct list ready; /* on a txq while there may be something to send */
	bool owing;        /* and that list is the txq's owing */
	struct timer timer;
	struct dcqcn dcqcn;
	struct requester req;
	struct responder resp;
	struct send_queue sq;
	struct recv_queue rq;
	/* Of an XRC_RECV all but xrcd come and go with the SRQ that a message names. */
	struct urxe_xrcd *xrcd;
	struct urxe_srq *srq;
	struct urxe_cq *send_cq;
	struct urxe_cq *recv_cq;
	struct list node;
	struct list windows; /* of type 2, bound by this QP */
	uint32_t n_groups;   /* multicast groups it is attached to */
	bool block_own_mcast;
	struct async_src async;
};

/* ---- qp.c ---- */

/* Is the QP of the packet's service and in a state to take it? */
bool qp_listens(const struct urxe_qp *qp, const struct urxe_pkt *pkt);

/* There may be something to send. */
void qp_ready(struct urxe_qp *qp);

/* Likewise, for no more than an ACK: it waits until nobody is ready. */
void qp_owes_ack(struct urxe_qp *qp);

/* Complete a send request (cq entry if signaled or failed) and give its slot back: the oldest. */
void qp_retire_send(struct urxe_qp *qp, enum ibv_wc_status status);

/* Complete the responder's receive in use. */
void qp_complete_recv(struct urxe_qp *qp, struct ibv_wc *wc, bool solicited);

/* Take the next receive into resp.wqe; false: there is none. */
bool qp_take_recv(struct urxe_qp *qp);

/* In SQD: tell when everything begun is done (IBA 10.3.1.4). */
void qp_report_drained(struct urxe_qp *qp);

/* Forget everything: as created. */
void qp_reset(struct urxe_qp *qp);

/* Flush what is in the receive queue; not a shared one. */
void qp_flush_recv(struct urxe_qp *qp);

/* To SQE, which only unreliable services have: sends are flushed, receiving goes on (IBA 10.3.1.6).
 */
void qp_fail_sends(struct urxe_qp *qp);

/* To ERR: flush everything in order (IBA 10.3.1.5). Idempotent. */
void qp_fail(struct urxe_qp *qp);

/* ---- requester.c, answer.c: next packet of this QP ---- */
bool requester_pull(struct urxe_qp *qp, uint64_t now, struct urxe_frame *f);
bool answer_pull(struct urxe_qp *qp, struct urxe_frame *f);

/* Would that be an ACK or NAK? */
bool answer_is_bare(struct urxe_qp *qp);

/* Continue sending at psn, a PSN that has been given to a request, or the next to give. */
void requester_seek(struct urxe_qp *qp, uint32_t psn);

/* How long to wait for the peer now. */
uint64_t requester_timeout_ns(const struct urxe_qp *qp);

/* Start, restart or stop the retransmission timer according to what is outstanding. */
void requester_restart_timer(struct urxe_qp *qp, uint64_t now);

/* ---- completer.c ---- */
void completer_rx(struct urxe_qp *qp, uint64_t now, const struct urxe_pkt *pkt);
void completer_timer(struct urxe_qp *qp, uint64_t now);

/* Requests about keys are done when all before them are. */
void completer_retire_local(struct urxe_qp *qp);

/* The request at sq.cur cannot be executed: fail it when those before it are done. */
void completer_local_error(struct urxe_qp *qp, enum ibv_wc_status status);

/* ---- responder.c, ud.c ---- */
void responder_rx(struct urxe_qp *qp, const struct urxe_pkt *pkt);
void ud_rx(struct urxe_qp *qp, const struct urxe_pkt *pkt, const struct urxe_rx *rx);

/* Begin a frame to the QP's peer. */
static inline void frame_begin(struct urxe_qp *qp, struct urxe_frame *f)
{
	f->path = &qp->route.path;
	f->payload_len = 0;
	f->n_iov = 0;
	f->pad = 0;
	f->grh = false;
}

/* End it: headers from pkt. The migrated state is the only one without path migration (IBA 9.2). */
static inline void frame_end(struct urxe_frame *f, struct urxe_pkt *pkt)
{
	f->pad = (uint8_t)(-f->payload_len & 3);
	f->dqpn = pkt->dqpn;
	pkt->pad = f->pad;
	pkt->pkey = 0xffff;
	pkt->migreq = true;
	f->hdr_len = (uint8_t)urxe_pkt_build(pkt, f->hdr);
}

static inline bool type_is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static inline bool type_is_connected(enum ibv_qp_type type)
{
	return type != IBV_QPT_UD;
}

static inline uint32_t psns_of(const struct urxe_qp *qp, uint32_t length)
{
	return length <= qp->mtu ? 1 : (uint32_t)(((uint64_t)length + qp->mtu - 1) / qp->mtu);
}

#endif
