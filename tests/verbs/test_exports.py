#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare what liburxe.so exports with what libibverbs exports and what stock programs import.

usage: test_exports.py LIBURXE LIBIBVERBS
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REFUSED_C = os.path.join(HERE, '..', '..', 'src', 'verbs', 'entry_refused.c')
CONSUMERS = ('/usr/bin/ib_*', '/usr/bin/ibv_*', '/usr/bin/qperf', '/usr/bin/rping',
             '/usr/bin/ucmatose', '/usr/bin/udaddy', '/usr/bin/mckey', '/usr/bin/raw_ethernet_*',
             '/usr/lib/python3/dist-packages/pyverbs/*.so', '/usr/lib/*/ucx/libuct_ib*.so.0',
             '/usr/lib/*/libfabric.so.1', '/usr/lib/*/librdmacm.so.1', '/usr/lib/*/libopen-*.so.*')


def symbols(path, *options):
    """[name, version or ''] of the dynamic symbols that nm lists with these options."""
    text = subprocess.run(['nm', '-D', *options, path], capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        name = line.split()[-1]
        name, _, version = name.partition('@')
        if ' A ' not in line:
            found.append((name, version.lstrip('@')))
    return found


def read_table():
    table = {}
    for line in open(os.path.join(HERE, 'exports.txt')):
        if line.startswith('#'):
            continue
        name, kind, *reason = line.split(maxsplit=2)
        assert name not in table, f'exports.txt: {name} twice'
        assert kind in ('own', 'refused', 'real'), f'exports.txt: {name}: {kind}?'
        assert bool(reason) == (kind == 'real'), f'exports.txt: {name}: a reason belongs to real'
        table[name] = kind
    return table


def check(what, missing, extra=()):
    for name in missing:
        print(f'# {what}: missing: {name}')
    for name in extra:
        print(f'# {what}: too many: {name}')
    print(f'{"not " if missing or extra else ""}ok - {what}')
    return not missing and not extra


def consumers():
    for pattern in CONSUMERS:
        for path in glob.glob(pattern):
            names = {n for n, _ in symbols(path, '--undefined-only')
                     if re.match('_?ibv_|mult_to_ibv|mbps_to_ibv', n)}
            if names:
                yield path, names


def main():
    liburxe, libibverbs = sys.argv[1:]
    table = read_table()
    ours = symbols(liburxe, '--defined-only')
    # A build that measures coverage exports what its run-time library is made of.
    names = {n for n, _ in ours if not re.match('__gcov_|mangle_path$', n)}
    listed = {n for n in table if table[n] != 'real'}
    refused = {n for n in table if table[n] == 'refused'}
    in_source = set(re.findall(r'^REFUSED\([^,]+, (\w+),', open(REFUSED_C).read(), re.M))
    # Private names are of one release; of later public ones each needs a decision.
    public = {n for n, version in symbols(libibverbs, '--defined-only')
              if 'PRIVATE' not in version or version.endswith('_34')}
    good = [check('every name of libibverbs is in exports.txt', public - table.keys()),
            check('liburxe.so exports what exports.txt says', listed - names, names - listed),
            check('exports.txt and entry_refused.c refuse the same', in_source - refused,
                  refused - in_source),
            check('no name of ours has a version', (), {n for n, version in ours if version})]
    used = list(consumers())
    if not used:
        print('ok - stock programs # SKIP none is installed')
    for path, imports in used:
        good.append(check(os.path.basename(path), imports - table.keys()))
    return 0 if all(good) else 1


sys.exit(main())
