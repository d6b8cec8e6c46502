/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libxrdma in a world of its own: hosts with processes, a clock that only moves when nobody has
 * anything to do, TCP (tcp.c, descriptors in files.c) and NICs (nic*.c) in memory. The library is
 * the real one: what it calls of the system and of verbs is bound to these at link time.
 *
 * One seed makes one run: who talks to whom (app*.c), and which faults strike when (script.c).
 */
#ifndef XSIM_SIM_H
#define XSIM_SIM_H

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_HOSTS = 3, USEC = 1000, MSEC = 1000000 };

#define SEC UINT64_C(1000000000)

struct proc;

struct sim {
	uint64_t seed, now, hash;
	struct rng rng;
	bool trace, failed;
	bool closing;         /* xrdma_close() runs, which waits in a loop: flushes end at once */
	bool keys_refused;    /* peers may use keys that were revoked, or never told */
	struct proc *running; /* whose code is running: sockets and queue pairs are its */
};

extern struct sim sim;

/* ---- time, chance, memory, what happens: sim.c ---- */

void sim_begin(uint64_t seed, bool trace);
void sim_end(void);

/* Until the run ends; zeroed. */
void *sim_new(size_t bytes);

typedef void sim_fire(void *owner, uint64_t arg);
void sim_at(uint64_t due, sim_fire *fire, void *owner, uint64_t arg);
void sim_after(uint64_t wait, sim_fire *fire, void *owner, uint64_t arg);
/* When the next event is due; CLOCK_NEVER: there is none. */
uint64_t sim_next(void);
void sim_fire_due(void);

uint32_t sim_below(uint32_t bound);
uint64_t sim_between(uint64_t low, uint64_t high);
/* True once in n times. */
bool sim_once_in(uint32_t n);

/* Part of the run's hash; printed if asked for. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The run is wrong. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define sim_expect(condition, ...)                                                                 \
	do {                                                                                       \
		if (!(condition))                                                                  \
			sim_fail(__VA_ARGS__);                                                     \
	} while (0)

/* ---- what can be wrong with the way from host to host: script.c sets it ---- */

struct path {
	bool nic_blocked, tcp_blocked;
	uint32_t loss_per_mille; /* of messages of the NIC */
};

struct host {
	struct path to[N_HOSTS];
	bool down; /* its interface: connect() says so */
	uint64_t latency_ns;
	struct list socks;
	struct nic *nic;
};

extern struct host hosts[N_HOSTS];

static inline bool path_open(unsigned from, unsigned to, bool nic)
{
	const struct path *p = &hosts[from].to[to];

	return !(nic ? p->nic_blocked : p->tcp_blocked);
}

/* ---- processes: app.c ---- */

struct proc {
	unsigned host;
	bool dead;
	uint32_t serial;
};

/* ---- descriptors: files.c ---- */

enum file_kind { FILE_EVENT, FILE_TIMER, FILE_EPOLL, FILE_SOCKET, FILE_NIC, FILE_NULL };

struct file {
	enum file_kind kind;
	int fd; /* -1: closed */
	struct proc *proc;
	uint64_t value;      /* of an event, or when a timer is due */
	uint32_t events;     /* of a NIC's channel: EPOLLIN if there are */
	struct list watched; /* of an epoll */
	unsigned turn;
};

void files_begin(void);
/* Gives it a number. */
int file_open(struct file *file, enum file_kind kind);
struct file *file_of(int fd);
/* Takes it out of every epoll. */
void file_close(struct file *file);
unsigned files_open(void);
/* Would epoll_wait() return something? */
bool epoll_has(int fd);
/* When a timer of the set is due next. */
uint64_t epoll_due(int fd);

/* ---- TCP: tcp.c ---- */

struct sock;
void tcp_begin(void);
struct file *tcp_new(void);
uint32_t tcp_events(const struct file *file);
void tcp_close(struct file *file);
/* A reset at both ends, or at one, of every connection between the hosts. */
void tcp_cut(unsigned a, unsigned b, bool both);
/* Sockets that the process has dialed, and over which the peer has not said anything. */
unsigned tcp_unanswered(const struct proc *proc);
/* The process is no more: the system closes its sockets; or the host loses power, and nobody is
 * told. */
void tcp_end(const struct proc *proc, bool power);

/* ---- NICs: nic.c ---- */

struct nic_counts {
	unsigned contexts, pds, cqs, channels, qps, srqs, mrs;
};

/* rereg: rights of a registration can be changed in place. */
void nic_begin(bool reuse_keys, bool rereg);
void nic_end(void);
/* The process is no more: its queue pairs are silent, and it is given no completions. */
void nic_vanish(const struct proc *proc);
/* Queue pairs of the host's NIC do not come to a state (0: they are not made; 1..3: INIT, RTR, RTS)
 * before `until`, for this errno value. */
void nic_refuse(unsigned host, unsigned state, int error, uint64_t until);
/* One queue pair of the process, chosen at random, goes into error. */
void nic_break_one(const struct proc *proc);
struct nic_counts nic_counts(void);

#endif
