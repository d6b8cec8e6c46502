# SPDX-License-Identifier: BSD-2-Clause
"""Of the device itself: what it costs to register memory, to share a QP between threads, and to have
many QPs."""
import json

from measure import Case, Metric, Row, Target, case, measure, ours

THREADS = tuple(Metric('threads', None, str(n), 'M ops/s') for n in (1, 2, 4))
SECONDS = 0.4
SIZES = {4096: '4 KiB', 65536: '64 KiB', 1 << 20: '1 MiB', 8 << 20: '8 MiB', 64 << 20: '64 MiB'}
BUFFERS = tuple(Metric('buffer', size, title, 'us') for size, title in SIZES.items())
# Lines of the table, and fields of what bench/mem.c prints.
WAYS = {'register each time': 'register_ns', 'of it, ibv_reg_mr': 'reg_mr_ns',
        'mlock, as cards pin': 'pin_ns', 'registration cache': 'cache_ns', 'pool': 'pool_ns',
        'slot of a region': 'slot_ns'}
REGION = {Metric('make', 256 << 20, '256 MiB', 'ms'): 'make_ms',
          Metric('touch', 64, 'a slot', 'ns'): 'touch_ns'}
WINDOWS = tuple(metric for metric in BUFFERS if metric.size <= 1 << 20)
SHOWN = {'register, deregister': 'register_ns', 'mlock, as cards pin': 'pin_ns',
         'bind, type 1': 'bind_1_ns', 'unbind, type 1': 'end_1_ns', 'bind, type 2': 'bind_2_ns',
         'local invalidate': 'end_2_ns'}
# What it costs to be watched: rows of bench/watching.c, the first being the baseline.
WATCHES = ('nothing', 'monitor', 'trace, 1 in 64', 'trace, every call', 'slow polls, handlers',
           'filter, no match')
WATCHED = Metric('round trip', 64, '64 B', 'ns')
FEW, MANY = 32, 1000
ONE_OF_FEW, ONE_OF_MANY = (f'one of {n} QPs' for n in (FEW, MANY))
RATE = Metric('rate', 64, '64 B', 'M msg/s')
IDLE = Metric('memory', None, 'an idle QP', 'KiB')
# Lines and columns, and what bench/growth.c calls them; scaled so.
GROWTH = {(ONE_OF_FEW, RATE): (f'messages_per_second_one_of_{FEW}_qps', 1e6),
          (ONE_OF_MANY, RATE): (f'messages_per_second_one_of_{MANY}_qps', 1e6),
          (f'{FEW} QPs in turn', RATE): (f'messages_per_second_{FEW}_qps_in_turn', 1e6),
          (f'{MANY} QPs in turn', RATE): (f'messages_per_second_{MANY}_qps_in_turn', 1e6),
          (ONE_OF_MANY, IDLE): ('bytes_of_an_idle_qp', 1024)}
PAGES = {'off': '4 KiB pages', 'auto': 'huge pages'}


def shared_qp(how):
    def commands(metric, _, port):
        return (None, [ours('bench_shared_qp'), how, metric.title, str(SECONDS)],
                lambda _, text: float(text) / 1e6)
    return commands


def lines(text, bench):
    found = [json.loads(line) for line in text.splitlines() if line.startswith('{')]
    return [line for line in found if line['bench'] == bench]


def program(table, rows, metrics, argv, read):
    """All figures of a table out of one run of a program; the last word names it."""
    bench = argv[-1]

    def run(sides, port):
        commands = None, [ours(argv[0]), *argv[1:]], lambda _, text: read(lines(text, bench))
        found = measure(True, commands, None, sides, port)
        return {(bench, None): found} if isinstance(found, str) else found
    return Case(table, 'one host', rows, metrics, run)


def by_size(ways):
    def read(found):
        return {(way, metric): line[field] / 1e3
                for line in found for metric in BUFFERS if metric.size == line['bytes']
                for way, field in ways.items() if line[field] is not None}
    return read


def read_regions(found):
    return {(PAGES[line['asked']], metric): line[field]
            for line in found for metric, field in REGION.items()}


def read_watches(found):
    return {(line['way'], WATCHED): line['ns'] for line in found}


def grow(sides, port):
    def read(_, text):
        values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return {place: float(values[name]) / scale for place, (name, scale) in GROWTH.items()}

    commands = None, [ours('bench_growth'), str(MANY)], read
    found = measure(True, commands, None, sides, port)
    return {(ONE_OF_FEW, RATE): found} if isinstance(found, str) else found


def cases(paths):
    if 'one host' not in paths:
        return []
    every = [program('memory', tuple(WAYS), BUFFERS, ('bench_mem', 'buffer'), by_size(WAYS)),
             program('windows', tuple(SHOWN), WINDOWS, ('bench_mem', 'window'), by_size(SHOWN)),
             program('region', tuple(PAGES.values()), tuple(REGION), ('bench_mem', 'region'), read_regions),
             program('watching', WATCHES, (WATCHED,), ('bench_watching', 'watching'), read_watches)]
    every.append(Case('growth', 'one host', tuple(dict.fromkeys(row for row, _ in GROWTH)),
                      (RATE, IDLE), grow))
    for metric in THREADS:
        for name, how in (('context per thread', 'own'), ('shared QP, a lock', 'shared')):
            every.append(case(Row('threads', 'one host', name, True, shared_qp(how)), metric))
    return every


TARGETS = (
    Target('growth', 'one host', ONE_OF_MANY, RATE, False, 0.75, ONE_OF_FEW, 0),
    Target('growth', 'one host', ONE_OF_MANY, IDLE, True, 0, None, 8),
)
