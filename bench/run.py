#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urxe and xrdma beside their peers, measured alternately in one run: server on core 0, client on
core 1.

Usage: bench/run.py [-r ROUNDS] [-m MINUTES] [-o FILE] [TEXT]...
Only rows with one of the texts in their name, which is "path: table: row", as in "host: messages".
Prints tables of medians, each with its ratio to the first row, and how far the targets are; writes
everything measured to build/bench.json.
"""
import argparse
import json
import os
import platform
import re
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import device  # noqa: E402
import messages  # noqa: E402
import peers  # noqa: E402
import recovery  # noqa: E402
from measure import allowed, lab, words  # noqa: E402

PATHS = ('one host', 'two namespaces')


def all_cases(paths):
    return (peers.cases(paths) + messages.cases(paths) + device.cases(paths) +
            recovery.cases(paths))


def names(case):
    return [f'{case.path}: {case.table}: {row}' for row in case.rows]


def title(case):
    metric, *more = case.metrics
    if not more:
        return f'{case.table}: {metric.kind} {metric.title}'
    return case.table if len(case.rows) > 1 else f'{case.table}: {case.rows[0]}'


def measure_all(wanted, places, rounds, end):
    """{(table, path): {row: {metric: [values]}}}; rounds outermost, so that drift of the machine
    hits all alike. No more is begun after `end`, of the monotonic clock."""
    samples, port, shown = {}, 21000, None
    for case in wanted:
        table = samples.setdefault((case.table, case.path), {})
        for row in case.rows:
            for metric in case.metrics:
                table.setdefault(row, {}).setdefault(metric, [])
    for current in range(rounds):
        for case in wanted:
            what = title(case)
            if time.monotonic() > end:
                print(f'stopped before {what} of round {current + 1}: out of time',
                      file=sys.stderr)
                return samples
            if what != shown:
                print(f'round {current + 1} of {rounds}: {what}', file=sys.stderr)
                shown = what
            port += 1
            for (row, metric), value in case.run(places[case.path], port).items():
                if isinstance(value, str):
                    print(f'{case.path}: {what}: {row}: {value}', file=sys.stderr)
                else:
                    samples[case.table, case.path][row][metric].append(value)
    return samples


def median(rows, row, metric):
    values = rows.get(row, {}).get(metric)
    return statistics.median(values) if values else None


def cell(rows, row, metric):
    value, first = median(rows, row, metric), next(iter(rows))
    if value is None:
        return '-'
    text = f'{value:.3f}' if value < 1000 else f'{value:.0f}'
    base = median(rows, first, metric)
    return text if row == first or not base else f'{text} ({value / base:.2f})'


def print_tables(samples):
    for (table, path), rows in samples.items():
        metrics = list(next(iter(rows.values())))
        print(f'\n{table}, {path}: medians; in brackets: times the first row')
        print(f'{"":20}' + ''.join(f'{m.kind + " " + m.title:>19}' for m in metrics))
        print(f'{"":20}' + ''.join(f'{m.unit:>19}' for m in metrics))
        for row in rows:
            print(f'{row:20}' + ''.join(f'{cell(rows, row, metric):>19}' for metric in metrics))


def judged(samples):
    """Of each target that was measured: it, what is allowed, the figure, whether that will do."""
    for target in peers.TARGETS + messages.TARGETS + device.TARGETS:
        rows = samples.get((target.table, target.path), {})
        medians = {(row, target.metric): value for row in rows
                   if (value := median(rows, row, target.metric)) is not None}
        bound, figure = allowed(target, medians), medians.get((target.row, target.metric))
        if bound is not None and figure is not None:
            met = figure <= bound if target.most else figure >= bound
            yield target, bound, figure, met


def print_targets(samples):
    print()
    for target, bound, figure, met in judged(samples):
        metric = target.metric
        print(f'target: {target.path}: {target.row}: {metric.title} {metric.kind} {words(target)}: '
              f'{bound:.3f}; measured {figure:.3f} {metric.unit} ({"met" if met else "missed"})')


def as_json(samples):
    return {
        'machine': {'cpu': cpu_name(), 'cores': os.cpu_count(), 'kernel': platform.release()},
        'time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
        'results': [{'table': table, 'path': path, 'row': row, 'metric': metric.kind,
                     'title': metric.title, 'unit': metric.unit, 'size_bytes': metric.size,
                     'median': statistics.median(values), 'samples': values}
                    for (table, path), rows in samples.items() for row, metrics in rows.items()
                    for metric, values in metrics.items() if values],
        'targets': [{'path': target.path, 'row': target.row, 'metric': target.metric.kind,
                     'title': target.metric.title, 'target': words(target), 'allowed': bound,
                     'measured': figure, 'met': met}
                    for target, bound, figure, met in judged(samples)],
    }


def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        match = re.search(r'^model name\s*: (.*)$', file.read(), re.M)
    return match[1] if match else platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('-r', '--rounds', type=int, default=3,
                        help='how often everything is measured; default 3')
    parser.add_argument('-m', '--minutes', type=float, default=11, help='then it stops; default 11')
    parser.add_argument('-o', '--output', default=os.path.join(lab.BUILD, 'bench.json'))
    parser.add_argument('text', nargs='*',
                        help='only rows with one of them in "path: table: row"')
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit('bench: needs two cores')
    refused = lab.enter()
    places = {PATHS[0]: lab.local()}
    if refused:
        print(f'{PATHS[1]}: left out: {refused}')
    else:
        places[PATHS[1]] = lab.pair()
    wanted = [case for case in all_cases(tuple(places)) if not args.text or
              any(text in name for text in args.text for name in names(case))]
    if not wanted:
        sys.exit('bench: no row of that name; they are:\n' + '\n'.join(
            dict.fromkeys(name for case in all_cases(PATHS) for name in names(case))))
    samples = measure_all(wanted, places, args.rounds, end)
    print_tables(samples)
    print_targets(samples)
    os.makedirs(os.path.dirname(args.output), exist_ok=True)
    with open(args.output, 'w', encoding='utf-8') as file:
        json.dump(as_json(samples), file, indent=1)
    print(f'\nwritten: {os.path.relpath(args.output)}')


if __name__ == '__main__':
    main()
