#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a process of a lab is alive (scripts/uroce_lab/state.py)."""

import os
import platform
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../../scripts'))

from uroce_lab.state import Process, start_time  # noqa: E402

SYS_EXIT = {'x86_64': 60, 'aarch64': 93}    # of one thread
FIRST_THREAD_ENDS = f"""
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({SYS_EXIT.get(platform.machine())}, 0)
"""


def first_thread_state(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        return f.read().rpartition(')')[2].split()[0]


class Alive(unittest.TestCase):
    def begin(self, *command):
        child = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.addCleanup(child.wait)
        self.addCleanup(child.stdin.close)
        return child, Process(child.pid, start_time(child.pid))

    def ended(self, child):
        """Wait for its end, but leave it a zombie."""
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    def test_until_it_ends(self):
        child, process = self.begin('cat')
        self.assertTrue(process.alive())
        child.stdin.close()
        self.ended(child)
        self.assertFalse(process.alive())

    def test_another_process_with_its_number(self):
        child, process = self.begin('cat')
        self.assertFalse(Process(child.pid, process.started + 1).alive())

    @unittest.skipUnless(platform.machine() in SYS_EXIT, 'the number of exit(2) on this machine is not known')
    def test_until_its_last_thread_ends(self):
        """The first one is a zombie by then; descriptors and locks are those of all threads."""
        child, process = self.begin(sys.executable, '-c', FIRST_THREAD_ENDS)
        while first_thread_state(child.pid) != 'Z':
            self.assertIsNone(child.poll())
        self.assertTrue(process.alive())
        child.stdin.close()
        self.ended(child)
        self.assertFalse(process.alive())


if __name__ == '__main__':
    unittest.main()
