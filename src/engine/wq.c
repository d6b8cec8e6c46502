/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_ALIGN = 64 };

static uint32_t round_up(size_t n, uint32_t align)
{
	return (uint32_t)((n + align - 1) / align * align);
}

/* Slots from where *memory says; NULL in it afterwards if they are on the heap after all. */
static void *slots_new(const struct urxe_memory **memory, size_t size)
{
	void *p;

	if (*memory) {
		p = (*memory)->alloc((*memory)->arg, size, SLOT_ALIGN);
		if (p != URXE_MEMORY_DEFAULT)
			return p;
		*memory = NULL;
	}
	return aligned_alloc(SLOT_ALIGN, (size + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN);
}

static void slots_free(const struct urxe_memory *memory, void *p)
{
	if (memory && p)
		memory->free(memory->arg, p);
	else
		free(p);
}

int sq_init(struct send_queue *sq, uint32_t depth, uint32_t max_sge, uint32_t max_inline,
	    const struct urxe_memory *memory)
{
	size_t data = max_sge * sizeof(struct ibv_sge);

	if (data < max_inline)
		data = max_inline;
	*sq = (struct send_queue){
		.memory = memory, .depth = depth, .max_sge = max_sge, .max_inline = max_inline};
	sq->stride = round_up(offsetof(struct send_wqe, sge) + data, SLOT_ALIGN);
	if (depth == 0)
		return 0;
	sq->mask = ring_size(depth) - 1;
	sq->slots = slots_new(&sq->memory, (size_t)(sq->mask + 1) * sq->stride);
	return sq->slots ? 0 : -ENOMEM;
}

void sq_fini(struct send_queue *sq)
{
	slots_free(sq->memory, sq->slots);
}

size_t recv_wqe_size(uint32_t max_sge)
{
	size_t size = offsetof(struct recv_wqe, sge) + max_sge * sizeof(struct ibv_sge);

	return size < sizeof(struct recv_wqe) ? sizeof(struct recv_wqe) : size;
}

int rq_init(struct recv_queue *rq, uint32_t depth, uint32_t max_sge,
	    const struct urxe_memory *memory)
{
	*rq = (struct recv_queue){.memory = memory, .depth = depth, .max_sge = max_sge};
	rq->stride = round_up(recv_wqe_size(max_sge), 8);
	if (depth == 0)
		return 0;
	rq->mask = ring_size(depth) - 1;
	rq->slots = slots_new(&rq->memory, (size_t)(rq->mask + 1) * rq->stride);
	return rq->slots ? 0 : -ENOMEM;
}

void rq_fini(struct recv_queue *rq)
{
	slots_free(rq->memory, rq->slots);
}

int rq_post(struct recv_queue *rq, const struct ibv_recv_wr *wr)
{
	struct recv_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return -EINVAL;
	if (rq_count(rq) >= rq->depth)
		return -ENOMEM;
	wqe = (struct recv_wqe *)(void *)(rq->slots + (size_t)(rq->tail & rq->mask) * rq->stride);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	wqe->length = 0;
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		wqe->length += wr->sg_list[i].length;
	}
	rq->tail++;
	return 0;
}
