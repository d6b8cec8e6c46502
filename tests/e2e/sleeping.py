# SPDX-License-Identifier: BSD-2-Clause
"""Programs that do not poll: their messages cost the thread that serves them a wake-up each, but
neither a fence in every process nor a wake-up for a deadline that will be moved again."""
import os
import re
import tempfile

import lab

MESSAGES = 1000
# How it waits, the program, and the most system calls of its server: an event is written for each
# completion, of a send and of a receive.
PROGRAMS = (
    ('waits for events', ['ib_send_lat', '-e'],
     {'membarrier': MESSAGES // 10, 'write': 2 * MESSAGES + MESSAGES // 5}),
    ('spins on memory', ['ib_write_lat'],
     {'membarrier': MESSAGES // 10, 'write': MESSAGES // 10}),
)


def counted(text):
    return {m[2]: int(m[1]) for m in re.finditer(r'^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$',
                                                text, re.M)}


def sleeping(side, port, argv, most):
    common = [*argv, '-F', '-n', str(MESSAGES), '-s', '64', '-p', str(port), '-x',
              side.gid_index(side.ipv4)]
    with tempfile.TemporaryDirectory() as tmp:
        trace = os.path.join(tmp, 'trace')
        server = ['strace', '-f', '-c', '-e', f'trace={",".join(most)}', '-o', trace, *common]
        pair = lab.Pair(side, side, server, [*common, side.ipv4], port)
        if pair.status != [0, 0]:
            return f'statuses {pair.status}', pair.logs()
        with open(trace, encoding='utf-8') as file:
            text = file.read()
    calls = counted(text)
    many = [name for name in most if calls.get(name, 0) > most[name]]
    return (f'more than {most}', text) if many else None


def cases(side, ports):
    for how, argv, most in PROGRAMS:
        yield f'host: who {how} costs few system calls', \
            lambda a=argv, m=most: sleeping(side, next(ports), a, m)
