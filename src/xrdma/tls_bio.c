/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/tls_priv.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

static BIO_METHOD *method;

static int finish(BIO *bio, ssize_t n, int retry)
{
	struct xr_tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (n >= 0)
		return (int)n;
	if (errno == EAGAIN || errno == EINTR)
		BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
	else
		tls->socket_errno = errno;
	return -1;
}

static int bio_write(BIO *bio, const char *data, int len)
{
	struct xr_tls *tls = BIO_get_data(bio);

	return finish(bio, send(tls->fd, data, (size_t)len, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *data, int len)
{
	struct xr_tls *tls = BIO_get_data(bio);
	ssize_t n = recv(tls->fd, data, (size_t)len, 0);

	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return finish(bio, n, BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int command, long num, void *ptr)
{
	switch (command) {
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	case BIO_CTRL_FLUSH: /* nothing is held back */
		return 1;
	default:
		return 0;
	}
}

/* Made once, never freed: other threads' connections use it. */
static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "xrdma socket");
	if (!method)
		return;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_ctrl);
}

BIO *xr_tls_bio_new(struct xr_tls *tls)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *bio;

	pthread_once(&once, make_method);
	bio = method ? BIO_new(method) : NULL;
	if (bio) {
		BIO_set_data(bio, tls);
		BIO_set_init(bio, 1);
	}
	return bio;
}
