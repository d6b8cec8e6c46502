# SPDX-License-Identifier: BSD-2-Clause
"""What a stranger finds after `make install`: the program of the manual page and the examples build
against header, library and pkg-config file alone, and run."""
import os
import re
import subprocess
import tempfile

import lab

PORT = 7471
FILES = ('bin/urxe-run', 'include/xrdma/xrdma.h', 'lib/liburxe.so', 'lib/libxrdma.so',
         'lib/libxrdma.so.0', 'lib/libxrdma.a', 'lib/pkgconfig/xrdma.pc', 'lib/pkgconfig/urxe.pc',
         'share/man/man7/urxe.7', 'share/man/man7/xrdma.7')


def shell(command, **env):
    done = subprocess.run(['sh', '-ec', command], capture_output=True, text=True, check=False,
                          env=dict(os.environ, **env))
    return done.returncode, done.stdout + done.stderr


def manual_program(path):
    """The program in the page's EXAMPLE."""
    with open(os.path.join(lab.TOP, 'man', 'xrdma.7.scd'), encoding='utf-8') as page:
        code = page.read().split('```\n')[1]
    with open(path, 'w', encoding='utf-8') as out:
        out.write(code)


class Install:
    def __init__(self, side):
        self.side = side
        self.directory = tempfile.TemporaryDirectory()  # goes when this process does
        self.root = self.directory.name
        self.prefix = self.root + '/usr/local'  # replaced by what it is
        self.env = {}

    def install(self):
        status, text = shell(f'meson install -C {lab.BUILD} --no-rebuild --destdir {self.root}')
        if status:
            return 'meson install fails', text
        found = subprocess.run(['find', self.root, '-name', 'xrdma.pc'], capture_output=True,
                               text=True, check=True).stdout.strip()
        self.prefix = found[:-len('/lib/pkgconfig/xrdma.pc')]
        self.env = {'PKG_CONFIG_PATH': self.prefix + '/lib/pkgconfig',
                    'PKG_CONFIG_SYSROOT_DIR': self.root,
                    'LD_LIBRARY_PATH': self.prefix + '/lib'}
        missing = [name for name in FILES if not os.path.exists(f'{self.prefix}/{name}')]
        return ('not installed', '\n'.join(missing)) if missing else None

    def build(self, source, out, static=False, more=''):
        libs = '$(pkg-config --cflags --libs xrdma)'
        if static:
            libs = '$(pkg-config --cflags --libs --static xrdma | sed s/-lxrdma/-l:libxrdma.a/)'
        return shell(f'cc -Wall -Werror {source} {more} {libs} -o {out}', **self.env)

    def echo(self, static):
        """The manual page's program, as server and as client."""
        source, program = self.root + '/echo.c', f'{self.root}/echo{int(static)}'
        manual_program(source)
        # What else a program may be linked with must not clash with what is inside ours.
        status, text = self.build(source, program, static, '-libverbs' if static else '')
        if status:
            return 'does not build', text
        self.side.env = self.env
        server = self.side.spawn([program], urxe=False)
        try:
            if not lab.wait_for(lambda: lab.listens(server, PORT), 20):
                return 'the server does not listen', lab.output(server)
            status, text = self.side.run([program, f'127.0.0.1:{PORT}'], urxe=False, timeout_s=20)
        finally:
            lab.kill(server)
        if status or text != 'the server says: hello\n':
            return f'the client ended with status {status}', text + lab.output(server)
        return None

    def readme(self):
        """The server that README shows."""
        with open(os.path.join(lab.TOP, 'README.md'), encoding='utf-8') as page:
            code = page.read().split('```c\n')[1].split('```\n')[0]
        if code.count('\n') >= 50:
            return 'it is not under 50 lines', code
        with open(self.root + '/server.c', 'w', encoding='utf-8') as out:
            out.write(code)
        status, text = self.build(self.root + '/server.c', self.root + '/server')
        return ('does not build', text) if status else None

    def examples(self):
        """Those that README lists, but for the ones of bare verbs."""
        for name in ('echo_server', 'echo_client', 'key_exchange'):
            path = os.path.join(lab.TOP, 'examples', name + '.c')
            status, text = self.build(path, f'{self.root}/{name}')
            if status:
                return f'{name} does not build', text
        status, text = self.side.run([self.root + '/key_exchange'], urxe=False, timeout_s=30)
        return None if status == 0 else (f'key_exchange ended with status {status}', text)

    def page(self):
        """Every option that the library has is in the page, with the default it has."""
        with open(self.prefix + '/share/man/man7/xrdma.7', encoding='utf-8') as page:
            text = page.read()
        for option in ('window', 'small_bytes', 'huge', 'tls_psk', 'log'):
            if not re.search(rf'^\\fB{option}\\fR = ', text, re.M):
                return f'no option {option}', text
        return None if '@OPTIONS@' not in text else ('the table is missing', text)

    def after(self, step):
        """A step, after the installation if no case has done it yet."""
        return lambda: (None if self.env else self.install()) or step()


def cases(side):
    here = Install(side)
    yield 'install: everything is in its place', here.install
    yield 'install: the program of the manual page builds and runs', here.after(
        lambda: here.echo(False))
    yield 'install: so it does with the library inside', here.after(lambda: here.echo(True))
    yield 'install: the server that README shows builds', here.after(here.readme)
    yield 'install: the examples build', here.after(here.examples)
    yield 'install: the manual page lists the options', here.after(here.page)
