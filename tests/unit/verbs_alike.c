/* SPDX-License-Identifier: BSD-2-Clause */
/* What devices in memory, in place of libibverbs, have alike: tests/fuzz, tests/xsim. */
#include <infiniband/verbs.h>
#include <stdio.h>

#undef ibv_query_port
#undef ibv_reg_mr

void ibv_free_device_list(struct ibv_device **list)
{
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *full = (struct ibv_port_attr *)attr;

	full->state = IBV_PORT_ACTIVE;
	full->active_mtu = IBV_MTU_1024;
	full->gid_tbl_len = 1;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	cq->cqe = cqe;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return "event";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static char text[32];

	snprintf(text, sizeof(text), "completion status %d", (int)status);
	return text;
}

int ibv_fork_init(void)
{
	return 0;
}
