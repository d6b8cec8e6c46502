/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: ours is the host's like all other, but addressed by offsets, reached by copying
 * and shared by no pointer, as programs that use it expect.
 */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DM_UNIT = 4, DM_ALIGN = 64, DM_MAX_LOG_ALIGN = 12 };

static struct vdm *dm_of(struct ibv_dm *dm)
{
	return container_of(dm, struct vdm, ibv);
}

static bool in_range(const struct vdm *vdm, uint64_t offset, size_t length)
{
	return offset % DM_UNIT == 0 && length % DM_UNIT == 0 && offset <= vdm->length &&
	       length <= vdm->length - offset;
}

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *host, size_t length)
{
	if (!in_range(dm_of(dm), offset, length))
		return EINVAL;
	memcpy(dm_of(dm)->memory + offset, host, length);
	return 0;
}

static int memcpy_from_dm(void *host, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	if (!in_range(dm_of(dm), offset, length))
		return EINVAL;
	memcpy(host, dm_of(dm)->memory + offset, length);
	return 0;
}

/* No call of the engine, hence no lock: also in the child of a fork, as the kernel has it. */
struct ibv_dm *urxe_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	size_t alignment = DM_ALIGN;
	struct vdm *vdm;

	if (attr->comp_mask || attr->log_align_req > DM_MAX_LOG_ALIGN || !attr->length ||
	    attr->length > URXE_MAX_DM_BYTES) {
		errno = EINVAL;
		return NULL;
	}
	if (alignment < (size_t)1 << attr->log_align_req)
		alignment = (size_t)1 << attr->log_align_req;
	vdm = calloc(1, sizeof(*vdm));
	if (!vdm)
		return NULL;
	vdm->length = attr->length;
	vdm->memory =
		aligned_alloc(alignment, (vdm->length + alignment - 1) / alignment * alignment);
	if (!vdm->memory) {
		free(vdm);
		return NULL;
	}
	memset(vdm->memory, 0, vdm->length);
	vdm->ibv.context = context;
	vdm->ibv.memcpy_to_dm = memcpy_to_dm;
	vdm->ibv.memcpy_from_dm = memcpy_from_dm;
	return &vdm->ibv;
}

int urxe_verbs_free_dm(struct ibv_dm *dm)
{
	struct vdm *vdm = dm_of(dm);

	if (vdm->refs)
		return EBUSY;
	free(vdm->memory);
	free(vdm);
	return 0;
}

struct ibv_mr *urxe_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				    size_t length, unsigned access)
{
	struct vdm *vdm = dm_of(dm);
	struct ibv_mr *mr;

	/* There is no address that it could be known by. */
	if (pd->context != dm->context || !in_range(vdm, offset, length) ||
	    !(access & IBV_ACCESS_ZERO_BASED)) {
		errno = EINVAL;
		return NULL;
	}
	mr = urxe_verbs_reg_mr(pd, vdm->memory + offset, length, 0, access);
	if (!mr)
		return NULL;
	mr->addr = NULL;
	container_of(mr, struct vmr, ibv)->dm = vdm;
	if (urxe_context_lock(urxe_context_of(pd->context))) {
		vdm->refs++;
		urxe_context_unlock(urxe_context_of(pd->context));
	}
	return mr;
}
