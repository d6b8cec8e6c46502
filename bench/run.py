#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urxe beside its peers, measured alternately in one run: server on core 0, client on core 1.

Usage: bench/run.py [-r ROUNDS] [-o FILE] [TEXT]...   only rows whose name contains one of the texts
Prints a table per path of medians, each with its ratio to the first row of the path, and writes
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
from peers import METRICS, lab, measure, rows  # noqa: E402


def measure_all(wanted, places, rounds):
    """{row: {metric: [values]}}; rounds outermost, so that drift of the machine hits all alike."""
    port = 21000
    samples = {row: {metric: [] for metric in METRICS} for row in wanted}
    for current in range(rounds):
        for metric in METRICS:
            print(f'round {current + 1} of {rounds}: {metric.kind} {metric.title}',
                  file=sys.stderr)
            for row in wanted:
                port += 1
                value = measure(row, metric, places[row.path], port)
                if isinstance(value, str):
                    print(f'{row.path}: {row.name}: {metric.kind} {metric.title}: {value}',
                          file=sys.stderr)
                elif value is not None:
                    samples[row][metric].append(value)
    return samples


def print_tables(samples):
    for path in dict.fromkeys(row.path for row in samples):
        table = [row for row in samples if row.path == path]
        print(f'\n{path}, medians; in brackets: times the first row')
        print(f'{"":16}' + ''.join(f'{m.kind + " " + m.title:>19}' for m in METRICS))
        print(f'{"":16}' + ''.join(f'{m.unit:>19}' for m in METRICS))
        for row in table:
            line = f'{row.name:16}'
            for metric in METRICS:
                cell = '-'
                if samples[row][metric]:
                    value = statistics.median(samples[row][metric])
                    cell = f'{value:.3f}'
                    base = samples[table[0]][metric]
                    if base and row is not table[0]:
                        cell += f' ({value / statistics.median(base):.2f})'
                line += f'{cell:>19}'
            print(line)


def as_json(samples):
    return {
        'machine': {'cpu': cpu_name(), 'cores': os.cpu_count(), 'kernel': platform.release()},
        'time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
        'results': [{'path': row.path, 'row': row.name, 'metric': metric.kind, 'unit': metric.unit,
                     'size_bytes': metric.size, 'median': statistics.median(values),
                     'samples': values}
                    for row, metrics in samples.items() for metric, values in metrics.items()
                    if values],
    }


def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        match = re.search(r'^model name\s*: (.*)$', file.read(), re.M)
    return match[1] if match else platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('-r', '--rounds', type=int, default=3)
    parser.add_argument('-o', '--output', default=os.path.join(lab.BUILD, 'bench.json'))
    parser.add_argument('text', nargs='*', help='only rows whose path and name contain one')
    args = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit('bench: needs two cores')
    refused = lab.enter()
    places = {'one host': lab.local()}
    if refused:
        print(f'two namespaces: left out: {refused}')
    else:
        places['two namespaces'] = lab.pair()
    wanted = [row for row in rows() if row.path in places and
              (not args.text or any(text in f'{row.path}: {row.name}' for text in args.text))]
    if not wanted:
        sys.exit('bench: no row of that name; they are: ' +
                 ', '.join(f'{row.path}: {row.name}' for row in rows()))
    samples = measure_all(wanted, places, args.rounds)
    print_tables(samples)
    os.makedirs(os.path.dirname(args.output), exist_ok=True)
    with open(args.output, 'w', encoding='utf-8') as file:
        json.dump(as_json(samples), file, indent=1)
    print(f'\nwritten: {os.path.relpath(args.output)}')


if __name__ == '__main__':
    main()
