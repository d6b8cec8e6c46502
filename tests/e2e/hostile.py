# SPDX-License-Identifier: BSD-2-Clause
"""What happens around the data: sudden death, idleness, what is left behind."""
import os
import random
import re
import signal
import time

import lab

BYTES = os.path.join(lab.BUILD, 'tests', 'e2e', 'bytes')
TICK_S = 1 / os.sysconf('SC_CLK_TCK')
WC_ERROR, PEER_GONE = 3, 4  # exit statuses of bytes
QP_TIMEOUT_S = 8 * 4.096e-6 * 2 ** 12  # of bytes: 1 + 7 tries


def bytes_argv(server, client, port, more=(), family='ipv4'):
    """The argv of both sides of our own byte-checking program."""
    gid = [side.gid_index(getattr(side, family)) for side in (server, client)]
    return ([BYTES, '-p', str(port), '-g', gid[0], *more],
            [BYTES, '-p', str(port), '-g', gid[1], *more, server.ipv4])


def bytes_cases(place, sides, ports, family='ipv4', mtus=('1024',)):
    def run(options):
        port = next(ports)
        pair = lab.Pair(*sides, *bytes_argv(*sides, port, options, family), port, timeout_s=60)
        complaint = pair.complaint(('', 'every byte right'))
        return complaint and (complaint, pair.logs())

    for mtu in mtus:
        for more in ([], ['-e']):
            options = ['-m', mtu, '-s', mtu, '-n', '300', *more]
            yield f'{place}: every byte: bytes {" ".join(options)}', lambda o=options: run(o)


def killed_pair(server, client, argv, port, victim, delay_s, met=''):
    """Kill one side a moment after the server printed that they met; returns (status, output,
    seconds to its end) of the other."""
    procs = [server.spawn(argv[0])]
    lab.wait_for(lambda: lab.listens(procs[0], port) or procs[0].poll() is not None, 10)
    procs.append(client.spawn(argv[1]))
    lab.wait_for(lambda: met in lab.output(procs[0]), 10)
    time.sleep(delay_s)
    lab.kill(procs[victim])
    start = time.monotonic()
    status = lab.finish(procs[1 - victim], 20)
    return status, lab.output(procs[1 - victim]), time.monotonic() - start


def kill_cases(place, sides, ports, count):
    """Each of count times one side of a busy connection dies at a random moment."""
    rng = random.Random(1)

    def bytes_dies():
        statuses = set()
        for i in range(count):
            port = next(ports)
            argv = bytes_argv(*sides, port, ['-n', '1000000'])
            status, text, took_s = killed_pair(*sides, argv, port, i % 2, rng.uniform(0, 0.4),
                                               'client 1 came')
            statuses.add(status)
            # Who has a request under way learns it from the QP; who only receives, from TCP.
            if status not in (WC_ERROR, PEER_GONE) or took_s > 4 * QP_TIMEOUT_S + 1 or (
                    status == WC_ERROR and 'transport retry counter exceeded' not in text):
                return f'survivor {i}: status {status} after {took_s:.1f} s', text
        return None if WC_ERROR in statuses else ('no survivor saw an error completion', '')

    def perftest_dies():
        gids = [side.gid_index(side.ipv4) for side in sides]
        seen = 0
        for i in range(6):
            port = next(ports)
            common = ['ib_write_bw', '-F', '-b', '-D', '20', '-f', '1', '-u', '12', '-p', str(port)]
            argv = (common + ['-x', gids[0]], common + ['-x', gids[1], sides[0].ipv4])
            status, text, took_s = killed_pair(*sides, argv, port, i % 2, rng.uniform(0.8, 1.5))
            if not status or took_s > 4 * QP_TIMEOUT_S + 3:
                return f'survivor {i}: status {status} after {took_s:.1f} s', text
            seen += 'Failed status 12' in text or 'status 12' in text
        return None if seen else ('no survivor printed status 12 (RETRY_EXC_ERR)', text)

    def server_keeps_nothing():
        """One server, many clients that die: its descriptors and address space must not grow."""
        clients = min(count, 40)
        port = next(ports)
        server_argv, client_argv = bytes_argv(*sides, port, ['-n', '1000000'])
        server = sides[0].spawn(server_argv + ['-c', str(clients)])
        lab.wait_for(lambda: lab.listens(server, port), 10)
        for i in range(clients):
            client = sides[1].spawn(client_argv)
            # Not before its turn has begun, or the server would never see it.
            time.sleep(rng.uniform(0.2, 0.4))
            lab.kill(client)
            lab.wait_for(lambda i=i: f'client {i + 1}:' in lab.output(server), 10)
        status, text = lab.finish(server, 20), lab.output(server)
        held = [(int(fds), int(kib)) for fds, kib in
                re.findall(r'client \d+: (\d+) fds, VmSize:\s+(\d+) kB', text)]
        if status or len(held) != clients:
            return f'server: status {status}, {len(held)} of {clients} clients', text
        early, late = held[clients // 5], held[-1]
        # The UDP link opens a socket the first time a source port is used, of a bounded set.
        if late[0] > early[0] + 20 or late[1] > early[1] + 4096:
            return f'server grew from {early} to {late} (descriptors, KiB)', text
        return None

    yield f'{place}: SIGKILL of one side, {count} times', bytes_dies
    yield f'{place}: SIGKILL of one side under ib_write_bw -b', perftest_dies
    yield f'{place}: a server outlives {min(count, 40)} killed clients, keeps nothing', \
        server_keeps_nothing


def cpu_s(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def idle_cases(place, sides, ports):
    def idle():
        port = next(ports)
        argv = bytes_argv(*sides, port, ['-e', '-n', '20', '-w', '8'])
        server = sides[0].spawn(argv[0])
        lab.wait_for(lambda: lab.listens(server, port), 10)
        client = sides[1].spawn(argv[1])
        try:
            if not lab.wait_for(lambda: 'every byte' in lab.output(client), 10):
                return 'no traffic', lab.output(client) + lab.output(server)
            time.sleep(0.5)
            before = [cpu_s(proc.pid) for proc in (server, client)]
            time.sleep(4)
            used = [cpu_s(proc.pid) - at for proc, at in zip((server, client), before)]
        finally:
            lab.kill(client)
            lab.kill(server)
        share = max(used) / 4 * 100
        return (f'{share:.1f} % of a core', '') if share >= 1 else None

    yield f'{place}: a connected process that waits uses under 1 % of a core', idle


def leftovers(before):
    """None, or what the tests so far left: sockets by name, files, processes."""
    with open('/proc/net/unix', encoding='utf-8', errors='replace') as file:
        sockets = [line for line in file if 'urxe' in line]
    files = sorted(set(os.listdir('/dev/shm')) - before)
    processes = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/maps', encoding='utf-8', errors='replace') as file:
                if pid != str(os.getpid()) and 'liburxe' in file.read() and \
                        os.readlink(f'/proc/{pid}/ns/net') == os.readlink('/proc/self/ns/net'):
                    processes.append(pid)
        except OSError:
            pass
    files = [name for name in files if 'urxe' in name]
    found = {'sockets': sockets, 'files in /dev/shm': files, 'processes': processes}
    return next(((f'{what} left behind', f'{names}') for what, names in found.items() if names),
                None)
