# SPDX-License-Identifier: BSD-2-Clause
"""UDP port 4791 between several processes of a network namespace, and when somebody else has it."""
import os
import re
import time

import hostile
import lab
import mock
import xr

URXE_STAT = os.path.join(lab.BUILD, 'tools', 'urxe-stat')
PAIRS = 3
CALLS = 300  # more than there is time for until the port has been tried again

# Has the port until it is killed: as any program, or sharing it as ours do.
HOLDER = '''
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "shared":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("0.0.0.0", 4791))
print("bound", flush=True)
time.sleep(1000)
'''

# Gives all packets to the first of those that share the port (SO_ATTACH_REUSEPORT_CBPF, "ret #0").
MISLEADER = '''
import ctypes, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("0.0.0.0", 4791))
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
s.setsockopt(socket.SOL_SOCKET, 51, struct.pack("@HP", 1, ctypes.addressof(program)))
'''


def handed_over(procs):
    """How many packets these processes passed on to the owners of their QPs, all of them talking
    over UDP only."""
    text = procs[0].side.run([URXE_STAT, '-a'], urxe=False)[1]
    pids = {str(proc.pid) for proc in procs}
    return sum(int(m[2]) for m in re.finditer(r'^(\d+) \S+ shm_tx_pkts (\d+)$', text, re.M)
               if m[1] in pids)


def shared_case(sides, ports, mislead):
    """Of processes that share the port each gets its own packets; misled, those of others, which it
    passes on."""
    servers, clients, most = [], [], 0
    for _ in range(PAIRS):
        port = next(ports)
        argv = hostile.bytes_argv(*sides, port, ['-n', '600' if mislead else '200', '-t', '18'])
        server = sides[0].spawn(argv[0])
        server.side = sides[0]
        servers.append(server)
        lab.wait_for(lambda s=server, p=port: lab.listens(s, p), 10)
        clients.append(sides[1].spawn(argv[1]))
    if mislead and sides[0].run(['python3', '-c', MISLEADER], urxe=False)[0]:
        return 'the port\'s program could not be changed', ''
    while True:
        now = handed_over(servers)
        if any(proc.poll() is not None for proc in servers):
            break  # the kernel moves another to its place
        most = max(most, now)
        time.sleep(0.1)
    status = [lab.finish(proc, 120) for proc in servers + clients]
    if any(status):
        return f'statuses {status}', '\n'.join(map(lab.output, servers + clients))
    if bool(most) == mislead:
        return None
    return f'{most} packets were handed over', f'{PAIRS} pairs of processes'


def hold(side, how, before=()):
    holder = side.spawn([*before, 'python3', '-c', HOLDER, how], urxe=False)
    if not lab.wait_for(lambda: 'bound' in lab.output(holder), 10):
        raise OSError('the port could not be taken: ' + lab.output(holder))
    return holder


def held_port(side, how, before, run):
    """run() while another program has the port."""
    holder = hold(side, how, before)
    try:
        return run()
    finally:
        lab.kill(holder)


def taken(side, ports, link):
    """UDP asked for: an error that says who may have the port. Else shared memory serves, and a
    warning says what does not work."""
    port = next(ports)
    argv = hostile.bytes_argv(side, side, port, ['-n', '20'])
    side.env = {'URXE_LINK': link}
    pair = lab.Pair(side, side, *argv, port)
    side.env = {}
    wanted = ['UDP port 4791 is taken', "'ss -ulpn sport = :4791'"]
    if link == 'auto':
        wanted += ['peers outside this network namespace cannot reach it']
    missing = [text for text in wanted if not all(text in log for log in pair.output)]
    if missing or (link == 'auto') != (pair.status == [0, 0]):
        return f'statuses {pair.status}, not said: {missing}', pair.logs()
    return None


def instead(sides, port, which):
    """libxrdma goes by TCP until the port is free, and both sides know why."""
    holder = hold(sides[which], 'exclusive')
    run = mock.Run(sides, port, list(xr.PLAIN) + mock.QUICK, CALLS)
    wrong = run.wait('mocked: Address already in use')
    lab.kill(holder)
    wrong = wrong or run.wait('unmocked') or run.end()
    if not wrong and run.text().count('UDP port 4791 is taken') != 1:
        wrong = 'not said once, however often it is tried', run.text()
    return wrong


def never_instead(sides, port, which):
    """Where TCP is not wanted the channel ends, and the client is told why."""
    rdma = xr.PLAIN + ('XRDMA_TRANSPORT=force-rdma',)
    return held_port(sides[which], 'exclusive', [], lambda: xr.Programs(
        sides, port, rdma, rdma).refused('closed: .*queue pair to RTR: Address already in use'))


def cases(sides, ports):
    yield 'veth: of processes that share the port each gets its own packets', \
        lambda: shared_case(sides, ports, False)
    yield 'veth: processes that share the port hand packets over', \
        lambda: shared_case(sides, ports, True)
    holders = {'a program that does not share it': ('exclusive', [])}
    if lab.local()[0].run(['setpriv', '--reuid', '65534', 'true'], urxe=False)[0] == 0:
        holders['another user'] = ('shared', ['setpriv', '--reuid', '65534'])
    for who, (how, before) in holders.items():
        for link in ('auto', 'udp'):
            yield f'veth: the port is taken by {who}, URXE_LINK={link}', \
                lambda h=how, b=before, l=link: held_port(
                    sides[0], h, b, lambda: taken(sides[0], ports, l))
    for which, who in enumerate(('server', 'client')):
        yield f'veth: xrdma: the port is taken at the {who}, and free again', \
            lambda w=which: instead(sides, next(ports), w)
        yield f'veth: xrdma: the port is taken at the {who}, TCP is not wanted', \
            lambda w=which: never_instead(sides, next(ports), w)
