/* SPDX-License-Identifier: BSD-2-Clause */
/* A libibverbs with one device, to see what liburxe.so passes on to the real one. */
#include "fake_ibverbs.h"

#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC struct ibv_device fake_device = {.name = "fake0"};
PUBLIC struct ibv_context fake_context = {.device = &fake_device};
PUBLIC struct ibv_pd fake_pd = {.context = &fake_context};
PUBLIC int fake_lists, fake_acks;

PUBLIC struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &fake_device;
	*n = 1;
	fake_lists++;
	return list;
}

PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
	fake_lists--;
}

PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return FAKE_GUID;
}

PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
	return FAKE_INDEX;
}

PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return device == &fake_device ? &fake_context : NULL;
}

PUBLIC int ibv_close_device(struct ibv_context *context)
{
	return context == &fake_context ? FAKE_RESULT : 0;
}

PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return context == &fake_context ? &fake_pd : NULL;
}

PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return pd == &fake_pd ? FAKE_RESULT : 0;
}

PUBLIC int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return FAKE_RESULT;
}

PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
	fake_acks++;
}

PUBLIC int ibv_fork_init(void)
{
	return FAKE_RESULT;
}

PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_ENABLED;
}

PUBLIC const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return FAKE_NAME;
}

PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	strncpy(buf, FAKE_NAME, size);
	return FAKE_RESULT;
}
