/* SPDX-License-Identifier: BSD-2-Clause */
#include "proto.h"

#include "base/be.h"

#include <errno.h>
#include <string.h>

enum {
	DEVICE_BYTES = sizeof(((struct xr_perf_info *)NULL)->device),
	INFO_BYTES = XR_PERF_HEAD_BYTES + 4 + DEVICE_BYTES, /* and 2 for each thread */
	START_BYTES = XR_PERF_HEAD_BYTES + 20,
	REPORT_BYTES = XR_PERF_HEAD_BYTES + 42,
};

enum xr_perf_type xr_perf_head(const void *data, size_t len, uint32_t *ret_number)
{
	const uint8_t *p = data;

	if (len < XR_PERF_HEAD_BYTES || p[0] > XR_PERF_FINISH || p[1] != XR_PERF_VERSION ||
	    get_be16(p + 2))
		return 0;
	*ret_number = get_be32(p + 4);
	return p[0];
}

void xr_perf_put_head(void *data, enum xr_perf_type type, uint32_t number)
{
	uint8_t *p = data;

	p[0] = (uint8_t)type;
	p[1] = XR_PERF_VERSION;
	put_be16(p + 2, 0);
	put_be32(p + 4, number);
}

size_t xr_perf_put_info(void *data, const struct xr_perf_info *info)
{
	uint8_t *p = data;

	xr_perf_put_head(p, XR_PERF_INFO, 0);
	put_be32(p + 8, info->n_threads);
	memcpy(p + 12, info->device, DEVICE_BYTES);
	for (uint32_t i = 0; i < info->n_threads; i++)
		put_be16(p + INFO_BYTES + 2 * i, info->ports[i]);
	return INFO_BYTES + 2 * info->n_threads;
}

int xr_perf_get_info(const void *data, size_t len, struct xr_perf_info *ret_info)
{
	struct xr_perf_info info = {0};
	const uint8_t *p = data;
	uint32_t number;

	if (len < INFO_BYTES || xr_perf_head(p, len, &number) != XR_PERF_INFO)
		return -EPROTO;
	info.n_threads = get_be32(p + 8);
	if (info.n_threads < 1 || info.n_threads > XR_PERF_MAX_THREADS ||
	    len != INFO_BYTES + 2 * info.n_threads)
		return -EPROTO;
	/* Printed, so only what is text. */
	for (unsigned i = 0; i < DEVICE_BYTES - 1 && p[12 + i] > ' ' && p[12 + i] < 127; i++)
		info.device[i] = (char)p[12 + i];
	for (uint32_t i = 0; i < info.n_threads; i++)
		info.ports[i] = get_be16(p + INFO_BYTES + 2 * i);
	*ret_info = info;
	return 0;
}

size_t xr_perf_put_start(void *data, const struct xr_perf_start *start)
{
	uint8_t *p = data;

	xr_perf_put_head(p, XR_PERF_START, 0);
	put_be64(p + 8, start->seed);
	put_be32(p + 16, start->reply_bytes);
	put_be32(p + 20, start->fill);
	put_be32(p + 24, start->verify);
	return START_BYTES;
}

int xr_perf_get_start(const void *data, size_t len, struct xr_perf_start *ret_start)
{
	const uint8_t *p = data;
	struct xr_perf_start start;
	uint32_t number;

	if (len != START_BYTES || xr_perf_head(p, len, &number) != XR_PERF_START)
		return -EPROTO;
	start.seed = get_be64(p + 8);
	start.reply_bytes = get_be32(p + 16);
	start.fill = get_be32(p + 20);
	start.verify = get_be32(p + 24);
	if (start.reply_bytes && start.reply_bytes < XR_PERF_HEAD_BYTES)
		return -EPROTO;
	*ret_start = start;
	return 0;
}

size_t xr_perf_put_report(void *data, const struct xr_perf_report *report)
{
	uint8_t *p = data;

	xr_perf_put_head(p, XR_PERF_FINISH, 0);
	put_be64(p + 8, report->messages);
	put_be64(p + 16, report->bytes);
	put_be64(p + 24, report->wrong);
	put_be32(p + 32, report->number);
	put_be32(p + 36, report->number_wanted);
	put_be64(p + 40, report->fault.offset);
	p[48] = report->fault.wanted;
	p[49] = report->fault.got;
	return REPORT_BYTES;
}

int xr_perf_get_report(const void *data, size_t len, struct xr_perf_report *ret_report)
{
	const uint8_t *p = data;
	uint32_t number;

	if (len != REPORT_BYTES || xr_perf_head(p, len, &number) != XR_PERF_FINISH)
		return -EPROTO;
	*ret_report = (struct xr_perf_report){
		.messages = get_be64(p + 8),
		.bytes = get_be64(p + 16),
		.wrong = get_be64(p + 24),
		.number = get_be32(p + 32),
		.number_wanted = get_be32(p + 36),
		.fault = {get_be64(p + 40), p[48], p[49]},
	};
	return 0;
}
