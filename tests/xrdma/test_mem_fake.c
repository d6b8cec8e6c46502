/* SPDX-License-Identifier: BSD-2-Clause */
#include "test_mem_fake.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr

struct fake_device fake;

static struct verbs_context context;
static struct ibv_pd pd;

/* -Wl,--wrap=calloc */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (!fake.allocs_to_go)
		return NULL;
	fake.allocs_to_go--;
	return __real_calloc(n, size);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_mr = fake.max_mr;
	attr->max_mr_size = fake.max_mr_bytes;
	return fake.query_error;
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	attr->odp_caps.general_caps = fake.odp_caps ? IBV_ODP_SUPPORT : 0;
	attr->odp_caps.per_transport_caps.rc_odp_caps = fake.odp_caps;
	return fake.query_error;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *in, void *addr, size_t len, uint64_t iova,
				unsigned access)
{
	struct ibv_mr *mr;

	if (!fake.regs_to_go) {
		errno = fake.reg_error;
		return NULL;
	}
	fake.regs_to_go--;
	mr = __real_calloc(1, sizeof(*mr));
	if (!mr)
		abort();
	mr->pd = in;
	mr->context = in->context;
	mr->addr = addr;
	mr->length = len;
	mr->lkey = ++fake.regs;
	mr->rkey = fake.regs << 8;
	fake.mrs++;
	fake.bytes += len;
	fake.last_access = access;
	fake.last_addr = addr;
	fake.last_len = len;
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *in, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(in, addr, len, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	fake.mrs--;
	fake.bytes -= mr->length;
	free(mr);
	return 0;
}

struct ibv_pd *fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.max_mr = INT_MAX;
	fake.max_mr_bytes = UINT64_MAX;
	fake.reg_error = ENOMEM;
	fake.regs_to_go = UINT32_MAX;
	fake.allocs_to_go = UINT32_MAX;
	memset(&context, 0, sizeof(context));
	context.sz = sizeof(context);
	context.query_device_ex = query_device_ex;
	context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pd.context = &context.context;
	return &pd;
}
