# SPDX-License-Identifier: BSD-2-Clause
"""What the guest boots: Debian's kernel unpacked, and an initial file system of its RDMA modules,
busybox, and this machine's verbs tools with their libraries. Kept in ~/.cache/urxe-guest."""
import functools
import glob
import lzma
import os
import platform
import re
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'),
                     'urxe-guest')
MODULES = ('virtio_pci virtio_net virtio_console virtio_rng veth dummy sch_netem sch_ingress '
           'cls_matchall act_mirred ifb ib_uverbs rdma_ucm rdma_rxe siw crc32_pclmul '
           'crc32c_intel').split()
TOOLS = ('ip rdma tc ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong '
         'ibv_srq_pingpong ib_send_lat ib_send_bw ib_write_lat ib_write_bw ib_read_lat ib_read_bw '
         'ib_atomic_lat ib_atomic_bw rping ucmatose').split()
DIRECTORIES = ('bin', 'dev', 'etc', 'mods', 'proc', 'run', 'sys', 'tmp', 'usr/bin', 'var/run')


class Impossible(Exception):
    """This machine cannot have a guest; the text is the reason."""


class Archive:
    """A cpio archive, of the format that the kernel unpacks."""

    def __init__(self):
        self.data = bytearray()
        self.names = set()

    def _entry(self, name, mode, content):
        fields = (len(self.names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        for part in (b'070701' + b''.join(b'%08x' % field for field in fields) + name.encode() +
                     b'\0', content):
            self.data += part
            self.data += bytes(-len(self.data) % 4)
        self.names.add(name)

    def add(self, path, content=None, mode=0o100755):
        """A file, its directories before it; without content: a directory."""
        name = os.path.normpath(path).strip('/')
        if name in self.names:
            return
        parent = os.path.dirname(name)
        if parent:
            self.add(parent)
        self._entry(name, 0o40755 if content is None else mode, content or b'')

    def add_program(self, source, path=None):
        """A program or library and the shared libraries that it loads at its start."""
        with open(source, 'rb') as file:
            self.add(path or source, file.read())
        for library in libraries(source):
            if os.path.normpath(library).strip('/') not in self.names:
                with open(library, 'rb') as file:
                    self.add(library, file.read())

    def close(self):
        self._entry('TRAILER!!!', 0, b'')
        return bytes(self.data)


@functools.lru_cache(maxsize=None)
def libraries(path):
    """The absolute names under which the loader finds what a program needs."""
    listing = subprocess.run(['ldd', path], capture_output=True, text=True, check=False).stdout
    return [os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
            if not name.startswith('/lib64/') else name
            for name in re.findall(r'(/\S+) \(0x', listing)]


def need(program):
    path = shutil.which(program) or shutil.which(program, path='/usr/sbin:/sbin')
    if not path:
        raise Impossible(f'{program} is not installed')
    return path


def run(*argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise Impossible(f'{" ".join(argv[:3])}: ' +
                         ((done.stderr or done.stdout).strip().splitlines() or ['failed'])[-1])
    return done.stdout


def kernel_package():
    """The name of the newest kernel package of this distribution."""
    if platform.machine() != 'x86_64':
        raise Impossible(f'no guest for {platform.machine()}')
    need('apt-cache')
    depends = run('apt-cache', 'depends', 'linux-image-amd64')
    match = re.search(r'Depends: (linux-image-\S+)', depends)
    if not match:
        raise Impossible('the package lists have no linux-image-amd64')
    return match[1]


def unpack_kernel(boot_image, path):
    """The bare ELF kernel, which QEMU enters directly: an emulated decompressor takes seconds."""
    with open(boot_image, 'rb') as file:
        data = file.read()
    start = data.find(b'\xfd7zXZ\0')
    elf = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data[start:]) if start > 0 else data
    with open(path, 'wb') as file:
        file.write(elf)


def fetch_kernel(directory):
    """Download and unpack the kernel package into a new directory."""
    package = kernel_package()
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(directory)) as work:
        # apt's own user may not write here: not a reason to fail, and not worth a line.
        run('apt-get', '-qq', '-o', 'APT::Sandbox::User=root', 'download', package, cwd=work)
        deb = glob.glob(os.path.join(work, '*.deb'))[0]
        tree = os.path.join(work, 'kernel')
        run('dpkg-deb', '-x', deb, tree)
        version = os.path.basename(glob.glob(os.path.join(tree, 'lib/modules/*'))[0])
        run(need('depmod'), '-b', tree, version)
        unpack_kernel(os.path.join(tree, 'boot', f'vmlinuz-{version}'),
                      os.path.join(tree, 'vmlinux'))
        if not os.path.exists(directory):
            os.rename(tree, directory)


def module_files(tree):
    """The modules to load, in the order in which they can be."""
    version = os.path.basename(glob.glob(os.path.join(tree, 'lib/modules/*'))[0])
    files = []
    for module in MODULES:
        shown = subprocess.run([need('modprobe'), '-d', tree, '-S', version, '--show-depends',
                                module], capture_output=True, text=True, check=False).stdout
        for path in re.findall(r'^insmod (\S+)', shown, re.M):
            if path not in files:
                files.append(path)
    if not any('rdma_rxe' in path for path in files):
        raise Impossible('the kernel package has no rdma_rxe')
    return files


def base_archive(tree):
    archive = Archive()
    for directory in DIRECTORIES:
        archive.add(directory)
    with open(os.path.join(HERE, 'init'), 'rb') as file:
        archive.add('init', file.read())
    archive.add_program(need('busybox'), 'bin/busybox')
    for tool in TOOLS:
        archive.add_program(os.path.realpath(need(tool)), f'usr/bin/{tool}')
    for provider in ('rxe', 'siw'):
        for library in glob.glob(f'/usr/lib/*/libibverbs/lib{provider}-rdmav*.so'):
            archive.add_program(library)
        with open(f'/etc/libibverbs.d/{provider}.driver', 'rb') as file:
            archive.add(f'etc/libibverbs.d/{provider}.driver', file.read())
    names = []
    for path in module_files(tree):
        with open(path, 'rb') as file:  # checking a signature takes the emulator a second
            module = file.read().removesuffix(b'~Module signature appended~\n')
        archive.add(f'mods/{os.path.basename(path)}', module)
        names.append(os.path.basename(path))
    archive.add('etc/modules.list', '\n'.join(names + ['']).encode())
    archive.add('etc/passwd', b'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n')
    archive.add('etc/hosts', b'127.0.0.1 localhost\n')
    return archive


def kernel():
    """The directory of the kernel package's files, downloaded once."""
    need('qemu-system-x86_64')
    directory = os.path.join(CACHE, 'kernel')
    if not os.path.exists(directory):
        fetch_kernel(directory)
    return directory


def prepare():
    """Returns (kernel file, Archive to add to)."""
    directory = kernel()
    return os.path.join(directory, 'vmlinux'), base_archive(directory)
