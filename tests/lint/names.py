#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Documents name what exists. Usage: names.py FILE...

`dir/file` must be there. `name()` must be defined in the file that it is said to be in ("`a()`,
`b()` in `src/x.c`", or "a at src/x.c" in a stack), else in one that the document names, or be
public."""
import os
import re
import sys

PATH = re.compile(r'`((?:src|include|tests|examples|tools|bench|docs|man)/[^`* ]+)`')
NAMES = re.compile(r'((?:`\w+\(\)`(?:,| and| or)?\s+)+)(?:in|of) `([^`]+)`')
FRAME = re.compile(r'^\s+#\d+\s+(\w+) at ((?:src|examples)/\S+)$', re.M)
PUBLIC = 'include/xrdma/xrdma.h'


def text_of(path, cache={}):
    if path not in cache:
        try:
            with open(path, encoding='utf-8') as source:
                cache[path] = source.read()
        except (OSError, UnicodeDecodeError):
            cache[path] = ''
    return cache[path]


def defines(path, name):
    forms = (rf'^[A-Za-z_][^\n;]*\b{name}\(', rf'^#define {name}\(', rf'^\s*def {name}\(')
    return any(re.search(form, text_of(path), re.M) for form in forms)


def complaints(document):
    text = text_of(document)
    flat = re.sub(r'\s*\n\s*', ' ', text)
    paths = set(PATH.findall(flat))
    for path in sorted(paths):
        if not os.path.exists(path):
            yield f'there is no {path}'
    placed = [(name, path) for names, path in NAMES.findall(flat)
              for name in re.findall(r'(\w+)\(\)', names)] + FRAME.findall(text)
    for name, path in placed:
        if not defines(path, name):
            yield f'{path} does not define {name}'
    for name in sorted(set(re.findall(r'`(\w+)\(\)`', flat)) - {name for name, _ in placed}):
        if not any(defines(path, name) for path in paths | {PUBLIC}):
            yield f'{name}() is in no file that it names'


bad = [f'{document}: {what}' for document in sys.argv[1:] for what in complaints(document)]
print('\n'.join(bad))
sys.exit(bool(bad))
