/* SPDX-License-Identifier: BSD-2-Clause */
/* What parses builds to the same header bytes (but for reserved bits) and parses to the same. */
#include "wire/icrc.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_icrc(const uint8_t *data, size_t len)
{
	struct urxe_icrc_net net = {.dst.raw = {[10] = 0xff, [11] = 0xff}, .dport = 4791};
	uint16_t id = 0;

	if (urxe_icrc_check(&net, data, len, false, &id)) {
		net.ip_id = id;
		net.ip_df = !urxe_icrc_check(&net, data, len, true, NULL);
		assert(urxe_icrc_check(&net, data, len, true, NULL));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct urxe_pkt first = {0}, second = {0};
	size_t hdr_len;
	uint8_t *copy;

	check_icrc(data, len);
	if (urxe_pkt_parse(data, len, &first))
		return 0;
	assert(first.payload + first.payload_len + first.pad == data + len);

	copy = malloc(len);
	assert(copy);
	memcpy(copy, data, len);
	hdr_len = urxe_pkt_build(&first, copy);
	assert(hdr_len == urxe_opcodes[data[0]].hdr_len);
	assert(first.payload == data + hdr_len);
	assert(urxe_pkt_parse(copy, len, &second) == 0);
	assert(second.payload == copy + hdr_len);
	second.payload = first.payload;
	assert(memcmp(&first, &second, sizeof(first)) == 0);
	free(copy);
	return 0;
}
