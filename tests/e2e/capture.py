# SPDX-License-Identifier: BSD-2-Clause
"""URXE_PCAP: what is recorded of both links is what tshark and our own ICRC check take for RoCEv2,
into files and live into a pipe."""
import os
import re
import subprocess
import tempfile

import hostile
import lab
import wire

MAY_BE_LOST = 20  # UDP: a socket's buffer was full, or its program had ended


def convert(path):
    """The same capture as a classic pcap file."""
    classic = path + '.pcap'
    subprocess.run(['tshark', '-r', path, '-F', 'pcap', '-w', classic], check=True,
                   stderr=subprocess.DEVNULL)
    return classic


def directions(path):
    """How many packets came in, and went out."""
    text = subprocess.run(['tshark', '-r', path, '-T', 'fields', '-e',
                           'frame.packet_flags_direction'], capture_output=True, text=True,
                          check=True).stdout.split()
    values = [int(value, 0) for value in text]
    return values.count(1), values.count(2)


def same(one, other, lost):
    """What went out at either end came in at the other, but for so many at most."""
    return all(0 <= out - came <= lost for came, out in zip(one, other[::-1]))


def recorded_pair(sides, ports, directory, link, family):
    """Runs the byte checker with captures; returns a complaint or None, and the files."""
    port = next(ports)
    argv = hostile.bytes_argv(*sides, port, ['-n', '60'], family)
    for side in sides:
        side.env = {'URXE_PCAP': os.path.join(directory, '%p.pcapng'), 'URXE_LINK': link}
    try:
        pair = lab.Pair(*sides, *argv, port)
    finally:
        for side in sides:
            side.env = {}
    files = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
    complaint = pair.complaint(('', 'every byte right'))
    return (complaint, pair.logs()) if complaint else None, files


def files_case(sides, ports, link, family):
    with tempfile.TemporaryDirectory() as directory:
        complaint, files = recorded_pair(sides, ports, directory, link, family)
        if complaint:
            return complaint
        if len(files) != 2:
            return f'{len(files)} files, one per process expected', '\n'.join(files)
        counts = [directions(path) for path in files]
        shared_memory = link == 'auto' and sides[0] is sides[1]
        if not all(counts[0]) or not same(*counts, 0 if shared_memory else MAY_BE_LOST):
            return 'not the same packets at both ends', f'in and out: {counts}'
        for path in files:
            complaint = wire.judge(convert(path))
            if complaint:
                return complaint
    return None


def live_case(side, ports):
    """tshark reads the pipe while the program runs; when it stops reading, the program goes on."""
    with tempfile.TemporaryDirectory() as directory:
        fifo = os.path.join(directory, 'live')
        os.mkfifo(fifo)
        port = next(ports)
        argv = [hostile.BYTES, '-p', str(port), '-g', '0', '-n', '300']
        tshark = side.spawn(['tshark', '-l', '-i', fifo, '-c', '50'], urxe=False)
        side.env = {'URXE_PCAP': fifo}
        server = side.spawn(argv)
        side.env = {}
        lab.wait_for(lambda: lab.listens(server, port), 20)
        client = side.spawn(argv + [side.ipv4])
        status = [lab.finish(proc, 60) for proc in (client, server, tshark)]
        text = [lab.output(proc) for proc in (client, server, tshark)]
        seen = len(re.findall(r'RRoCE', text[2]))
    if status != [0, 0, 0] or seen != 50 or 'the capture ends' not in text[1]:
        return f'statuses {status}, tshark saw {seen} packets', '\n'.join(text)
    return None


def shared_file_case(side):
    """Two processes, one name: the second is told what to do."""
    with tempfile.TemporaryDirectory() as directory:
        side.env = {'URXE_PCAP': os.path.join(directory, 'one.pcapng')}
        first = side.spawn(['ibv_asyncwatch', '-d', 'urxe0'])
        lab.wait_for(lambda: os.path.exists(side.env['URXE_PCAP']) and
                     os.path.getsize(side.env['URXE_PCAP']), 10)
        status, text = side.run(['ibv_devinfo'])
        lab.kill(first)
        side.env = {}
    if status == 0 or 'put %p into the name' not in text:
        return f'status {status}', text
    return None


def cases(place, sides, ports):
    for link in ('auto', 'udp') if sides[0] is sides[1] else ('auto',):
        for family in ('ipv4', 'ipv6'):
            yield f'{place}: URXE_PCAP, {link}, {family}: the same at both ends, nothing malformed', \
                lambda l=link, f=family: files_case(sides, ports, l, f)
    if sides[0] is sides[1]:
        yield f'{place}: URXE_PCAP into a pipe, live', lambda: live_case(sides[0], ports)
        yield f'{place}: URXE_PCAP of two processes', lambda: shared_file_case(sides[0])
