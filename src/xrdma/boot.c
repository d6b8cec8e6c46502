/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a bootstrap connection: waiting, addresses tried in turn, TLS, open, dead. */
#include "xrdma/boot.h"

#include "base/clock.h"
#include "xrdma/boot_priv.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BUDGET_BYTES = 256 * 1024 }; /* read in one call, so that one peer does not hold up others */

uint64_t xr_boot_timeout_ns(const struct xr_boot *boot)
{
	return boot->world->conf.connect_timeout_ms * NSEC_PER_MSEC;
}

static void count(struct xr_boot *boot, uint32_t *among)
{
	boot->counted = among;
	++*among;
}

void xr_boot_uncount(struct xr_boot *boot)
{
	if (boot->counted)
		--*boot->counted;
	boot->counted = NULL;
}

int xr_boot_die(struct xr_boot *boot, int err)
{
	if (boot->state != XR_BOOT_DEAD) {
		snprintf(boot->why, sizeof(boot->why), "%s: %s", boot->peer_text,
			 xrdma_last_error());
		boot->state = XR_BOOT_DEAD;
		boot->err = err;
		boot->more = false;
		boot->world->n_failed++;
		xr_boot_uncount(boot);
	}
	return boot->err;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

int xr_boot_socket_options(int fd, const struct xr_conf *conf)
{
	int on = 1, probes = 4;
	int idle = (int)(conf->peer_timeout_ms / 2000), step = (int)(conf->peer_timeout_ms / 8000);

	idle = idle ? idle : 1;
	step = step ? step : 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof(step)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &conf->peer_timeout_ms,
		       sizeof(conf->peer_timeout_ms)))
		return xr_error(-errno, "a TCP option cannot be set: %s", strerror(errno));
	return 0;
}

/* NULL: no memory. */
static struct xr_boot *new_boot(struct xr_boot_world *world, enum xr_tls_role role, int fd,
				uint64_t now)
{
	struct xr_boot *boot = calloc(1, sizeof(*boot));

	if (!boot) {
		xr_error(-ENOMEM, "no memory for a connection");
		return NULL;
	}
	*boot = (struct xr_boot){
		.world = world,
		.role = role,
		.fd = fd,
		.now = now,
		.budget = BUDGET_BYTES,
		.attempt_deadline = CLOCK_NEVER,
		.rx_deadline = CLOCK_NEVER,
		.tx_deadline = CLOCK_NEVER,
	};
	boot->setup_deadline = now + xr_boot_timeout_ns(boot);
	return boot;
}

/* Both ends of a TCP connection. */
static int learn_ends(struct xr_boot *boot, bool *ret_to_itself)
{
	struct sockaddr_storage local = {.ss_family = AF_UNSPEC}, peer = local;
	socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
	char text[2][XR_ADDRESS_BYTES];

	if (getsockname(boot->fd, (struct sockaddr *)&local, &local_len) ||
	    getpeername(boot->fd, (struct sockaddr *)&peer, &peer_len))
		return xr_error(-errno, "the connection broke: %s", strerror(errno));
	boot->local = xr_address_raw((struct sockaddr *)&local);
	boot->peer = xr_address_raw((struct sockaddr *)&peer);
	xr_address_format((struct sockaddr *)&local, text[0]);
	xr_address_format((struct sockaddr *)&peer, text[1]);
	*ret_to_itself = strcmp(text[0], text[1]) == 0;
	if (boot->role == XR_TLS_SERVER)
		memcpy(boot->peer_text, text[1], sizeof(text[1]));
	return 0;
}

static int go_on(struct xr_boot *boot);

/* TCP is connected: start TLS if it is needed here. */
static int tcp_connected(struct xr_boot *boot)
{
	bool use_tls;
	int err = xr_tls_decide(boot->world->tls, boot->role, &boot->local, &boot->peer, &use_tls);

	if (!err && use_tls)
		err = xr_tls_new(boot->world->tls, boot->role, boot->fd, boot->host,
				 boot->peer_text, &boot->tls);
	if (err)
		return err;
	boot->state = use_tls ? XR_BOOT_HANDSHAKE : XR_BOOT_OPEN;
	boot->attempt_deadline = CLOCK_NEVER;
	if (boot->addresses)
		freeaddrinfo(boot->addresses);
	boot->addresses = boot->address = NULL;
	return 0;
}

int xr_boot_adopt(struct xr_boot_world *world, int fd, uint64_t now, struct xr_boot **ret_boot)
{
	struct xr_boot *boot = new_boot(world, XR_TLS_SERVER, fd, now);
	bool ignored;
	int err;

	if (!boot) {
		close(fd);
		return -ENOMEM;
	}
	count(boot, &world->n_pending);
	err = learn_ends(boot, &ignored);
	if (!err)
		err = xr_boot_socket_options(fd, &world->conf);
	if (!err)
		err = tcp_connected(boot);
	if (err) {
		world->n_failed++;
		xr_error(err, "connection from %s refused: %.400s", boot->peer_text,
			 xrdma_last_error());
		xr_boot_close(boot);
		return err;
	}
	world->n_accepted++;
	*ret_boot = boot;
	return 0;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int connect_failed(const struct xr_boot *boot, int err)
{
	return xr_error(err, "cannot connect: %s", xr_system_error(err));
}

static unsigned addresses_left(const struct xr_boot *boot)
{
	unsigned n = 0;

	for (const struct addrinfo *a = boot->address; a; a = a->ai_next)
		n++;
	return n;
}

/* Start with boot->address. 0: under way. */
static int start_attempt(struct xr_boot *boot)
{
	const struct addrinfo *a = boot->address;
	int err;

	boot->attempt_deadline =
		boot->now + (boot->setup_deadline - boot->now) / addresses_left(boot);
	boot->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (boot->fd < 0)
		return xr_error(-errno, "no socket: %s", xr_system_error(-errno));
	err = xr_boot_socket_options(boot->fd, &boot->world->conf);
	if (!err && connect(boot->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
		err = connect_failed(boot, -errno);
	if (err) {
		close(boot->fd);
		boot->fd = -1;
	}
	return err;
}

/* From boot->address on, the first that does not fail at once; else the error of the last. */
static int start_any(struct xr_boot *boot, int err)
{
	while (boot->address) {
		err = start_attempt(boot);
		if (!err)
			return 0;
		boot->address = boot->address->ai_next;
	}
	return err;
}

static int try_next(struct xr_boot *boot, int err)
{
	/* Kept while there is no other: what polls it must not meet a reused number. */
	if (!boot->address->ai_next || boot->now >= boot->setup_deadline)
		return err;
	close(boot->fd);
	boot->fd = -1;
	boot->address = boot->address->ai_next;
	return start_any(boot, err);
}

/* 0: TCP is connected; -EAGAIN: not yet. */
static int tcp_result(struct xr_boot *boot)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer), err_len = sizeof(int);
	bool to_itself;
	int so_error = 0, err;

	if (getsockopt(boot->fd, SOL_SOCKET, SO_ERROR, &so_error, &err_len) || so_error)
		return connect_failed(boot, so_error ? -so_error : -errno);
	if (getpeername(boot->fd, (struct sockaddr *)&peer, &len))
		return errno == ENOTCONN ? -EAGAIN : connect_failed(boot, -errno);
	err = learn_ends(boot, &to_itself);
	/* On this host a free port may be picked as our own, and TCP then connects to itself. */
	return !err && to_itself ? connect_failed(boot, -ECONNREFUSED) : err;
}

static int on_connecting(struct xr_boot *boot)
{
	int err = tcp_result(boot);

	if (err == -EAGAIN && boot->now >= boot->attempt_deadline)
		err = connect_failed(boot, -ETIMEDOUT);
	if (err == -EAGAIN)
		return 0;
	if (err)
		return try_next(boot, err);
	err = tcp_connected(boot);
	return err ? err : go_on(boot);
}

int xr_boot_resolve(const char *text, int flags, struct xr_address *ret_address,
		    struct addrinfo **ret_list)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
	const char *host;
	char port[8];
	int err = xr_address_parse(text, ret_address);

	if (err)
		return err;
	host = ret_address->host[0] != '\0' ? ret_address->host : NULL;
	snprintf(port, sizeof(port), "%u", ret_address->port);
	hints.ai_flags = flags | AI_NUMERICHOST | AI_NUMERICSERV;
	err = getaddrinfo(host, port, &hints, ret_list);
	if (err == EAI_NONAME) {
		hints.ai_flags = flags | AI_NUMERICSERV;
		err = getaddrinfo(host, port, &hints, ret_list);
	}
	if (err == 0)
		return 0;
	return xr_error(err == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH,
			"address %.300s: %s cannot be looked up: %s", text, ret_address->host,
			gai_strerror(err));
}

int xr_boot_connect(struct xr_boot_world *world, const char *address, uint64_t now,
		    struct xr_boot **ret_boot)
{
	struct xr_address parsed;
	struct addrinfo *list;
	struct xr_boot *boot;
	int err = xr_boot_resolve(address, 0, &parsed, &list);

	if (err)
		return err;
	boot = new_boot(world, XR_TLS_CLIENT, -1, now);
	if (!boot) {
		freeaddrinfo(list);
		return -ENOMEM;
	}
	boot->addresses = boot->address = list;
	memcpy(boot->host, parsed.host, sizeof(parsed.host));
	snprintf(boot->peer_text, sizeof(boot->peer_text), "%s", address);
	if (parsed.host[0] == '\0' || parsed.port == 0)
		err = xr_error(-EINVAL, "expected a host and a port other than 0 to connect to");
	if (err) {
		world->n_failed++;
		xr_error(err, "%s: %.400s", address, xrdma_last_error());
		xr_boot_close(boot);
		return err;
	}
	*ret_boot = boot;
	return 0;
}

struct xr_boot_target {
	char numeric[XR_ADDRESS_BYTES];
	char host[XR_HOST_BYTES];
	char text[XR_ADDRESS_BYTES];
};

int xr_boot_target_new(const struct xr_boot *boot, struct xr_boot_target **ret_target)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(peer);
	struct xr_boot_target *target;

	if (getpeername(boot->fd, (struct sockaddr *)&peer, &len))
		return xr_error(-errno, "the connection broke: %s", strerror(errno));
	target = malloc(sizeof(*target));
	if (!target)
		return xr_error(-ENOMEM, "no memory for an address");
	xr_address_format((struct sockaddr *)&peer, target->numeric);
	memcpy(target->host, boot->host, sizeof(target->host));
	memcpy(target->text, boot->peer_text, sizeof(target->text));
	*ret_target = target;
	return 0;
}

void xr_boot_target_free(struct xr_boot_target *target)
{
	free(target);
}

int xr_boot_redial(struct xr_boot_world *world, const struct xr_boot_target *target,
		   uint64_t attempt_ns, uint64_t now, struct xr_boot **ret_boot)
{
	struct xr_boot *boot;
	int err = xr_boot_connect(world, target->numeric, now, &boot);

	if (err)
		return err;
	/* Certificates and tickets are of the name it was first dialed by. */
	memcpy(boot->host, target->host, sizeof(boot->host));
	memcpy(boot->peer_text, target->text, sizeof(boot->peer_text));
	boot->attempt_ns = attempt_ns;
	boot->setup_deadline = CLOCK_NEVER;
	*ret_boot = boot;
	return 0;
}

int xr_boot_start(struct xr_boot *boot, uint64_t now)
{
	int err;

	boot->now = now;
	boot->state = XR_BOOT_CONNECTING;
	count(boot, &boot->world->n_dialing);
	if (boot->attempt_ns)
		boot->setup_deadline = now + xr_boot_timeout_ns(boot);
	err = start_any(boot, 0);
	if (err)
		return xr_error(xr_boot_die(boot, err), "%s", boot->why);
	if (boot->attempt_ns && boot->attempt_deadline > now + boot->attempt_ns)
		boot->attempt_deadline = now + boot->attempt_ns;
	return 0;
}

/* ---- going on -------------------------------------------------------------------------------- */

static int on_handshake(struct xr_boot *boot)
{
	int err = xr_tls_handshake(boot->tls);

	if (err)
		return err == -EAGAIN ? 0 : err;
	boot->world->n_tls++;
	boot->world->n_tls_resumed += xr_tls_resumed(boot->tls);
	boot->state = XR_BOOT_OPEN;
	return go_on(boot);
}

/* Input first: a peer that has refused says why before it closes. */
static int on_open(struct xr_boot *boot)
{
	int err = xr_boot_fill(boot), worse;

	if (err)
		return err;
	err = xr_boot_flush(boot);
	if (!err)
		return 0;
	worse = xr_boot_fill(boot);
	return worse ? worse : err;
}

static int go_on(struct xr_boot *boot)
{
	switch (boot->state) {
	case XR_BOOT_WAITING:
		return 0;
	case XR_BOOT_CONNECTING:
		return on_connecting(boot);
	case XR_BOOT_HANDSHAKE:
		return on_handshake(boot);
	case XR_BOOT_OPEN:
		return on_open(boot);
	default:
		return boot->err;
	}
}

/* After what has come was looked at: what came in time counts, even if we are late. */
static int check_deadlines(const struct xr_boot *boot)
{
	if (boot->now >= boot->setup_deadline && boot->state == XR_BOOT_WAITING)
		return xr_error(-ETIMEDOUT,
				"no connection after %u ms (connect_timeout_ms): it was not its "
				"turn, %u others are being dialed (max_dials)",
				boot->world->conf.connect_timeout_ms, boot->world->n_dialing);
	if (boot->now >= boot->setup_deadline)
		return xr_error(-ETIMEDOUT,
				"no connection after %u ms (connect_timeout_ms): the %s did not "
				"finish",
				boot->world->conf.connect_timeout_ms,
				boot->state == XR_BOOT_HANDSHAKE ? "TLS handshake"
								 : "exchange with the peer");
	if (boot->now >= boot->rx_deadline)
		return xr_error(-ETIMEDOUT, "the peer sent a part of a block and then too little");
	if (boot->now >= boot->tx_deadline)
		return xr_error(-ETIMEDOUT, "the peer does not take what is sent to it");
	return 0;
}

int xr_boot_io(struct xr_boot *boot, uint64_t now)
{
	int err;

	boot->now = now;
	boot->budget = BUDGET_BYTES;
	err = go_on(boot);
	if (!err)
		err = check_deadlines(boot);
	return err ? xr_boot_die(boot, err) : 0;
}

/* ---- what is asked --------------------------------------------------------------------------- */

int xr_boot_fd(const struct xr_boot *boot)
{
	return boot->fd;
}

uint32_t xr_boot_events(const struct xr_boot *boot)
{
	switch (boot->state) {
	case XR_BOOT_CONNECTING:
		return EPOLLOUT;
	case XR_BOOT_HANDSHAKE:
		return xr_tls_wants_write(boot->tls) ? EPOLLOUT : EPOLLIN;
	case XR_BOOT_OPEN:
		return boot->out.len ? EPOLLIN | EPOLLOUT : EPOLLIN;
	default:
		return 0;
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t xr_boot_deadline(const struct xr_boot *boot)
{
	if (boot->state == XR_BOOT_DEAD)
		return CLOCK_NEVER;
	if (boot->more)
		return 0;
	return earlier(earlier(boot->setup_deadline, boot->attempt_deadline),
		       earlier(boot->rx_deadline, boot->tx_deadline));
}

bool xr_boot_is_open(const struct xr_boot *boot)
{
	return boot->state == XR_BOOT_OPEN;
}

bool xr_boot_is_pending(const struct xr_boot *boot)
{
	return boot->setup_deadline != CLOCK_NEVER;
}

const char *xr_boot_why(const struct xr_boot *boot)
{
	return boot->why;
}

void xr_boot_established(struct xr_boot *boot)
{
	boot->setup_deadline = CLOCK_NEVER;
	xr_boot_uncount(boot);
}

struct in6_addr xr_boot_local(const struct xr_boot *boot)
{
	return boot->local;
}

struct in6_addr xr_boot_peer(const struct xr_boot *boot)
{
	return boot->peer;
}

const char *xr_boot_peer_text(const struct xr_boot *boot)
{
	return boot->peer_text;
}

bool xr_boot_uses_tls(const struct xr_boot *boot)
{
	return boot->tls != NULL;
}

bool xr_boot_tls_resumed(const struct xr_boot *boot)
{
	return boot->tls && boot->state == XR_BOOT_OPEN && xr_tls_resumed(boot->tls);
}

/* Input left unread would make close() reset the connection, and our last block be lost. */
static void drop_input(int fd)
{
	char scrap[4096];

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 16 && recv(fd, scrap, sizeof(scrap), MSG_DONTWAIT) > 0; i++)
		;
}

void xr_boot_close(struct xr_boot *boot)
{
	xr_boot_uncount(boot);
	if (boot->tls)
		xr_tls_free(boot->tls);
	if (boot->fd >= 0) {
		drop_input(boot->fd);
		close(boot->fd);
	}
	if (boot->addresses)
		freeaddrinfo(boot->addresses);
	free(boot->in.data);
	free(boot->out.data);
	free(boot);
}
