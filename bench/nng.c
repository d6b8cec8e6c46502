/* SPDX-License-Identifier: BSD-2-Clause */
/* nng: REQ and REP, or PUSH and PULL; peer.h says what is measured. */
#include "peer.h"

#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

static nng_socket sock;

static void require(int error, const char *what)
{
	peer_check(!error, what, nng_strerror(error));
}

static void open_socket(const char *url, bool server, bool reply, int queue)
{
	int error;

	if (reply)
		require((server ? nng_rep0_open : nng_req0_open)(&sock), "open");
	else
		require((server ? nng_push0_open : nng_pull0_open)(&sock), "open");
	require(nng_socket_set_size(sock, NNG_OPT_RECVMAXSZ, 0), NNG_OPT_RECVMAXSZ);
	require(nng_socket_set_ms(sock, NNG_OPT_RECONNMINT, 10), NNG_OPT_RECONNMINT);
	/* Without a queue each message waits for a thread switch. Not every version has one. */
	error = server && !reply ? nng_socket_set_int(sock, NNG_OPT_SENDBUF, queue) : 0;
	require(error == NNG_ENOTSUP ? 0 : error, NNG_OPT_SENDBUF);
	require(server ? nng_listen(sock, url, NULL, 0)
		       : nng_dial(sock, url, NULL, NNG_FLAG_NONBLOCK),
		url);
}

static void send_msg(size_t bytes)
{
	nng_msg *msg;

	require(nng_msg_alloc(&msg, bytes), "nng_msg_alloc");
	require(nng_sendmsg(sock, msg, 0), "nng_sendmsg");
}

static size_t recv_msg(void)
{
	nng_msg *msg;
	size_t bytes;

	require(nng_recvmsg(sock, &msg, 0), "nng_recvmsg");
	bytes = nng_msg_len(msg);
	nng_msg_free(msg);
	return bytes;
}

int main(int argc, char **argv)
{
	static const struct peer peer = {open_socket, send_msg, recv_msg};

	return peer_run(&peer, argc, argv);
}
