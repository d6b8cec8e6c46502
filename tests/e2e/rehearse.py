# SPDX-License-Identifier: BSD-2-Clause
"""Rehearsals: what befalls connections in a data centre, befalls those of libxrdma here. Each ends
with every call answered once, or failed once with its channel; every byte right; and nothing left.
REHEARSE=full: at full length, and those that take minutes."""
import os
import random
import re
import resource
import signal
import subprocess
import time

import lab
import xr

FULL = os.environ.get('REHEARSE') == 'full'
LOUD = 'REHEARSE' in os.environ  # figures, although all went well
RESTARTS = 200 if FULL else 4
STORM = 2000 if FULL else 100
BLOCK_MS = 10000 if FULL else 1500
STOP_S = 10 if FULL else 3
NOTHING = ('qps', 'channels', 'receives_posted', 'sends_posted', 'messages_held', 'wc_rnr',
           'protocol_errors')


def tell(text):
    if LOUD:
        print(f'# {text}', flush=True)


def counted(proc):
    """What a program counted in all, as it told at its end."""
    words = re.findall(r'^counted: (.*)$', lab.output(proc), re.M)[-1].split()
    return {k: int(v) for k, v in zip(words[::2], words[1::2])}


def count(proc, word):
    return len(re.findall(f'^{word}', lab.output(proc), re.M))


def something_left(*procs, shared=False):
    """What a program still holds at the end, or None. A shared receive queue stays filled."""
    for proc in procs:
        last = xr.figures(lab.output(proc))[-1][1]
        for name in NOTHING:
            if last[name] and not (shared and name == 'receives_posted'):
                return f'{last[name]} {name} at the end'
    return None


def verdict(client, server, wrong=None, timeout_s=120):
    """Both come to their ends by themselves, in good order."""
    status = [lab.finish(client, timeout_s), lab.finish(server, 30)]
    text = lab.output(client) + lab.output(server)
    if status != [0, 0] or 'every byte right' not in text:
        return f'client, server ended with status {status}', text
    wrong = wrong or something_left(client, server)
    if count(client, 'broken') != count(client, 'recovered'):
        wrong = 'breaks and recoveries differ'
    return (wrong, text) if wrong else None


def connected(client, channels=1):
    lab.wait_for(lambda: count(client, 'connected') >= channels or client.poll() is not None, 30)


# ---- one side stops ----

def blocks(sides, port):
    """A handler that blocks: the NIC goes on, so nothing breaks and nobody is not ready."""
    programs = xr.Programs(sides, port)
    server = programs.serve('-k', '1', '-b', str(BLOCK_MS))
    client = programs.call('-n', '200')
    wrong = verdict(client, server)
    if not wrong and (count(client, 'broken') or count(server, 'broken') or
                      not count(server, 'blocks')):
        wrong = 'the channel broke, or nothing blocked', lab.output(client) + lab.output(server)
    return wrong


def stops(sides, port):
    """A whole process stops and goes on: as if the link were down meanwhile."""
    programs = xr.Programs(sides, port)
    server = programs.serve('-k', '1')
    client = programs.call('-n', '400')
    connected(client)
    time.sleep(0.2)
    os.killpg(server.pid, signal.SIGSTOP)
    time.sleep(STOP_S)
    os.killpg(server.pid, signal.SIGCONT)
    return verdict(client, server)


# ---- both sides die and come back ----

def restarts(sides, ports, seed, env=()):
    """Either side is killed and started again at the same address; the other goes on with it."""
    rng = random.Random(seed)
    port = next(ports)
    programs = xr.Programs(sides, port, xr.PLAIN + env, xr.PLAIN + env)
    server = programs.serve()
    client = programs.call('-r', '-n', '1000000')
    connected(client)
    at_first = None
    slowest = 0
    for i in range(RESTARTS):
        time.sleep(rng.uniform(0, 0.3))
        before = count(client, 'connected')
        if rng.random() < 0.5:
            lab.kill(server)
            time.sleep(rng.uniform(0, 0.3))
            start = time.monotonic()
            server = programs.serve()
        else:
            lab.kill(client)
            time.sleep(rng.uniform(0, 0.3))
            start = time.monotonic()
            client = programs.call('-r', '-n', '1000000')
            before = 0
        if not lab.wait_for(lambda c=client, b=before: count(c, 'connected') > b, 20):
            lab.kill(client)
            lab.kill(server)
            return f'restart {i}: no connection', lab.output(server)[-3000:] + \
                lab.output(client)[-3000:]
        slowest = max(slowest, time.monotonic() - start)
    tell(f'{RESTARTS} restarts, the slowest connected again after {slowest:.2f} s')
    lab.kill(client)
    last = programs.call('-n', '50')
    status = lab.finish(last, 60)
    lab.wait_for(lambda: at_rest(server), 20)
    alive = server.poll() is None
    lab.kill(server)
    text = lab.output(client) + lab.output(last) + lab.output(server)
    if status or not alive or not at_rest(server) or re.search('wrong at byte|not ended', text):
        return f'the last client: status {status}; server alive: {alive}', text
    wrong = something_left(last, server)
    return (wrong, text) if wrong else None


def at_rest(server):
    found = xr.figures(lab.output(server))
    return found and found[-1][0] == 'idle' and not any(found[-1][1][name] for name in NOTHING)


# ---- the network ----

def lossy(sides, port, percent, calls):
    undo = lab.lose(sides, percent)
    try:
        programs = xr.Programs(sides, port)
        server = programs.serve('-k', '1')
        client = programs.call('-n', str(calls))
        return verdict(client, server, timeout_s=300)
    finally:
        undo()


def link(side, state):
    subprocess.run(side.argv(['ip', 'link', 'set', side.netdev, state]), check=True)


def address(side, what, value):
    subprocess.run(side.argv(['ip', 'addr', what, value, 'dev', side.netdev]), check=True)


def moved(sides, port):
    """The client's interface goes down, and comes up with another address."""
    client_side = sides[1]
    old, new = f'{client_side.ipv4}/24', '10.77.0.9/24'
    programs = xr.Programs(sides, port)
    server = programs.serve('-k', '1')
    client = programs.call('-n', '300')
    connected(client)
    time.sleep(0.2)
    link(client_side, 'down')
    address(client_side, 'del', old)
    time.sleep(1)
    address(client_side, 'add', new)
    link(client_side, 'up')
    try:
        wrong = verdict(client, server)
        if not wrong and not count(client, 'recovered'):
            wrong = 'it did not break', lab.output(client)
        return wrong
    finally:
        address(client_side, 'del', new)
        address(client_side, 'add', old)


def storm(sides, port):
    """All links are down at once, and up again: all channels come back, and soon."""
    env = xr.PLAIN + ('XRDMA_KEEPALIVE_MS=1000', 'XRDMA_QP_CACHE=0', 'XRDMA_SRQ=on',
                      'XRDMA_WINDOW=4', 'XRDMA_CONTROL=4', 'XRDMA_CONNECT_TIMEOUT_MS=60000')
    programs = xr.Programs(sides, port, env, env)
    server = programs.serve('-k', str(STORM), '-s', '8192')
    start = time.monotonic()
    client = programs.call('-c', str(STORM), '-n', '1', '-s', '8192', '-w', '3600000')
    lab.wait_for(lambda: count(client, '(waiting|closed)') or client.poll() is not None, 300)
    if not count(client, 'waiting'):
        opened = count(client, 'connected')
        lab.kill(client)
        lab.kill(server)
        return f'{opened} channels of {STORM} were opened', lab.output(client)[-1500:] + \
            lab.output(server)[-1500:]
    tell(f'{STORM} channels opened and used after {time.monotonic() - start:.1f} s')
    link(sides[1], 'down')
    down_s = lab.wait_for(lambda: count(client, 'broken') >= STORM, 60) and 1
    time.sleep(3)
    link(sides[1], 'up')
    up = time.monotonic()
    back = lab.wait_for(lambda: count(client, 'recovered') >= STORM and
                        count(server, 'recovered') >= STORM, 120)
    took_s = time.monotonic() - up
    os.killpg(client.pid, signal.SIGUSR1)
    status = [lab.finish(client, 120), lab.finish(server, 60)]
    text = lab.output(client)[-1500:] + lab.output(server)[-1500:]
    if not down_s or not back or status != [0, 0]:
        return (f'{count(client, "recovered")} of {STORM} are back after {took_s:.1f} s; '
                f'status {status}', text)
    dialed = counted(client)
    tell(f'{STORM} channels are back {took_s:.1f} s after the link: {dialed}')
    wrong = something_left(client, server, shared=True)
    if 'did not end' in lab.output(client) + lab.output(server):
        wrong = 'queue pairs did not end their work requests'
    if dialed['redials'] > 20 * STORM:
        wrong = f'{dialed["redials"]} connections were dialed'
    return (wrong, text) if wrong else None


def limits():
    """Descriptors for the storm: one for each channel at either side."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))


def cases(place, sides, ports):
    limits()
    yield f'{place}: rehearsal: a handler blocks for {BLOCK_MS} ms', \
        lambda: blocks(sides, next(ports))
    yield f'{place}: rehearsal: a side stops for {STOP_S} s', lambda: stops(sides, next(ports))
    yield f'{place}: rehearsal: either side is restarted, {RESTARTS} times', \
        lambda: restarts(sides, ports, 3)
    yield f'{place}: rehearsal: and with keys issued again at once', \
        lambda: restarts(sides, ports, 4, ('URXE_KEYS=reuse',))
    yield f'{place}: rehearsal: one packet in ten is lost', \
        lambda: lossy(sides, next(ports), 10, 100 if FULL else 15)
    yield f'{place}: rehearsal: the link comes up with another address', \
        lambda: moved(sides, next(ports))
    yield f'{place}: rehearsal: the links of {STORM} channels go down at once', \
        lambda: storm(sides, next(ports))
