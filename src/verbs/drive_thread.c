/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The driver thread: one per process, started with the first QP. It sleeps until a doorbell rings,
 * a UDP packet comes for a context that does not poll its sockets, a timer is due or somebody
 * kicks it; while some context is POLLED it also wakes once a tick.
 *
 * It is never stopped: at exit() it goes with the process, and touches nothing that exit frees.
 */
#include "verbs/drive_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "verbs/port.h"
#include "verbs/settings.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_EVENTS = 16,
	LONG_YIELD_NS = 50000, /* somebody else wanted the processor */
	SPIN_REST_NS = 100000000,
	SLICE_NS = 100000,
	LOCK_RETRY_NS = 50000, /* somebody else is in the context just now */
};

enum source {
	SOURCE_KICK,
	SOURCE_SHM,
	SOURCE_UDP,
	SOURCE_PORT,
};

static struct {
	pthread_mutex_t lock; /* the list, and every context on it stays while it is held */
	struct list contexts;
	bool started;
	uint64_t last_id;
	int epoll_fd;
	int kick_fd;
	atomic_bool kicked;
	/* The thread's own: how long it spins now, and until when not at all. */
	unsigned spin_us;
	uint64_t rest_until_ns;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .contexts = {&driver.contexts, &driver.contexts},
	    .epoll_fd = -1,
	    .kick_fd = -1};

unsigned urxe_fork_generation;

unsigned urxe_driver_spin_us(void)
{
	static atomic_uint processors;
	unsigned n = atomic_load_explicit(&processors, memory_order_relaxed);

	if (!n) {
		n = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
		atomic_store_explicit(&processors, n, memory_order_relaxed);
	}
	return n > 1 ? urxe_settings()->spin_us : 0;
}

void urxe_driver_kick(void)
{
	const uint64_t one = 1;

	if (atomic_exchange_explicit(&driver.kicked, true, memory_order_acq_rel))
		return;
	if (write(driver.kick_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static int watch(int op, int fd, uint32_t events, uint64_t id, enum source source)
{
	struct epoll_event ev = {.events = events, .data.u64 = id << 2 | source};

	return epoll_ctl(driver.epoll_fd, op, fd, &ev) ? -errno : 0;
}

/* One-shot: a context that polls its own sockets shall not wake the thread with every packet. */
void urxe_driver_watch_udp(struct urxe_context *ctx)
{
	watch(EPOLL_CTL_MOD, urxe_udp_fd(ctx->udp), EPOLLIN | EPOLLONESHOT, ctx->drive.id,
	      SOURCE_UDP);
}

int urxe_driver_add_udp(struct urxe_context *ctx)
{
	return watch(EPOLL_CTL_ADD, urxe_udp_fd(ctx->udp), EPOLLIN | EPOLLONESHOT, ctx->drive.id,
		     SOURCE_UDP);
}

/* ---- serving --------------------------------------------------------------------------------- */

/*
 * Before the thread sleeps, peers are told to ring, and the next deadline is noted. False:
 * something came meanwhile.
 *
 * While packets come and go the deadline may be an old one, of a request that has been
 * acknowledged: it wakes the thread for nothing once. Exact, it would often be never, and then each
 * new request would kick the thread.
 */
static bool prepare_sleep(struct urxe_context *ctx)
{
	struct drive *d = &ctx->drive;

	if (!urxe_shm_arm(ctx->shm))
		return false;
	d->armed = true;
	d->alarm_ns =
		d->active ? urxe_engine_deadline(ctx->engine) : urxe_engine_alarm(ctx->engine);
	d->active = false;
	if (ctx->udp)
		urxe_driver_watch_udp(ctx);
	return true;
}

/* Returns whether there was, or is, anything to do. */
static bool serve_locked(struct urxe_context *ctx, uint64_t now, bool before_sleep)
{
	struct drive *d = &ctx->drive;
	bool busy;

	d->now_ns = now; /* given, so the timers are looked at */
	urxe_drive_take_over(ctx);
	if (d->armed && !before_sleep) {
		urxe_shm_disarm(ctx->shm);
		d->armed = false;
	}
	busy = urxe_drive_progress(ctx);
	if (before_sleep && !busy)
		busy = !prepare_sleep(ctx);
	return busy;
}

/*
 * Returns whether there was anything to do; lowers *wake_ns to when this context needs the thread
 * again.
 */
static bool serve(struct urxe_context *ctx, uint64_t now, bool before_sleep, uint64_t *wake_ns)
{
	struct drive *d = &ctx->drive;
	unsigned long polls = atomic_load_explicit(&d->polls, memory_order_relaxed);
	bool polled = atomic_load_explicit(&d->mode, memory_order_relaxed) == DRIVE_POLLED;
	bool event = atomic_load_explicit(&d->shm_event, memory_order_relaxed);
	bool moved = polls != d->seen_polls;
	bool busy = false;
	uint64_t wake;

	if (moved) {
		d->seen_polls = polls;
		d->seen_polls_ns = now;
	}
	if (!event && polled && now - d->seen_polls_ns < DRIVE_TICK_NS) {
		wake = d->seen_polls_ns + DRIVE_TICK_NS;
	} else if (!event && moved && !before_sleep) {
		wake = now + LOCK_RETRY_NS; /* served by who polls */
	} else if (!lock_try(&ctx->lock)) {
		wake = now + LOCK_RETRY_NS;
	} else {
		busy = serve_locked(ctx, now, before_sleep);
		wake = d->alarm_ns;
		lock_give(&ctx->lock);
	}
	if (wake < *wake_ns)
		*wake_ns = wake;
	return busy;
}

static bool serve_all(bool before_sleep, uint64_t *ret_wake_ns)
{
	uint64_t now = clock_now_ns();
	bool busy = false;

	*ret_wake_ns = CLOCK_NEVER;
	pthread_mutex_lock(&driver.lock);
	list_for_each (pos, &driver.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, drive.node);

		busy |= serve(ctx, now, before_sleep, ret_wake_ns);
	}
	pthread_mutex_unlock(&driver.lock);
	return busy;
}

/* Give way once. False: others want the processor so much that spinning harms. */
static bool give_way(uint64_t now)
{
	uint64_t back;

	sched_yield();
	back = clock_now_ns();
	if (back - now < LONG_YIELD_NS)
		return true;
	driver.rest_until_ns = back + SPIN_REST_NS;
	return false;
}

/*
 * Go on for a while after work has been done: what comes soon then costs no wake-up. Spinning that
 * found nothing makes the next while shorter.
 */
static void serve_while_busy(void)
{
	unsigned max_us = urxe_driver_spin_us();
	bool worked = false, found = false;
	uint64_t wake_ns, now, quiet_since = 0;

	for (;;) {
		bool busy = serve_all(false, &wake_ns);

		now = clock_now_ns();
		if (busy) {
			found = found || (worked && quiet_since);
			worked = true;
			quiet_since = 0;
			continue;
		}
		if (!worked || now < driver.rest_until_ns)
			return;
		if (!quiet_since)
			quiet_since = now;
		if (now - quiet_since >= driver.spin_us * NSEC_PER_USEC)
			break;
		if (!give_way(now))
			return;
	}
	driver.spin_us = found ? driver.spin_us * 2 + 1 : driver.spin_us / 2 + 1;
	if (driver.spin_us > max_us)
		driver.spin_us = max_us;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void note_event(uint64_t id, enum source source)
{
	pthread_mutex_lock(&driver.lock);
	list_for_each (pos, &driver.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, drive.node);

		if (ctx->drive.id == id)
			atomic_store_explicit(source == SOURCE_SHM ? &ctx->drive.shm_event
								   : &ctx->drive.udp_event,
					      true, memory_order_relaxed);
	}
	pthread_mutex_unlock(&driver.lock);
}

static int wait_until(uint64_t wake_ns, struct epoll_event *events)
{
	uint64_t now = clock_now_ns();
	uint64_t left_ns = wake_ns > now ? wake_ns - now : 0;
	struct timespec timeout = {.tv_sec = (time_t)(left_ns / NSEC_PER_SEC),
				   .tv_nsec = (long)(left_ns % NSEC_PER_SEC)};
	int n = epoll_pwait2(driver.epoll_fd, events, MAX_EVENTS,
			     wake_ns == CLOCK_NEVER ? NULL : &timeout, NULL);

	if (n >= 0 || (errno != ENOSYS && errno != EPERM))
		return n;
	/* Linux before 5.11, or a sandbox that does not know the call: whole milliseconds. */
	return epoll_wait(driver.epoll_fd, events, MAX_EVENTS,
			  wake_ns == CLOCK_NEVER ? -1
						 : (int)(left_ns / NSEC_PER_MSEC % INT32_MAX) + 1);
}

static void sleep_until(uint64_t wake_ns)
{
	struct epoll_event events[MAX_EVENTS];
	int n = wait_until(wake_ns, events);
	uint64_t count;

	for (int i = 0; i < n; i++) {
		enum source source = (enum source)(events[i].data.u64 & 3);

		if (source == SOURCE_PORT) {
			urxe_port_service();
			continue;
		}
		if (source != SOURCE_KICK) {
			note_event(events[i].data.u64 >> 2, source);
			continue;
		}
		/*
		 * In this order: who finds the flag still up has done before it what the next round
		 * looks at; who finds it down writes again.
		 */
		if (read(driver.kick_fd, &count, sizeof(count)) < 0)
			log_debug("driver: kick: %s", strerror(errno));
		atomic_exchange_explicit(&driver.kicked, false, memory_order_acq_rel);
	}
}

/*
 * The thread runs for some microseconds at a time, and an application that spins on memory waits
 * for what it does: ask for short slices, with which it may interrupt such a one (Linux 6.12; no
 * privilege is needed, and older kernels ignore it).
 */
static void ask_for_short_slices(void)
{
	/* As sched_setattr(2) has it; <linux/sched/types.h> and <sched.h> cannot be used at once.
	 */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SLICE_NS};

	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	attr.nice = getpriority(PRIO_PROCESS, 0);
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		log_debug("driver: sched_setattr: %s", strerror(errno));
}

static void *driver_main(void *arg)
{
	uint64_t wake_ns;

	ask_for_short_slices();
	prctl(PR_SET_TIMERSLACK, 1UL); /* timers of some microseconds are meant so */
	driver.spin_us = urxe_driver_spin_us();
	for (;;) {
		serve_while_busy();
		if (!serve_all(true, &wake_ns))
			sleep_until(wake_ns);
	}
	return NULL;
}

/* exit() without destroying anything. Whoever is in a context just now answers for it. */
__attribute__((destructor)) static void finish_all(void)
{
	if (!driver.started || pthread_mutex_trylock(&driver.lock))
		return;
	list_for_each (pos, &driver.contexts) {
		struct urxe_context *ctx = container_of(pos, struct urxe_context, drive.node);

		if (!lock_try(&ctx->lock))
			continue;
		urxe_drive_finish(ctx);
		lock_give(&ctx->lock);
	}
	pthread_mutex_unlock(&driver.lock);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* The child of a fork has no driver thread; what it opens itself gets a new one. */
static void after_fork_in_child(void)
{
	urxe_fork_generation++;
	pthread_mutex_init(&driver.lock, NULL);
	list_init(&driver.contexts);
	if (driver.started) {
		close(driver.epoll_fd);
		close(driver.kick_fd);
	}
	driver.started = false;
	atomic_store_explicit(&driver.kicked, false, memory_order_relaxed);
	urxe_port_after_fork();
}

static void register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

void urxe_driver_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork_handler);
}

static int start_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the application's */
	ret = pthread_create(&thread, NULL, driver_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	pthread_setname_np(thread, "urxe");
	pthread_detach(thread);
	return 0;
}

static int start(void)
{
	int ret;

	driver.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (driver.epoll_fd < 0)
		return -errno;
	driver.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (driver.kick_fd < 0) {
		ret = -errno;
		goto err_close_epoll;
	}
	ret = watch(EPOLL_CTL_ADD, driver.kick_fd, EPOLLIN, 0, SOURCE_KICK);
	if (!ret)
		ret = start_thread();
	if (ret)
		goto err_close_kick;
	driver.started = true;
	return 0;

err_close_kick:
	close(driver.kick_fd);
err_close_epoll:
	close(driver.epoll_fd);
	return ret;
}

static int start_once(void)
{
	return driver.started ? 0 : start();
}

int urxe_driver_watch_port(int fd)
{
	int ret;

	pthread_mutex_lock(&driver.lock);
	ret = start_once();
	if (!ret)
		ret = watch(EPOLL_CTL_ADD, fd, EPOLLIN, 0, SOURCE_PORT);
	pthread_mutex_unlock(&driver.lock);
	return ret;
}

int urxe_driver_join(struct urxe_context *ctx)
{
	int ret;

	pthread_mutex_lock(&driver.lock);
	ret = start_once();
	/*
	 * Reported once: an event whose context is locked just now must not keep the thread from
	 * sleeping until it is free, least of all on the processor of the one who has it.
	 */
	if (!ret) {
		ctx->drive.id = ++driver.last_id;
		ret = watch(EPOLL_CTL_ADD, urxe_shm_fd(ctx->shm), EPOLLIN | EPOLLET, ctx->drive.id,
			    SOURCE_SHM);
	}
	if (!ret)
		list_add_tail(&driver.contexts, &ctx->drive.node);
	pthread_mutex_unlock(&driver.lock);
	if (!ret)
		urxe_driver_kick();
	return ret;
}

void urxe_driver_leave(struct urxe_context *ctx)
{
	pthread_mutex_lock(&driver.lock);
	if (list_linked(&ctx->drive.node)) {
		list_del(&ctx->drive.node);
		epoll_ctl(driver.epoll_fd, EPOLL_CTL_DEL, urxe_shm_fd(ctx->shm), NULL);
		if (ctx->udp)
			epoll_ctl(driver.epoll_fd, EPOLL_CTL_DEL, urxe_udp_fd(ctx->udp), NULL);
	}
	pthread_mutex_unlock(&driver.lock);
}
