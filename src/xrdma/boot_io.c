/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of an open bootstrap connection: buffers, frames, what is read and written. */
#include "base/clock.h"
#include "xrdma/boot_frame.h"
#include "xrdma/boot_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum { FIRST_BYTES = 1024 };

/* ---- buffers --------------------------------------------------------------------------------- */

static void buf_free(struct xr_boot_buf *b)
{
	free(b->data);
	*b = (struct xr_boot_buf){.data = NULL};
}

/* Room for n bytes in all, at the front. */
static int buf_reserve(struct xr_boot_buf *b, size_t n)
{
	uint8_t *data;

	if (b->start > 0)
		memmove(b->data, b->data + b->start, b->len);
	b->start = 0;
	if (n <= b->capacity)
		return 0;
	data = realloc(b->data, n);
	if (!data)
		return xr_error(-ENOMEM, "no memory for %zu bytes of a bootstrap connection", n);
	b->data = data;
	b->capacity = n;
	return 0;
}

/* Memory goes with the last byte: an idle connection holds none. */
static void buf_consume(struct xr_boot_buf *b, size_t n)
{
	b->start += n;
	b->len -= n;
	if (b->len == 0)
		buf_free(b);
}

/* ---- the socket: bytes, -EAGAIN, or another error, explained --------------------------------- */

static ssize_t socket_failed(void)
{
	if (errno == EAGAIN || errno == EINTR)
		return -EAGAIN;
	if (errno == EPIPE) /* the reset was told to an earlier call */
		errno = ECONNRESET;
	return xr_error(-errno, "the connection broke: %s", strerror(errno));
}

static ssize_t transport_read(struct xr_boot *boot, void *buf, size_t len)
{
	ssize_t n;

	if (boot->tls)
		return xr_tls_read(boot->tls, buf, len);
	n = recv(boot->fd, buf, len, 0);
	if (n == 0)
		return xr_error(-ECONNRESET, "the peer closed the connection");
	return n > 0 ? n : socket_failed();
}

static ssize_t transport_write(struct xr_boot *boot, const void *buf, size_t len)
{
	ssize_t n;

	if (boot->tls)
		return xr_tls_write(boot->tls, buf, len);
	n = send(boot->fd, buf, len, MSG_NOSIGNAL);
	return n >= 0 ? n : socket_failed();
}

/* ---- input ----------------------------------------------------------------------------------- */

static int parse(const struct xr_boot *boot, struct xr_frame *ret_frame)
{
	const uint8_t *data = boot->in.len ? boot->in.data + boot->in.start : NULL;

	return xr_frame_parse(data, boot->in.len, ret_frame);
}

static int read_some(struct xr_boot *boot, size_t frame_bytes)
{
	size_t want = frame_bytes > FIRST_BYTES ? frame_bytes : FIRST_BYTES;
	int err = buf_reserve(&boot->in, want);
	ssize_t n;

	if (err)
		return err;
	n = transport_read(boot, boot->in.data + boot->in.len, boot->in.capacity - boot->in.len);
	if (n <= 0) {
		if (boot->in.len == 0)
			buf_free(&boot->in);
		return (int)n;
	}
	boot->in.len += (size_t)n;
	boot->heard = true;
	boot->budget -= (size_t)n < boot->budget ? (size_t)n : boot->budget;
	return 0;
}

/* A frame that has begun must be complete in time, however much of it trickles in. */
static void watch_input(struct xr_boot *boot)
{
	if (boot->in.len == 0)
		boot->rx_deadline = CLOCK_NEVER;
	else if (boot->rx_deadline == CLOCK_NEVER)
		boot->rx_deadline = boot->now + xr_boot_timeout_ns(boot);
}

static void drop_taken(struct xr_boot *boot)
{
	if (boot->taken == 0)
		return;
	buf_consume(&boot->in, boot->taken);
	boot->taken = 0;
	boot->rx_deadline = CLOCK_NEVER;
}

int xr_boot_fill(struct xr_boot *boot)
{
	struct xr_frame frame;
	int err;

	boot->more = false;
	drop_taken(boot);
	for (;;) {
		err = parse(boot, &frame);
		if (err) /* whole, or broken */
			break;
		if (boot->budget == 0) {
			boot->more = true;
			break;
		}
		err = read_some(boot, XR_FRAME_HEAD + frame.len);
		if (err)
			break;
	}
	watch_input(boot);
	if (err == -ECONNRESET && boot->in.len > 0)
		return xr_error(err, "the peer closed the connection in the middle of a block");
	if (err == -ECONNRESET && !boot->heard && !boot->tls)
		return xr_error(err, "the peer closed the connection before it said anything: it "
				     "may demand TLS (set the option tls alike on both sides), or "
				     "have too many connections");
	return err < 0 && err != -EAGAIN ? err : 0;
}

int xr_boot_next(struct xr_boot *boot, uint8_t *ret_type, const uint8_t **ret_data, size_t *ret_len)
{
	struct xr_frame frame;
	int err;

	drop_taken(boot);
	if (boot->state == XR_BOOT_OPEN) {
		err = xr_boot_fill(boot);
		if (err)
			xr_boot_die(boot, err);
	}
	if (parse(boot, &frame) != 1)
		return 0;
	if (boot->role == XR_TLS_CLIENT) /* it is with us: another may be dialed */
		xr_boot_uncount(boot);
	boot->taken = XR_FRAME_HEAD + frame.len;
	*ret_type = frame.type;
	*ret_data = frame.data;
	*ret_len = frame.len;
	return 1;
}

/* ---- output ---------------------------------------------------------------------------------- */

int xr_boot_flush(struct xr_boot *boot)
{
	while (boot->out.len > 0) {
		ssize_t n = transport_write(boot, boot->out.data + boot->out.start, boot->out.len);

		if (n == -EAGAIN)
			break;
		if (n < 0)
			return (int)n;
		buf_consume(&boot->out, (size_t)n);
		boot->tx_deadline = CLOCK_NEVER; /* progress */
	}
	if (boot->out.len == 0)
		boot->tx_deadline = CLOCK_NEVER;
	else if (boot->tx_deadline == CLOCK_NEVER)
		boot->tx_deadline = boot->now + xr_boot_timeout_ns(boot);
	return 0;
}

static size_t bytes_of(const struct iovec *parts, unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += parts[i].iov_len;
	return len;
}

/* Room behind what waits for a block of so many bytes, its head included. */
static int make_room(struct xr_boot *boot, size_t len)
{
	if (boot->state == XR_BOOT_DEAD)
		return xr_error(boot->err, "%s", boot->why);
	if (len > XR_BOOT_BLOCK_MAX)
		return xr_error(-EMSGSIZE, "a block of %zu bytes: expected %u at most", len,
				XR_BOOT_BLOCK_MAX);
	if (boot->out.len + XR_FRAME_HEAD + len > XR_BOOT_QUEUE_MAX)
		return xr_error(-EAGAIN, "%zu bytes wait to be sent to %s already", boot->out.len,
				boot->peer_text);
	return buf_reserve(&boot->out, boot->out.len + XR_FRAME_HEAD + len);
}

int xr_boot_send_parts(struct xr_boot *boot, uint8_t type, const struct iovec *parts, unsigned n,
		       uint64_t now)
{
	size_t len = bytes_of(parts, n);
	int err = make_room(boot, len);
	uint8_t *end;

	boot->now = now;
	if (err)
		return err;
	end = boot->out.data + boot->out.len;
	xr_frame_head(type, len, end);
	end += XR_FRAME_HEAD;
	for (unsigned i = 0; i < n; i++) {
		if (parts[i].iov_len)
			memcpy(end, parts[i].iov_base, parts[i].iov_len);
		end += parts[i].iov_len;
	}
	boot->out.len += XR_FRAME_HEAD + len;
	/* A failure here is found again, or its better reason read, by xr_boot_io(). */
	if (boot->state == XR_BOOT_OPEN && xr_boot_flush(boot))
		boot->more = true;
	return 0;
}

int xr_boot_send(struct xr_boot *boot, uint8_t type, const void *data, size_t len, uint64_t now)
{
	const struct iovec part = {(void *)(uintptr_t)data, len};

	return xr_boot_send_parts(boot, type, &part, 1, now);
}

bool xr_boot_has_room(const struct xr_boot *boot)
{
	return boot->state == XR_BOOT_OPEN && boot->out.len < XR_BOOT_ROOM_BYTES;
}

bool xr_boot_sent_all(const struct xr_boot *boot)
{
	return boot->out.len == 0;
}
