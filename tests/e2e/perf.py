# SPDX-License-Identifier: BSD-2-Clause
"""xr-perf: every test with verified payloads, plain and over TLS, what it writes, and what it says
when something is wrong. No preload: libxrdma brings its device."""
import json
import os
import subprocess
import tempfile
import time
import xml.etree.ElementTree

import lab

PERF = os.path.join(lab.BUILD, 'tools', 'xr-perf', 'xr-perf')
PLAIN = ['-o', 'tls=off']
TESTS = ('latency', 'bandwidth', 'rate', 'sweep', 'channels', 'threads', 'storm', 'incast')
SMALL = ['--in-flight', '4', '--channels', '3', '--clients', '3', '-n', '40']
RESULTS = {'latency': 3, 'bandwidth': 3, 'rate': 3, 'sweep': 9, 'channels': 9, 'threads': 6,
           'storm': 1, 'incast': 3}  # for three sizes, and two threads
SHOWN = ('size_bytes', 'in_flight', 'channels', 'threads', 'messages_per_s', 'gb_per_s')


def host(address):
    return f'[{address}]' if ':' in address else address


def start(side, port, options, more=()):
    server = side.spawn([PERF, '-s', '-p', str(port), *options, *more], urxe=False)
    lab.wait_for(lambda: 'listening' in lab.output(server) or server.poll() is not None, 20)
    return server


def measure(sides, port, server_options, client_options, address=None):
    """(status, standard output and error of the client, the server's output); the server ends with
    its client."""
    server = start(sides[0], port, server_options, ['--once'])
    try:
        status, text = sides[1].run(
            [PERF, *client_options[:-1], f'{host(address or sides[0].ipv4)}:{port}',
             *client_options[-1]], urxe=False)
        ended = lab.finish(server, 20)
        if ended != 0:
            text += f'\nthe server ended with status {ended}'
            status = status or ended or -1
        return status, text, lab.output(server)
    finally:
        lab.kill(server)


def wrong_result(test, result):
    """None, or what is missing or senseless in a result."""
    for name in SHOWN:
        if not isinstance(result.get(name), (int, float)):
            return f'no number {name}'
    if result['errors'] or result['messages'] < 40 or result['messages_per_s'] <= 0:
        return 'errors, or too few messages'
    if result['verified'] != (test != 'storm'):
        return 'not verified'
    times = result.get('setup_us' if test == 'storm' else 'rtt_us')
    if times:
        row = [times[name] for name in ('min', 'p50', 'p90', 'p99', 'p99.9', 'max')]
        if row != sorted(row) or not 0 < row[0] <= times['mean'] <= row[-1]:
            return 'percentiles are out of order'
    elif test not in ('rate', 'bandwidth'):
        return 'no times'
    return None


def all_tests(sides, port, options, address=None):
    """Every test in one run: small, and through fragments; checked as programs would."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, 'results.json')
        status, text, log = measure(sides, port, options + ['--threads', '2'], [
            '--verify', *SMALL, '--threads', '2', '-S', '8,5000,200K', '--json', path, *options,
            TESTS], address)
        if status:
            return f'status {status}', text + log
        with open(path, encoding='utf-8') as file:
            written = json.load(file)
    if written['tool'] != 'xr-perf' or 'urxe' not in written['device']:
        return 'the JSON does not say what it is of', str(written)
    for test in TESTS:
        results = [result for result in written['results'] if result['test'] == test]
        if len(results) != RESULTS[test]:
            return f'{test}: {len(results)} results', str(results)
        for result in results:
            problem = wrong_result(test, result)
            if problem:
                return f'{test}: {problem}', str(result)
    return None


def expect(status, text, want_status, *want):
    for words in want:
        if status != want_status or words not in text:
            return f'status {status}; expected {want_status} and "{words}"', text
    return None


def certificates(directory, addresses):
    """An authority and a certificate of it, by the openssl program. Returns -o options."""
    def openssl(*words):
        subprocess.run(['openssl', *words], cwd=directory, check=True, capture_output=True)

    key = ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes')
    openssl('req', '-x509', *key, '-subj', '/CN=test authority', '-days', '2', '-keyout', 'ca.key',
            '-out', 'ca.pem')
    openssl('req', *key, '-subj', '/CN=xr-perf', '-keyout', 'key.pem', '-out', 'request.pem')
    with open(os.path.join(directory, 'names'), 'w', encoding='ascii') as file:
        file.write('subjectAltName=' + ','.join(f'IP:{address}' for address in addresses) + '\n')
    openssl('x509', '-req', '-in', 'request.pem', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2',
            '-CAcreateserial', '-extfile', 'names', '-out', 'cert.pem')
    return [word for name, file in (('tls_cert', 'cert.pem'), ('tls_key', 'key.pem'),
                                    ('tls_ca', 'ca.pem'))
            for word in ('-o', f'{name}={os.path.join(directory, file)}')]


def tls_cases(place, sides, ports):
    def verified():
        with tempfile.TemporaryDirectory() as tmp:
            return all_tests(sides, next(ports), certificates(tmp, [sides[0].ipv4]))

    def stranger():
        """Its certificate is of another authority."""
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            port = next(ports)
            server = start(sides[0], port, certificates(ours, [sides[0].ipv4]))
            try:
                status, text = sides[1].run(
                    [PERF, *certificates(theirs, [sides[0].ipv4]), f'{sides[0].ipv4}:{port}'],
                    urxe=False)
            finally:
                lab.kill(server)
            return expect(status, text, 1, 'certificate', sides[0].ipv4)

    def no_keys():
        port = next(ports)
        server = start(sides[0], port, [])
        try:
            status, text = sides[1].run([PERF, f'{sides[0].ipv4}:{port}'], urxe=False)
        finally:
            lab.kill(server)
        return expect(status, text, 1, 'TLS is required', 'tls = off')

    yield f'{place}: xr-perf: every test, TLS with certificates', verified
    yield f'{place}: xr-perf: a certificate of strangers', stranger
    yield f'{place}: xr-perf: between hosts without keys', no_keys


def corrupt_cases(place, sides, ports):
    def damaged(who, test, want):
        port = next(ports)
        options = {'server': [], 'client': []}
        options[who] = ['--corrupt', '30']
        status, text, log = measure(sides, port, PLAIN + options['server'], [
            '--verify', '-S', '100', '-n', '200', *PLAIN, *options['client'], [test]])
        return expect(status, text + log, 1, want, 'should be 0x')

    def unnoticed():
        """Who does not ask for it gets no verification, and is not told that there was any."""
        status, text, _ = measure(sides, next(ports), PLAIN, [
            '--corrupt', '30', '-n', '200', '--json', '-', *PLAIN, ['latency']])
        return expect(status, text, 0, '"verified": false')

    for test in ('latency', 'rate'):
        yield f'{place}: xr-perf --verify sees a byte damaged by the client, {test}', \
            lambda test=test: damaged('client', test, 'message 29: byte 99 is')
    yield f'{place}: xr-perf --verify sees a byte damaged by the server', \
        lambda: damaged('server', 'latency', 'reply 29: byte 99 is')
    yield f'{place}: xr-perf without --verify', unnoticed


def output_cases(place, sides, ports):
    def svg():
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, 'plot.svg')
            status, text, _ = measure(sides, next(ports), [], [
                '-n', '300', '--in-flight', '8', '--svg', path, ['latency', 'sweep']])
            if status:
                return f'status {status}', text
            root = xml.etree.ElementTree.parse(path).getroot()
        lines = root.findall('{*}polyline')
        words = ' '.join(node.text or '' for node in root.findall('.//{*}text'))
        if len(lines) != 2 + 3 or not all(word in words for word in
                                          ('Times by percentile', 'latency 4K', 'sweep, 64 bytes',
                                           'requests in flight', 'p99')):
            return f'{len(lines)} lines, or a word is missing', words
        return None

    def ways_to_wait():
        for ways in (['--poll'], ['--event']), (['--event'], ['--poll']), (['--event'],) * 2:
            status, text, log = measure(sides, next(ports), ways[0], [
                '--verify', '-n', '300', *ways[1], ['latency', 'bandwidth', 'rate', 'storm']])
            if status or 'storm' not in text:
                return f'{ways}: status {status}', text + log
        return None

    def directions():
        for direction, sent in ('in', 64), ('both', 1 << 20):
            status, text, _ = measure(sides, next(ports), [], [
                '--verify', '-n', '20', '-S', '1M', '--direction', direction, '--json', '-',
                ['bandwidth']])
            result = not status and json.loads(text)['results'][0]
            if status or (result['request_bytes'], result['reply_bytes']) != (sent, 1 << 20):
                return f'{direction}: status {status}', text
        return None

    def progress():
        status, text, _ = measure(sides, next(ports), [], ['-t', '0.6', '--progress', ['latency']])
        return expect(status, text, 0, 'latency, 64 bytes, 1 in flight', 'done')

    yield f'{place}: xr-perf --svg', svg
    yield f'{place}: xr-perf --poll and --event', ways_to_wait
    yield f'{place}: xr-perf --direction', directions
    yield f'{place}: xr-perf --progress', progress


def error_cases(place, sides, ports):
    side = sides[0]

    def says(argv, want_status, *want, env=None):
        def case():
            status, text = side.run([*(['env', env] if env else []), PERF, *argv], urxe=False)
            return expect(status, text, want_status, *want)
        return case

    def port_taken():
        port = next(ports)
        server = start(side, port, [])
        try:
            status, text = side.run([PERF, '-s', '-p', str(port)], urxe=False)
        finally:
            lab.kill(server)
        return expect(status, text, 1, 'Address already in use', f'port {port}', '-p')

    def server_dies(test):
        port = next(ports)
        server = start(side, port, [])
        client = side.spawn([PERF, '-t', '60', f'{side.ipv4}:{port}', test], urxe=False)
        time.sleep(1)
        lab.kill(server)
        began = time.monotonic()
        status, text = lab.finish(client, 30), lab.output(client)
        lab.kill(client)
        if time.monotonic() - began > 5:
            return 'it took long to notice', text
        return expect(status, text, 1, f'xr-perf: {test}: the server is gone')

    def client_dies():
        port = next(ports)
        server = start(side, port, [])
        try:
            for _ in range(3):
                client = side.spawn([PERF, '-t', '60', f'{side.ipv4}:{port}', 'rate'], urxe=False)
                time.sleep(0.5)
                lab.kill(client)
            status, text = side.run([PERF, '--verify', '-n', '100', f'{side.ipv4}:{port}'],
                                    urxe=False)
            if status or server.poll() is not None:
                return f'status {status} after three clients died', text + lab.output(server)
            return None
        finally:
            lab.kill(server)

    def stopped():
        """SIGTERM ends a server in good order, with status 0."""
        server = start(side, next(ports), ['--threads', '2'])
        server.terminate()
        status = lab.finish(server, 10)
        return None if status == 0 else (f'status {status}', lab.output(server))

    here = side.ipv4
    for name, case in (
            ('no server', says([f'{here}:1'], 1, 'refused', 'is a server listening')),
            ('no device', says(['-s'], 1, 'no RDMA device', env='URXE_NETDEV=nonesuch')),
            ('unknown option of xrdma', says(['-o', 'windw=1', here], 1, 'no such option')),
            ('option out of range', says(['-o', 'window=0', here], 1, 'expected 1..4096')),
            ('unknown test', says([here, 'latencyy'], 2, 'no such test')),
            ('bad size', says(['-S', '4X', here], 2, 'expected a number from 8')),
            ('no host', says([], 2, 'HOST')), ('version', says(['--version'], 0, 'xr-perf 0')),
            ('unwritable report', says(['--json', '/nonesuch/file', here], 1, '/nonesuch/file')),
            ('port taken', port_taken),
            ('the server is killed, latency', lambda: server_dies('latency')),
            ('the server is killed, rate', lambda: server_dies('rate')),
            ('clients are killed', client_dies), ('the server is told to end', stopped)):
        yield f'{place}: xr-perf: {name}', case


def cases(place, sides, ports):
    yield f'{place}: xr-perf: every test', lambda: all_tests(sides, next(ports), PLAIN)
    yield f'{place}: xr-perf: every test, IPv6', \
        lambda: all_tests(sides, next(ports), PLAIN, sides[0].ipv6)
    yield from corrupt_cases(place, sides, ports)
    if place == 'host':
        yield from output_cases(place, sides, ports)
        yield from error_cases(place, sides, ports)
    else:
        yield from tls_cases(place, sides, ports)
