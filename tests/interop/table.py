# SPDX-License-Identifier: BSD-2-Clause
"""Which program runs over which network between urxe and the kernel's rxe. Each row runs twice, its
server on either side."""
import os
from collections import namedtuple

import lab

Network = namedtuple('Network', 'name mtu family loss')
Row = namedtuple('Row', 'program options timeout_s kind')

BYTES = os.path.join(lab.BUILD, 'tests', 'e2e', 'bytes')
NETWORKS = (
    Network('ipv4', 1500, 'ipv4', None),
    Network('ipv6', 1500, 'ipv6', None),
    Network('jumbo', 9000, 'ipv4', None),
    Network('loss', 1500, 'ipv4', '1%'),
)
ROCE_MTU = {1500: 1024, 9000: 4096}  # the most that fits
EDGES = (1023, 1025, 2048, 2049, 65536)
# The guest shares an emulated processor: a timeout of half a second is not the peer's silence.
CALM = '-t 17'
# perftest asks the other side for as many READs as that side's device could ask for.
READS = '-o 16'
LOSSY = '-t 14'
WRAP = '-P 0xfffff0'


def row(program, options, timeout_s=60):
    return Row(program, options, timeout_s,
               'bytes' if program == BYTES else program.split('_', maxsplit=1)[0])


def pingpong_rows():
    """RC can check what it receives, at every MTU; UC and UD cannot."""
    for mtu in (256, 512, 1024):
        for size in (mtu - 1, mtu, mtu + 1, 2 * mtu + 1, 65536):
            yield row('ibv_rc_pingpong', f'-c -m {mtu} -s {size} -n 20')
    yield row('ibv_rc_pingpong', '-c -e -n 100')
    yield row('ibv_rc_pingpong', '-c -s 1048576 -n 4')
    for size in (1, 1023, 1024, 1025, 65536):
        yield row('ibv_uc_pingpong', f'-s {size} -n 50')
    for size in (1, 1023, 1024):
        yield row('ibv_ud_pingpong', f'-s {size} -n 50')
    yield row('ibv_srq_pingpong', '-s 4097 -n 50')


def bandwidth_row(verb, size, iterations=20):
    reads = READS if verb == 'read' else ''
    return row(f'ib_{verb}_bw', f'-s {size} -n {iterations} -u 18 {reads}')


def perftest_rows():
    for verb in ('send', 'write', 'read'):
        for size in EDGES:
            yield bandwidth_row(verb, size)
        yield bandwidth_row(verb, 1 << 20, 5)
        for size in (64, 1025):
            yield row(f'ib_{verb}_lat', f'-s {size} -n 50 -u 18 ' + READS * (verb == 'read'))
    for size in (1024, 2049):
        yield row('ib_send_bw', f'-c UC -s {size} -n 20')
        yield row('ib_write_bw', f'-c UC -s {size} -n 20')
    yield row('ib_send_bw', '-c UD -s 1024 -n 20')
    yield row('ib_send_lat', '-c UD -s 1023 -n 50')
    for kind in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
        yield row('ib_atomic_bw', f'-A {kind} -n 50 -u 18 {READS}')
        yield row('ib_atomic_lat', f'-A {kind} -n 50 -u 18 {READS}')


def rows(network):
    """The whole table on IPv4; elsewhere what that network can change."""
    mtu = ROCE_MTU[network.mtu]
    timeout = LOSSY if network.loss else CALM
    if network.name == 'ipv4':
        yield from pingpong_rows()
        yield from perftest_rows()
        for small in (256, 512):
            yield row(BYTES, f'-m {small} -s {small} -n 12 {timeout} {WRAP}')
    else:
        for size in (mtu - 1, mtu, mtu + 1, 65536):
            yield row('ibv_rc_pingpong', f'-c -m {mtu} -s {size} -n 20')
        for verb in ('send', 'write', 'read'):
            yield bandwidth_row(verb, 2 * mtu + 1)
    yield row(BYTES, f'-m {mtu} -n 40 {timeout} {WRAP}', 120)
    yield row(BYTES, f'-m {mtu} -n 20 {timeout} -e', 120)
