#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which devices stock programs see, for given interfaces, in a network namespace of its own.

usage: test_devices.py LIBURXE
"""
import os
import re
import subprocess
import sys

LIBURXE = os.path.abspath(sys.argv[1])
SKIP = 77


def sh(command):
    subprocess.run(command, shell=True, check=True)


def run(program, **settings):
    """Exit status, standard output and error of a program with liburxe.so preloaded."""
    env = {k: v for k, v in os.environ.items() if not k.startswith('URXE_')}
    env |= {'LD_PRELOAD': LIBURXE} | settings
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def names(**settings):
    return re.findall(r'^\s+(urxe\d+)\s', run(['ibv_devices'], **settings)[1], re.M)


def info(**settings):
    """ibv_devinfo -v as {device: {attribute: value, 'gids': [...]}}."""
    devices = {}
    for line in run(['ibv_devinfo', '-v'], **settings)[1].splitlines():
        name, _, value = (part.strip() for part in line.partition(':'))
        if name == 'hca_id':
            device = devices[value] = {'gids': []}
        elif name.startswith('GID['):
            device['gids'].append(value)
        elif value:
            device[name] = value
    return devices


def equal(found, expected):
    assert found == expected, f'found {found!r}, expected {expected!r}'


def nothing_up():
    equal(names(), [])


def loopback_only():
    sh('ip link set lo up')
    devices = info()
    equal(list(devices), ['urxe0'])
    equal(devices['urxe0']['gids'], ['::ffff:127.0.0.1, RoCE v2', '::1, RoCE v2'])
    equal(devices['urxe0']['active_mtu'], '4096 (5)')
    equal(devices['urxe0']['board_id'], 'urxe')
    assert devices['urxe0']['node_guid'] != '0000:0000:0000:0000'


def interfaces_without_address_are_left_out():
    sh('ip link add v0 type veth peer name v1')
    sh('sysctl -qw net.ipv6.conf.v0.disable_ipv6=1 net.ipv6.conf.v1.disable_ipv6=1')
    sh('ip link set v0 address 02:00:00:00:00:01 && ip link set v1 address 02:00:00:00:00:01')
    sh('ip link set v0 up && ip link set v1 up')
    equal(names(), ['urxe0'])


def loopback_comes_last():
    sh('ip address add 192.0.2.1/24 dev v0')
    devices = info()
    equal(list(devices), ['urxe0', 'urxe1'])
    equal(devices['urxe0']['gids'], ['::ffff:192.0.2.1, RoCE v2'])
    equal(devices['urxe0']['active_mtu'], '1024 (3)')
    equal(devices['urxe0']['node_guid'], '0200:00ff:fe00:0001')
    equal(devices['urxe1']['gids'][0], '::ffff:127.0.0.1, RoCE v2')


def ipv4_gids_precede_ipv6():
    sh('sysctl -qw net.ipv6.conf.v0.disable_ipv6=0')
    sh('ip address add fe80::1/64 dev v0 nodad && ip address add fd00::1/64 dev v0 nodad')
    gids = [g.split(',')[0] for g in info()['urxe0']['gids']]
    equal(gids[:2], ['::ffff:192.0.2.1', 'fd00::1'])
    assert 'fe80::1' in gids[2:] and all(g.startswith('fe80::') for g in gids[2:]), gids


def devices_of_one_mac_have_two_guids():
    sh('ip address add 198.51.100.1/24 dev v1')
    devices = info()
    equal(len(devices), 3)
    equal(len({d['node_guid'] for d in devices.values()}), 3)
    equal(devices['urxe0']['node_guid'], info()['urxe0']['node_guid'])


def netdev_chooses_and_orders():
    devices = info(URXE_NETDEV='lo,v0')
    equal([d['gids'][0] for d in devices.values()],
          ['::ffff:127.0.0.1, RoCE v2', '::ffff:192.0.2.1, RoCE v2'])


def bad_netdevs_are_explained():
    sh('ip link set v1 down')
    for value, message in (('eth9', 'there is no interface "eth9"; there are: v1, v0, lo;'),
                           ('v0,,lo', 'there is no interface ""'),
                           ('v0,', 'there is no interface ""'),
                           ('v1', 'interface v1 is down'),
                           ('lo,lo', 'interface lo is named twice')):
        _, out, err = run(['ibv_devices'], URXE_NETDEV=value)
        assert 'urxe0' not in out, out
        message = message.replace('v1, v0', ', '.join(interfaces()))
        assert message in err and err.count('urxe: error') == 1, err


def interfaces():
    links = subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True).stdout
    return [n for n in re.findall(r'^\d+: (\w+)', links, re.M) if n != 'lo']


def small_mtus_are_explained():
    sh('sysctl -qw net.ipv6.conf.v0.disable_ipv6=1 && ip link set v0 mtu 300')
    equal(names(), ['urxe0'])
    assert 'v0 has too small an MTU' in run(['ibv_devices'], URXE_NETDEV='v0')[2]
    sh('ip link set v0 mtu 344')
    equal(info(URXE_NETDEV='v0')['urxe0']['active_mtu'], '256 (1)')


def mtu_setting_is_a_cap():
    equal(info(URXE_NETDEV='lo', URXE_MTU='512')['urxe0']['active_mtu'], '512 (2)')


def limit_settings_are_advertised():
    device = info(URXE_NETDEV='lo', URXE_MAX_QP='7', URXE_MAX_SGE='3')['urxe0']
    equal((device['max_qp'], device['max_sge']), ('7', '3'))


def bad_settings_offer_no_device():
    status, out, err = run(['ibv_devices'], URXE_MTU='1500', URXE_TYPO='1')
    assert 'urxe0' not in out and err.count('urxe: error') == 2, (out, err)


def hiding_real_devices_keeps_ours():
    equal(names(URXE_REAL='hide', URXE_NETDEV='lo'), ['urxe0'])
    status, out, err = run(['ibv_devinfo'], URXE_REAL='hide', URXE_MTU='1500')
    assert status != 0 and 'No IB devices' in out + err, (status, out, err)


CASES = (nothing_up, loopback_only, interfaces_without_address_are_left_out, loopback_comes_last,
         ipv4_gids_precede_ipv6, devices_of_one_mac_have_two_guids, netdev_chooses_and_orders,
         bad_netdevs_are_explained, small_mtus_are_explained, mtu_setting_is_a_cap,
         limit_settings_are_advertised, bad_settings_offer_no_device,
         hiding_real_devices_keeps_ours)


def inside():
    failed = 0
    for case in CASES:
        try:
            case()
            print(f'ok - {case.__name__}')
        except (AssertionError, KeyError, IndexError, subprocess.SubprocessError) as error:
            print(f'not ok - {case.__name__}: {error!r}')
            failed = 1
    return failed


def main():
    if os.environ.get('IN_NAMESPACE'):
        return inside()
    unshare = ['unshare', '--map-root-user', '--net']
    probe = subprocess.run([*unshare, 'ip', 'link', 'add', 'v0', 'type', 'veth', 'peer',
                            'name', 'v1'],
                           capture_output=True, text=True)
    if probe.returncode:
        print(f'no network namespace can be made here: {probe.stderr.strip()}')
        return SKIP
    os.environ['IN_NAMESPACE'] = '1'
    return subprocess.run([*unshare, sys.executable, *sys.argv]).returncode


sys.exit(main())
