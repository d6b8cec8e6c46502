# SPDX-License-Identifier: BSD-2-Clause
"""A network of one machine: this process moves into a network namespace of its own with only lo,
and can add a second one behind a veth pair. Root is not needed where user namespaces are allowed.
Everything ends with this process: namespaces have no names, and children die with their parent."""
import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get('BUILD', 'build'))
URXE_RUN = os.path.join(TOP, 'tools', 'urxe-run')
os.environ.setdefault('URXE_LIB', os.path.join(BUILD, 'src', 'verbs', 'liburxe.so'))
INSIDE = 'LAB_INSIDE'
# A sysfs shows the interfaces of the namespace it was mounted in; some programs read it.
SYSFS = 'mount -t sysfs sysfs /sys 2>/dev/null'


def enter():
    """Re-execute this program inside a network namespace. Returns why that is impossible, or
    None once inside."""
    if INSIDE in os.environ:
        return os.environ[INSIDE] or None
    unshare = ['unshare', '--net', '--mount']
    if os.geteuid() != 0:
        unshare += ['--user', '--map-root-user']
    probe = subprocess.run(unshare + ['ip', 'link', 'add', 'probe0', 'type', 'veth'],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        os.environ[INSIDE] = 'no network namespace: ' + (probe.stderr.strip().splitlines() or
                                                         ['unshare failed'])[-1]
        return os.environ[INSIDE]
    os.environ[INSIDE] = ''
    sys.stdout.flush()
    os.execvp(unshare[0], unshare + ['sh', '-c', f'{SYSFS}; ip link set lo up && exec "$@"', 'sh',
                                     sys.executable] + sys.argv)


def ip(*words):
    subprocess.run(['ip', *words], check=True)


class Side:
    """One end of a connection: a namespace, its interface and addresses."""

    def __init__(self, netdev, ipv4, ipv6, holder=None):
        self.netdev = netdev
        self.ipv4 = ipv4
        self.ipv6 = ipv6
        self.holder = holder  # a process inside; None: where we are
        self.env = {}

    def argv(self, argv):
        if self.holder is None:
            return list(argv)
        return ['nsenter', '-t', str(self.holder.pid), '-n', '-m', '--', *argv]

    def spawn(self, argv, urxe=True, **more):
        """Start a program, its output going to a temporary file (proc.log)."""
        env = dict(os.environ, URXE_NETDEV=self.netdev, **self.env)
        command = self.argv(([URXE_RUN] if urxe else []) + list(argv))
        log = tempfile.TemporaryFile()
        proc = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', *command], stdout=log,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
                                start_new_session=True, **more)
        proc.log = log
        return proc

    def run(self, argv, urxe=True, timeout_s=90):
        """Run to its end; returns (exit status, output). Status None: it hung."""
        proc = self.spawn(argv, urxe)
        return finish(proc, timeout_s), output(proc)

    def gid_index(self, address):
        """The index of the GID that is this address, asked of the device itself."""
        wanted = f'::ffff:{address}' if '.' in address else address
        _, text = self.run(['ibv_devinfo', '-v'])
        match = re.search(r'GID\[ *(\d+)\]:\s+' + re.escape(wanted) + r'\b(?!:)', text)
        if not match:
            raise LookupError(f'no GID {wanted} in:\n{text}')
        return match[1]


# UCX takes a device for usable that has a node in /dev/infiniband: a /dev of its own for it.
WITH_NODE = '''
new=$(mktemp -d) && mount -t tmpfs tmpfs "$new" && mkdir "$new/infiniband" "$new/shm" &&
mount --bind /dev/shm "$new/shm" || exit
for node in null zero random urandom; do
        : >"$new/$node" && mount --bind "/dev/$node" "$new/$node" || exit
done
: >"$new/infiniband/urxe0" && mount --bind /dev/null "$new/infiniband/urxe0" &&
mount --move "$new" /dev && rmdir "$new" && exec "$@"'''


def for_ucx(side, argv):
    """The command line of a UCX program that is to find urxe0. An IPv6 GID: without the kernel's
    sysfs UCX believes in RoCE v1, whose GRH is an IPv6 header, and drops what UD brings from an
    IPv4 address."""
    return ['unshare', '--mount', 'sh', '-c', WITH_NODE, 'sh', 'env',
            f'UCX_IB_GID_INDEX={side.gid_index(side.ipv6)}', *argv]


def local():
    """Both ends on this host, on lo."""
    side = Side('lo', '127.0.0.1', '::1')
    return side, side


def pair(mtu=1500):
    """Two namespaces joined by veth: this one and a new one."""
    holder = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', 'unshare', '--net', '--mount',
                               'sh', '-c', f'{SYSFS}; echo; exec sleep infinity'],
                              stdout=subprocess.PIPE)
    atexit.register(kill, holder)
    holder.stdout.readline()
    here = Side('veth-a', '10.77.0.1', 'fd77::1')
    there = Side('veth-b', '10.77.0.2', 'fd77::2', holder)
    ip('link', 'add', 'veth-a', 'type', 'veth', 'peer', 'name', 'veth-b')
    ip('link', 'set', 'veth-b', 'netns', str(holder.pid))
    for side in (here, there):
        for words in (['link', 'set', 'lo', 'up'],
                      ['link', 'set', side.netdev, 'mtu', str(mtu), 'up'],
                      ['addr', 'add', f'{side.ipv4}/24', 'dev', side.netdev],
                      ['addr', 'add', f'{side.ipv6}/64', 'dev', side.netdev, 'nodad']):
            subprocess.run(side.argv(['ip', *words]), check=True)
        # As an IPv4 address does, an IPv6 one is to outlast that the interface is down.
        keep = f'echo 1 >/proc/sys/net/ipv6/conf/{side.netdev}/keep_addr_on_down'
        subprocess.run(side.argv(['sh', '-c', keep]), check=True)
    return here, there


def set_mtu(sides, mtu):
    for side in sides:
        subprocess.run(side.argv(['ip', 'link', 'set', side.netdev, 'mtu', str(mtu)]), check=True)


def lose(sides, percent):
    """Lose so many of the packets that come in at either side; returns how to undo it. By the
    network emulator where the kernel has it, else by the firewall."""
    undo = []
    for side in sides:
        netem = side.argv(['tc', 'qdisc', 'add', 'dev', side.netdev, 'root', 'netem', 'loss',
                           f'{percent}%'])
        if subprocess.run(netem, capture_output=True, check=False).returncode == 0:
            undo.append(side.argv(['tc', 'qdisc', 'del', 'dev', side.netdev, 'root']))
            continue
        undo.append(firewall(side, 'lose', 'udp dport 4791 numgen random mod 100 < '
                             f'{percent} counter drop'))
    return lambda: [subprocess.run(argv, check=True) for argv in undo]


def firewall(side, name, rule):
    """One rule for what comes in; returns how to undo it."""
    table = f"""
table inet {name} {{
    chain in {{
        type filter hook input priority 0;
        {rule}
    }}
}}
"""
    subprocess.run(side.argv(['nft', '-f', '-']), check=True, text=True, input=table)
    return side.argv(['nft', 'delete', 'table', 'inet', name])


def block(sides, match):
    """Drop what matches and comes in at either side; returns how to undo it."""
    undo = [firewall(side, 'block', f'{match} drop') for side in sides]
    return lambda: [subprocess.run(argv, check=True) for argv in undo]


def packets(side, match):
    """Count what matches and comes in, until the function returned is called: it returns how many
    that were."""
    undo = firewall(side, 'count', f'{match} counter')

    def stop():
        text = subprocess.run(side.argv(['nft', 'list', 'table', 'inet', 'count']), check=True,
                              capture_output=True, text=True).stdout
        subprocess.run(undo, check=True)
        return int(re.search(r'packets (\d+)', text)[1])
    return stop


def wait_for(condition, timeout_s):
    """Poll until the condition holds; False when it never did."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def listens(proc, port):
    """Does this process's namespace have a listener on the TCP port?"""
    want = f':{port:04X} '
    for table in ('tcp', 'tcp6'):
        try:
            with open(f'/proc/{proc.pid}/net/{table}', encoding='ascii') as lines:
                if any(want in line[:44] and line.split()[3] == '0A' for line in lines):
                    return True
        except OSError:
            pass
    return False


def kill(proc):
    try:
        os.killpg(proc.pid, signal.SIGKILL) if os.getpgid(proc.pid) == proc.pid else proc.kill()
    except ProcessLookupError:
        pass
    proc.wait()


def finish(proc, timeout_s):
    """Exit status, or None for a process that had to be killed."""
    try:
        return proc.wait(timeout_s)
    except subprocess.TimeoutExpired:
        kill(proc)
        return None


def output(proc):
    """Without a seek: the program shares the offset, and may be writing."""
    log = proc.log.fileno()
    return os.pread(log, os.fstat(log).st_size, 0).decode(errors='replace')


class Pair:
    """A server and a client program run to their ends."""

    def __init__(self, server, client, server_argv, client_argv, port, urxe=True, timeout_s=90):
        self.commands = [' '.join(server_argv), ' '.join(client_argv)]
        end = time.monotonic() + timeout_s
        procs = [server.spawn(server_argv, urxe)]
        wait_for(lambda: listens(procs[0], port) or procs[0].poll() is not None, timeout_s)
        procs.append(client.spawn(client_argv, urxe))
        self.status = [finish(proc, max(end - time.monotonic(), 0.1)) for proc in reversed(procs)]
        self.status.reverse()
        self.output = [output(proc) for proc in procs]

    def complaint(self, wanted=('', '')):
        """None, or what is wrong: exit statuses, hangs, a missing result."""
        for who, status, text, want in zip(('server', 'client'), self.status, self.output, wanted):
            if status is None:
                return f'{who} hung'
            if status:
                return f'{who} ended with status {status}'
            if not re.search(want, text, re.M):
                return f'{who} printed no result'
            if re.search(r'urxe: error|invalid data', text):
                return f'{who} printed an error'
        return None

    def logs(self):
        return ''.join(f'--- {who}: {command} (status {status})\n{text}\n'
                       for who, command, status, text in zip(('server', 'client'), self.commands,
                                                             self.status, self.output))


def have(program):
    return shutil.which(program) is not None
