# SPDX-License-Identifier: BSD-2-Clause
"""libxrdma between real processes: every byte, who may connect, loss, sudden death."""
import os
import random
import re
import socket
import struct
import subprocess
import tempfile
import time

import lab

XR_BYTES = os.path.join(lab.BUILD, 'tests', 'e2e', 'xr_bytes')
PLAIN = ('XRDMA_TLS=off',)
FAILED = 3  # exit status: a channel failed
SURVIVE_S = 5  # in which a survivor knows


def host(side, family):
    address = getattr(side, family)
    return f'[{address}]' if ':' in address else address


class Programs:
    """xr_bytes as a server and a client, each with settings of its own."""

    def __init__(self, sides, port, server_env=PLAIN, client_env=PLAIN, family='ipv4'):
        self.server, self.client = sides
        self.port = port
        self.env = server_env, client_env
        self.address = f'{host(self.server, family)}:{port}'

    def serve(self, *more):
        proc = self.server.spawn(['env', *self.env[0], XR_BYTES, '-l', *more, self.address],
                                 urxe=False)
        lab.wait_for(lambda: lab.listens(proc, self.port) or proc.poll() is not None, 10)
        return proc

    def call(self, *more):
        return self.client.spawn(['env', *self.env[1], XR_BYTES, *more, self.address], urxe=False)

    def both(self, channels=1, calls=200, timeout_s=90):
        """To the end of both; returns what is wrong, or None."""
        end = time.monotonic() + timeout_s
        server = self.serve('-k', str(channels))
        client = self.call('-c', str(channels), '-n', str(calls))
        status = [lab.finish(client, timeout_s),
                  lab.finish(server, max(end - time.monotonic(), 1))]
        text = lab.output(client) + lab.output(server)
        if status != [0, 0] or 'every byte right' not in text:
            return f'client, server ended with status {status}', text
        return None

    def refused(self, said, status=FAILED):
        """The client must fail, saying so; the server must live and serve the next one."""
        server = self.serve()
        client = self.call('-n', '1')
        got = lab.finish(client, 20)
        alive = server.poll() is None
        lab.kill(server)
        text = lab.output(client) + lab.output(server)
        if got != status or not re.search(said, text) or not alive:
            return f'client: status {got}, server alive: {alive}, expected to read "{said}"', text
        return None


def figures(text):
    """What xr_bytes printed: a list of (when, {name: value})."""
    found = []
    for when, line in re.findall(r'^figures: ([^:]*): (.*)$', text, re.M):
        words = line.split()
        found.append((when, {k: int(v) for k, v in zip(words[::2], words[1::2])}))
    return found


# ---- keys ----

def openssl(*words):
    subprocess.run(['openssl', *words], check=True, capture_output=True)


class Authority:
    """A certificate authority and what it has signed."""

    def __init__(self, directory, name):
        self.base = os.path.join(directory, name)
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                '-subj', f'/CN={name}', '-days', '2', '-keyout', self.base + '.key', '-out',
                self.base + '.pem')

    def sign(self, name, address):
        """Settings of a program with a certificate of ours that is valid for the address."""
        base = f'{self.base}-{name}'
        with open(base + '.ext', 'w', encoding='ascii') as file:
            file.write(f'subjectAltName=IP:{address}\n')
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj',
                f'/CN={name}', '-keyout', base + '.key', '-out', base + '.csr')
        openssl('x509', '-req', '-in', base + '.csr', '-CA', self.base + '.pem', '-CAkey',
                self.base + '.key', '-CAcreateserial', '-days', '2', '-extfile', base + '.ext',
                '-out', base + '.pem')
        return [f'XRDMA_TLS_CERT={base}.pem', f'XRDMA_TLS_KEY={base}.key',
                f'XRDMA_TLS_CA={self.base}.pem']


def tls_cases(place, sides, ports):
    directory = tempfile.TemporaryDirectory(prefix='xr-e2e-')
    ours, other = (Authority(directory.name, name) for name in ('ours', 'other'))
    server = ours.sign('server', sides[0].ipv4)
    client = ours.sign('client', sides[1].ipv4)
    strange = other.sign('client', sides[1].ipv4)
    # Trusts our server, and shows a certificate that the server does not trust.
    stranger = strange[:2] + client[2:]
    wrong_name = ours.sign('wrong', '192.0.2.1')
    psk, other_psk = (['XRDMA_TLS_PSK=' + digit * 64] for digit in 'ab')
    identity = ['XRDMA_TLS_PSK_IDENTITY=rack9']

    def programs(server_env, client_env):
        return Programs(sides, next(ports), server_env, client_env)

    yield f'{place}: TLS, certificates on both sides', lambda: programs(server, client).both()
    yield f'{place}: TLS, pre-shared key', lambda: programs(psk, psk).both()
    yield f'{place}: a client with a certificate of another authority is refused', \
        lambda: programs(server, stranger).refused('certificate')
    yield f'{place}: a server with a certificate of another authority is not trusted', \
        lambda: programs(server, strange).refused('certificate')
    yield f'{place}: a server with a certificate for another address is not trusted', \
        lambda: programs(wrong_name, client).refused(f'not for {sides[0].ipv4}')
    yield f'{place}: another pre-shared key is refused', \
        lambda: programs(psk, other_psk).refused('closed: -')
    yield f'{place}: another identity of the same key is refused', \
        lambda: programs(psk, psk + identity).refused('closed: -')
    yield f'{place}: a plain client is refused by a server with TLS', \
        lambda: programs(psk, PLAIN).refused('set the option tls alike')
    yield f'{place}: plain TCP off loopback, unless asked for, is refused to listen', \
        lambda: refuses_to_listen(programs([], PLAIN))
    yield f'{place}: plain TCP off loopback, unless asked for, is refused to connect', \
        lambda: programs(PLAIN, []).refused('tls', status=FAILED)
    directory.cleanup()


def refuses_to_listen(programs):
    server = programs.serve()
    status, text = lab.finish(server, 10), lab.output(server)
    return None if status == 1 and re.search('TLS|tls', text) else (f'status {status}', text)


# ---- peers that are not ours ----

def frame(kind, block):
    return struct.pack('>2sBBI', b'XR', kind, 0, len(block)) + block


def hello(versions):
    block = bytearray(104)
    struct.pack_into('>4sHHI', block, 0, b'XRDM', *versions, 104 - 12)
    return frame(1, bytes(block))


def foreign_cases(sides, ports):
    """A client of our own making, which speaks TCP only."""
    def talks(sent, said):
        programs = Programs(sides, next(ports))
        server = programs.serve()
        answer = b''
        with socket.create_connection((sides[0].ipv4, programs.port), 10) as sock:
            sock.settimeout(10)
            sock.sendall(sent)
            while True:
                data = sock.recv(65536)
                if not data:
                    break
                answer += data
        client = programs.call('-n', '10')
        status = lab.finish(client, 20)
        lab.kill(server)
        text = lab.output(client) + lab.output(server)
        if said not in answer or status:
            return f'it was told {answer!r}; the next client: status {status}', text
        return None

    yield 'host: a peer of a later version is told which versions there are', \
        lambda: talks(hello((2, 9)), b'the peer speaks versions 2..9 of the protocol, this side')
    yield 'host: a peer that is no xrdma', \
        lambda: talks(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'')
    yield 'host: a HELLO cut short', lambda: talks(hello((1, 1))[:60] + frame(4, b''), b'')


# ---- what is missing ----

def stat_says(side, expected):
    status, text = side.run(['unshare', '--pid', '--fork', '--mount-proc',
                             os.path.join(lab.BUILD, 'tools', 'urxe-stat')], urxe=False)
    return None if status == 0 and expected in text else (f'status {status}', text)


def example_says(side, argv, urxe, expected):
    status, text = side.run([os.path.join(lab.BUILD, 'examples', 'verbs_send'), *argv], urxe)
    return None if status == 1 and re.search(expected, text) else (
        f'status {status}, expected to read "{expected}"', text)


def missing_cases(side):
    """What a user reads who lacks something: which, and what to do."""
    def says(expected, env):
        status, text = side.run(['env', *env, XR_BYTES, '127.0.0.1:1'], urxe=False)
        return None if status == 1 and re.search(expected, text) else (
            f'status {status}, expected to read "{expected}"', text)

    yield 'host: xrdma: no device', \
        lambda: says(r'no interface "none0"(?s:.*)there is no RDMA device', ['URXE_NETDEV=none0'])
    yield 'host: xrdma: no interface with an address', \
        lambda: says(r'nor a network interface that is up',
                     ['unshare', '--net', 'env', '-u', 'URXE_NETDEV'])
    for fds in (5, 6, 12):
        yield f'host: xrdma: not more than {fds} descriptors', \
            lambda n=fds: says(r'Too many open files: raise the limit .*ulimit -n',
                               ['prlimit', f'--nofile={n}'])
    yield 'host: urxe-stat: nothing to show', lambda: stat_says(
        side, 'no process of yours has a urxe device open')
    yield 'host: verbs: a program without urxe-run, and a name that is none', lambda: (
        example_says(side, [], False, 'run it by urxe-run') or
        example_says(side, ['no-such-host.invalid'], True, '^no-such-host.invalid: '))
    yield 'host: xrdma: no such device', \
        lambda: says('urxe0 .* refused: another device is asked for', ['XRDMA_DEVICE=mlx9_0'])
    yield 'host: xrdma: no such option', \
        lambda: says('no_such: there is no such option; xrdma.7. lists', ['XRDMA_NO_SUCH=1'])


# ---- bytes ----

def bytes_cases(place, sides, ports, families=('ipv4', 'ipv6')):
    for family in families:
        yield f'{place}: xrdma: every byte over {family}', \
            lambda f=family: Programs(sides, next(ports), family=f).both()
    yield f'{place}: xrdma: every byte of 40 channels', \
        lambda: Programs(sides, next(ports)).both(channels=40, calls=20)
    yield f'{place}: xrdma: every byte of 40 channels in a shared receive queue', \
        lambda: Programs(sides, next(ports), PLAIN + ('XRDMA_SRQ=on',),
                         PLAIN + ('XRDMA_SRQ=on',)).both(channels=40, calls=20)


def loss_cases(place, sides, ports):
    def lossy():
        undo = lab.lose(sides, 1)
        try:
            return Programs(sides, next(ports)).both(calls=100, timeout_s=180)
        finally:
            undo()

    yield f'{place}: xrdma: every byte, one in a hundred lost', lossy


# ---- death ----

def kill_cases(place, sides, ports, count):
    rng = random.Random(2)

    def survivor(i):
        programs = Programs(sides, next(ports))
        procs = [programs.serve(), programs.call('-n', '1000000')]
        lab.wait_for(lambda: 'connected' in lab.output(procs[1]), 10)
        time.sleep(rng.uniform(0, 0.4))
        victim = i % 2
        lab.kill(procs[victim])
        other = procs[1 - victim]
        start = time.monotonic()
        said = 'closed: ' if victim == 0 else 'channel 1 closed: '
        lab.wait_for(lambda: said in lab.output(other), 20)
        took_s = time.monotonic() - start
        if victim == 0:
            status = lab.finish(other, 10)
        else:  # it goes on serving
            status = FAILED if other.poll() is None else other.poll()
            lab.wait_for(lambda: ': idle:' in lab.output(other), 10)
            lab.kill(other)
        text = lab.output(other)
        last = figures(text)[-1][1] if figures(text) else {}
        if status != FAILED or took_s > SURVIVE_S or \
                not re.search(said + r'(-104|-110|Connection reset by peer|Connection timed out)', text):
            return f'survivor {i}: status {status} after {took_s:.1f} s', text
        held = ('qps', 'channels', 'receives_posted', 'sends_posted', 'messages_held')
        if any(last[name] for name in held):
            return f'survivor {i} holds something still', text
        return None

    def survivors():
        for i in range(count):
            wrong = survivor(i)
            if wrong:
                return wrong
        return None

    def server_keeps_nothing():
        """One server, many clients that die: figures go back to what they were."""
        programs = Programs(sides, next(ports))
        server = programs.serve()
        for i in range(count):
            client = programs.call('-c', '3', '-n', '1000000')
            lab.wait_for(lambda c=client: lab.output(c).count('connected') == 3, 10)
            time.sleep(rng.uniform(0, 0.3))
            lab.kill(client)
            lab.wait_for(lambda n=3 * i + 3: f'channel {n} closed' in lab.output(server), 10)
        before = len(figures(lab.output(server)))
        lab.wait_for(lambda: len(figures(lab.output(server))) > before + 1, 10)
        alive = server.poll() is None
        lab.kill(server)
        text = lab.output(server)
        (_, first), (last_when, last) = figures(text)[0], figures(text)[-1]
        if not alive or last_when != 'idle':
            return 'the server did not come to rest', text
        # A slab of each kind stays; so do the descriptors of the NIC, opened for the first peer.
        first['memory_regions'] += 2
        first['fds'] = next(held['fds'] for when, held in figures(text)
                            if when == 'after a channel' and held['qps'] == 0)
        for name, value in last.items():
            if value > first[name]:
                return f'{name}: {first[name]} at first, {value} at rest', text
        return None

    yield f'{place}: xrdma: SIGKILL of one side, {count} times', survivors
    yield f'{place}: xrdma: a server outlives {count} killed clients, keeps nothing', \
        server_keeps_nothing
