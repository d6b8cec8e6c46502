/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP between the hosts, whose addresses are 127.0.0.1 and up. What is sent arrives in order, cut
 * anywhere, after a time; what meets a blocked path is sent again until that opens, or the sender's
 * patience (TCP_USER_TIMEOUT, keepalives) ends.
 */
#include "sim.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { BACKLOG = 64, PORT_FIRST = 30000 };

enum sock_state { SOCK_NEW, SOCK_LISTENING, SOCK_CONNECTING, SOCK_OPEN, SOCK_DEAD };

struct segment {
	struct list link;
	uint64_t due;
	uint32_t len;
	bool fin;
	uint8_t data[];
};

struct sock {
	struct file file;
	struct list link; /* of the host */
	unsigned host;
	uint16_t port;
	enum sock_state state;
	bool closed; /* by its process */
	int error;   /* to be told */
	struct sockaddr_in peer_addr;
	struct sock *peer;
	struct list out;      /* segments on their way to the peer */
	uint32_t n_out, room; /* bytes: on their way, and how many may be */
	bool fin_sent, pumping;
	bool dialed, heard; /* by connect(); anything from the peer */
	uint8_t *in;
	uint32_t n_in, in_capacity;
	bool fin;
	uint64_t heard_at, patience;
	struct sock *backlog[BACKLOG];
	unsigned n_backlog;
};

static uint16_t next_port;

void tcp_begin(void)
{
	next_port = PORT_FIRST;
}

static struct sock *sock_of(struct file *file)
{
	return container_of(file, struct sock, file);
}

static struct sock *new_sock(unsigned host)
{
	struct sock *s = sim_new(sizeof(*s));

	s->host = host;
	s->patience = CLOCK_NEVER;
	s->room = (uint32_t)sim_between(256, 65536);
	list_init(&s->out);
	list_add_tail(&hosts[host].socks, &s->link);
	return s;
}

struct file *tcp_new(void)
{
	struct sock *s = new_sock(sim.running->host);

	file_open(&s->file, FILE_SOCKET);
	return &s->file;
}

uint32_t tcp_events(const struct file *file)
{
	const struct sock *s = container_of(file, struct sock, file);
	uint32_t mask = 0;

	if (s->state == SOCK_LISTENING)
		return s->n_backlog ? EPOLLIN : 0;
	if (s->error || s->state == SOCK_DEAD)
		mask |= EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT;
	if (s->n_in || s->fin)
		mask |= EPOLLIN;
	if (s->state == SOCK_OPEN && s->n_out < s->room)
		mask |= EPOLLOUT;
	return mask;
}

static void drop_out(struct sock *s)
{
	while (list_pop(&s->out))
		;
	s->n_out = 0;
}

static void die(struct sock *s, int error)
{
	if (s->state == SOCK_DEAD)
		return;
	sim_note("tcp %u:%u dies: %d", s->host, s->port, error);
	s->state = SOCK_DEAD;
	s->error = error;
	drop_out(s);
}

/* A reset from the other side, if it can come. */
static void reset(void *owner, uint64_t from)
{
	struct sock *s = owner;

	if (path_open((unsigned)from, s->host, false))
		die(s, ECONNRESET);
}

static bool both_ways(const struct sock *s)
{
	return path_open(s->host, s->peer->host, false) && path_open(s->peer->host, s->host, false);
}

/* ---- bytes ---- */

static void take_in(struct sock *s, const struct segment *g)
{
	if (s->n_in + g->len > s->in_capacity) {
		uint8_t *bigger;

		s->in_capacity = 2 * (s->n_in + g->len) + 256;
		bigger = sim_new(s->in_capacity);
		if (s->n_in)
			memcpy(bigger, s->in, s->n_in);
		s->in = bigger;
	}
	if (g->len)
		memcpy(s->in + s->n_in, g->data, g->len);
	s->n_in += g->len;
	s->heard |= g->len > 0;
	s->fin |= g->fin;
}

static void pump(void *owner, uint64_t arg);

static void pump_at(struct sock *s, uint64_t due)
{
	s->pumping = true;
	sim_at(due, pump, s, 0);
}

static void pump(void *owner, uint64_t arg)
{
	struct sock *s = owner;

	s->pumping = false;
	while (!list_empty(&s->out)) {
		struct segment *g = container_of(s->out.next, struct segment, link);

		if (g->due > sim.now) {
			pump_at(s, g->due);
			return;
		}
		if (!both_ways(s)) { /* or the acknowledgement is missing: as good as lost */
			pump_at(s, sim.now + sim_between(200 * MSEC, 1000 * MSEC));
			return;
		}
		s->heard_at = s->peer->heard_at = sim.now;
		if (s->peer->closed || s->peer->state != SOCK_OPEN) {
			if (!g->fin || s->peer->state == SOCK_DEAD)
				die(s, ECONNRESET);
			drop_out(s);
			return;
		}
		list_del(&g->link);
		s->n_out -= g->len;
		take_in(s->peer, g);
	}
}

static void put_out(struct sock *s, const uint8_t *data, uint32_t len, bool fin)
{
	struct segment *g = sim_new(sizeof(*g) + len);
	const struct segment *last = NULL;

	if (!list_empty(&s->out))
		last = container_of(s->out.prev, struct segment, link);
	if (len)
		memcpy(g->data, data, len);
	g->len = len;
	g->fin = fin;
	g->due = sim.now + hosts[s->host].latency_ns + sim_between(0, 50 * USEC);
	if (last && g->due < last->due)
		g->due = last->due;
	list_add_tail(&s->out, &g->link);
	s->n_out += len;
	if (!s->pumping)
		pump_at(s, g->due);
}

static void send_fin(struct sock *s)
{
	if (s->state == SOCK_OPEN && !s->fin_sent)
		put_out(s, NULL, 0, true);
	s->fin_sent = true;
}

/* ---- patience ---- */

static void check_peer(void *owner, uint64_t arg)
{
	struct sock *s = owner;

	if (s->state != SOCK_OPEN || s->closed || s->patience == CLOCK_NEVER)
		return;
	if (both_ways(s)) {
		s->heard_at = sim.now;
		if (s->peer->state == SOCK_DEAD) {
			die(s, ECONNRESET);
			return;
		}
	} else if (sim.now - s->heard_at >= s->patience) {
		die(s, ETIMEDOUT);
		return;
	}
	sim_after(s->patience / 4, check_peer, s, 0);
}

static void connected(struct sock *s)
{
	s->state = SOCK_OPEN;
	s->heard_at = sim.now;
	check_peer(s, 0);
}

unsigned tcp_unanswered(const struct proc *proc)
{
	unsigned n = 0;

	list_for_each (pos, &hosts[proc->host].socks) {
		const struct sock *s = container_of(pos, struct sock, link);

		n += s->file.proc == proc && s->dialed && !s->heard && !s->closed;
	}
	return n;
}

/* ---- ends ---- */

void tcp_close(struct file *file)
{
	struct sock *s = sock_of(file);

	if (s->closed)
		return;
	s->closed = true;
	for (unsigned i = 0; i < s->n_backlog; i++) {
		s->backlog[i]->closed = true;
		sim_after(hosts[s->host].latency_ns, reset, s->backlog[i]->peer, s->host);
	}
	if (s->state == SOCK_OPEN && s->n_in) {
		drop_out(s);
		sim_after(hosts[s->host].latency_ns, reset, s->peer, s->host);
	} else {
		send_fin(s);
	}
	if (s->state != SOCK_OPEN)
		s->state = SOCK_DEAD;
}

void tcp_cut(unsigned a, unsigned b, bool both)
{
	list_for_each (pos, &hosts[a].socks) {
		struct sock *s = container_of(pos, struct sock, link);

		if (s->state != SOCK_OPEN || s->peer->host != b)
			continue;
		die(s, ECONNRESET);
		if (both)
			die(s->peer, ECONNRESET);
	}
}

void tcp_end(const struct proc *proc, bool power)
{
	list_for_each (pos, &hosts[proc->host].socks) {
		struct sock *s = container_of(pos, struct sock, link);

		if (s->file.proc != proc || s->closed)
			continue;
		if (!power) {
			tcp_close(&s->file);
			continue;
		}
		s->closed = true;
		s->state = SOCK_DEAD;
		drop_out(s);
	}
}

/* ---- in place of the system's ---- */

static int fail(int error)
{
	errno = error;
	return -1;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	return family == AF_INET ? tcp_new()->fd : fail(EAFNOSUPPORT);
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	uint32_t ms;

	if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT) {
		memcpy(&ms, value, sizeof(ms));
		sock_of(file_of(fd))->patience = (uint64_t)ms * MSEC;
		check_peer(sock_of(file_of(fd)), 0);
	}
	return 0;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	struct sock *s = sock_of(file_of(fd));

	assert(level == SOL_SOCKET && option == SO_ERROR);
	memcpy(value, &s->error, sizeof(int));
	s->error = 0;
	return 0;
}

static struct sockaddr_in address_of(unsigned host, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host);
	return a;
}

int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct sock *s = sock_of(file_of(fd));
	struct sockaddr_in a = address_of(s->host, s->port);

	memcpy(addr, &a, sizeof(a));
	*len = sizeof(a);
	return 0;
}

int __wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
int __wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct sock *s = sock_of(file_of(fd));

	if (s->state != SOCK_OPEN)
		return fail(ENOTCONN);
	memcpy(addr, &s->peer_addr, sizeof(s->peer_addr));
	*len = sizeof(s->peer_addr);
	return 0;
}

static struct sock *listener_at(unsigned host, uint16_t port)
{
	list_for_each (pos, &hosts[host].socks) {
		struct sock *s = container_of(pos, struct sock, link);

		if (s->state == SOCK_LISTENING && s->port == port)
			return s;
	}
	return NULL;
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock *s = sock_of(file_of(fd));
	struct sockaddr_in a;

	memcpy(&a, addr, sizeof(a));
	s->port = ntohs(a.sin_port);
	return listener_at(s->host, s->port) ? fail(EADDRINUSE) : 0;
}

int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
	sock_of(file_of(fd))->state = SOCK_LISTENING;
	return 0;
}

static void syn_ack(void *owner, uint64_t arg)
{
	struct sock *s = owner;

	if (s->state == SOCK_CONNECTING)
		connected(s);
}

/* The arg counts the repeats. */
static void syn(void *owner, uint64_t n)
{
	struct sock *s = owner, *l, *end;
	unsigned to = (unsigned)(ntohl(s->peer_addr.sin_addr.s_addr) - INADDR_LOOPBACK);

	if (s->state != SOCK_CONNECTING)
		return;
	if (!path_open(s->host, to, false) || !path_open(to, s->host, false)) {
		if (n < 6)
			sim_after(SEC << n, syn, s, n + 1);
		else
			die(s, ETIMEDOUT);
		return;
	}
	l = listener_at(to, ntohs(s->peer_addr.sin_port));
	if (!l || l->n_backlog == BACKLOG) {
		die(s, ECONNREFUSED);
		return;
	}
	end = new_sock(to);
	end->file.fd = -1;
	end->file.proc = l->file.proc;
	end->port = l->port;
	end->peer_addr = address_of(s->host, s->port);
	end->peer = s;
	s->peer = end;
	end->state = SOCK_OPEN;
	end->heard_at = sim.now;
	l->backlog[l->n_backlog++] = end;
	sim_after(hosts[to].latency_ns, syn_ack, s, 0);
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock *s = sock_of(file_of(fd));

	if (hosts[s->host].down)
		return fail(ENETUNREACH);
	memcpy(&s->peer_addr, addr, sizeof(s->peer_addr));
	s->port = next_port++;
	s->state = SOCK_CONNECTING;
	s->dialed = true;
	sim_after(hosts[s->host].latency_ns, syn, s, 0);
	return fail(EINPROGRESS);
}

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock *l = sock_of(file_of(fd)), *s;

	if (l->n_backlog == 0)
		return fail(EAGAIN);
	s = l->backlog[0];
	memmove(l->backlog, l->backlog + 1, --l->n_backlog * sizeof(l->backlog[0]));
	return file_open(&s->file, FILE_SOCKET);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	struct sock *s = sock_of(file_of(fd));
	uint32_t n, first;

	if (s->error) {
		int error = s->error;

		s->error = 0;
		return fail(error);
	}
	if (s->state != SOCK_OPEN || s->fin_sent)
		return fail(EPIPE);
	if (s->n_out >= s->room)
		return fail(EAGAIN);
	n = s->room - s->n_out < len ? s->room - s->n_out : (uint32_t)len;
	first = sim_once_in(2) ? n : 1 + sim_below(n);
	put_out(s, buf, first, false);
	if (first < n)
		put_out(s, (const uint8_t *)buf + first, n - first, false);
	return n;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	struct sock *s = sock_of(file_of(fd));
	uint32_t n = s->n_in < len ? s->n_in : (uint32_t)len;

	if (n) {
		memcpy(buf, s->in, n);
		s->n_in -= n;
		memmove(s->in, s->in + n, s->n_in);
		return n;
	}
	if (s->error) {
		int error = s->error;

		s->error = 0;
		return fail(error);
	}
	return s->fin || s->state == SOCK_DEAD ? 0 : fail(EAGAIN);
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	send_fin(sock_of(file_of(fd)));
	return 0;
}
