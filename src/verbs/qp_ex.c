/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_wr_start() to ibv_wr_complete(): requests are gathered in memory of the QP's own, then posted
 * all at once or, if anything is wrong with one of them, not at all.
 */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct qp_batch {
	pthread_mutex_t lock; /* from start to complete or abort */
	unsigned n;
	int error; /* the first mistake of the batch, reported by complete */
	struct ibv_send_wr *wrs;
	struct ibv_sge *sges; /* max_send_sge for each request */
	uint8_t *inline_data; /* inline_room for each */
	size_t inline_room;
};

enum { WORD_BYTES = 8 }; /* an ATOMIC WRITE's, inline in any QP */

static struct vqp *of(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct vqp, ibv);
}

static void set_error(struct qp_batch *batch, int error)
{
	if (!batch->error)
		batch->error = error;
}

static void wr_start(struct ibv_qp_ex *qp)
{
	struct qp_batch *batch = of(qp)->batch;

	pthread_mutex_lock(&batch->lock);
	batch->n = 0;
	batch->error = 0;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct vqp *vqp = of(qp);
	struct qp_batch *batch = vqp->batch;
	int ret = batch->error;

	if (!ret && batch->n)
		ret = urxe_qp_post_all(vqp, batch->wrs);
	pthread_mutex_unlock(&batch->lock);
	return ret;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	pthread_mutex_unlock(&of(qp)->batch->lock);
}

/* The request being built; a spare one takes what follows a mistake. */
static struct ibv_send_wr *current(struct qp_batch *batch)
{
	return &batch->wrs[batch->n ? batch->n - 1 : 0];
}

static struct ibv_send_wr *wr_new(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct vqp *vqp = of(qp);
	struct qp_batch *batch = vqp->batch;
	struct ibv_send_wr *wr;

	if (batch->n == vqp->cap.max_send_wr)
		set_error(batch, ENOMEM);
	else if (batch->n++)
		batch->wrs[batch->n - 2].next = &batch->wrs[batch->n - 1];
	wr = current(batch);
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = qp->wr_id;
	wr->send_flags = qp->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	wr->opcode = opcode;
	return wr;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	wr_new(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	wr_new(qp, IBV_WR_SEND_WITH_IMM)->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	wr_new(qp, IBV_WR_SEND_WITH_INV)->invalidate_rkey = invalidate_rkey;
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	wr_new(qp, IBV_WR_LOCAL_INV)->invalidate_rkey = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *bind_info)
{
	struct ibv_send_wr *wr = wr_new(qp, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *bind_info;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	current(of(qp)->batch)->qp_type.xrc.remote_srqn = remote_srqn;
}

static struct ibv_send_wr *wr_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
				   uint64_t remote_addr)
{
	struct ibv_send_wr *wr = wr_new(qp, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = remote_addr;
	return wr;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	wr_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr)->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
		      uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = wr_new(qp, opcode);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	wr_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	wr_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct ibv_send_wr *wr = current(of(qp)->batch);

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct vqp *vqp = of(qp);
	struct qp_batch *batch = vqp->batch;
	struct ibv_send_wr *wr = current(batch);

	if (num_sge > vqp->cap.max_send_sge) {
		set_error(batch, EINVAL);
		return;
	}
	wr->sg_list = batch->sges + (size_t)(wr - batch->wrs) * vqp->cap.max_send_sge;
	wr->num_sge = (int)num_sge;
	memcpy(wr->sg_list, sg_list, num_sge * sizeof(*sg_list));
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(qp, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct vqp *vqp = of(qp);
	struct qp_batch *batch = vqp->batch;
	struct ibv_send_wr *wr = current(batch);
	size_t index = (size_t)(wr - batch->wrs), room = vqp->cap.max_inline_data;
	uint8_t *data = batch->inline_data + index * batch->inline_room, *end = data;

	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > room) {
			set_error(batch, EINVAL);
			return;
		}
		room -= buf_list[i].length;
		memcpy(end, buf_list[i].addr, buf_list[i].length);
		end += buf_list[i].length;
	}
	if (end == data)
		return;
	wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list = batch->sges + index * vqp->cap.max_send_sge;
	wr->sg_list[0] =
		(struct ibv_sge){.addr = (uintptr_t)data, .length = (uint32_t)(end - data)};
	wr->num_sge = 1;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(qp, 1, &buf);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct vqp *vqp = of(qp);
	struct qp_batch *batch = vqp->batch;
	struct ibv_send_wr *wr = wr_rdma(qp, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
	size_t index = (size_t)(wr - batch->wrs);
	uint8_t *data = batch->inline_data + index * batch->inline_room;

	memcpy(data, atomic_wr, WORD_BYTES);
	wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list = batch->sges + index * vqp->cap.max_send_sge;
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = WORD_BYTES};
	wr->num_sge = 1;
}

struct ibv_qp_ex *urxe_verbs_qp_to_qp_ex(struct ibv_qp *qp)
{
	return vqp_of(qp)->batch ? &vqp_of(qp)->ibv : NULL;
}

int urxe_qp_batch_new(struct vqp *vqp)
{
	struct ibv_qp_ex *qp = &vqp->ibv;
	struct qp_batch *batch = calloc(1, sizeof(*batch));
	size_t n = vqp->cap.max_send_wr ? vqp->cap.max_send_wr : 1;

	if (!batch)
		return -ENOMEM;
	if (!vqp->cap.max_send_sge) /* inline data takes one */
		vqp->cap.max_send_sge = 1;
	vqp->batch = batch;
	pthread_mutex_init(&batch->lock, NULL);
	batch->wrs = calloc(n, sizeof(*batch->wrs));
	batch->sges = calloc(n * vqp->cap.max_send_sge, sizeof(*batch->sges));
	batch->inline_room = vqp->cap.max_inline_data;
	if (batch->inline_room < WORD_BYTES)
		batch->inline_room = WORD_BYTES;
	batch->inline_data = malloc(n * batch->inline_room);
	if (!batch->wrs || !batch->sges || !batch->inline_data) {
		urxe_qp_batch_free(vqp);
		return -ENOMEM;
	}
	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_abort = wr_abort;
	qp->wr_send = wr_send;
	qp->wr_send_imm = wr_send_imm;
	qp->wr_send_inv = wr_send_inv;
	qp->wr_set_xrc_srqn = wr_set_xrc_srqn;
	qp->wr_atomic_write = wr_atomic_write;
	qp->wr_local_inv = wr_local_inv;
	qp->wr_bind_mw = wr_bind_mw;
	qp->wr_rdma_write = wr_rdma_write;
	qp->wr_rdma_write_imm = wr_rdma_write_imm;
	qp->wr_rdma_read = wr_rdma_read;
	qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->wr_set_ud_addr = wr_set_ud_addr;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_set_inline_data = wr_set_inline_data;
	qp->wr_set_inline_data_list = wr_set_inline_data_list;
	return 0;
}

void urxe_qp_batch_free(struct vqp *vqp)
{
	struct qp_batch *batch = vqp->batch;

	if (!batch)
		return;
	vqp->batch = NULL;
	free(batch->wrs);
	free(batch->sges);
	free(batch->inline_data);
	pthread_mutex_destroy(&batch->lock);
	free(batch);
}
