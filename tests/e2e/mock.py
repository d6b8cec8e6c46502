# SPDX-License-Identifier: BSD-2-Clause
"""TCP in place of RDMA, over real packets: a firewall drops RoCE and lets TCP pass, from the start
or under load, and lets go of it; both are dead for a while; RDMA is not wanted. Every byte arrives,
once and in order, and not a packet goes where it must not."""
import os
import time

import lab
import rehearse
import xr

DOWN_S = 10 if 'RECOVER_LONG' in os.environ else 4
# A dead path is found in some 0.2 s.
QUICK = ['XRDMA_TIMEOUT=12', 'XRDMA_RETRY_CNT=3', 'XRDMA_MOCK_AFTER=2', 'XRDMA_MOCK_PROBE_MS=25',
         'XRDMA_BACKOFF_MAX_MS=100', 'XRDMA_KEEPALIVE_MS=200']
PSK = ['XRDMA_TLS_PSK=' + 'c' * 64]
CALLS = 700  # more than there is time for until all is told that is waited for
PATIENCE_S = 20


def told(procs, word, times):
    return lambda: all(rehearse.count(proc, word) >= times for proc in procs)


class Run:
    """A server and a client that talk until they have made so many calls."""

    def __init__(self, sides, port, env, calls):
        programs = xr.Programs(sides, port, env, env)
        self.procs = [programs.serve('-k', '1'), programs.call('-n', str(calls))]

    def text(self):
        return ''.join(lab.output(proc) for proc in self.procs)

    def wait(self, word, times=1):
        """None, or what is wrong."""
        if lab.wait_for(told(self.procs, word, times), PATIENCE_S):
            return None
        return f'not all have told "{word}" {times} times', self.text()

    def connected(self):
        lab.wait_for(lambda: 'connected' in lab.output(self.procs[1]), PATIENCE_S)

    def end(self):
        status = [lab.finish(proc, 90) for proc in reversed(self.procs)]
        if status != [0, 0] or 'every byte right' not in self.text():
            return f'client, server ended with status {status}', self.text()
        return None


def under_load(sides, port, env):
    run = Run(sides, port, env + QUICK, CALLS)
    run.connected()
    allow = lab.block(sides, 'udp dport 4791')
    wrong = run.wait('mocked')
    allow()
    return wrong or run.wait('unmocked') or run.end()


def both_down(sides, port):
    run = Run(sides, port, list(xr.PLAIN) + QUICK, CALLS)
    run.connected()
    allow = lab.block(sides, 'udp dport 4791')
    wrong = run.wait('mocked')
    rehearse.link(sides[1], 'down')
    time.sleep(DOWN_S)
    rehearse.link(sides[1], 'up')
    allow()
    return wrong or run.wait('unmocked') or run.end()


def from_the_start(sides, port):
    allow = lab.block(sides, 'udp dport 4791')
    run = Run(sides, port, list(xr.PLAIN) + QUICK, 100)
    wrong = run.wait('mocked') or run.end()
    if not wrong and 'is UDP port 4791 open on the way?' not in run.text():
        wrong = 'nobody is told where to look', run.text()
    allow()
    return wrong


def not_wanted(sides, port):
    sent = lab.packets(sides[0], 'udp dport 4791')
    wrong = Run(sides, port, list(xr.PLAIN) + ['XRDMA_TRANSPORT=force-tcp'], 100).end()
    n = sent()
    return wrong or ((f'{n} packets of RoCE', '') if n else None)


def cases(place, sides, ports):
    table = [
        ('RoCE is blocked under load, and not any more',
         lambda port: under_load(sides, port, list(xr.PLAIN))),
        ('the same with TLS', lambda port: under_load(sides, port, PSK)),
        (f'RoCE is blocked, then all down for {DOWN_S} s', lambda port: both_down(sides, port)),
        ('RoCE is blocked from the start', lambda port: from_the_start(sides, port)),
        ('TCP by option: not a packet of RoCE', lambda port: not_wanted(sides, port)),
    ]
    for name, case in table:
        yield f'{place}: mock: {name}', lambda case=case: case(next(ports))
