# SPDX-License-Identifier: BSD-2-Clause
"""xr-ping: layers that add up and say where a delay is, loss, a target that goes and comes, the
matrix of a mesh, and what it says when something is wrong. No preload."""
import json
import os
import signal
import tempfile

import lab

PING = os.path.join(lab.BUILD, 'tools', 'xr-ping', 'xr-ping')
PLAIN = ['-o', 'tls=off']
LAYERS = ('handler_us', 'queue_us', 'wire_us')
DELAY_US = 30000


def host(address):
    return f'[{address}]' if ':' in address else address


class Listener:
    """xr-ping -l on a side, from with to its end."""

    def __init__(self, side, port, options=()):
        self.argv = (side, port, options)

    def __enter__(self):
        side, port, options = self.argv
        self.proc = side.spawn([PING, '-l', '-p', str(port), *PLAIN, *options], urxe=False)
        lab.wait_for(lambda: 'listening' in self.log() or self.proc.poll() is not None, 20)
        return self

    def __exit__(self, *_):
        lab.kill(self.proc)

    def log(self):
        return lab.output(self.proc)


def ping(side, options):
    status, text = side.run([PING, *PLAIN, *options], urxe=False)
    return status, text


def measured(sides, port, options, listener_options=(), address=None):
    """The report of a run, which must succeed."""
    with Listener(sides[0], port, listener_options) as listener:
        status, text = ping(sides[1], ['--json', *options,
                                       f'{host(address or sides[0].ipv4)}:{port}'])
        if status:
            raise RuntimeError(f'status {status}: {text}{listener.log()}')
    return json.loads(text[text.index('{'):])


def adds_up(sides, port, size, address=None):
    report = measured(sides, port, ['-c', '30', '-i', '0.01', '-s', str(size)], address=address)
    if (report['sent'], report['answered'], report['lost']) != (30, 30, 0):
        return 'not all answered', str(report)
    for probe in report['probes']:
        if abs(sum(probe[name] for name in LAYERS) - probe['rtt_us']) > 0.01 + probe['rtt_us'] / 1e4:
            return 'the layers are not the whole', str(probe)
    if {probe['transport'] for probe in report['probes']} != {'rdma'} or \
            report['transport'] != 'rdma':
        return 'not by RDMA', str(report)
    if report['tcp_rtt_us'] <= 0:
        return 'no TCP beside', str(report)
    # Both programs have the clock of this machine.
    if not 0 < report['clock_error_us'] or \
            abs(report['clock_offset_us']) > report['clock_error_us']:
        return 'the clocks do not agree', str(report)
    return None


def delay_is_found(sides, port, rule, layer):
    # One after the other: who comes behind one that is delayed is not delayed for as long.
    report = measured(sides, port, ['-c', '5', '-i', '0'],
                      ['-o', f'filter=delay={DELAY_US}:{rule}'])
    least = {name: report[name]['min'] for name in LAYERS}
    if least[layer] < DELAY_US or any(least[name] > DELAY_US for name in LAYERS if name != layer):
        return f'{DELAY_US} us are not (only) in {layer}', str(least)
    return None


def loss(sides, port):
    report = measured(sides, port, ['-c', '8', '-i', '0.2', '-W', '0.1'],
                      ['-o', 'filter=delay=400000:out:type=RSP:after=2:n=2'])
    lost = [probe['seq'] for probe in report['probes'] if 'error' in probe]
    # Others wait behind these, and on a busy machine any may be late.
    if not {3, 4} <= set(lost) or report['lost'] != len(lost) or report['answered'] != 8 - len(lost):
        return f'lost {lost}, expected 3 and 4', str(report)
    return None


def goes_and_comes(sides, port):
    target = f'{sides[0].ipv4}:{port}'
    with Listener(sides[0], port) as first:
        client = sides[1].spawn([PING, *PLAIN, '-i', '0.1', '-W', '0.5', target], urxe=False)
        try:
            if not lab.wait_for(lambda: lab.output(client).count('bytes from') > 3, 20):
                return 'no answer', lab.output(client)
            lab.kill(first.proc)
            if not lab.wait_for(lambda: 'no answer' in lab.output(client), 20):
                return 'the loss is not told', lab.output(client)
            answered = lab.output(client).count('bytes from')
            with Listener(sides[0], port):
                if not lab.wait_for(lambda: lab.output(client).count('bytes from') > answered + 3, 30):
                    return 'not answered again', lab.output(client)
                client.send_signal(signal.SIGINT)
                status, text = lab.finish(client, 10), lab.output(client)
        finally:
            lab.kill(client)
    if status != 0 or '% lost' not in text or ' 0 % lost' in text:
        return f'status {status}, or no summary', text
    return None


def mesh(sides, ports):
    """Listeners on both sides; each reaches every other, and is in the matrix."""
    three = [(sides[0], next(ports)), (sides[1], next(ports)), (sides[0], next(ports))]
    hosts = [f'{side.ipv4}:{port}' for side, port in three]
    with Listener(*three[0]), Listener(*three[1]), Listener(*three[2]), \
            tempfile.NamedTemporaryFile('w', suffix='.hosts') as file:
        file.write('# hosts\n' + '\n'.join(hosts) + '\n')
        file.flush()
        status, text = ping(sides[1], ['--mesh', file.name])
        rows = [line for line in text.splitlines() if line.startswith('[ ')]
        if status or len(rows) != 3 or any(
                host_ not in row or row.split()[3:].count('-') != 1 or len(row.split()) != 6
                for host_, row in zip(hosts, rows)):
            return f'status {status}, or no matrix', text
        status, text = ping(sides[1], ['--json', '-c', '7', '--mesh', ','.join(hosts)])
    report = json.loads(text[text.index('['):])
    pairs = [(row['from'], cell['target']) for row in report for cell in row['to']
             if cell['answered'] == 7 and cell['rtt_us']['min'] > 0]
    if status or pairs != [(a, b) for a in hosts for b in hosts if a != b]:
        return f'status {status}, pairs {pairs}', text
    return None


def mesh_with_a_hole(sides, ports):
    """One host is not there: the others are measured, and it is told who is missing."""
    here = [(sides[0], next(ports)), (sides[1], next(ports))]
    hosts = [f'{side.ipv4}:{port}' for side, port in here] + [f'{sides[0].ipv4}:1']
    with Listener(*here[0]), Listener(*here[1]):
        status, text = ping(sides[1], ['--json', '--mesh', ','.join(hosts)])
    report = json.loads(text[text.index('['):])
    if status != 1 or 'refused' not in report[2]['error'] or \
            'refused' not in report[0]['to'][1]['error'] or report[0]['to'][0]['answered'] != 10:
        return f'status {status}', text
    return None


def text_and_flood(sides, port):
    target = f'{sides[0].ipv4}:{port}'
    with Listener(sides[0], port):
        status, text = ping(sides[1], ['-c', '500', '-i', '0', '-q', '--poll', target])
        if status or '500 probes, 500 answered, 0 % lost' not in text or 'bytes from' in text:
            return f'status {status}', text
        for name in ('rtt', 'handler', 'queue', 'wire', 'tcp', 'clock'):
            if f'\n{name} ' not in text:
                return f'no line {name}', text
    return None


def by_tcp(sides, port):
    """Where TCP stands in for RDMA it is told: with each reply, at the end, and in the matrix."""
    target, wants_tcp = f'{sides[0].ipv4}:{port}', ['-o', 'transport=force-tcp']
    report = measured(sides, port, ['-c', '3', '-i', '0.01', *wants_tcp])
    if report['transport'] != 'tcp' or \
            [probe['transport'] for probe in report['probes']] != ['tcp'] * 3:
        return 'not by TCP', str(report)
    with Listener(sides[0], port, wants_tcp):
        status, text = ping(sides[1], ['-c', '2', '-i', '0.01', target])
        if status or text.count(f'from {target} by tcp: seq=') != 2 or \
                'TCP stands in for RDMA: ' not in text:
            return f'status {status}', text
        status, text = ping(sides[1], ['--mesh', f'{target},{target}'])
        if status or text.count('/tcp') != 3: # above the matrix, and twice in it
            return f'status {status}', text
    return None


def peer_without_trace(sides, port):
    with Listener(sides[0], port, ['-o', 'trace=off']):
        status, text = ping(sides[1], ['-c', '2', '-i', '0.01', f'{sides[0].ipv4}:{port}'])
    if status or 'does not trace' not in text or 'wire' in text:
        return f'status {status}', text
    return None


def trace_file(sides, port):
    """What a trace viewer gets is JSON, its spans have ends, and the peer's lie in the call's."""
    with tempfile.TemporaryDirectory() as tmp:
        report = measured(sides, port, ['-c', '20', '-i', '0.01', '-o', f'trace_file={tmp}/t'])
        files = os.listdir(tmp)
        if len(files) != 1:
            return 'not one file', str(files)
        with open(os.path.join(tmp, files[0]), encoding='utf-8') as file:
            events = json.load(file)
    calls = {}
    for event in events:
        if event['ph'] in 'be':
            calls.setdefault(event['id'], {}).setdefault(event['name'], []).append(event['ts'])
    if len(calls) != 20:
        return f'{len(calls)} calls', str(events)
    slack = 2 * report['clock_error_us'] + 5
    for spans in calls.values():
        begin, end = spans['call']
        if len(spans) != 8 or any(len(span) != 2 for span in spans.values()) or \
                not begin - slack <= spans['handler'][0] <= spans['handler'][1] <= end + slack:
            return 'spans that cannot be', str(spans)
    return None


def ends_on_signal(sides, port):
    with Listener(sides[0], port) as listener:
        listener.proc.terminate()
        status = lab.finish(listener.proc, 10)
        return None if status == 0 else (f'status {status}', listener.log())


def error_cases(place, sides):
    def says(argv, want_status, *want):
        def case():
            status, text = sides[0].run([PING, *argv], urxe=False)
            if status != want_status or any(words not in text for words in want):
                return f'status {status}; expected {want_status} and {want}', text
            return None
        return case

    for name, case in (
            ('no target', says([], 2, 'expected one HOST')),
            ('two targets', says(['a', 'b'], 2, 'expected one HOST')),
            ('bad count', says(['-c', '0', 'a'], 2, '--count 0: expected a number from 1')),
            ('bad interval', says(['-i', 'x', 'a'], 2, '--interval x: expected seconds')),
            ('bad size', says(['-s', '7', 'a'], 2, 'from 8 to 1048576')),
            ('mesh of one', says(['--mesh', 'a'], 2, 'two hosts')),
            ('mesh of no file', says(['--mesh', '/nonesuch/hosts'], 2, '/nonesuch/hosts')),
            ('unknown option of xrdma', says(['-o', 'windw=1', 'a'], 1, 'no such option')),
            ('nobody there', says([f'{sides[0].ipv4}:1'], 1, 'no connection', 'refused'))):
        yield f'{place}: xr-ping: {name}', case


def cases(place, sides, ports):
    for size in (8, 56, 4096, 100000):
        yield f'{place}: xr-ping: layers add up, {size} bytes', \
            lambda size=size: adds_up(sides, next(ports), size)
    yield f'{place}: xr-ping: IPv6', lambda: adds_up(sides, next(ports), 56, sides[0].ipv6)
    yield f'{place}: xr-ping: a delay on the way is wire', \
        lambda: delay_is_found(sides, next(ports), 'in:type=REQ', 'wire_us')
    yield f'{place}: xr-ping: a delay before the NIC is queue', \
        lambda: delay_is_found(sides, next(ports), 'out:type=RSP', 'queue_us')
    yield f'{place}: xr-ping: late is lost', lambda: loss(sides, next(ports))
    yield f'{place}: xr-ping: a target goes and comes', lambda: goes_and_comes(sides, next(ports))
    yield f'{place}: xr-ping --mesh', lambda: mesh(sides, ports)
    yield f'{place}: xr-ping --mesh with a hole', lambda: mesh_with_a_hole(sides, ports)
    if place != 'host':
        return
    yield f'{place}: xr-ping -i 0 -q', lambda: text_and_flood(sides, next(ports))
    yield f'{place}: xr-ping: TCP stands in', lambda: by_tcp(sides, next(ports))
    yield f'{place}: xr-ping: a target that does not trace', \
        lambda: peer_without_trace(sides, next(ports))
    yield f'{place}: xr-ping -o trace_file', lambda: trace_file(sides, next(ports))
    yield f'{place}: xr-ping -l ends on SIGTERM', lambda: ends_on_signal(sides, next(ports))
    yield from error_cases(place, sides)
