/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram as GRO hands it up, of any length and segment length: each packet in it is delivered,
 * intact and in order, or counted. Bits of the input choose packets that get a right ICRC.
 */
#include "link/udp_priv.h"
#include "wire/icrc.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { HEAD = 13, V6 = 1, FOREIGN = 2, DF = 4 };

struct expectation {
	const uint8_t *packet[65536];
	size_t len[65536];
	unsigned n;
	unsigned delivered;
};

static struct expectation expected;

static void deliver(void *arg, const struct urxe_rx *rx)
{
	unsigned i = expected.delivered++;

	assert(i < expected.n);
	assert(rx->data == expected.packet[i] && rx->len == expected.len[i]);
}

/* The reference: cut, and give those chosen by the mask's bits a right ICRC. */
static void expect(const struct udp_datagram *dgram, uint8_t *data, uint64_t mask, uint16_t ip_id,
		   bool df)
{
	struct urxe_icrc_net net = {.src = dgram->path.sgid,
				    .dst = dgram->path.dgid,
				    .sport = dgram->path.sport,
				    .dport = 4791,
				    .ip_df = df};

	expected.n = expected.delivered = 0;
	for (size_t i = 0, off = 0; off < dgram->len; i++, off += dgram->seg_len) {
		size_t len = dgram->len - off < dgram->seg_len ? dgram->len - off : dgram->seg_len;

		if (len < BTH_LEN + ICRC_LEN)
			continue;
		net.ip_id = (uint16_t)(ip_id * i);
		if (mask >> i % 64 & 1)
			urxe_icrc_put(&net, data + off, len - ICRC_LEN);
		else if (!urxe_icrc_check(&net, data + off, len, false, NULL))
			continue;
		expected.packet[expected.n] = data + off;
		expected.len[expected.n++] = len - ICRC_LEN;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct urxe_udp *udp;
	static struct udp_addr addr;
	struct udp_datagram dgram = {.path.sport = 0xc123};
	uint8_t *copy;
	uint64_t mask;
	uint16_t ip_id;
	unsigned n;

	if (len < HEAD || len - HEAD > UDP_RX_MAX)
		return 0;
	if (!udp)
		udp = calloc(1, sizeof(*udp));
	copy = malloc(len - HEAD + 1);
	assert(udp && copy);
	udp->stats = &udp->own_stats;
	if (!(data[0] & V6))
		urxe_gid_from_v4(&dgram.path.dgid, &(struct in_addr){1});
	udp->port = 4791;
	udp->n_addrs = !(data[0] & FOREIGN);
	addr.gid = dgram.path.dgid;
	udp->addr = &addr;
	memcpy(&mask, data + 1, sizeof(mask));
	memcpy(&ip_id, data + 9, sizeof(ip_id));
	memset(udp->stats, 0, sizeof(*udp->stats));
	memcpy(copy, data + HEAD, len - HEAD);
	dgram.data = copy;
	dgram.len = len - HEAD;
	dgram.seg_len = (size_t)data[11] << 4 | data[12];
	if (!dgram.seg_len || dgram.seg_len > dgram.len)
		dgram.seg_len = dgram.len;
	expect(&dgram, copy, mask, ip_id, data[0] & DF);
	n = urxe_udp_rx_datagram(udp, &dgram, deliver, NULL);
	if (urxe_udp_is_probe(&dgram)) { /* none of anybody's packets */
		assert(n == 1 && expected.delivered == 0);
		assert(udp->stats->rx_runt + udp->stats->rx_foreign == 0);
	} else if (data[0] & FOREIGN) {
		assert(expected.delivered == 0 && udp->stats->rx_foreign == n);
	} else {
		assert(expected.delivered == expected.n && udp->stats->rx_pkts == expected.n);
		assert(udp->stats->rx_pkts + udp->stats->rx_runt + udp->stats->rx_bad_icrc == n);
	}
	free(copy);
	return 0;
}
