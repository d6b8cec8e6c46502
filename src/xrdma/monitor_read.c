/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/monitor_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10000 };

struct xr_monitor {
	const char *base;
	struct xr_page_layout at;
	struct xr_monitor_info info;
	ino_t inode;
	struct xr_page_name *names; /* our copies, checked */
};

/* ---- opening ---- */

static void copy_printable(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	memset(to + i, 0, size - i);
}

/* Names go into what other programs parse. */
static bool name_is_good(const struct xr_page_name *n)
{
	size_t len = strnlen(n->text, sizeof(n->text));

	return len > 0 && len < sizeof(n->text) &&
	       strspn(n->text, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

static int take_names(struct xr_monitor *m)
{
	uint32_t n = m->info.n_counters + m->info.n_hists;

	m->names = malloc((n + 1) * sizeof(*m->names));
	if (!m->names)
		return -ENOMEM;
	memcpy(m->names, m->base + m->at.names, n * sizeof(*m->names));
	for (uint32_t i = 0; i < n; i++) {
		if (!name_is_good(&m->names[i]))
			return -EPROTO;
	}
	return 0;
}

static int take_head(struct xr_monitor *m, uint64_t bytes)
{
	struct xr_page_head h;

	memcpy(&h, m->base, sizeof(h)); /* it may change under us: only this copy is looked at */
	if (h.magic != XR_PAGE_MAGIC)
		return -EINVAL;
	if (h.version != XR_PAGE_VERSION)
		return -EPROTONOSUPPORT;
	if (h.n_counters > XR_PAGE_MAX_NAMES || h.n_hists > XR_PAGE_MAX_NAMES ||
	    h.n_slots > XR_PAGE_MAX_SLOTS)
		return -EPROTO;
	m->at = xr_page_layout(h.n_counters, h.n_hists, h.n_slots);
	if (m->at.bytes != bytes || h.bytes != bytes)
		return -EPROTO;
	m->info.context = h.context;
	m->info.n_counters = h.n_counters;
	m->info.n_hists = h.n_hists;
	m->info.n_slots = h.n_slots;
	m->info.incarnation = h.incarnation;
	m->info.opened_ns = h.opened_ns;
	copy_printable(m->info.program, h.program, sizeof(h.program));
	copy_printable(m->info.device, h.device, sizeof(h.device));
	return take_names(m);
}

int xr_monitor_map(int fd, pid_t pid, struct xr_monitor **ret_m)
{
	int seals = fcntl(fd, F_GET_SEALS), ret;
	struct xr_monitor *m;
	struct stat st;
	void *base;

	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return -EINVAL;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct xr_page_head))
		return -EINVAL;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	m = calloc(1, sizeof(*m));
	if (!m) {
		munmap(base, (size_t)st.st_size);
		return -ENOMEM;
	}
	m->base = base;
	m->at.bytes = (size_t)st.st_size;
	m->info.pid = pid;
	m->inode = st.st_ino;
	ret = take_head(m, (uint64_t)st.st_size);
	if (ret) {
		m->at.bytes = (size_t)st.st_size;
		xr_monitor_unmap(m);
		return ret;
	}
	*ret_m = m;
	return 0;
}

void xr_monitor_unmap(struct xr_monitor *m)
{
	if (!m)
		return;
	munmap((void *)(uintptr_t)m->base, m->at.bytes);
	free(m->names);
	free(m);
}

/* ---- finding ---- */

struct found {
	struct xr_monitor **list;
	int n, room;
};

/* A child that did not exec has the page of its parent open too: who comes first counts. */
static bool known(const struct found *f, ino_t inode)
{
	for (int i = 0; i < f->n; i++) {
		if (f->list[i]->inode == inode)
			return true;
	}
	return false;
}

static void add(struct found *f, struct xr_monitor *m)
{
	if (f->n == f->room) {
		int room = f->room ? f->room * 2 : 16;
		struct xr_monitor **list = realloc(f->list, (size_t)room * sizeof(*list));

		if (!list) {
			xr_monitor_unmap(m);
			return;
		}
		f->list = list;
		f->room = room;
	}
	f->list[f->n++] = m;
}

static void look_at(struct found *f, int dir, const char *name, pid_t pid)
{
	static const char wanted[] = "/memfd:" XR_PAGE_NAME " (deleted)";
	char target[sizeof(wanted) + 1];
	struct xr_monitor *m;
	ssize_t len = readlinkat(dir, name, target, sizeof(target));
	int fd;

	if (len != (ssize_t)sizeof(wanted) - 1 || memcmp(target, wanted, sizeof(wanted) - 1) != 0)
		return;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (xr_monitor_map(fd, pid, &m) == 0) {
		if (known(f, m->inode))
			xr_monitor_unmap(m);
		else
			add(f, m);
	}
	close(fd);
}

static void look_at_process(struct found *f, const char *name)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", name);
	dir = opendir(path);
	if (!dir)
		return;
	while ((e = readdir(dir)))
		look_at(f, dirfd(dir), e->d_name, (pid_t)atoi(name));
	closedir(dir);
}

static int by_process(const void *a, const void *b)
{
	const struct xr_monitor_info *x = &(*(struct xr_monitor *const *)a)->info;
	const struct xr_monitor_info *y = &(*(struct xr_monitor *const *)b)->info;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->context < y->context ? -1 : x->context > y->context;
}

int xr_monitor_find(struct xr_monitor ***ret_list)
{
	DIR *proc = opendir("/proc");
	struct found f = {0};
	struct dirent *e;

	if (!proc)
		return -errno;
	while ((e = readdir(proc))) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			look_at_process(&f, e->d_name);
	}
	closedir(proc);
	if (f.n)
		qsort(f.list, (size_t)f.n, sizeof(*f.list), by_process);
	*ret_list = f.list;
	return f.n;
}

void xr_monitor_free_list(struct xr_monitor **list, int n)
{
	for (int i = 0; i < n; i++)
		xr_monitor_unmap(list[i]);
	free(list);
}

/* ---- reading ---- */

const struct xr_monitor_info *xr_monitor_info(const struct xr_monitor *m)
{
	return &m->info;
}

static const struct xr_page_head *head(const struct xr_monitor *m)
{
	return (const struct xr_page_head *)(const void *)m->base;
}

uint64_t xr_monitor_updated_ns(const struct xr_monitor *m)
{
	return xr_relaxed(&head(m)->updated_ns);
}

const char *xr_monitor_counter_name(const struct xr_monitor *m, uint32_t i)
{
	return m->names[i].text;
}

enum xr_page_kind xr_monitor_counter_kind(const struct xr_monitor *m, uint32_t i)
{
	return m->names[i].kind == XR_KIND_GAUGE ? XR_KIND_GAUGE : XR_KIND_COUNTER;
}

const char *xr_monitor_hist_name(const struct xr_monitor *m, uint32_t i)
{
	return m->names[m->info.n_counters + i].text;
}

/* Words under a seq. A writer that was stopped in the middle keeps us no longer than TRIES. */
static int read_words(const _Atomic uint64_t *seq, const void *from, void *to, size_t bytes)
{
	const _Atomic uint64_t *in = from;
	uint64_t *out = to;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = atomic_load_explicit(seq, memory_order_acquire);

		if (before & 1)
			continue;
		for (size_t k = 0; k < bytes / sizeof(*out); k++)
			out[k] = xr_relaxed(&in[k]);
		atomic_thread_fence(memory_order_acquire);
		if (xr_relaxed(seq) == before)
			return 0;
	}
	return -EAGAIN;
}

int xr_monitor_counters(const struct xr_monitor *m, uint64_t *ret_values)
{
	return read_words(&head(m)->seq, m->base + m->at.counters, ret_values,
			  m->info.n_counters * sizeof(*ret_values));
}

void xr_monitor_hist_copy(const struct xr_monitor *m, uint32_t i, struct xr_hist_copy *ret_copy)
{
	xr_hist_read((const struct xr_hist *)(const void *)(m->base + m->at.hists) + i, ret_copy);
}

int xr_monitor_channel(const struct xr_monitor *m, uint32_t i, struct xr_page_channel *ret_ch,
		       struct xr_hist_copy *ret_rtt)
{
	const struct xr_page_slot *slot =
		(const struct xr_page_slot *)(const void *)(m->base + m->at.slots) + i;
	struct xr_page_channel c;
	int ret = read_words(&slot->seq, &slot->channel, &c, sizeof(c));

	if (ret)
		return ret;
	if (!c.used)
		return -ENOENT;
	*ret_ch = c;
	copy_printable(ret_ch->state, c.state, sizeof(c.state));
	copy_printable(ret_ch->peer, c.peer, sizeof(c.peer));
	if (ret_rtt)
		xr_hist_read(&slot->rtt, ret_rtt);
	return 0;
}
