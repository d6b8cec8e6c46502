# SPDX-License-Identifier: BSD-2-Clause
"""The verbs of urxe beside sockets, UCX and libfabric: command lines, and how the output reads."""
import json
import re

from measure import Metric, Row, Target, case

LATENCY = Metric('latency', 64, '64 B', 'us one way')
BANDWIDTH, BANDWIDTH_1M = (Metric('bandwidth', size, title, 'GB/s')
                           for size, title in ((65536, '64 KiB'), (1048576, '1 MiB')))
RATE = Metric('rate', 64, '64 B', 'M msg/s')
METRICS = (LATENCY, Metric('latency', 4096, '4 KiB', 'us one way'),
           Metric('bandwidth', 4096, '4 KiB', 'GB/s'), BANDWIDTH, BANDWIDTH_1M, RATE)
TABLE = 'verbs'
SECONDS = 1


def iterations(metric):
    """Enough for a median, in well under a second where nothing else wants the processors."""
    if metric.kind == 'bandwidth':
        return max(1000, min(100000, 2 ** 31 // metric.size))
    return 20000 if metric.kind == 'latency' else 100000


def perftest(verb):
    def read(metric, text):
        row = re.search(rf'^\s*{metric.size}\s+\d+\s+(.*)$', text, re.M)[1].split()
        if metric.kind == 'latency':  # t_min, t_max, t_typical: the median
            return float(row[2]) / (2 if verb == 'read' else 1)
        return float(row[1]) * 2 ** 20 / 1e9 if metric.kind == 'bandwidth' else float(row[2])

    def commands(metric, sides, port):
        program = f'ib_{verb}_lat' if metric.kind == 'latency' else f'ib_{verb}_bw'
        count = iterations(metric)
        if program == 'ib_write_lat':
            count //= 10  # it spins on memory, on the processor that a thread of urxe needs
        common = [program, '-F', '-p', str(port), '-s', str(metric.size), '-n', str(count), '-x']
        return (common + [sides[0].gid_index(sides[0].ipv4)],
                common + [sides[1].gid_index(sides[1].ipv4), sides[0].ipv4], read)
    return commands


def sockperf(tcp):
    def read(metric, text):
        if metric.kind == 'latency':
            return float(re.search(r'Latency is ([\d.]+) usec', text)[1])
        if metric.kind == 'rate':
            return float(re.search(r'Message Rate is (\d+)', text)[1]) / 1e6
        return float(re.search(r'BandWidth is ([\d.]+) MBps', text)[1]) * 2 ** 20 / 1e9

    def commands(metric, sides, port):
        if metric.size > 65000 or (metric.kind == 'rate' and not tcp):
            return None  # its largest message; and what it counts of UDP may never have arrived
        if metric.kind == 'bandwidth' and not tcp:
            return None
        common = (['--tcp'] if tcp else []) + ['-i', sides[0].ipv4, '-p', str(port), '--nonblocked']
        mode = 'ping-pong' if metric.kind == 'latency' else 'throughput'
        return (['sockperf', 'server', *common],
                ['sockperf', mode, *common, '-m', str(metric.size), '-t', str(SECONDS)], read)
    return commands


def ucx(transports, latency, bandwidth, over_ip=False):
    def read(metric, text):
        # iterations, percentile or typical us, average us, overall us, MB/s twice, msg/s twice
        row = re.search(r'^Final:\s+(.*)$', text, re.M)[1].split()
        if metric.kind == 'latency':
            return float(row[1])
        return float(row[5]) * 2 ** 20 / 1e9 if metric.kind == 'bandwidth' else float(row[7]) / 1e6

    def commands(metric, sides, port):
        server, client = [['env', f'UCX_TLS={transports}', 'UCX_LOG_LEVEL=fatal',
                           f'UCX_NET_DEVICES={side.netdev if over_ip else "all"}',
                           'ucx_perftest', '-p', str(port)] for side in sides]
        test = latency if metric.kind == 'latency' else bandwidth
        return (server, client + [sides[0].ipv4, '-t', test, '-s', str(metric.size), '-n',
                                  str(iterations(metric)), '-w', '1000'], read)
    return commands


def libfabric(provider, endpoint):
    def read(metric, text):
        # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
        return float(re.findall(r'^\S+\s+\S+\s+=\S+\s+\S+\s+\S+\s+\S+\s+([\d.]+)', text, re.M)[-1])

    def commands(metric, sides, port):
        if metric.kind != 'latency':
            return None
        common = ['fi_pingpong', '-p', provider, '-e', endpoint, '-S', str(metric.size), '-I',
                  str(iterations(metric))]
        return (common + ['-B', str(port)], common + ['-P', str(port), sides[0].ipv4], read)
    return commands


def iperf3():
    def read(metric, text):
        return json.loads(text)['end']['sum_received']['bits_per_second'] / 8e9

    def commands(metric, sides, port):
        if metric.kind != 'bandwidth':
            return None
        return (['iperf3', '-s', '-1', '-p', str(port)],
                ['iperf3', '-c', sides[0].ipv4, '-p', str(port), '-J', '-t', str(SECONDS), '-l',
                 str(metric.size)], read)
    return commands


def rows(path):
    for verb in ('send', 'write', 'read'):
        yield Row(TABLE, path, f'urxe {verb}', True, perftest(verb))
    others = [('UCX posix tag', ucx('posix,self', 'tag_lat', 'tag_bw')),
              ('UCX posix put', ucx('posix,self', 'ucp_put_lat', 'ucp_put_bw')),
              ('libfabric shm', libfabric('shm', 'rdm'))] if path == 'one host' else [
                  ('UCX tcp tag', ucx('tcp,self', 'tag_lat', 'tag_bw', True)),
                  ('libfabric tcp', libfabric('tcp', 'msg'))]
    others += [('sockperf TCP', sockperf(True)), ('sockperf UDP', sockperf(False)),
               ('iperf3 TCP', iperf3())]
    for name, commands in others:
        yield Row(TABLE, path, name, False, commands)


def cases(paths):
    return [case(row, metric) for metric in METRICS for path in paths for row in rows(path)]


def target(path, verb, metric, most, plus=0, of=None, factor=0):
    return Target(TABLE, path, f'urxe {verb}', metric, most, factor, of, plus)


TARGETS = (
    target('one host', 'send', LATENCY, True, 0.35),
    target('one host', 'write', LATENCY, True, 0.30),
    target('one host', 'write', BANDWIDTH, False, 10),
    target('one host', 'write', BANDWIDTH_1M, False, 10),
    target('one host', 'send', RATE, False, 5),
    target('two namespaces', 'send', LATENCY, True, of='sockperf UDP', factor=1.15),
    target('two namespaces', 'write', BANDWIDTH, False, of='iperf3 TCP', factor=1.2),
    target('two namespaces', 'read', BANDWIDTH, False, of='iperf3 TCP', factor=1.2),
)
