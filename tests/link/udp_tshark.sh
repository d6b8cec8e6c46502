#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tshark decodes what the UDP link sends: all of it, nothing malformed. Usage: udp_tshark.sh UDP_WIRE
command -v tshark >/dev/null || { echo "tshark is not installed"; exit 77; }
pcap=$(mktemp) || exit 1
trap 'rm -f "$pcap"' EXIT

"$1" "$pcap" || exit
# The payload is noise: whatever protocol a guess takes it for would be malformed.
guesses=$(tshark -G heuristic-decodes 2>/dev/null |
	awk '$1 == "infiniband.payload" && $2 != "ethertype" && $2 !~ /infiniband/ { print "--disable-protocol " $2 }')

# count FILTER: the frames that match.
count()
{
	# shellcheck disable=SC2086 # a list of options
	tshark -r "$pcap" $guesses -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l
}

sent=$(count 'udp.dstport == 4791')
decoded=$(count 'infiniband.bth.opcode == 4 || infiniband.bth.opcode == 10')
malformed=$(count '_ws.malformed')
echo "$sent packets, $decoded decoded, $malformed malformed"
[ "$sent" -eq 1024 ] && [ "$decoded" -eq "$sent" ] && [ "$malformed" -eq 0 ]
