# SPDX-License-Identifier: BSD-2-Clause
"""Stock programs over every path, from one table: each row is a program, its options and where it
runs. Both sides must end with status 0 and print a result; a hang is a failure."""
from collections import namedtuple

import lab

Row = namedtuple('Row', 'program options places')

ALL = ('host', 'veth', 'veth9000', 'veth-ipv6')
MAIN = ('host', 'veth')
HOST = ('host',)

PINGPONG = r'\d+ bytes in [\d.]+ seconds'
SUCCESS = r'^success$'  # of ibv_xsrq_pingpong
PERFTEST = r'^\s*\d+\s+\d+\s+[\d.]+'
MTU_OF = {'host': 4096, 'veth': 1024, 'veth9000': 4096, 'veth-ipv6': 1024}


def pingpong_rows():
    for options in ('', '-c -s 1048576 -n 20'):
        yield Row('ibv_rc_pingpong', options, ALL)
    for options in ('-e', '-c', '-c -e', '-s 1', '-s 7 -c', '-s 65537 -c -n 200', '-N', '-N -e'):
        yield Row('ibv_rc_pingpong', options, MAIN)
    for mtu in (256, 512, 1024, 2048, 4096):
        places = tuple(place for place in ALL if mtu <= MTU_OF[place])
        yield Row('ibv_rc_pingpong', f'-c -s 100001 -n 50 -m {mtu}', places)
    for options in ('', '-e', '-s 65536 -n 200', '-q 4'):
        yield Row('ibv_srq_pingpong', options, MAIN)
    for options in ('', '-e', '-s 65536 -n 200'):
        yield Row('ibv_uc_pingpong', options, MAIN)
    for options in ('-s 1024', '-e -s 1000'):
        yield Row('ibv_ud_pingpong', options, MAIN)
    for options in ('', '-e', '-s 65536 -n 200'):
        yield Row('ibv_xsrq_pingpong', options, MAIN)


def perftest_rows():
    for verb in ('send', 'write', 'read'):
        yield Row(f'ib_{verb}_bw', '-a -n 10', ALL)
        yield Row(f'ib_{verb}_lat', '-a -n 10', MAIN)
        for options in ('-b -n 500', '-q 8 -n 500', '-b -q 8 -n 200 -s 4096'):
            yield Row(f'ib_{verb}_bw', options, MAIN)
        for program in (f'ib_{verb}_bw', f'ib_{verb}_lat'):
            if verb != 'write':  # which has no events
                yield Row(program, '-e -n 500', MAIN)
            if verb != 'read':
                yield Row(program, '-I 64 -s 64 -n 1000', MAIN)
            yield Row(program, '-D 2 -f 0', HOST)
    yield Row('ib_write_bw', '-D 2 -f 0', ('veth',))
    yield Row('ib_send_lat', '-D 2 -f 0', ('veth',))
    for program in ('ib_atomic_bw', 'ib_atomic_lat'):
        for kind in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
            yield Row(program, f'-A {kind} -n 500', MAIN)
        yield Row(program, '-e -n 500', MAIN)
        yield Row(program, '-D 2 -f 0', HOST)
    for options in ('-b -n 500', '-q 8 -n 500'):
        yield Row('ib_atomic_bw', options, MAIN)
    yield from service_rows()


def service_rows():
    """Other services than RC, and receives from a shared queue. Whoever waits for all messages of
    an unreliable service gets no more of them over UDP than the smallest socket buffer holds."""
    services = {'send': ('UC', 'UD', 'XRC'), 'write': ('UC', 'XRC'), 'read': ('XRC',),
                'atomic': ('XRC',)}
    options = {'UC': '-s 5000 -n 20', 'UD': '-s 1024 -n 50', 'XRC': '-s 5000 -n 100'}
    for verb, names in services.items():
        for name in names:
            sizes = '-n 100' if verb == 'atomic' else options[name]
            for what in ('bw', 'lat'):
                yield Row(f'ib_{verb}_{what}', f'-c {name} {sizes}', MAIN)
            if verb != 'atomic' and name != 'UD':
                yield Row(f'ib_{verb}_bw', f'-c {name} -a -n 10', HOST if name == 'UC' else MAIN)
    for name in ('RC', 'UD'):
        for what in ('bw', 'lat'):
            yield Row(f'ib_send_{what}', f'-c {name} --use-srq -s 1000 -n 50', MAIN)
    yield Row('ib_send_bw', '-c RC --use-srq -q 4 -s 1000 -n 500', MAIN)
    yield Row('ib_send_bw', '-c UD -b -s 1000 -n 50', MAIN)


ROWS = tuple(pingpong_rows()) + tuple(perftest_rows())


def cases(place, sides, ports, family='ipv4'):
    """Yields (name, function): the function returns None or (complaint, logs)."""
    gids = {}

    def gid(side):
        if side not in gids:
            gids[side] = side.gid_index(getattr(side, family))
        return gids[side]

    def run(row):
        server, client = sides
        pingpong = row.program.startswith('ibv_')
        port = next(ports)
        common = [row.program, '-p', str(port), *row.options.split()]
        index = '-g' if pingpong else '-x'
        target = server.ipv4
        if not pingpong:
            common.append('-F')
            if family == 'ipv6':
                common.append('--ipv6')
        result = lab.Pair(server, client, common + [index, gid(server)],
                          common + [index, gid(client), target], port)
        said = SUCCESS if 'xsrq' in row.program else PINGPONG
        wanted = (said, said) if pingpong else ('', PERFTEST)
        complaint = result.complaint(wanted)
        return complaint and (complaint, result.logs())

    for row in ROWS:
        if place in row.places:
            yield f'{place}: {row.program} {row.options}'.strip(), lambda row=row: run(row)


def listing_cases(side, name):
    """ibv_devices and ibv_devinfo -v."""
    def devices():
        status, text = side.run(['ibv_devices'])
        return None if status == 0 and 'urxe0' in text else ('no urxe0', text)

    def devinfo():
        status, text = side.run(['ibv_devinfo', '-v'])
        for want in ('urxe0', 'PORT_ACTIVE', 'Ethernet', 'RoCE v2'):
            if status or want not in text:
                return f'status {status}, or no {want}', text
        return None

    yield f'{name}: ibv_devices', devices
    yield f'{name}: ibv_devinfo -v', devinfo
