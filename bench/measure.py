# SPDX-License-Identifier: BSD-2-Clause
"""How anything is measured: a server and a client program, or one alone, and their output."""
import os
import sys
from collections import namedtuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                'tests', 'e2e'))
import lab  # noqa: E402

PATIENCE_S = 40
# size: bytes, or None where the metric has none.
Metric = namedtuple('Metric', 'kind size title unit')
# A line of a table. urxe: under tools/urxe-run. commands(metric, sides, port) gives the server's
# argv (None: the client is alone), the client's, and read(metric, its output), the value; or None:
# this program does not measure that.
Row = namedtuple('Row', 'table path name urxe commands')
# What is measured at once: the lines and columns of a table that run(sides, port) gives values of,
# as {(row, metric): number or, in words, why not}.
Case = namedtuple('Case', 'table path rows metrics run')

# What a figure is held against, at most or at least: `factor` times that of the line `of`, and
# `plus`; or `plus` alone.
Target = namedtuple('Target', 'table path row metric most factor of plus')


def allowed(target, rows):
    """rows: {(row, metric): value}. None where there is no such value."""
    if target.of is None:
        return target.plus
    base = rows.get((target.of, target.metric))
    return None if base is None else target.factor * base + target.plus


def words(target):
    terms = [f'{target.factor:g} x {target.of}'] if target.of else []
    if target.plus:
        terms.append(f'{target.plus:g} {target.metric.unit}')
    return f'{"<=" if target.most else ">="} {" + ".join(terms)}'


def case(row, metric):
    """One program, one figure."""
    def run(sides, port):
        value = measure(row.urxe, row.commands(metric, sides, port), metric, sides, port)
        return {} if value is None else {(row.name, metric): value}
    return Case(row.table, row.path, (row.name,), (metric,), run)


def ours(name):
    """A program of bench/, as built."""
    return os.path.join(lab.BUILD, 'bench', name)


def abstract(port):
    """The name of a local socket, in place of a TCP port."""
    return f'xrdma-bench-{port}'


def ready(server, port):
    try:
        with open(f'/proc/{server.pid}/net/unix', encoding='ascii') as file:
            local = '@' + abstract(port) + '\n' in file.read()
    except OSError:
        local = False
    return local or lab.listens(server, port) or server.poll() is not None


def there(argv):
    words = [word for word in argv if '=' not in word and word != 'env']
    return lab.have(words[0])


def measure(urxe, commands, metric, sides, port):
    """The value, or None where the program does not measure that, or a string: what went wrong.
    Server on core 0, client on core 1; a program alone has both."""
    if commands is None:
        return None
    server_argv, client_argv, read = commands
    if not there(client_argv):
        return 'not installed' if os.sep not in client_argv[0] else f'not built: {client_argv[0]}'
    server = text = None
    try:
        if server_argv:
            server = sides[0].spawn(['taskset', '-c', '0', *server_argv], urxe)
            lab.wait_for(lambda: ready(server, port), 1)
            client_argv = ['taskset', '-c', '1', *client_argv]
        client = sides[1].spawn(client_argv, urxe)
        status, text = lab.finish(client, PATIENCE_S), lab.output(client)
        if status != 0:
            ended = f'no end within {PATIENCE_S} s' if status is None else f'status {status}'
            return f'{ended}: {text[-300:].strip()}'
        return read(metric, text)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        return f'{type(error).__name__}: {error} in {(text or "")[-300:]}'
    finally:
        if server:
            lab.kill(server)
