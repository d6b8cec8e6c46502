/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended polling interface: one completion at a time, read field by field. */
#include "base/clock.h"
#include "verbs/context_priv.h"

#include <errno.h>
#include <time.h>

static struct vcq *of(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct vcq, ibv);
}

static int take_one(struct vcq *vcq)
{
	int got = urxe_cq_take_one(vcq);

	if (got < 0)
		return -got;
	if (!got)
		return ENOENT;
	vcq->ibv.status = vcq->wc.status;
	vcq->ibv.wr_id = vcq->wc.wr_id;
	return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct vcq *vcq = of(cq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	if (!vcq->single_threaded)
		pthread_mutex_lock(&vcq->poll_lock);
	ret = take_one(vcq);
	if (ret && !vcq->single_threaded) /* ibv_end_poll() is not called then */
		pthread_mutex_unlock(&vcq->poll_lock);
	return ret;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	return take_one(of(cq));
}

static void end_poll(struct ibv_cq_ex *cq)
{
	if (!of(cq)->single_threaded)
		pthread_mutex_unlock(&of(cq)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return of(cq)->wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return of(cq)->completion_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec -
	       (clock_now_ns() - of(cq)->completion_ns);
}

void urxe_cq_fill_ex(struct vcq *vcq, uint64_t wc_flags)
{
	struct ibv_cq_ex *cq = &vcq->ibv;

	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_byte_len = read_byte_len;
	cq->read_imm_data = read_imm_data;
	cq->read_qp_num = read_qp_num;
	cq->read_src_qp = read_src_qp;
	cq->read_wc_flags = read_wc_flags;
	cq->read_slid = read_slid;
	cq->read_sl = read_sl;
	cq->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
