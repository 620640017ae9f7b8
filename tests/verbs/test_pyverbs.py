#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own tests of verbs, as Debian ships them (rdma-core and python3-pyverbs), on one host of a lab.

What a device of ours doesn't promise, and what needs a device of another vendor, they skip by themselves.
"""

import glob
import gzip
import importlib
import os
import shutil
import sys
import tempfile
import unittest

SOURCE = '/usr/share/doc/rdma-core/tests'
PYTHON = '/usr/bin/python3'     # pyverbs is Debian's, another Python doesn't find it
# Its children use their parent's context after fork(). A session is one process's; a child has to open the device itself.
FORKED = ('test_multi_process_alloc_dm',)
SECONDS = 300
# rdma-core 56's tests ask the command `rdma` for the network interface of a device. It fails where the kernel has no InfiniBand, and knows nothing
# of ours. The tests take it that a device has no such interface.
RDMA = "#!/bin/sh\necho '[]'\n"
AT_LEAST = 131                  # tests that are neither skipped nor fail


def inside(folder, gid):
    """In the lab: run what is in the folder."""
    sys.path[:0] = [os.path.dirname(folder), folder]
    os.environ['PATH'] = f'{os.path.dirname(folder)}:{os.environ["PATH"]}'
    from args_parser import parser  # pylint: disable=import-outside-toplevel,import-error
    sys.argv = [sys.argv[0], '--dev', 'uroce0', '--gid', gid, '--port', '1']
    parser.parse_args()
    def wanted(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from wanted(test)
            elif test.id().rpartition('.')[2] not in FORKED:
                yield test
    suite = unittest.TestSuite()
    for path in sorted(glob.glob(os.path.join(folder, 'test_*.py'))):
        name = os.path.basename(path)[:-3]
        suite.addTests(wanted(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module('tests.' + name))))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    good = result.testsRun - len(result.skipped) - len(result.failures) - len(result.errors)
    print(f'{good} succeeded')
    return 0 if result.wasSuccessful() and good >= AT_LEAST else 1


def unpack(folder):
    for path in glob.glob(os.path.join(SOURCE, '*.py*')):
        with (gzip.open(path) if path.endswith('.gz') else open(path, 'rb')) as f, \
                open(os.path.join(folder, os.path.basename(path).removesuffix('.gz')), 'wb') as out:
            shutil.copyfileobj(f, out)


def main():
    sys.dont_write_bytecode = True
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:0] = [here, os.path.join(here, '../../scripts')]
    from labs import SKIPPED, lab_up  # pylint: disable=import-outside-toplevel
    if not os.path.exists(SOURCE) or not glob.glob('/usr/lib/python3/dist-packages/pyverbs'):
        print('skipped: rdma-core or python3-pyverbs is not installed')
        return SKIPPED
    with tempfile.TemporaryDirectory() as top, lab_up(name=f'v{os.getpid()}') as lab:
        os.chmod(top, 0o755)
        folder = os.path.join(top, 'tests')
        os.mkdir(folder)
        unpack(folder)
        with open(os.path.join(top, 'rdma'), 'w', encoding='ascii') as f:
            f.write(RDMA)
        os.chmod(f.name, 0o755)
        done = lab.run('h1', PYTHON, os.path.realpath(__file__), folder, str(lab.gid_index('h1', 4)), timeout=SECONDS)
        print(done.stdout)
        if done.returncode or not lab.whole():
            print(f'status {done.returncode}\n{lab.logs()}')
        return 1 if done.returncode or not lab.whole() else 0


if __name__ == '__main__':
    sys.exit(inside(*sys.argv[1:]) if len(sys.argv) == 3 else main())
