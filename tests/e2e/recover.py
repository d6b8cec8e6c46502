# SPDX-License-Identifier: BSD-2-Clause
"""libxrdma outlives its links: interfaces that go down and come up under load, the path of one
transport blocked while the other works, a peer that is killed and started again."""
import os
import time

import lab
import rehearse
import xr

DOWN_S = (1, 10, 60) if rehearse.FULL else (1, 7)
BACK_S = 5  # from link up to data, when the attempts are a second apart


def cpu_s(proc):
    with open(f'/proc/{proc.pid}/stat', encoding='ascii') as file:
        words = file.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


def down_and_up(sides, port, seconds):
    """Every byte arrives, once and in order, although the link was down in between."""
    programs = xr.Programs(sides, port)
    server = programs.serve('-k', '1')
    client = programs.call('-n', '400')
    lab.wait_for(lambda: 'connected' in lab.output(client), 10)
    time.sleep(0.3)
    rehearse.link(sides[1], 'down')
    time.sleep(min(seconds, 6))
    before = cpu_s(client)
    time.sleep(max(seconds - 6, 0))
    idle_s = max(seconds - 6, 0)
    burnt = cpu_s(client) - before
    rehearse.link(sides[1], 'up')
    if seconds > 6:  # else resends of the queue pairs bridge it
        lab.wait_for(lambda: rehearse.count(client, 'recovered') and
                     rehearse.count(server, 'recovered'), BACK_S)
    status = [lab.finish(client, 120), lab.finish(server, 20)]
    text = lab.output(client) + lab.output(server)
    if status != [0, 0] or 'every byte right' not in text:
        return f'client, server ended with status {status}', text
    if rehearse.count(client, 'broken') != rehearse.count(client, 'recovered'):
        return 'breaks and recoveries differ', text
    if idle_s > 2 and burnt > idle_s / 4:
        return f'{burnt:.1f} s of processor time in {idle_s} s with nothing to do', text
    rehearse.tell(f'{seconds} s down: {burnt:.2f} s of processor time in the last {idle_s:.0f} s; '
                  f'{rehearse.counted(client)}')
    wrong = rehearse.something_left(client, server)
    return (wrong, text) if wrong else None


def cases(place, sides, ports):
    for seconds in DOWN_S:
        yield f'{place}: xrdma: the link is down for {seconds} s under load', \
            lambda s=seconds: down_and_up(sides, next(ports), s)
