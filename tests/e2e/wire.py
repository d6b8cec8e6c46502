# SPDX-License-Identifier: BSD-2-Clause
"""What crosses the wire: frames captured on a veth, judged by tshark's dissector and by an ICRC
check of our own, exact to the IP Identification."""
import os
import re
import struct
import subprocess
import tempfile
import zlib

import lab

ETH_LEN, UDP_LEN, BTH_LEN, ICRC_LEN = 14, 8, 12, 4


def packets(path):
    """The frames of a pcap file of either byte order."""
    with open(path, 'rb') as file:
        data = file.read()
    order = '<' if data[:4] in (b'\xd4\xc3\xb2\xa1', b'\x4d\x3c\xb2\xa1') else '>'
    at = 24
    while at < len(data):
        _, _, kept, length = struct.unpack_from(order + 'IIII', data, at)
        at += 16
        if kept == length:
            yield data[at:at + kept]
        at += kept


def icrc(ip, ip_len, udp):
    """IBA 7.8.1 and annex A17.3.3: eight bytes of ones stand for the LRH, and fields that routers
    may change are ones. ip: from its header on; udp: from its header to the last pad byte."""
    header = bytearray(ip[:ip_len])
    if header[0] >> 4 == 4:
        header[1] = header[8] = header[10] = header[11] = 0xff
    else:
        header[0] |= 0x0f
        header[1] = header[2] = header[3] = header[7] = 0xff
    masked = bytearray(udp)
    masked[6] = masked[7] = 0xff
    masked[UDP_LEN + 4] = 0xff
    return zlib.crc32(bytes(8 * [0xff]) + bytes(header) + bytes(masked))


def roce_icrc_good(frame):
    """None: not a RoCEv2 frame; else whether its ICRC is right."""
    ethertype = struct.unpack_from('>H', frame, 12)[0]
    ip = frame[ETH_LEN:]
    if ethertype == 0x0800 and ip[9] == 17:
        ip_len = (ip[0] & 15) * 4
    elif ethertype == 0x86dd and ip[6] == 17:
        ip_len = 40
    else:
        return None
    _, dport, udp_len = struct.unpack_from('>HHH', ip, ip_len)
    if dport != 4791:
        return None
    udp = ip[ip_len:ip_len + udp_len]
    if len(udp) < UDP_LEN + BTH_LEN + ICRC_LEN:
        return False
    want = struct.unpack('<I', udp[-ICRC_LEN:])[0]
    return icrc(ip, ip_len, udp[:-ICRC_LEN]) == want


def limit_batches(sides, segments):
    for side in sides:
        subprocess.run(side.argv(['ip', 'link', 'set', side.netdev, 'gso_max_segs',
                                  str(segments)]), check=True)


def capture(sides, run, path):
    """Record the first side's interface while run() runs. Batches are split before the interface,
    so that the capture holds packets."""
    side = sides[0]
    limit_batches(sides, 1)
    dump = side.spawn(['tcpdump', '-Z', 'root', '-i', side.netdev, '-s', '0', '-B', '65536', '-U',
                       '-w', path, 'udp port 4791'], urxe=False)
    lab.wait_for(lambda: 'listening on' in lab.output(dump) or dump.poll() is not None, 10)
    result = run()
    size = -1
    while size != os.path.getsize(path):
        size = os.path.getsize(path)
        lab.wait_for(lambda: False, 0.2)
    dump.terminate()
    dump.wait()
    limit_batches(sides, 65535)
    return result


def judge(path):
    """None or (complaint, details) on a capture."""
    good, bad = 0, []
    for number, frame in enumerate(packets(path), 1):
        verdict = roce_icrc_good(frame)
        if verdict:
            good += 1
        elif verdict is False:
            bad.append(number)
    if bad or not good:
        return f'ICRC: {good} right, {len(bad)} wrong', f'wrong: frames {bad[:20]}'
    # Dissectors above InfiniBand are off: they guess at what our random payload may mean.
    guessers = ('smc', 'smb_direct', 'rpcordma', 'nvme-rdma', 'lnet', 'iser', 'infiniband.eoib',
                'infiniband_sdp', 'fcoib', 'drbd')
    tshark = subprocess.run(['tshark', '-n', '-r', path,
                             *(f'--disable-protocol={name}' for name in guessers), '-T',
                             'fields', '-e', 'infiniband.bth.opcode', '-e', '_ws.malformed'],
                            capture_output=True, text=True, check=False)
    lines = tshark.stdout.split('\n')[:-1]
    odd = [f'frame {i}: {line}' for i, line in enumerate(lines, 1) if not re.match(r'\d+\t$', line)]
    if tshark.returncode or len(lines) != good or odd:
        return f'tshark: {len(odd)} of {len(lines)} frames malformed or not InfiniBand', \
            tshark.stderr + '\n'.join(odd[:20])
    return None


def cases(sides, ports, program):
    """program(server, client, family, port) -> argv pair of something that uses all opcodes."""
    def check(family):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, 'wire.pcap')
            port = next(ports)
            server_argv, client_argv = program(*sides, family, port)
            result = capture(sides, lambda: lab.Pair(*sides, server_argv, client_argv, port), path)
            complaint = result.complaint()
            return (complaint, result.logs()) if complaint else judge(path)

    for family in ('ipv4', 'ipv6'):
        yield f'wire: {family}: every ICRC right, nothing malformed', lambda f=family: check(f)
