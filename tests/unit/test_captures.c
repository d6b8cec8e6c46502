/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that other implementations sent. Usage: test_captures DIRECTORY, which holds pcap files
 * and a MANIFEST.tsv saying how many of each file's ICRCs are right. The captures are not part of
 * this tree; exits 77 (skip) without them.
 */
#include "ip_packet.h"
#include "wire/packet.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PCAP_MAGIC = 0xa1b2c3d4,
	LINK_ETHERNET = 1,
	LINK_RAW = 101,
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_ROCEV1 = 0x8915,
	EXIT_SKIP = 77,
};

enum column {
	COL_FILE = 0,
	COL_ENCAPSULATION = 8,
	COL_ICRC_OK = 9,
	COL_ICRC_BAD = 10,
	COL_TRUNCATED = 11,
	COLUMNS,
};

struct tally {
	unsigned ok, bad, truncated;
	unsigned v1;     /* RoCE v1: no UDP, not ours */
	unsigned rd;     /* reliable datagram: no opcodes of ours */
	unsigned failed; /* frames that this test objects to */
};

static void object(struct tally *t, const char *what)
{
	printf("# packet %u: %s\n", t->ok + t->bad + t->truncated + t->v1, what);
	t->failed++;
}

/* A receiver ignores the BTH's reserved bits, and some senders set them: they do not survive. */
static bool same_headers(const uint8_t *built, const uint8_t *wire, size_t len)
{
	uint8_t want[URXE_HDR_MAX];

	memcpy(want, wire, len);
	want[4] &= 0xc0;
	want[8] &= 0x80;
	return memcmp(built, want, len) == 0;
}

static void check_headers(struct tally *t, const struct ip_packet *ip)
{
	uint8_t hdr[URXE_HDR_MAX];
	struct urxe_pkt pkt;
	size_t hdr_len;
	int ret;

	ret = urxe_pkt_parse(ip->bth, ip->len - ICRC_LEN, &pkt);
	if ((ip->bth[0] & URXE_SERVICE_MASK) == URXE_RD) {
		if (ret != -EPROTO)
			object(t, "a reliable datagram was not refused");
		t->rd++;
		return;
	}
	if (ret) {
		object(t, "not parsed");
		return;
	}
	hdr_len = urxe_pkt_build(&pkt, hdr);
	if (!same_headers(hdr, ip->bth, hdr_len))
		object(t, "headers built differ");
	if (hdr_len + pkt.payload_len + pkt.pad + ICRC_LEN != ip->len)
		object(t, "lengths do not add up");
}

static void check_icrc(struct tally *t, const struct ip_packet *ip)
{
	struct urxe_icrc_net guess = ip->net;
	uint16_t id = (uint16_t)~ip->net.ip_id;

	if (!urxe_icrc_check(&ip->net, ip->bth, ip->len, true, NULL)) {
		t->bad++;
		return;
	}
	t->ok++;
	guess.ip_id = 0;
	guess.ip_df = true;
	if (!urxe_icrc_check(&guess, ip->bth, ip->len, false, &id) ||
	    (ip->ipv4 && id != ip->net.ip_id))
		object(t, "Identification not recovered");
}

static void check_ip(struct tally *t, const uint8_t *data, size_t len)
{
	struct ip_packet ip;

	if (!ip_packet_split(data, len, &ip) || ip.len < BTH_LEN + ICRC_LEN) {
		object(t, "not RoCEv2");
		return;
	}
	check_headers(t, &ip);
	check_icrc(t, &ip);
}

static void check_frame(struct tally *t, uint32_t link, const uint8_t *data, size_t len)
{
	uint16_t ethertype;

	if (link == LINK_RAW) {
		check_ip(t, data, len);
		return;
	}
	if (link != LINK_ETHERNET || len < 14) {
		object(t, "neither Ethernet nor raw IP");
		return;
	}
	ethertype = get_be16(data + 12);
	if (ethertype == ETHERTYPE_ROCEV1)
		t->v1++;
	else if (ethertype == ETHERTYPE_IPV4 || ethertype == ETHERTYPE_IPV6)
		check_ip(t, data + 14, len - 14);
	else
		object(t, "unknown EtherType");
}

/* Classic little-endian pcap: all that there is. Returns false when the file is not that. */
static bool check_pcap(struct tally *t, FILE *file)
{
	static uint8_t data[1 << 18];
	struct {
		uint32_t magic, version, zone, sigfigs, snaplen, link;
	} header;
	struct {
		uint32_t sec, usec, captured, len;
	} record;

	if (fread(&header, sizeof(header), 1, file) != 1 || le32toh(header.magic) != PCAP_MAGIC)
		return false;
	while (fread(&record, sizeof(record), 1, file) == 1) {
		size_t captured = le32toh(record.captured);

		if (captured > sizeof(data) || fread(data, 1, captured, file) != captured)
			return false;
		if (captured < le32toh(record.len))
			t->truncated++;
		else
			check_frame(t, le32toh(header.link), data, captured);
	}
	return feof(file);
}

static bool expect(const char *what, unsigned got, const char *want)
{
	if (got == strtoul(want, NULL, 10))
		return true;
	printf("# %s: %u, the manifest says %s\n", what, got, want);
	return false;
}

static bool check_file(const char *dir, char *const col[COLUMNS])
{
	struct tally t = {0};
	char path[PATH_MAX];
	bool good;
	FILE *file;

	if (strstr(col[COL_ENCAPSULATION], "\"ib\"")) {
		printf("skip %s: native InfiniBand\n", col[COL_FILE]);
		return true;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, col[COL_FILE]);
	file = fopen(path, "rb");
	if (!file) {
		printf("not ok %s: %s\n", path, strerror(errno));
		return false;
	}
	good = check_pcap(&t, file);
	fclose(file);
	good &= expect("right ICRCs", t.ok + t.v1, col[COL_ICRC_OK]);
	good &= expect("wrong ICRCs", t.bad, col[COL_ICRC_BAD]);
	good &= expect("truncated", t.truncated, col[COL_TRUNCATED]);
	good &= t.failed == 0;
	printf("%s %s: %u right, %u wrong, %u truncated, %u RD, %u v1\n", good ? "ok" : "not ok",
	       col[COL_FILE], t.ok, t.bad, t.truncated, t.rd, t.v1);
	return good;
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : ".";
	char path[PATH_MAX], line[4096];
	unsigned files = 0;
	bool good = true;
	FILE *manifest;

	snprintf(path, sizeof(path), "%s/MANIFEST.tsv", dir);
	manifest = fopen(path, "r");
	if (!manifest) {
		printf("no captures: %s: %s\n", path, strerror(errno));
		return EXIT_SKIP;
	}
	while (fgets(line, sizeof(line), manifest)) {
		char *col[COLUMNS], *rest = line;

		if (line[0] == '\n' || strncmp(line, "file\t", 5) == 0)
			continue;
		for (unsigned i = 0; i < COLUMNS; i++) {
			col[i] = strsep(&rest, "\t\n");
			if (!col[i]) {
				printf("%s: a row has too few columns\n", path);
				return EXIT_FAILURE;
			}
		}
		good &= check_file(dir, col);
		files++;
	}
	fclose(manifest);
	printf("%u files\n", files);
	return good && files ? EXIT_SUCCESS : EXIT_FAILURE;
}
