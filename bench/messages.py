# SPDX-License-Identifier: BSD-2-Clause
"""The middleware beside raw verbs on the same device, UCX active messages, ZeroMQ and nng; what its
connections cost; and the targets it is held against."""
import json
import os

import peers
from measure import Case, Metric, Row, Target, abstract, case, lab, measure, ours

ROUND_TRIP = Metric('round trip', 64, '64 B', 'us')
BANDWIDTH = Metric('bandwidth', 1048576, '1 MiB', 'GB/s')
RATE = Metric('rate', 64, '64 B', 'M msg/s')
METRICS = (ROUND_TRIP, BANDWIDTH, RATE)
TABLE = 'messages'
VERBS, XRDMA = 'raw verbs', 'xrdma'
SECONDS = 0.4
XR_PERF = os.path.join(lab.BUILD, 'tools', 'xr-perf', 'xr-perf')

SET_UPS = tuple(Metric('set-up', None, title, '1/s') for title in ('plain', 'TLS 1.3'))
KEY = '5a' * 32
CHANNELS = (64, 512, 4096)
OF_CHANNELS = {
    Metric('rate', 64, '64 B', 'M rpc/s'): lambda result: result['messages_per_s'] / 1e6,
    Metric('set-up', None, 'plain', '1/s'): lambda result: result['setups_per_s'],
    Metric('memory', None, 'each', 'KiB'): lambda result: result['memory_per_channel_bytes'] / 1024,
    Metric('registered', None, 'each', 'KiB'):
        lambda result: result['registered_per_channel_bytes'] / 1024,
}


def verbs():
    """What the middleware is made of: a round trip is twice the latency of a SEND, large messages
    are READ, and small ones are SENDs."""
    def commands(metric, sides, port):
        latency = metric._replace(kind='latency') if metric is ROUND_TRIP else metric
        verb = 'read' if metric is BANDWIDTH else 'send'
        server, client, read = peers.perftest(verb)(latency, sides, port)
        scale = 2 if metric is ROUND_TRIP else 1
        return server, client, lambda _, text: scale * read(latency, text)
    return commands


def xr_perf(sides, port, options, *more):
    """Server and client of xr-perf; options are of both. Both poll, as those of perftest do."""
    return ([XR_PERF, '-s', '-p', str(port), '--poll', *options],
            [XR_PERF, f'{sides[0].ipv4}:{port}', '--json', '-', '-q', *options, *more])


def options_of(*settings):
    return [word for setting in settings for word in ('-o', setting)]


def results(text):
    return json.loads(text[text.index('{'):])['results']


def xrdma():
    reads = {ROUND_TRIP: ('latency', lambda result: result['rtt_us']['p50']),
             BANDWIDTH: ('bandwidth', lambda result: result['gb_per_s']),
             RATE: ('rate', lambda result: result['messages_per_s'] / 1e6)}

    def commands(metric, sides, port):
        test, read = reads[metric]
        # Replies, as the data of READs comes from the server, too: two processors are not alike. Two
        # in flight: raw verbs read the same buffer all the time, and what two processes pass
        # through a cache is slower the more of it there is.
        few = ['--direction', 'in', '--in-flight', '2'] if metric is BANDWIDTH else []
        return *xr_perf(sides, port, options_of('tls=off'), '-S', str(metric.size), '-t', str(SECONDS),
                        *few, test), lambda _, text: read(results(text)[-1])
    return commands


def ucx_over_urxe():
    of_ucx = ucx('rc_verbs,ud_verbs,self')

    def commands(metric, sides, port):
        *both, read = of_ucx(metric, sides, port)
        return *(lab.for_ucx(side, argv) for side, argv in zip(sides, both)), read
    return commands


def ucx(transports, over_ip=False):
    of_peers = peers.ucx(transports, 'ucp_am_lat', 'ucp_am_bw', over_ip)

    def commands(metric, sides, port):
        one_way = metric._replace(kind='latency') if metric is ROUND_TRIP else metric
        server, client, read = of_peers(one_way, sides, port)
        scale = 2 if metric is ROUND_TRIP else 1
        return server, client, lambda _, text: scale * read(one_way, text)
    return commands


def library(program, local):
    """bench/zmq.c and nng.c: TCP, or on one host a local socket under this scheme."""
    def read(metric, text):
        value = float(text)
        return value * {'round trip': 1, 'bandwidth': metric.size / 1e9, 'rate': 1e-6}[metric.kind]

    def commands(metric, sides, port):
        url = local + abstract(port) if sides[0] is sides[1] else f'tcp://{sides[0].ipv4}:{port}'
        what = 'latency' if metric is ROUND_TRIP else 'rate'
        common = [url, what, str(metric.size), str(SECONDS)]
        return [ours(program), 'server', *common], [ours(program), 'client', *common], read
    return commands


def rows(path):
    yield Row(TABLE, path, VERBS, True, verbs())
    yield Row(TABLE, path, XRDMA, False, xrdma())
    transport = 'posix' if path == 'one host' else 'tcp'
    yield Row(TABLE, path, f'UCX {transport} am', False,
              ucx(f'{transport},self', transport == 'tcp'))
    yield Row(TABLE, path, 'UCX am on urxe', True, ucx_over_urxe())
    yield Row(TABLE, path, 'ZeroMQ', False, library('bench_zmq', 'ipc://@'))
    yield Row(TABLE, path, 'nng', False, library('bench_nng', 'abstract://'))


def storm(metric, sides, port):
    options = options_of(*['tls=off'] if metric is SET_UPS[0] else ['tls=on', f'tls_psk={KEY}'])
    return *xr_perf(sides, port, options, '-t', str(SECONDS), 'storm'), \
        lambda _, text: results(text)[-1]['messages_per_s']


def tcp(metric, sides, port):
    how = 'plain' if metric is SET_UPS[0] else 'tls'
    return ([ours('bench_connect'), 'server', str(port), how],
            [ours('bench_connect'), 'client', f'{sides[0].ipv4}:{port}', how, str(SECONDS)],
            lambda _, text: float(text))


def channels(path, count):
    """A request on its way on each. Windows are small: thousands of them are promised receives."""
    options = options_of('tls=off', 'window=4', 'control=4', 'srq_max=65536')

    def read(_, text):
        return {(f'{count} channels', metric): figure(results(text)[-1])
                for metric, figure in OF_CHANNELS.items()}

    def run(sides, port):
        commands = *xr_perf(sides, port, options, '--channels', str(count), '-S', '64', '-t',
                            str(SECONDS), 'latency'), read
        found = measure(False, commands, None, sides, port)
        return {(f'{count} channels', None): found} if isinstance(found, str) else found
    return Case('channels', path, (f'{count} channels',), tuple(OF_CHANNELS), run)


def cases(paths):
    every = [case(row, metric) for metric in METRICS for path in paths for row in rows(path)]
    if 'one host' in paths:
        for metric in SET_UPS:
            every.append(case(Row('connections', 'one host', XRDMA, False, storm), metric))
            every.append(case(Row('connections', 'one host', 'TCP', False, tcp), metric))
        every += [channels('one host', count) for count in CHANNELS]
    return every


TARGETS = tuple(
    Target(TABLE, path, XRDMA, metric, most, factor, VERBS, plus)
    for path in ('one host', 'two namespaces') for metric, most, factor, plus in (
        (ROUND_TRIP, True, 1, 0.30),  # twice the one-way latency of a SEND is the first line's
        (BANDWIDTH, False, 0.95, 0),
        (RATE, False, 0.6, 0)))
