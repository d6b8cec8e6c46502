# SPDX-License-Identifier: BSD-2-Clause
"""Run one file of the suite and write down what becomes of each of its tests, as it happens.

usage: one.py SUITE_DIR MODULE RESULTS [argument of the suite...]

RESULTS gets a line for each test that begins ("begin ID") and for each that ends
("pass|skip|fail ID reason"): one that only begins has killed the process.
"""
import multiprocessing.process
import os
import sys
import unittest


class Recorder(unittest.TestResult):
    def __init__(self, path):
        super().__init__()
        self.log = open(path, 'w', encoding='utf-8')
        self.verdict = None

    def write(self, what, test, reason=''):
        reason = ' '.join(str(reason).split())
        self.log.write(f'{what}\t{test.id().removeprefix("tests.")}\t{reason}\n')
        self.log.flush()

    def startTest(self, test):
        super().startTest(test)
        self.verdict = ('pass', '')
        dead_children.clear()
        self.write('begin', test)

    def stopTest(self, test):
        if dead_children:
            self.verdict = ('fail', f'a child process ended with {dead_children[0]}')
        self.write(self.verdict[0], test, self.verdict[1])
        super().stopTest(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.verdict = ('skip', reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.verdict = ('fail', self._exc_info_to_string(err, test))

    addError = addFailure


dead_children = []


def watch_children():
    """Tests join their children without asking how those ended."""
    process = multiprocessing.process.BaseProcess
    join = process.join

    def checked_join(self, timeout=None):
        join(self, timeout)
        if self.exitcode:
            dead_children.append(self.exitcode)
    process.join = checked_join


def main():
    suite_dir, module, results = sys.argv[1:4]
    sys.argv[1:] = sys.argv[4:]
    sys.path[:0] = [os.path.dirname(suite_dir), suite_dir]
    from args_parser import parser # the suite's
    parser.parse_args()
    watch_children()
    tests = unittest.defaultTestLoader.loadTestsFromName(f'tests.{module}')
    tests.run(Recorder(results))


main()
