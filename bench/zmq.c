/* SPDX-License-Identifier: BSD-2-Clause */
/* ZeroMQ: REQ and REP, or PUSH and PULL; peer.h says what is measured. */
#include "peer.h"

#include <errno.h>
#include <zmq.h>

static void *sock;

static void require(bool good, const char *what)
{
	peer_check(good, what, zmq_strerror(errno));
}

static void open_socket(const char *url, bool server, bool reply, int queue)
{
	int type = reply ? (server ? ZMQ_REP : ZMQ_REQ) : (server ? ZMQ_PUSH : ZMQ_PULL);
	int retry_ms = 10;

	require((sock = zmq_socket(zmq_ctx_new(), type)) != NULL, "zmq_socket");
	zmq_setsockopt(sock, ZMQ_RECONNECT_IVL, &retry_ms, sizeof(retry_ms));
	zmq_setsockopt(sock, ZMQ_SNDHWM, &queue, sizeof(queue));
	zmq_setsockopt(sock, ZMQ_RCVHWM, &queue, sizeof(queue));
	require((server ? zmq_bind : zmq_connect)(sock, url) == 0, url);
}

static void send_msg(size_t bytes)
{
	zmq_msg_t msg;

	require(zmq_msg_init_size(&msg, bytes) == 0, "zmq_msg_init_size");
	require(zmq_msg_send(&msg, sock, 0) >= 0, "zmq_msg_send");
}

static size_t recv_msg(void)
{
	zmq_msg_t msg;
	size_t bytes;

	zmq_msg_init(&msg);
	require(zmq_msg_recv(&msg, sock, 0) >= 0, "zmq_msg_recv");
	bytes = zmq_msg_size(&msg);
	zmq_msg_close(&msg);
	return bytes;
}

int main(int argc, char **argv)
{
	static const struct peer peer = {open_socket, send_msg, recv_msg};

	return peer_run(&peer, argc, argv);
}
