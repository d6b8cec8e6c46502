# SPDX-License-Identifier: BSD-2-Clause
"""What it takes to come back: channels set up again, broken ones recovered, the link down and up;
and to wait: idle channels."""
import atexit
import shutil
import subprocess
import tempfile
import time

from device import lines
from measure import Case, Metric, lab, measure, ours

CACHE = {0: Metric('set-up', None, 'no QP cache', 'us'), 64: Metric('set-up', None, 'QP cache', 'us')}
SET_UPS = {'plain': 'plain TCP', 'full': 'TLS, certificates', 'resumed': 'TLS, resumed'}
BREAKS = ('queue pair', 'queue pair, TCP', 'queue pair, TCP with TLS')
BROKEN = Metric('recovery', None, 'broken', 'ms')
IDLE = {0: 'no keepalive', 1000: 'keepalive, 1 s'}
CPU = Metric('CPU', None, '1,000 channels', 'ms/s')
LINK_UP = Metric('link up', None, 'to data', 'ms')
DOWN_S = 2
PROGRAM = 'bench_recovery'
CERTIFICATES = '''set -e; cd "$1"; ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $ec -subj /CN=ca -days 2 -keyout ca.key -out ca.pem
openssl req -new $ec -subj /CN=server -keyout key.pem -out request.pem
echo subjectAltName=DNS:server.example >ext
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile ext -days 2 \
    -out cert.pem'''


def certificates():
    path = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, path)
    subprocess.run(['sh', '-c', CERTIFICATES, 'sh', path], check=True, capture_output=True)
    return path


def in_one_process(table, rows, metrics, argv, read):
    """All figures of a table out of one run; argv(): what to run."""
    def run(sides, port):
        words = argv()
        commands = None, [ours(PROGRAM), *words], lambda _, text: read(lines(text, words[0]))
        found = measure(False, commands, None, sides, port)
        return {(words[0], None): found} if isinstance(found, str) else found
    return Case(table, 'one host', rows, metrics, run)


def link_down_and_up(sides, port):
    """From the moment the link is up until a call that was waiting is answered."""
    server = sides[0].spawn([ours(PROGRAM), 'server', str(port)], False)
    try:
        lab.wait_for(lambda: lab.listens(server, port), 5)
        client = sides[1].spawn([ours(PROGRAM), 'client', f'{sides[0].ipv4}:{port}',
                                 str(DOWN_S + 3)], False)
        time.sleep(0.5)
        link = sides[1].argv(['ip', 'link', 'set', sides[1].netdev])
        subprocess.run([*link, 'down'], check=True)
        time.sleep(DOWN_S)
        subprocess.run([*link, 'up'], check=True)
        up_ns = time.monotonic_ns()
        status = lab.finish(client, 20)
        gaps = lines(lab.output(client), 'gap')
        if status != 0 or not gaps:
            return {('link', None): f'status {status}: {lab.output(client)[-300:]}'}
        return {('link down 2 s', LINK_UP): (max(gap['to_ns'] for gap in gaps) - up_ns) / 1e6}
    finally:
        lab.kill(server)


def cases(paths):
    every = []
    if 'one host' in paths and lab.have('openssl'):
        made = []

        def with_certificates(what):
            made[:] = made or [certificates()]
            return [what, made[0]]
        every += [
            in_one_process('reconnect', tuple(SET_UPS.values()), tuple(CACHE.values()),
                           lambda: with_certificates('reconnect'),
                           lambda found: {(SET_UPS[line['way']], CACHE[line['cache']]): line['us']
                                          for line in found}),
            in_one_process('recovery', BREAKS, (BROKEN,), lambda: with_certificates('break'),
                           lambda found: {(line['way'], BROKEN): line['ms'] for line in found}),
            in_one_process('idle', tuple(IDLE.values()), (CPU,), lambda: ['idle'],
                           lambda found: {(IDLE[line['keepalive_ms']], CPU): line['cpu_ms_per_s']
                                          for line in found})]
    if 'two namespaces' in paths:
        every.append(Case('recovery', 'two namespaces', ('link down 2 s',), (LINK_UP,),
                          link_down_and_up))
    return every
