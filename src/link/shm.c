/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/shm.h"

#include "base/log.h"
#include "base/rng.h"
#include "link/shm_grh.h"
#include "link/shm_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	POLL_BURST = 16, /* packets of one ring before the next ring's turn */
	HDR_USUAL = 32,  /* copied whole: longer ones are rare */
	/* A light fence costs some 20 ns, a heavy one 10 us, or much more while others make one. */
	HEAVY_WORTH = 4096,
};

/* ---- the endpoint ---------------------------------------------------------------------------- */

static int open_descriptors(struct urxe_shm *shm)
{
	int err;

	shm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (shm->epoll_fd < 0)
		return -errno;
	shm->self.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (shm->self.fd < 0) {
		err = -errno;
		goto err_close_epoll;
	}
	shm->spare_fd = fcntl(shm->epoll_fd, F_DUPFD_CLOEXEC, 0);
	if (shm->spare_fd < 0) {
		err = -errno;
		goto err_close_self;
	}
	err = urxe_shm_watch(shm, &shm->self);
	if (err)
		goto err_close_spare;
	return 0;

err_close_spare:
	close(shm->spare_fd);
err_close_self:
	close(shm->self.fd);
err_close_epoll:
	close(shm->epoll_fd);
	return err;
}

int urxe_shm_open(uint64_t seed, struct urxe_shm **ret_shm)
{
	struct urxe_shm *shm = calloc(1, sizeof(*shm));
	struct rng rng = {.state = seed};
	int err;

	if (!shm)
		return -ENOMEM;
	shm->stats = &shm->own_stats;
	shm->self.kind = SHM_SELF;
	shm->heavy = fence_is_heavy();
	shm->heavy_worth = shm->heavy ? HEAVY_WORTH : UINT64_MAX;
	shm->last_claim = rng_below(&rng, SHM_BLOCKS - 1);
	list_init(&shm->mute);
	list_init(&shm->full);
	list_init(&shm->listeners);
	err = open_descriptors(shm);
	if (err) {
		free(shm);
		return err;
	}
	*ret_shm = shm;
	return 0;
}

void urxe_shm_close(struct urxe_shm *shm)
{
	if (!shm)
		return;
	while (!list_empty(&shm->mute))
		urxe_shm_conn_free(shm, container_of(shm->mute.next, struct shm_conn, mute));
	while (shm->n_in > 0)
		urxe_shm_conn_free(shm, shm->in[0].conn);
	for (uint32_t block = 0; block < SHM_BLOCKS; block++) {
		if (!shm->peers[block])
			continue;
		urxe_shm_hang_up(shm->peers[block]);
		free(shm->peers[block]);
	}
	for (struct list *pos; (pos = list_pop(&shm->listeners));) {
		struct shm_listener *listener = container_of(pos, struct shm_listener, link);

		urxe_shm_unwatch(shm, &listener->src);
		free(listener);
	}
	close(shm->spare_fd);
	close(shm->self.fd);
	close(shm->epoll_fd);
	free(shm);
}

int urxe_shm_fd(const struct urxe_shm *shm)
{
	return shm->epoll_fd;
}

void urxe_shm_stats(const struct urxe_shm *shm, struct urxe_shm_stats *ret_stats)
{
	*ret_stats = *shm->stats;
}

void urxe_shm_keep_stats(struct urxe_shm *shm, struct urxe_shm_stats *stats)
{
	shm->stats = stats;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * Bind to the first free name: blocks 1 to 2^14 - 1 in a circle, from behind the last one found;
 * only those that are remainder modulo divisor.
 */
static int bind_free_block(struct urxe_shm *shm, int fd, uint32_t divisor, uint32_t remainder)
{
	for (int i = 1; i < SHM_BLOCKS; i++) {
		struct sockaddr_un name;
		socklen_t len;

		shm->last_claim = shm->last_claim % (SHM_BLOCKS - 1) + 1;
		if (shm->last_claim % divisor != remainder)
			continue;
		len = urxe_shm_block_name(shm->last_claim, &name);
		if (bind(fd, (const struct sockaddr *)&name, len) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -ENOSPC;
}

int urxe_shm_claim(struct urxe_shm *shm, uint32_t divisor, uint32_t remainder, uint32_t *ret_base)
{
	struct shm_listener *listener = calloc(1, sizeof(*listener));
	int fd, err;

	if (!listener)
		return -ENOMEM;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err = -errno;
		goto err_free;
	}
	listener->src.kind = SHM_LISTENER;
	listener->src.fd = fd;
	err = bind_free_block(shm, fd, divisor, remainder);
	if (err == -ENOSPC && divisor > 1)
		err = bind_free_block(shm, fd, 1, 0);
	if (err)
		goto err_close;
	listener->block = shm->last_claim;
	if (listen(fd, SOMAXCONN)) {
		err = -errno;
		goto err_close;
	}
	err = urxe_shm_watch(shm, &listener->src);
	if (err)
		goto err_close;
	list_add_tail(&shm->listeners, &listener->link);
	*ret_base = listener->block << SHM_BLOCK_SHIFT;
	return 0;

err_close:
	close(fd);
err_free:
	free(listener);
	return err;
}

struct urxe_shm_peer *urxe_shm_peer(struct urxe_shm *shm, uint32_t qpn)
{
	uint32_t block = qpn >> SHM_BLOCK_SHIFT & (SHM_BLOCKS - 1);
	struct urxe_shm_peer *peer = shm->peers[block];

	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->src.kind = SHM_PEER;
	peer->src.fd = -1;
	peer->shm = shm;
	peer->block = block;
	peer->backoff_ns = SHM_BACKOFF_MIN_NS;
	list_init(&peer->full);
	shm->peers[block] = peer;
	return peer;
}

void urxe_shm_peer_set_user(struct urxe_shm_peer *peer, void *user)
{
	peer->user = user;
}

void *urxe_shm_peer_user(const struct urxe_shm_peer *peer)
{
	return peer->user;
}

/* Is the connection up? Its end may not have been served yet. */
static bool is_up(const struct urxe_shm_peer *peer)
{
	char bell;

	return peer->src.fd < 0 || recv(peer->src.fd, &bell, 1, MSG_PEEK | MSG_DONTWAIT) > 0 ||
	       errno == EAGAIN;
}

/* Asking is connecting: there is no other way to learn it, and whoever asks is about to send. */
bool urxe_shm_block_exists(struct urxe_shm *shm, uint32_t qpn)
{
	struct urxe_shm_peer *peer = urxe_shm_peer(shm, qpn);
	int err;

	if (!peer)
		return false;
	if (peer->tx.ring && is_up(peer))
		return true;
	urxe_shm_hang_up(peer);
	err = urxe_shm_dial(peer);
	return err == 0 || err == -EAGAIN;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void put_frame(struct ring_tx *tx, const struct urxe_frame *frame)
{
	uint32_t grh_len = frame->grh ? GRH_LEN : 0;
	uint32_t len = frame->hdr_len + frame->payload_len + frame->pad;
	uint8_t *p;

	assert(frame->hdr_len <= URXE_HDR_MAX && frame->payload_len <= URXE_SHM_MTU &&
	       frame->pad <= 3);
	p = ring_tx_begin(tx, grh_len + len, frame->grh);
	if (frame->grh)
		urxe_shm_grh_put(p, frame->path, len, false);
	p += grh_len;
	/* What is too much lies under the payload, or in the rest of the cell. */
	memcpy(p, frame->hdr, HDR_USUAL);
	if (frame->hdr_len > HDR_USUAL)
		memcpy(p + HDR_USUAL, frame->hdr + HDR_USUAL, URXE_HDR_MAX - HDR_USUAL);
	p += frame->hdr_len;
	for (unsigned i = 0; i < frame->n_iov; i++) {
		memcpy(p, frame->iov[i].iov_base, frame->iov[i].iov_len);
		p += frame->iov[i].iov_len;
	}
	if (frame->pad)
		memset(p, 0, frame->pad);
	ring_tx_commit(tx);
}

/* Who sleeps already asks this peer, too, to ring when there is room, and looks again. */
static bool room_at_last(struct urxe_shm_peer *peer)
{
	urxe_ring_tx_sleep(&peer->tx);
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_tx_room(&peer->tx) <= 0)
		return false;
	urxe_ring_tx_awake(&peer->tx);
	list_del(&peer->full);
	return true;
}

/* Is there room for one packet? If not, the peer is on the list of those that hold us up. */
static bool has_room(struct urxe_shm_peer *peer)
{
	struct urxe_shm *shm = peer->shm;
	int room = ring_tx_room(&peer->tx);

	if (room > 0) {
		list_del(&peer->full);
		return true;
	}
	if (room < 0) {
		assert(peer->src.fd >= 0); /* only another process writes nonsense */
		shm->stats->rx_malformed++;
		log_info("the owner of QP block %#x wrote nonsense: dropped", peer->block);
		urxe_shm_hang_up(peer);
		return false;
	}
	shm->stats->tx_full++;
	if (list_linked(&peer->full))
		return false;
	list_add_tail(&shm->full, &peer->full);
	return shm->armed && room_at_last(peer);
}

static unsigned drop_frames(struct urxe_shm *shm, urxe_pull_fn *pull, void *arg, unsigned budget)
{
	struct urxe_frame frame;
	unsigned n = 0;

	while (n < budget && pull(arg, &frame))
		n++;
	shm->stats->tx_no_peer += n;
	return n;
}

unsigned urxe_shm_send(struct urxe_shm_peer *peer, uint64_t now, urxe_pull_fn *pull, void *arg,
		       unsigned budget)
{
	struct urxe_shm *shm = peer->shm;
	struct urxe_frame frame;
	bool last = false;
	unsigned n = 0;

	urxe_frame_init(&frame);
	if (!peer->tx.ring && !urxe_shm_dial_when_due(peer, now))
		return drop_frames(shm, pull, arg, budget);
	while (!last && n < budget && has_room(peer) && pull(arg, &frame)) {
		last = frame.last;
		put_frame(&peer->tx, &frame);
		shm->stats->tx_bytes += frame.hdr_len + frame.payload_len + frame.pad;
		n++;
	}
	shm->stats->tx_pkts += n;
	if (n && peer->tx.ring && ring_tx_must_ring(&peer->tx))
		urxe_shm_ring_bell(shm, peer->src.fd);
	return n;
}

void urxe_shm_forward(struct urxe_shm_peer *peer, uint64_t now, const struct urxe_rx *rx)
{
	struct urxe_shm *shm = peer->shm;
	uint32_t grh_len = rx->path ? GRH_LEN : 0;
	bool waits = list_linked(&peer->full);
	uint8_t *p;

	if (rx->len > RING_PACKET_MAX - GRH_LEN) {
		shm->stats->fwd_dropped++;
		return;
	}
	if (!peer->tx.ring && !urxe_shm_dial_when_due(peer, now)) {
		shm->stats->tx_no_peer++;
		return;
	}
	if (!has_room(peer)) {
		shm->stats->fwd_dropped++;
		/* Dropped, not waiting: no send of this peer's will come that looks for room again.
		 */
		if (!waits)
			list_del(&peer->full);
		return;
	}
	p = ring_tx_begin(&peer->tx, grh_len + rx->len, rx->path);
	if (rx->path)
		urxe_shm_grh_put(p, rx->path, rx->len, rx->ce);
	memcpy(p + grh_len, rx->data, rx->len);
	ring_tx_commit(&peer->tx);
	shm->stats->tx_pkts++;
	shm->stats->tx_bytes += rx->len;
	if (ring_tx_must_ring(&peer->tx))
		urxe_shm_ring_bell(shm, peer->src.fd);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool deliver_pkt(struct urxe_shm *shm, const struct ring_pkt *pkt, urxe_rx_fn *deliver,
			void *arg)
{
	struct urxe_rx rx = {.data = pkt->data, .len = pkt->len};
	struct urxe_path path;

	if (pkt->grh) {
		uint8_t grh[GRH_LEN];

		if (pkt->len < GRH_LEN)
			return false;
		memcpy(grh, pkt->data, GRH_LEN);
		if (!urxe_shm_grh_get(grh, &path, &rx.ce))
			return false;
		rx.path = &path;
		rx.data += GRH_LEN;
		rx.len -= GRH_LEN;
	}
	shm->stats->rx_pkts++;
	shm->stats->rx_bytes += rx.len;
	deliver(arg, &rx);
	return true;
}

/* Takes at most budget packets from one ring. Returns how many, or -EPROTO: drop it. */
static int take_burst(struct urxe_shm *shm, struct shm_in *in, urxe_rx_fn *deliver, void *arg,
		      unsigned budget)
{
	unsigned n = 0;

	for (; n < budget && ring_rx_ready(&in->rx); n++) {
		struct ring_pkt pkt;

		if (in->conn->leaving && in->rx.pos == in->conn->drain_end)
			break;
		if (!ring_rx_peek(&in->rx, &pkt) || !deliver_pkt(shm, &pkt, deliver, arg))
			return -EPROTO;
		if (ring_rx_done(&in->rx, &pkt) && !in->conn->leaving)
			urxe_shm_ring_bell(shm, in->conn->src.fd);
	}
	return (int)n;
}

static void set_heavy(struct urxe_shm *shm, bool heavy)
{
	shm->heavy = heavy;
	for (unsigned i = 0; i < shm->n_in; i++)
		urxe_ring_rx_heavy(&shm->in[i].rx, heavy);
}

/* The next sleep makes one for all that came before it. */
static void count_awake(struct urxe_shm *shm, unsigned n)
{
	shm->awake += n;
	if (shm->awake >= shm->heavy_worth && !shm->heavy && !shm->armed)
		set_heavy(shm, true);
}

unsigned urxe_shm_poll(struct urxe_shm *shm, urxe_rx_fn *deliver, void *arg, unsigned budget)
{
	unsigned n = 0, idle = 0;

	while (n < budget && idle < shm->n_in) {
		unsigned burst = budget - n < POLL_BURST ? budget - n : POLL_BURST;
		struct shm_in *in;
		int got;

		if (shm->next >= shm->n_in)
			shm->next = 0;
		in = &shm->in[shm->next];
		got = take_burst(shm, in, deliver, arg, burst);
		if (got < 0) {
			shm->stats->rx_malformed++;
			log_info("a shared-memory peer wrote nonsense: dropped");
			urxe_shm_conn_free(shm, in->conn);
			continue;
		}
		idle = got ? 0 : idle + 1;
		n += (unsigned)got;
		shm->next++;
	}
	if (shm->n_leaving)
		urxe_shm_reap(shm);
	count_awake(shm, n);
	return n;
}

bool urxe_shm_pending(const struct urxe_shm *shm)
{
	for (unsigned i = 0; i < shm->n_in; i++) {
		if (ring_rx_ready(&shm->in[i].rx))
			return true;
	}
	return false;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

/*
 * Between what is stored and what is looked at; of the kind that the producers count on until now.
 * False: it was none, and the next is a light one.
 */
static bool fence(struct urxe_shm *shm)
{
	bool heavy = shm->heavy;

	if (heavy && shm->awake < shm->heavy_worth)
		set_heavy(shm, false);
	shm->awake = 0;
	if (!heavy || !shm->n_in) {
		atomic_thread_fence(memory_order_seq_cst);
		return true;
	}
	if (fence_heavy())
		return true;
	log_info("membarrier() is not permitted any more: %s", strerror(errno));
	shm->heavy_worth = UINT64_MAX;
	set_heavy(shm, false);
	return false;
}

bool urxe_shm_arm(struct urxe_shm *shm)
{
	shm->armed = true;
	for (unsigned i = 0; i < shm->n_in; i++)
		urxe_ring_rx_sleep(&shm->in[i].rx);
	list_for_each (pos, &shm->full)
		urxe_ring_tx_sleep(&container_of(pos, struct urxe_shm_peer, full)->tx);
	if (!fence(shm) || urxe_shm_pending(shm))
		return false;
	list_for_each (pos, &shm->full) {
		/* Room, or nonsense that the next send will find. */
		if (ring_tx_room(&container_of(pos, struct urxe_shm_peer, full)->tx))
			return false;
	}
	return true;
}

void urxe_shm_disarm(struct urxe_shm *shm)
{
	if (!shm->armed)
		return;
	shm->armed = false;
	for (unsigned i = 0; i < shm->n_in; i++)
		urxe_ring_rx_awake(&shm->in[i].rx);
	list_for_each (pos, &shm->full)
		urxe_ring_tx_awake(&container_of(pos, struct urxe_shm_peer, full)->tx);
}
