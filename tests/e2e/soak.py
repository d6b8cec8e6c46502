#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A soak: a server and a client of libxrdma under traffic and random faults, for minutes, and what
both hold meanwhile. Usage: tests/e2e/soak.py [MINUTES [SEED]]. Ends with a table and 0, or 1 when a
byte was wrong, a channel did not recover, or what is held grew."""
import os
import random
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import lab  # noqa: E402
import rehearse  # noqa: E402
import xr  # noqa: E402

CHANNELS = 8
SAMPLES = 20  # in all
GROWTH = 1.15  # of memory, from the first third to the last
PORT = 24000
EACH_S = 3  # between faults, in the middle


def rss_kib(proc):
    with open(f'/proc/{proc.pid}/status', encoding='ascii') as file:
        return int(re.search(r'VmRSS:\s+(\d+)', file.read())[1])


def fds(proc):
    return len(os.listdir(f'/proc/{proc.pid}/fd'))


def held(proc):
    """What the program counts as its own, when it has told last."""
    found = xr.figures(lab.output(proc))
    return {name: found[-1][1][name] for name in ('qps', 'memory_regions', 'channels')}


def link_down(sides, rng):
    rehearse.link(sides[1], 'down')
    time.sleep(rng.choice((0.2, 1, 6)))
    rehearse.link(sides[1], 'up')


def loss(sides, rng):
    undo = lab.lose(sides, rng.choice((1, 5, 20)))
    time.sleep(rng.uniform(0.5, 3))
    undo()


def stop(procs, rng):
    proc = rng.choice(procs)
    os.killpg(proc.pid, signal.SIGSTOP)
    time.sleep(rng.choice((0.1, 1, 5)))
    os.killpg(proc.pid, signal.SIGCONT)


def cut(sides, rng):
    """TCP connections end; queue pairs do not notice."""
    side = rng.choice(sides)
    subprocess.run(side.argv(['ss', '-K', 'sport', '=', f':{PORT}', 'or', 'dport', '=',
                              f':{PORT}']), capture_output=True, check=False)


def sample(started, server, client, table):
    row = [time.monotonic() - started]
    for proc in (server, client):
        row += [rss_kib(proc), fds(proc), held(proc)['qps'], held(proc)['memory_regions']]
    table.append(row)
    print('# {:6.0f} s  server: {} KiB, {} fds, {} QPs, {} MRs  client: {} KiB, {} fds, {} QPs, '
          '{} MRs'.format(*row), flush=True)


def grown(table):
    """Which column is larger in the last third than in the first by more than noise."""
    third = len(table) // 3
    for column in range(1, len(table[0])):
        first = max(row[column] for row in table[:third])
        last = max(row[column] for row in table[-third:])
        if last > first * GROWTH + 4:
            return f'column {column} grew from {first} to {last}'
    return None


def soak(sides, minutes, rng):
    env = xr.PLAIN + ('XRDMA_KEEPALIVE_MS=1000',)
    programs = xr.Programs(sides, PORT, env, env)
    server = programs.serve('-k', str(CHANNELS), '-s', '70000')
    client = programs.call('-c', str(CHANNELS), '-n', '100000000', '-p', '100', '-s', '70000')
    rehearse.connected(client, CHANNELS)
    started = time.monotonic()
    table = []
    faults = [lambda: link_down(sides, rng), lambda: loss(sides, rng),
              lambda: stop((server, client), rng), lambda: cut(sides, rng)]
    while time.monotonic() - started < minutes * 60:
        for _ in range(2):
            rng.choice(faults)()
            time.sleep(rng.uniform(0, 2 * EACH_S))
        if client.poll() is not None or server.poll() is not None:
            break
        if time.monotonic() - started > len(table) * minutes * 60 / SAMPLES:
            for proc in (server, client):
                os.killpg(proc.pid, signal.SIGUSR2)
            time.sleep(1)
            sample(started, server, client, table)
    os.killpg(client.pid, signal.SIGUSR1)
    wrong = rehearse.verdict(client, server)
    for proc in (client, server):
        print(f'# {rehearse.counted(proc)}')
    return wrong or (grown(table) and (grown(table), ''))


def main():
    refused = lab.enter()
    if refused:
        print(refused)
        return 77
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wrong = soak(lab.pair(), minutes, random.Random(seed))
    print('not ok - ' + '\n'.join(wrong)[-4000:] if wrong else 'ok - soak')
    return wrong is not None


if __name__ == '__main__':
    sys.exit(main())
