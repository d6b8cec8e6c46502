/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the NIC: objects (nic.c), what goes from queue pair to queue pair (nic_wire.c). */
#ifndef XSIM_NIC_H
#define XSIM_NIC_H

#include "sim.h"

#include <infiniband/verbs.h>

enum { NIC_CQES = 16384, NIC_RECEIVES = 4096, NIC_SENDS = 4096, NIC_KEYS = 1 << 16 };

struct nic_mr {
	struct ibv_mr ibv;
	uint32_t index;
	unsigned access;
	/* The connection by which a peer wrote under this key: no other may. */
	const struct nic_qp *writer;
	uint32_t writer_life;
};

struct nic {
	unsigned host;
	struct ibv_device ibv;
	struct list qps, channels;
	struct nic_mr *keys[NIC_KEYS]; /* by index */
	uint32_t next_key, free_keys[NIC_KEYS], n_free_keys;
	uint32_t next_qpn, free_qpns[256], n_free_qpns;
	bool reuse, rereg;
	enum ibv_qp_state refused; /* until then no queue pair comes to this state */
	uint64_t refused_until;
	int refusal;
	struct nic_counts counts;
};

struct nic_context {
	struct ibv_context ibv;
	struct nic *nic;
	struct file async;
	struct proc *proc;
	struct ibv_async_event async_events[64];
	unsigned n_async;
};

struct nic_channel {
	struct ibv_comp_channel ibv;
	struct file file;
	struct list cqs; /* that have an event */
};

struct nic_cq {
	struct ibv_cq ibv;
	struct list link; /* of the channel, if it has an event */
	uint32_t head, tail;
	bool armed;
	struct ibv_wc wcs[NIC_CQES];
};

struct nic_receive {
	uint64_t id;
	struct ibv_sge sge;
};

struct nic_rq {
	uint32_t head, tail;
	struct nic_receive at[NIC_RECEIVES];
};

struct nic_srq {
	struct ibv_srq ibv;
	struct nic_rq rq;
};

struct nic_send {
	uint64_t id;
	enum ibv_wr_opcode opcode;
	bool signaled, inlined, acked;
	uint32_t imm, len, psn;
	struct ibv_sge sge[2];
	int n_sge;
	uint64_t remote_addr;
	uint32_t rkey;
	uint8_t data[512]; /* inlined */
};

struct nic_qp {
	struct ibv_qp ibv;
	struct list link;
	struct proc *proc;
	struct nic *nic;
	bool destroyed;
	uint32_t life; /* counts resets: what is on its way from before is void */
	uint32_t max_send, max_recv, max_inline;
	struct ibv_qp_attr attr;
	struct nic_cq *cq;
	struct nic_rq *rq;
	struct nic_rq own_rq;
	/* requester: [tail, head) is posted, up to `sent` has gone; arrivals keep their order */
	uint32_t head, tail, sent, round, retries;
	uint64_t last_arrival, last_answer, deadline;
	bool timing, last_said;
	struct nic_send *sends;
	/* responder */
	uint32_t expected_psn;
};

/* What came back. */
enum nic_answer { NIC_ACK, NIC_ACCESS, NIC_INVALID };

struct nic_mr *nic_mr_by(struct nic *nic, uint32_t key, bool remote);
void nic_complete(struct nic_qp *qp, uint64_t id, enum ibv_wc_opcode opcode,
		  enum ibv_wc_status status, uint32_t len, const uint32_t *imm);
void nic_async(struct nic_context *ctx, enum ibv_event_type type, struct nic_qp *qp);

/* ---- nic_wire.c ---- */

int nic_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Into error: everything posted ends, now or soon. */
void nic_qp_error(struct nic_qp *qp);
void nic_qp_reset(struct nic_qp *qp);
/* What is posted to a queue pair in error. */
void nic_flush_later(struct nic_qp *qp);

#endif
