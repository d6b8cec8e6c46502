/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors: events, timers, sets of them. Numbers from FIRST on are ours, others the system's.
 */
#include "sim.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { FIRST = 100000, MOST = 4096, LOOKS_AT_ONCE = 100000 };

struct watch {
	struct list link;
	struct file *file;
	struct epoll_event event;
};

static struct file *files[MOST];
static unsigned n_files, n_open;

void files_begin(void)
{
	memset(files, 0, n_files * sizeof(files[0]));
	n_files = n_open = 0;
}

int file_open(struct file *file, enum file_kind kind)
{
	unsigned at = 0;

	while (at < n_files && files[at]) /* the lowest that is free, as ever */
		at++;
	assert(at < MOST);
	if (at == n_files)
		n_files++;
	files[at] = file;
	n_open++;
	file->kind = kind;
	file->fd = FIRST + (int)at;
	file->proc = sim.running;
	list_init(&file->watched);
	return file->fd;
}

struct file *file_of(int fd)
{
	unsigned at = (unsigned)(fd - FIRST);

	return fd >= FIRST && at < n_files ? files[at] : NULL;
}

void file_close(struct file *file)
{
	for (unsigned i = 0; i < n_files; i++) {
		if (!files[i] || files[i]->kind != FILE_EPOLL)
			continue;
		list_for_each_safe (pos, &files[i]->watched) {
			if (container_of(pos, struct watch, link)->file == file)
				list_del(pos);
		}
	}
	files[file->fd - FIRST] = NULL;
	file->fd = -1;
	n_open--;
}

unsigned files_open(void)
{
	return n_open;
}

static uint32_t events_of(const struct file *file)
{
	switch (file->kind) {
	case FILE_EVENT:
		return file->value ? EPOLLIN : 0;
	case FILE_TIMER:
		return file->value <= sim.now ? EPOLLIN : 0;
	case FILE_SOCKET:
		return tcp_events(file);
	case FILE_NIC:
		return file->events;
	default:
		return 0;
	}
}

static uint32_t ready(const struct watch *w)
{
	return events_of(w->file) & (w->event.events | EPOLLERR | EPOLLHUP);
}

bool epoll_has(int fd)
{
	list_for_each (pos, &file_of(fd)->watched) {
		if (ready(container_of(pos, struct watch, link)))
			return true;
	}
	return false;
}

uint64_t epoll_due(int fd)
{
	uint64_t due = CLOCK_NEVER;

	list_for_each (pos, &file_of(fd)->watched) {
		const struct file *f = container_of(pos, struct watch, link)->file;

		if (f->kind == FILE_TIMER && f->value < due)
			due = f->value;
	}
	return due;
}

/* ---- in place of the system's ---- */

static int new_file(enum file_kind kind)
{
	return file_open(sim_new(sizeof(struct file)), kind);
}

int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
	return new_file(FILE_EVENT);
}

int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags)
{
	int fd = new_file(FILE_TIMER);

	file_of(fd)->value = CLOCK_NEVER;
	return fd;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
	uint64_t due = (uint64_t)to->it_value.tv_sec * SEC + (uint64_t)to->it_value.tv_nsec;

	assert(flags == TFD_TIMER_ABSTIME);
	file_of(fd)->value = due ? due : CLOCK_NEVER;
	return 0;
}

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
	return new_file(FILE_EPOLL);
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct file *file = file_of(fd);
	struct watch *w = NULL;

	list_for_each (pos, &file_of(epoll)->watched) {
		if (container_of(pos, struct watch, link)->file == file)
			w = container_of(pos, struct watch, link);
	}
	if (!file || (op == EPOLL_CTL_ADD) == (w != NULL)) {
		errno = !file ? EBADF : w ? EEXIST : ENOENT;
		return -1;
	}
	if (op == EPOLL_CTL_DEL) {
		list_del(&w->link);
		return 0;
	}
	if (op == EPOLL_CTL_ADD) {
		w = sim_new(sizeof(*w));
		list_add_tail(&file_of(epoll)->watched, &w->link);
		w->file = file;
	}
	w->event = *event;
	return 0;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	static uint64_t last, again;
	struct file *e = file_of(epoll);
	int n = 0;

	assert(timeout == 0); /* processes here never sleep in a call */
	again = last == sim.now ? again + 1 : 0;
	last = sim.now;
	assert(again < LOOKS_AT_ONCE); /* in a loop that does not end */
	list_for_each (pos, &e->watched) {
		const struct watch *w = container_of(pos, struct watch, link);
		uint32_t mask = ready(w);

		if (mask && n < most)
			events[n++] = (struct epoll_event){.events = mask, .data = w->event.data};
	}
	/* Who was served goes behind the others. */
	for (int i = 0; i < n && n == most; i++)
		list_add_tail(&e->watched, list_pop(&e->watched));
	return n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct file *file = file_of(fd);

	if (!file)
		return __real_close(fd);
	if (file->kind == FILE_SOCKET)
		tcp_close(file);
	file_close(file);
	return 0;
}

ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	struct file *file = file_of(fd);
	uint64_t count = 1;

	if (!file)
		return __real_read(fd, buf, len);
	assert(len == sizeof(count));
	if (!events_of(file)) {
		errno = EAGAIN;
		return -1;
	}
	if (file->kind == FILE_EVENT)
		count = file->value;
	file->value = file->kind == FILE_EVENT ? 0 : CLOCK_NEVER;
	memcpy(buf, &count, sizeof(count));
	return sizeof(count);
}

ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	struct file *file = file_of(fd);

	if (!file)
		return __real_write(fd, buf, len);
	assert(file->kind == FILE_EVENT);
	file->value++;
	return (ssize_t)len;
}

int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	return 0; /* all here are non-blocking */
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	return strcmp(path, "/dev/null") ? __real_open64(path, flags) : new_file(FILE_NULL);
}
