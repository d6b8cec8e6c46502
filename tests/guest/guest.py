# SPDX-License-Identifier: BSD-2-Clause
"""A machine with the Linux kernel's RDMA stack, emulated: boots in seconds, runs commands as root,
and ends with this process. Beside a network interface of its own it can have one end of a tap."""
import atexit
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time

import image
from image import Impossible  # noqa: F401  (what users of Guest catch)

BOOT_S = 120  # a busy machine may take a while
IP, TC = '/usr/bin/ip', '/usr/bin/tc'  # by full names: busybox's shell takes its own first
SHELLS = 3  # two for programs that talk to each other, one to look after them


class Shell:
    """A shell of the guest's at the end of a socket: one command at a time."""

    def __init__(self, sock):
        self.sock = sock
        self.count = 0
        self.process = None

    def start(self, command, timeout_s):
        self.count += 1
        self.process = Process(self, command, timeout_s)
        return self.process


class Process:
    """A command under way in the guest."""

    def __init__(self, shell, command, timeout_s):
        self.shell = shell
        self.returncode = None
        self.text = ''
        self.mark = f'@@{shell.count} '
        self.received = b''
        # busybox's timeout becomes the command itself: "$$" is its process id.
        line = shlex.quote(f'echo "@@pid $$"; cd /tmp; exec timeout -s KILL {timeout_s} {command}')
        end = rf"printf '\n{self.mark}%s\n' $?"
        shell.sock.sendall(f'sh -c {line} </dev/null 2>&1; {end}\n'.encode())

    def poll(self, timeout_s=0):
        end = time.monotonic() + timeout_s
        while self.returncode is None:
            ready, _, _ = select.select([self.shell.sock], [], [],
                                        max(end - time.monotonic(), 0))
            if not ready:
                return None
            data = self.shell.sock.recv(65536)
            self.received += data
            self.text = self.received.decode(errors='replace').replace('\r', '')
            match = re.search(rf'\n?^{self.mark}(\d+)\n', self.text, re.M)
            if match:
                self.returncode = int(match[1])
                self.text = self.text[:match.start()]
            elif not data:
                self.returncode = 125
                self.text += '\nthe guest died\n'
        return self.returncode

    def output(self):
        text = re.sub(r'^@@pid \d+\n', '', self.text).rstrip('\n')
        return text and text + '\n'

    def pid(self):
        match = re.match(r'@@pid (\d+)\n', self.text)
        return match[1] if match else None


class Guest:
    """files: programs and libraries to carry along, at their own absolute paths, as strings, or
    as pairs (path here, path there). tap: the interface that is the other end of eth0."""

    def __init__(self, files=(), tap=None, memory_mib=1024):
        kernel, archive = image.prepare()
        for item in files:
            source, path = item if isinstance(item, tuple) else (item, item)
            archive.add_program(source, path)
        self.console = tempfile.TemporaryFile()
        self.initrd = tempfile.NamedTemporaryFile(prefix='urxe-guest-')
        self.initrd.write(archive.close())
        self.initrd.flush()
        pairs = [socket.socketpair() for _ in range(SHELLS)]
        self.shells = [Shell(mine) for mine, _ in pairs]
        theirs = [other.fileno() for _, other in pairs]
        self.qemu = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL',
             *self.command(kernel, theirs, tap, memory_mib)],
            pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=self.console,
            stderr=subprocess.STDOUT, start_new_session=True)
        atexit.register(self.close)
        for _, other in pairs:
            other.close()
        self.wait_boot()

    def command(self, kernel, fds, tap, memory_mib):
        # A time-stamp counter calibrated while the machine was busy ran ten times too fast.
        argv = ['qemu-system-x86_64', '-machine', 'pc', '-accel', 'tcg,thread=multi,tb-size=256',
                '-cpu', 'max', '-smp', '2', '-m', str(memory_mib), '-display', 'none', '-no-reboot',
                '-nodefaults', '-serial', 'stdio', '-kernel', kernel, '-initrd', self.initrd.name,
                '-append', 'console=ttyS0 quiet panic=-1 mitigations=off clocksource=hpet '
                'tsc=unstable',
                '-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci']
        for i, fd in enumerate(fds):
            argv += ['-chardev', f'socket,id=shell{i},fd={fd}', '-device',
                     f'virtserialport,chardev=shell{i},nr={i + 1}']
        if tap:
            argv += ['-netdev', f'tap,id=net,ifname={tap},script=no,downscript=no', '-device',
                     'virtio-net-pci,netdev=net,romfile=']
        return argv

    def log(self):
        console = self.console.fileno()  # no seek: the guest's offset is ours
        return os.pread(console, os.fstat(console).st_size, 0).decode(errors='replace')

    def wait_boot(self):
        end = time.monotonic() + BOOT_S
        while not re.search('^ready after', self.log(), re.M):
            if self.qemu.poll() is not None or time.monotonic() > end:
                self.close()
                lines = self.log().strip().splitlines() or ['it says nothing']
                raise Impossible(f'the guest does not boot: {lines[-1]}')
            time.sleep(0.05)

    def run(self, command, timeout_s=60, shell=SHELLS - 1):
        """Runs a shell command to its end; returns (exit status, output)."""
        process = self.spawn(f'sh -c {shlex.quote(command)}', timeout_s, shell)
        process.poll(timeout_s + 10)
        return process.returncode, process.output()

    def must(self, command):
        status, text = self.run(command)
        if status:
            raise Impossible(f'in the guest: {command}: {text.strip()}')
        return text

    def spawn(self, command, timeout_s=60, shell=0):
        """Starts a command, not a list of them; killed after timeout_s."""
        return self.shells[shell].start(command, timeout_s)

    def kill(self, process):
        process.poll()
        if process.returncode is None and process.pid():
            self.run(f'kill -9 {process.pid()}')
        process.poll(5)

    def listens(self, port):
        return self.run(f'netstat -ltn | grep -q ":{port} "')[0] == 0

    def add_rxe(self, netdev):
        """Returns the name of the kernel's RDMA device on an interface that is up."""
        name = f'rxe_{netdev}'
        self.must(f'rdma link add {name} type rxe netdev {netdev}')
        return name

    def add_loopbacks(self):
        """rxe_dummy0, 10.79.0.1 and fd79::1, and rxe_lo: rxe itself turns packets round."""
        self.must(f'{IP} link set dummy0 up && {IP} addr add 10.79.0.1/24 dev dummy0 && '
                  f'{IP} addr add fd79::1/64 dev dummy0 nodad')
        for netdev in ('dummy0', 'lo'):
            self.add_rxe(netdev)

    def close(self):
        if self.qemu.poll() is None:
            os.killpg(self.qemu.pid, signal.SIGKILL)
            self.qemu.wait()
