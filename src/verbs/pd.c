/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, and what hangs on them without protecting: thread and parent domains. */
#include "verbs/context_priv.h"
#include "verbs/objects.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_pd *urxe_verbs_alloc_pd(struct ibv_context *context)
{
	struct urxe_context *ctx = urxe_context_of(context);
	struct vpd *vpd = calloc(1, sizeof(*vpd));
	int ret = -EPERM;

	if (!vpd)
		return NULL;
	if (urxe_context_lock(ctx)) {
		ret = urxe_pd_new(ctx->engine, &vpd->pd);
		urxe_context_unlock(ctx);
	}
	if (ret) {
		free(vpd);
		errno = -ret;
		return NULL;
	}
	vpd->ibv.context = context;
	return &vpd->ibv;
}

static int free_pd(struct vpd *vpd)
{
	return vpd->refs ? -EBUSY : urxe_pd_free(vpd->pd);
}

static int free_parent(struct vpd *vpd)
{
	struct parent *parent = vpd->parent;

	if (vpd->refs || parent->allocated)
		return -EBUSY;
	parent->of->refs--;
	if (parent->td)
		parent->td->refs--;
	free(parent);
	return 0;
}

int urxe_verbs_dealloc_pd(struct ibv_pd *pd)
{
	struct urxe_context *ctx = urxe_context_of(pd->context);
	int ret;

	if (!urxe_context_lock(ctx))
		return EPERM;
	ret = vpd_of(pd)->parent ? free_parent(vpd_of(pd)) : free_pd(vpd_of(pd));
	urxe_context_unlock(ctx);
	if (!ret)
		free(vpd_of(pd));
	return -ret;
}

/*
 * A context has one lock whoever uses it: a thread domain promises what is always paid for.
 * Programs ask for it to have locks left out.
 */
struct ibv_td *urxe_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct vtd *vtd;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	vtd = calloc(1, sizeof(*vtd));
	if (!vtd)
		return NULL;
	vtd->ibv.context = context;
	return &vtd->ibv;
}

int urxe_verbs_dealloc_td(struct ibv_td *td)
{
	struct urxe_context *ctx = urxe_context_of(td->context);
	struct vtd *vtd = container_of(td, struct vtd, ibv);
	bool busy;

	if (!urxe_context_lock(ctx))
		return EPERM;
	busy = vtd->refs;
	urxe_context_unlock(ctx);
	if (busy)
		return EBUSY;
	free(vtd);
	return 0;
}

/* ---- parent domains -------------------------------------------------------------------------- */

/* The upper half of a resource type says whose it is: the kernel's list of drivers has no urxe. */
enum { RESOURCE_WORK_QUEUE = 1 };

static void *parent_alloc(void *arg, size_t size, size_t alignment)
{
	struct vpd *vpd = arg;
	struct parent *parent = vpd->parent;
	void *p =
		parent->alloc(&vpd->ibv, parent->pd_context, size, alignment, RESOURCE_WORK_QUEUE);

	if (p == IBV_ALLOCATOR_USE_DEFAULT)
		return URXE_MEMORY_DEFAULT;
	parent->allocated += p != NULL;
	return p;
}

static void parent_free(void *arg, void *p)
{
	struct vpd *vpd = arg;

	vpd->parent->allocated--;
	vpd->parent->free(&vpd->ibv, vpd->parent->pd_context, p, RESOURCE_WORK_QUEUE);
}

static int check_parent(struct ibv_context *context, const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if (!attr->pd || attr->pd->context != context || vpd_of(attr->pd)->parent ||
	    (attr->td && attr->td->context != context))
		return EINVAL;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

/* Work queues of QPs made in it come from its allocator, which is called under the context's lock.
 */
struct ibv_pd *urxe_verbs_alloc_parent_domain(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr)
{
	struct urxe_context *ctx = urxe_context_of(context);
	struct parent *parent = calloc(1, sizeof(*parent));
	struct vpd *vpd = calloc(1, sizeof(*vpd));
	int error = parent && vpd ? check_parent(context, attr) : ENOMEM;

	if (!error && !urxe_context_lock(ctx))
		error = EPERM;
	if (error) {
		free(parent);
		free(vpd);
		errno = error;
		return NULL;
	}
	parent->of = vpd_of(attr->pd);
	parent->of->refs++;
	if (attr->td) {
		parent->td = container_of(attr->td, struct vtd, ibv);
		parent->td->refs++;
	}
	urxe_context_unlock(ctx);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		parent->alloc = attr->alloc;
		parent->free = attr->free;
		parent->memory = (struct urxe_memory){parent_alloc, parent_free, vpd};
		vpd->memory = &parent->memory;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		parent->pd_context = attr->pd_context;
	vpd->ibv.context = context;
	vpd->pd = parent->of->pd;
	vpd->parent = parent;
	return &vpd->ibv;
}
