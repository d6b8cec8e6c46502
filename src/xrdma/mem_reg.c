/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mem_reg.h"

#include "xrdma/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static bool odp_offered(struct ibv_context *context)
{
	const uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	struct ibv_device_attr_ex attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_device_ex(context, NULL, &attr))
		return false;
	return attr.odp_caps.general_caps & IBV_ODP_SUPPORT &&
	       (attr.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

int xr_reg_init(struct xr_reg *reg, struct ibv_pd *pd, enum xr_odp odp)
{
	struct ibv_device_attr attr;
	int err = ibv_query_device(pd->context, &attr);

	if (err)
		return xr_error(-err, "the device does not tell its limits: %s", strerror(err));
	memset(reg, 0, sizeof(*reg));
	reg->pd = pd;
	reg->limits.max_mr = (uint64_t)attr.max_mr;
	reg->limits.max_mr_bytes = attr.max_mr_size;
	reg->odp = odp != XR_ODP_OFF && odp_offered(pd->context);
	if (odp == XR_ODP_REQUIRE && !reg->odp)
		return xr_error(-EOPNOTSUPP,
				"the device does not offer on-demand paging for sends, receives, "
				"READs and WRITEs of reliable connections: set odp off");
	return 0;
}

static uint64_t limit_bytes(rlim_t limit)
{
	return limit == RLIM_INFINITY ? XR_UNLIMITED : limit;
}

/* What locked and pinned memory there is: either may be what the kernel counts. */
static uint64_t locked_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t kib, sum = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1 ||
		    sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			sum += kib * 1024;
	fclose(f);
	return sum;
}

/* Is there a page in it that is not mapped? MS_ASYNC does nothing but look. */
static bool has_hole(void *addr, size_t len)
{
	size_t before = (uintptr_t)addr & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	return msync((char *)addr - before, len + before, MS_ASYNC) && errno == ENOMEM;
}

static int explain(struct xr_reg *reg, int err, void *addr, size_t len)
{
	struct rlimit memlock = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

	/* With ibv_fork_init() a hole is ENOMEM: madvise() comes across it first. */
	if (err == -ENOMEM && has_hole(addr, len))
		err = -EFAULT;
	getrlimit(RLIMIT_MEMLOCK, &memlock);
	reg->limits.memlock_bytes = limit_bytes(memlock.rlim_cur);
	reg->limits.memlock_max_bytes = limit_bytes(memlock.rlim_max);
	reg->limits.locked_bytes = locked_bytes();
	return xr_limits_explain(&reg->limits, err, reg->mrs, len);
}

static int try_reg(struct xr_reg *reg, void *addr, size_t len, unsigned access,
		   struct ibv_mr **ret_mr)
{
	int err = xr_limits_check(&reg->limits, reg->mrs, len);
	struct ibv_mr *mr;

	if (err)
		return err;
	errno = 0;
	mr = ibv_reg_mr(reg->pd, addr, len, access);
	if (!mr)
		return explain(reg, errno ? -errno : -EIO, addr, len);
	reg->mrs++;
	reg->bytes += len;
	reg->odp_made += (access & IBV_ACCESS_ON_DEMAND) != 0;
	*ret_mr = mr;
	return 0;
}

int xr_reg_mr(struct xr_reg *reg, void *addr, size_t len, unsigned access, enum xr_reg_path path,
	      struct ibv_mr **ret_mr)
{
	const unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	int ret;

	/* IBA 10.6.3.1: whoever lets peers write must itself be allowed to. */
	if (access & remote_writes && !(access & IBV_ACCESS_LOCAL_WRITE))
		return xr_error(-EINVAL, "a region that peers may write to must be locally "
					 "writable, too: give it both rights");
	if (path == XR_COLD && reg->odp)
		access |= IBV_ACCESS_ON_DEMAND;
	do
		ret = try_reg(reg, addr, len, access, ret_mr);
	while (ret == -ENOMEM && reg->reclaim && reg->reclaim(reg->arg));
	return ret;
}

void xr_reg_dereg(struct xr_reg *reg, struct ibv_mr *mr)
{
	reg->mrs--;
	reg->bytes -= mr->length;
	ibv_dereg_mr(mr);
}

bool xr_reg_withdraw(struct ibv_mr *mr)
{
	uint32_t rkey = mr->rkey;

	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == 0 &&
	       mr->rkey == rkey; /* devices may give it another key */
}
