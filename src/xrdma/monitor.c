/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/monitor.h"

#include "base/ticks.h"
#include "xrdma/channel.h"
#include "xrdma/log.h"
#include "xrdma/monitor_page.h"
#include "xrdma/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	AT_ONCE = 64,    /* channels, of thousands, in turn */
	LOOKED_AT = 512, /* entries of the table of channels */
	SLOTS_MAX = 65536,
};

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

struct xr_monitor_page {
	int fd;
	struct xr_page_head *head;
	struct xr_page_layout at;
	uint32_t n_counters, n_slots;
	uint32_t cursor;
};

static const char *const hist_names[XR_N_HISTS] = {
	[XR_HIST_RTT] = "rtt",         [XR_HIST_QUEUE] = "queue",   [XR_HIST_WIRE] = "wire",
	[XR_HIST_HANDLER] = "handler", [XR_HIST_SERVED] = "served", [XR_HIST_POLL_GAP] = "poll_gap",
};

static void *part(const struct xr_monitor_page *page, size_t offset)
{
	return (char *)page->head + offset;
}

static struct xr_page_slot *slot_at(const struct xr_monitor_page *page, uint32_t i)
{
	return (struct xr_page_slot *)part(page, page->at.slots) + i;
}

struct xr_hist *xr_monitor_hist(struct xr_monitor_page *page, enum xr_hist_id id)
{
	return (struct xr_hist *)part(page, page->at.hists) + id;
}

struct xr_hist *xr_monitor_channel_rtt(struct xr_monitor_page *page, const struct xrdma_channel *ch)
{
	uint32_t i = xr_channel_index(ch);

	return i < page->n_slots ? &slot_at(page, i)->rtt : NULL;
}

/* ---- opening ---- */

/* Sealed, so that nobody's mapping can lose its pages, nor be written by others. */
static int map_page(struct xr_monitor_page *page)
{
	page->fd = memfd_create(XR_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (page->fd < 0)
		return -errno;
	if (ftruncate(page->fd, (off_t)page->at.bytes))
		return -errno;
	page->head = mmap(NULL, page->at.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd, 0);
	if (page->head == MAP_FAILED) {
		page->head = NULL;
		return -errno;
	}
	(void)fcntl(page->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); /* from Linux 5.1 on */
	return fcntl(page->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? -errno : 0;
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	memset(to + len, 0, size - len);
}

static void fill_names(struct xr_monitor_page *page)
{
	struct xr_page_name *names = part(page, page->at.names);

	for (uint32_t i = 0; i < page->n_counters; i++) {
		copy_text(names[i].text, sizeof(names[i].text), xrdma_stat_name(i));
		names[i].kind = xr_stat_is_gauge(i) ? XR_KIND_GAUGE : XR_KIND_COUNTER;
	}
	for (uint32_t i = 0; i < XR_N_HISTS; i++) {
		struct xr_page_name *n = &names[page->n_counters + i];

		copy_text(n->text, sizeof(n->text), hist_names[i]);
		n->kind = XR_KIND_HIST;
	}
}

static void fill_head(struct xrdma_context *ctx, struct xr_monitor_page *page)
{
	struct xr_page_head *h = page->head;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	h->n_counters = page->n_counters;
	h->n_hists = XR_N_HISTS;
	h->n_slots = page->n_slots;
	h->bytes = page->at.bytes;
	h->pid = (uint32_t)getpid();
	h->context = ctx->number;
	h->incarnation = ctx->incarnation;
	h->opened_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
	copy_text(h->program, sizeof(h->program), program_invocation_short_name);
	copy_text(h->device, sizeof(h->device), ctx->device);
	fill_names(page);
	h->version = XR_PAGE_VERSION;
	/* Last: who finds it finds the rest. */
	atomic_thread_fence(memory_order_release);
	h->magic = XR_PAGE_MAGIC;
}

void xr_monitor_open(struct xrdma_context *ctx)
{
	struct xr_monitor_page *page;
	int ret;

	if (!ctx->conf.monitor)
		return;
	page = calloc(1, sizeof(*page));
	if (!page)
		return;
	ctx->monitor = page;
	page->fd = -1;
	while (xrdma_stat_name(page->n_counters))
		page->n_counters++;
	page->n_slots = ctx->conf.max_channels < SLOTS_MAX ? ctx->conf.max_channels : SLOTS_MAX;
	page->at = xr_page_layout(page->n_counters, XR_N_HISTS, page->n_slots);
	ret = map_page(page);
	if (ret) {
		log_warn("no figures for other processes: shared memory of %zu bytes: %s",
			 page->at.bytes, strerror(-ret));
		xr_monitor_close(ctx);
		return;
	}
	fill_head(ctx, page);
	xr_monitor_publish(ctx);
}

void xr_monitor_close(struct xrdma_context *ctx)
{
	struct xr_monitor_page *page = ctx->monitor;

	if (!page)
		return;
	ctx->monitor = NULL;
	if (page->head)
		munmap(page->head, page->at.bytes);
	if (page->fd >= 0)
		close(page->fd);
	free(page);
}

/* ---- publishing ---- */

static void publish_channel(const struct xr_monitor_page *page, struct xrdma_channel *ch,
			    uint32_t i)
{
	struct xr_page_slot *slot = slot_at(page, i);
	struct xr_page_channel c = {
		.used = 1,
		.handle = ch->handle,
		.dialed = ch->dialed,
		.epoch = ch->bounds.epoch,
		.window = ch->win.size,
		.unacked = xr_window_unacked(&ch->win),
		.queued = ch->queued,
		.posted = xr_flow_outstanding(&ch->flow),
		.held = ch->held,
		.msgs_sent = ch->counts.msgs_sent,
		.bytes_sent = ch->counts.bytes_sent,
		.msgs_received = ch->counts.msgs_received,
		.bytes_received = ch->counts.bytes_received,
		.calls = ch->counts.calls,
	};
	int64_t offset = 0;

	if (xr_peer_clock_offset(&ch->peer_clock, ch->ctx->now, &offset, &c.clock_error_ns) == 0)
		c.clock_offset_ns = (uint64_t)offset;
	copy_text(c.state, sizeof(c.state), xr_channel_state_name(ch->state));
	if (ch->boot)
		copy_text(c.peer, sizeof(c.peer), xr_boot_peer_text(ch->boot));
	else
		memcpy(c.peer, slot->channel.peer, sizeof(c.peer));
	if (slot->channel.used && slot->channel.handle != ch->handle)
		memset(&slot->rtt, 0, sizeof(slot->rtt)); /* another channel's */
	xr_page_write(&slot->seq, &slot->channel, &c, sizeof(c));
}

static void clear_channel(const struct xr_monitor_page *page, uint32_t i)
{
	static const struct xr_page_channel none;
	struct xr_page_slot *slot = slot_at(page, i);

	if (slot->channel.used == 0)
		return;
	xr_page_write(&slot->seq, &slot->channel, &none, sizeof(none));
	memset(&slot->rtt, 0, sizeof(slot->rtt));
}

static void publish_channels(struct xrdma_context *ctx, struct xr_monitor_page *page)
{
	uint32_t n = ctx->n_entries < page->n_slots ? ctx->n_entries : page->n_slots;
	uint32_t look = n < LOOKED_AT ? n : LOOKED_AT, written = 0;

	for (uint32_t k = 0; k < look && written < AT_ONCE; k++) {
		uint32_t i = page->cursor < n ? page->cursor : 0;
		struct xrdma_channel *ch = ctx->entries[i].ch;

		if (ch)
			publish_channel(page, ch, i);
		else
			clear_channel(page, i);
		written += ch != NULL;
		page->cursor = i + 1;
	}
}

void xr_monitor_publish(struct xrdma_context *ctx)
{
	struct xr_monitor_page *page = ctx->monitor;
	struct xr_stats stats;

	if (ctx->trace_file)
		ctx->stats.trace_dropped += xr_trace_file_flush(ctx->trace_file);
	if (!page)
		return;
	xr_stats_read(ctx, &stats);
	xr_page_write(&page->head->seq, part(page, page->at.counters), &stats, sizeof(stats));
	xr_set_relaxed(&page->head->updated_ns, ticks_now_ns());
	publish_channels(ctx, page);
}
