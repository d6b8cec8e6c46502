# SPDX-License-Identifier: BSD-2-Clause
"""Other middleware over urxe: UCX, and libfabric as far as it goes without rdma_cm."""
import os
import re
import tempfile

import lab

# name, test of ucx_perftest, bytes, how often
UCX_TESTS = tuple((f'{what}{size}', test, size, 3 if size > 65536 else 50)
                  for what, test in (('tag', 'tag_lat'), ('am', 'ucp_am_lat'),
                                     ('put', 'ucp_put_lat'), ('get', 'ucp_get'))
                  for size in (8, 8192, 65537, 4 << 20))
FI_SIZES = ('64', '256', '1k', '4k', '64k', '1m')


def ucx_case(sides, port):
    """All tests in one pair of processes; a line of results for each."""
    with tempfile.NamedTemporaryFile('w', prefix='urxe-ucx-') as batch:
        for name, test, size, times in UCX_TESTS:
            batch.write(f'{name} -t {test} -s {size} -n {times} -w 1\n')
        batch.flush()
        common = ['UCX_TLS=rc_verbs,ud_verbs,self', 'UCX_LOG_LEVEL=warn', 'ucx_perftest', '-p', str(port),
                  '-b', batch.name, '-f']
        argvs = [lab.for_ucx(side, common) for side in sides]
        result = lab.Pair(*sides, argvs[0], argvs[1] + [sides[0].ipv4], port)
    complaint = result.complaint()
    for name, _, _, times in UCX_TESTS:
        if not complaint and not re.search(rf'^ *{name} +{times} +[\d.]+', result.output[1], re.M):
            complaint = f'no result of {name}'
    return complaint and (complaint, result.logs())


def libfabric_case(sides, port):
    """Reliable messages that the provider makes of datagrams; both sides compare every byte."""
    argvs = [['env', f'FI_VERBS_GID_IDX={side.gid_index(side.ipv4)}', 'fi_pingpong', '-p',
              'verbs;ofi_rxd', '-e', 'rdm', '-c', '-I', '5', where, str(port)]
             for side, where in zip(sides, ('-B', '-P'))]
    result = lab.Pair(*sides, argvs[0], argvs[1] + [sides[0].ipv4], port)
    complaint = result.complaint()
    for text in result.output:
        sizes = tuple(re.findall(r'^(\w+) +5 +=5 ', text, re.M))
        if not complaint and sizes != FI_SIZES:
            complaint = f'results of {sizes}, not of {FI_SIZES}'
    return complaint and (complaint, result.logs())


def cases(name, sides, ports):
    """Yields (name, function), as in matrix.py."""
    yield (f'{name}: ucx_perftest: tag, am, put, get',
           lambda: ucx_case(sides, next(ports)))
    yield f'{name}: fi_pingpong verbs;ofi_rxd', lambda: libfabric_case(sides, next(ports))
