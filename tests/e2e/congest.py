# SPDX-License-Identifier: BSD-2-Clause
"""Congestion as a switch tells it: a firewall rule marks packets (ECN) on their way. All operations
of our byte test go on, CNPs answer the marks, and nothing is marked that does not agree to it."""
import collections
import os
import subprocess
import tempfile

import hostile
import lab
import wire

CNP, ECT0, CNP_DSCP = '129', '2', '48'


def mark(sides, percent):
    """Mark so many of the packets that come in at either side, where the sender allows it; returns
    how to undo it."""
    rule = f'ecn ect0 udp dport 4791 numgen random mod 100 < {percent} counter'
    rules = f"""
table inet congest {{
    chain in {{
        type filter hook prerouting priority 0;
        ip {rule} ip ecn set ce
        ip6 {rule} ip6 ecn set ce
    }}
}}
"""
    for side in sides:
        subprocess.run(side.argv(['nft', '-f', '-']), check=True, text=True, input=rules)
    return lambda: [subprocess.run(side.argv(['nft', 'delete', 'table', 'inet', 'congest']), check=True)
                    for side in sides]


def kinds(path, family):
    """How many frames there are of each (is a CNP, DSCP, ECN)."""
    fields = ['ip.dsfield.dscp', 'ip.dsfield.ecn'] if family == 'ipv4' else \
        ['ipv6.tclass.dscp', 'ipv6.tclass.ecn']
    tshark = subprocess.run(['tshark', '-n', '-r', path, '-T', 'fields', '-e',
                             'infiniband.bth.opcode', *(w for f in fields for w in ('-e', f))],
                            capture_output=True, text=True, check=True)
    return collections.Counter((opcode == CNP, dscp, ecn) for opcode, dscp, ecn in
                               (line.split('\t') for line in tshark.stdout.splitlines()))


def run(sides, port, family, path):
    """Capture what the program sends while 20 % of it are marked."""
    undo = mark(sides, 20)
    try:
        argv = hostile.bytes_argv(*sides, port, ['-n', '15'], family)
        pair = wire.capture(sides, lambda: lab.Pair(*sides, *argv, port), path)
    finally:
        undo()
    complaint = pair.complaint()
    return (complaint, pair.logs()) if complaint else wire.judge(path)


def check(sides, port, family, ecn):
    for side in sides:
        side.env = {'URXE_ECN': ecn}
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'congest.pcap')
        wrong = run(sides, port, family, path)
        for side in sides:
            side.env = {}
        if wrong:
            return wrong
        seen = kinds(path, family)
    able = sum(n for (cnp, _, mark_), n in seen.items() if mark_ == ECT0 and not cnp)
    cnps = sum(n for (cnp, _, _), n in seen.items() if cnp)
    if ecn == 'off':
        return None if able == cnps == 0 else ('marked, or told of marks', str(seen))
    if able and cnps and cnps == seen[True, CNP_DSCP, '0']:
        return None
    return f'{able} packets with ECT(0), {cnps} CNPs', str(seen)


def cases(sides, ports):
    for family, ecn in (('ipv4', 'on'), ('ipv6', 'on'), ('ipv4', 'off')):
        yield f'veth: {family}: a switch marks packets, URXE_ECN={ecn}', \
            lambda f=family, e=ecn: check(sides, next(ports), f, e)
