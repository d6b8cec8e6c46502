#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A polling ping-pong over shared memory makes no system call in steady state.

Counted by strace in the two polling threads, window by window. On a busy machine a thread that was
not scheduled for a while hands its engine over and takes it back: some windows may be disturbed by
that, most must not be. One call is allowed in a window: libxrdma looks at its sockets once a
second.
"""
import os
import shutil
import subprocess
import sys
import tempfile

if not shutil.which("strace"):
    print("strace is not installed")
    sys.exit(77)
if len(os.sched_getaffinity(0)) < 2:
    print("two processors are needed")
    sys.exit(77)

with tempfile.TemporaryDirectory() as tmp:
    trace = os.path.join(tmp, "trace")
    subprocess.run(["strace", "-ff", "-qq", "-o", trace, sys.argv[1]], check=True, timeout=120)
    failed = False
    for name in sorted(os.listdir(tmp)):
        windows, inside = [], None
        for line in open(os.path.join(tmp, name)):
            if line.startswith("getppid("):
                if inside is not None:
                    windows.append(inside)
                inside = 0 if inside is None else None
            elif inside is not None:
                inside += 1
        if not windows:
            continue  # a driver thread
        print(f"{name}: system calls in each window of 5000 messages: {windows}")
        failed |= sum(calls <= 1 for calls in windows) < len(windows) / 2
sys.exit(1 if failed else 0)
