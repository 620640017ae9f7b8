#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-keeper by itself: daemons come, crash and end, standbys wait, and strangers ask.

  test_keeper.py UROCE-KEEPER
"""

import array
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

KEEPER = sys.argv.pop(1)
MAGIC, VERSION = 0x7065654b, 1                      # app/common/keeper.h
HELLO, KEEP, FORGET, COMMIT, END, STANDBY = range(1, 7)
SERVES, WAITS, TAKEN, ENDED = range(1, 5)
NUMBERS, BATCH = 1 << 20, 64
SECONDS = 10
SETTLED = 0.2                                       # seconds after which the keeper has done what it was told
MANY = 19000                                        # descriptors: more messages than a socket's queue takes
NOBODY = 65534


class Daemon:
    """What a daemon says to the keeper."""

    def __init__(self, path, seconds=60, hello=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(SECONDS)
        self.connect(path)
        self.given = {}
        if hello:
            self.hello(seconds)

    def connect(self, path):
        """A socket with a time-out doesn't wait for room in the listener's queue"""
        end = time.monotonic() + SECONDS
        while True:
            try:
                return self.socket.connect(path)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.001)

    def say(self, op, number=0, seconds=0, version=VERSION, descriptors=(), magic=MAGIC):
        message = struct.pack('=6I', magic, op, number, seconds, version, 0)
        self.socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', descriptors))] if descriptors else [])

    def hello(self, seconds):
        self.say(HELLO, seconds=seconds)
        self.take()

    def take(self):
        """Receive what the daemon before has left"""
        state = self.socket.recv(100)
        if not state:
            raise EOFError
        _, _, count, self.room, self.crashes, self.all_crashes, self.ended_ns = struct.unpack('=6IQ', state)
        while len(self.given) < count:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 1000, BATCH)
            magic, n = struct.unpack_from('=2I', data)
            assert magic == MAGIC and n == len(descriptors), (n, descriptors)
            self.given.update(zip(struct.unpack_from(f'={n}I', data, 8), descriptors))

    def keep(self, number, file):
        self.say(KEEP, number, descriptors=[file.fileno() if hasattr(file, 'fileno') else file])

    def read(self, number):
        """What a file has that was given under this number"""
        return os.pread(self.given[number], 100, 0)

    def crash(self):
        self.socket.close()
        for descriptor in self.given.values():
            os.close(descriptor)
        self.given = {}

    def ended(self):
        """Whether the keeper has closed the connection"""
        try:
            return self.socket.recv(100) == b''
        except ConnectionResetError:
            return True


class Standby(Daemon):
    """A daemon that waits for the end of another one"""

    def __init__(self, path, seconds=60):
        super().__init__(path, hello=False)
        self.process = None
        self.say(STANDBY, seconds=seconds)
        self.turn = self.hear()

    def hear(self):
        """What it has to do; if it serves, it has taken what is left"""
        data, descriptors, _, _ = socket.recv_fds(self.socket, 100, BATCH)
        magic, version, turn, _ = struct.unpack('=4I', data)
        assert (magic, version) == (MAGIC, VERSION) and len(descriptors) <= (turn == SERVES), (data, descriptors)
        if turn == SERVES:
            self.process = descriptors[0] if descriptors else None
            self.take()
        return turn

    def crash(self):
        super().crash()
        if self.process is not None:
            os.close(self.process)
        self.process = None


def file_of(text):
    f = tempfile.TemporaryFile()
    f.write(text)
    f.flush()
    return f


class Keeping(unittest.TestCase):
    options = ()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, 'd.sock.keeper')
        self.start(*self.options)

    def start(self, *options, **how):
        ours, theirs = os.pipe()
        self.keeper = subprocess.Popen([KEEPER, *options, '--ready', str(theirs), self.path], pass_fds=[theirs], stderr=subprocess.PIPE, text=True, **how)
        os.close(theirs)
        self.assertEqual(os.read(ours, 1), b'')
        os.close(ours)
        self.addCleanup(self.stop)

    def stop(self):
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stderr.close()

    def daemon(self, **how):
        daemon = Daemon(self.path, **how)
        self.addCleanup(daemon.crash)
        return daemon

    def standby(self, **how):
        standby = Standby(self.path, **how)
        self.addCleanup(standby.crash)
        return standby

    def with_one(self, **how):
        """A daemon that has one descriptor, under number 1"""
        daemon = self.daemon(**how)
        with file_of(b'one') as one:
            daemon.keep(1, one)
        daemon.say(COMMIT)
        return daemon

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.keeper.pid}/fd'))


class Daemons(Keeping):
    def test_the_next_daemon_gets_what_was_committed(self):
        first = self.daemon()
        self.assertEqual((first.given, first.crashes, first.ended_ns), ({}, 0, 0))
        with file_of(b'one') as one, file_of(b'two') as two, file_of(b'three') as three:
            first.keep(1, one)
            first.keep(1000, two)
            first.keep(5, three)
        first.say(FORGET, 5)
        first.say(FORGET, 6)
        first.say(COMMIT)
        with file_of(b'four') as four:
            first.keep(5, four)
        before = time.monotonic_ns()
        first.crash()
        second = self.daemon()
        self.assertEqual({number: second.read(number) for number in second.given}, {1: b'one', 1000: b'two', 5: b'four'})
        self.assertEqual((second.crashes, second.all_crashes), (1, 1))
        self.assertTrue(before <= second.ended_ns <= time.monotonic_ns())

    def test_what_was_not_committed_does_not_count(self):
        first = self.daemon()
        with file_of(b'one') as one, file_of(b'two') as two:
            first.keep(1, one)
            first.say(COMMIT)
            first.crash()
            second = self.daemon()
            second.keep(1, two)
            second.keep(2, two)
            second.crash()
            third = self.daemon()
            self.assertEqual({number: third.read(number) for number in third.given}, {1: b'one'})
            third.keep(2, two)
            third.say(COMMIT)
            third.crash()
        self.assertEqual({number: Daemon.read(d, number) for d in [self.daemon()] for number in d.given}, {2: b'two'})

    def test_crashes_in_a_row_are_counted(self):
        for crashes in range(5):
            daemon = self.daemon()
            self.assertEqual((daemon.crashes, daemon.all_crashes), (crashes, crashes))
            daemon.crash()

    def test_many_descriptors(self):
        first = self.daemon()
        with file_of(b'x') as x:
            for number in range(300):
                first.keep(number * 7, x)
        first.say(COMMIT)
        first.crash()
        self.assertEqual(sorted(self.daemon().given), [number * 7 for number in range(300)])

    def test_a_second_daemon_waits_for_the_first(self):
        first = self.daemon()
        second = self.daemon(hello=False)
        second.socket.settimeout(0.2)
        second.say(HELLO)
        with self.assertRaises(TimeoutError):
            second.socket.recv(100)
        first.crash()
        second.socket.settimeout(SECONDS)
        self.assertEqual(len(second.socket.recv(100)), 32)

    def test_a_proper_end_ends_everything(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            first = self.daemon()
            first.keep(1, theirs)
            first.say(COMMIT)
            theirs.close()
            first.say(END)
            self.assertEqual(self.keeper.wait(SECONDS), 0)
            self.assertEqual(ours.recv(1), b'')
        self.assertFalse(os.path.exists(self.path))

    def serve_who_waits(self, accepted, greeted):
        """A daemon ends while another one comes: before that the keeper has ACCEPTED the other one, which has GREETED it. Else it sees that together with the END."""
        first = self.with_one()
        second = None
        if accepted:
            second = self.daemon(hello=False)
            if greeted:
                second.say(HELLO, seconds=60)
            time.sleep(SETTLED)
        if not greeted:
            self.keeper.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.keeper.pid, os.WSTOPPED)
            second = second or self.daemon(hello=False)
            second.say(HELLO, seconds=60)
        first.say(END)
        self.keeper.send_signal(signal.SIGCONT)
        second.take()
        self.assertEqual((second.given, second.crashes, second.all_crashes), ({}, 0, 0))
        self.assertTrue(first.ended())
        with file_of(b'two') as two:
            second.keep(2, two)
        second.say(COMMIT)
        second.crash()
        third = self.daemon()
        self.assertEqual((third.crashes, third.read(2)), (1, b'two'))
        third.say(END)
        self.assertEqual(self.keeper.wait(SECONDS), 0)

    def test_after_a_proper_end_it_serves_the_daemon_that_waits(self):
        self.serve_who_waits(accepted=True, greeted=True)

    def test_after_a_proper_end_it_serves_a_daemon_that_has_just_come(self):
        self.serve_who_waits(accepted=False, greeted=False)

    def test_after_a_proper_end_it_serves_a_daemon_that_has_just_greeted(self):
        self.serve_who_waits(accepted=True, greeted=False)

    def test_who_says_nothing_doesn_t_keep_it(self):
        first = self.with_one()
        silent = self.daemon(hello=False)
        first.say(END)
        self.assertEqual(self.keeper.wait(SECONDS), 0)
        self.assertTrue(silent.ended())

    def test_programs_end_when_nobody_comes(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # Somebody else has it as well: it is shut down all the same.
            first = self.daemon(seconds=1)
            first.keep(1, theirs)
            first.say(COMMIT)
            begin = time.monotonic()
            first.crash()
            ours.settimeout(SECONDS)
            self.assertEqual(ours.recv(1), b'')
            self.assertGreater(time.monotonic() - begin, 0.9)
        self.assertEqual(self.keeper.wait(SECONDS), 0)
        self.assertIn('no daemon came within 1 s', self.keeper.stderr.read())

    def test_signals_of_a_terminal_do_nothing(self):
        first = self.daemon()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            self.keeper.send_signal(number)
        first.crash()
        self.daemon()


class Standbys(Keeping):
    def test_a_standby_gets_what_a_crashed_daemon_has_left(self):
        first = self.with_one()
        standby = self.standby()
        self.assertEqual(standby.turn, WAITS)
        before = time.monotonic_ns()
        first.crash()
        self.assertEqual(standby.hear(), SERVES)
        self.assertEqual({number: standby.read(number) for number in standby.given}, {1: b'one'})
        self.assertEqual((standby.crashes, standby.all_crashes), (1, 1))
        self.assertTrue(before <= standby.ended_ns <= time.monotonic_ns())
        self.assertEqual(self.standby().turn, WAITS)

    def test_it_gets_the_process_that_has_crashed(self):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(theirs)
            daemon = Daemon(self.path)
            daemon.say(COMMIT)
            os.read(ours, 1)
            # Its connection ends, and the process doesn't.
            daemon.socket.close()
            os.read(ours, 1)
            os._exit(0)
        os.close(ours)
        while (standby := self.standby()).turn != WAITS:
            standby.crash()
        os.write(theirs, b'x')
        self.assertEqual(standby.hear(), SERVES)
        poll = select.poll()
        poll.register(standby.process, select.POLLIN)
        self.assertEqual(poll.poll(100), [])
        os.close(theirs)
        self.assertEqual(len(poll.poll(SECONDS * 1000)), 1)
        os.waitpid(child, 0)

    def test_many_descriptors(self):
        first = self.daemon()
        with file_of(b'x') as x:
            for number in range(300):
                first.keep(number * 7, x)
        first.say(COMMIT)
        standby = self.standby()
        first.crash()
        self.assertEqual(standby.hear(), SERVES)
        self.assertEqual(sorted(standby.given), [number * 7 for number in range(300)])

    def test_it_is_a_daemon_afterwards(self):
        first = self.with_one()
        standby = self.standby()
        first.crash()
        self.assertEqual(standby.hear(), SERVES)
        with file_of(b'two') as two, file_of(b'three') as three:
            standby.keep(2, two)
            standby.keep(3, three)
        standby.say(FORGET, 3)
        standby.say(COMMIT)
        standby.crash()
        third = self.daemon()
        self.assertEqual({number: third.read(number) for number in third.given}, {2: b'two'})
        # It has crashed at once.
        self.assertEqual((third.crashes, third.all_crashes), (2, 2))

    def test_crashes_in_a_row_are_counted(self):
        first = self.with_one()
        for crashes in range(1, 5):
            standby = self.standby()
            first.crash()
            self.assertEqual((standby.hear(), standby.crashes, standby.read(1)), (SERVES, crashes, b'one'))
            first = standby

    def test_the_first_without_a_daemon_serves(self):
        standby = self.standby()
        self.assertEqual((standby.turn, standby.given, standby.process), (SERVES, {}, None))
        self.assertEqual(self.standby().turn, WAITS)

    def test_it_serves_at_once_what_a_crashed_daemon_has_left(self):
        self.with_one().crash()
        standby = self.standby()
        # The keeper may not have noticed the crash yet.
        self.assertEqual(standby.hear() if standby.turn == WAITS else standby.turn, SERVES)
        self.assertEqual((standby.crashes, standby.read(1)), (1, b'one'))

    def test_there_is_one(self):
        first = self.with_one()
        standby = self.standby()
        second = self.standby()
        self.assertEqual(second.turn, TAKEN)
        self.assertTrue(second.ended())
        first.crash()
        self.assertEqual(standby.hear(), SERVES)

    def test_one_that_has_ended_is_forgotten(self):
        first = self.with_one()
        for _ in range(3):
            standby = self.standby()
            self.assertEqual(standby.turn, WAITS)
            standby.crash()
        last = self.standby()
        first.crash()
        self.assertEqual((last.hear(), last.crashes, last.all_crashes), (SERVES, 1, 1))

    def test_both_end_at_once(self):
        first = self.with_one()
        standby = self.standby()
        self.keeper.send_signal(signal.SIGSTOP)
        first.crash()
        standby.crash()
        self.keeper.send_signal(signal.SIGCONT)
        second = self.daemon()
        self.assertEqual((second.crashes, second.read(1)), (1, b'one'))

    def test_it_ends_with_a_daemon_that_ends_properly(self):
        first = self.with_one()
        standby = self.standby()
        first.say(END)
        self.assertEqual(standby.hear(), ENDED)
        self.assertTrue(standby.ended())
        self.assertEqual(self.keeper.wait(SECONDS), 0)

    def test_one_that_says_something_is_dropped(self):
        first = self.with_one()
        for op in (HELLO, KEEP, COMMIT, END, STANDBY):
            standby = self.standby()
            self.assertEqual(standby.turn, WAITS)
            standby.say(op)
            self.assertTrue(standby.ended())
        first.crash()
        self.assertEqual(self.daemon().read(1), b'one')

    def test_a_daemon_that_waits_comes_behind_the_standby(self):
        first = self.with_one()
        standby = self.standby()
        other = self.daemon(hello=False)
        other.say(HELLO)
        first.crash()
        self.assertEqual(standby.hear(), SERVES)
        other.socket.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            other.socket.recv(100)
        standby.say(COMMIT)
        standby.crash()
        other.socket.settimeout(SECONDS)
        self.assertEqual(len(other.socket.recv(100)), 32)

    def test_daemons_that_wait_come_in_their_order(self):
        first = self.with_one()
        others = [self.daemon(hello=False) for _ in range(3)]
        for other in others:
            other.say(HELLO)
            time.sleep(0.05)
        for other in others:
            first.crash()
            self.assertEqual(len(other.socket.recv(100)), 32)
            first = other

    def test_who_is_silent_keeps_nobody_out(self):
        first = self.with_one()
        silent = [self.daemon(hello=False) for _ in range(9)]
        self.assertEqual(self.standby().turn, WAITS)
        self.assertTrue(silent[0].ended())
        first.crash()

    def test_nothing_is_left_over(self):
        first = self.with_one()
        time.sleep(SETTLED)
        before = self.descriptors()
        for _ in range(5):
            standby = self.standby()
            first.crash()
            self.assertEqual(standby.hear(), SERVES)
            with file_of(b'one') as one:
                standby.keep(1, one)
            standby.say(COMMIT)
            first = standby
        end = time.monotonic() + SECONDS
        while self.descriptors() != before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.descriptors(), before)

    def test_one_that_does_not_read_is_dropped(self):
        """The keeper waits for nobody: it serves others meanwhile, and the next daemon after five seconds."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < MANY + 100:
            self.skipTest(f'a process may have only {most} descriptors')
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        first = self.daemon()
        with file_of(b'x') as x:
            for number in range(MANY):
                first.keep(number, x)
        first.say(COMMIT)
        self.standby()
        first.crash()
        begin = time.monotonic()
        # The keeper reads a message a turn, and the end of the first one comes behind all that it has sent. Until then there is a standby.
        while (second := self.standby()).turn == TAKEN and time.monotonic() - begin < 2:
            second.crash()
        self.assertEqual(second.turn, WAITS)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(second.hear(), SERVES)
        self.assertEqual((second.crashes, len(second.given)), (2, MANY))


class Staying(Keeping):
    options = ('--stay',)

    def test_a_standby_ends_with_a_daemon_that_ends_properly(self):
        first = self.with_one()
        standby = self.standby()
        first.say(END)
        self.assertEqual(standby.hear(), ENDED)
        self.assertTrue(standby.ended())
        second = self.standby()
        self.assertEqual((second.turn, second.given, second.crashes), (SERVES, {}, 0))

    def test_it_waits_for_the_next_daemon_after_a_proper_end(self):
        first = self.daemon()
        with file_of(b'one') as one:
            first.keep(1, one)
        first.say(COMMIT)
        first.say(END)
        self.assertTrue(first.ended())
        second = self.daemon(seconds=1)
        self.assertEqual((second.given, second.crashes), ({}, 0))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            second.keep(1, theirs)
            second.say(COMMIT)
            second.crash()
            ours.settimeout(SECONDS)
            self.assertEqual(ours.recv(1), b'')
        self.assertEqual(self.daemon().given, {})


class Wrong(Keeping):
    def refused(self, what):
        daemon = self.daemon(hello=False)
        what(daemon)
        self.assertTrue(daemon.ended())
        self.daemon().crash()

    def test_other_messages(self):
        with file_of(b'x') as x:
            for what in (lambda d: d.say(HELLO, version=2), lambda d: d.say(HELLO, magic=1), lambda d: d.say(COMMIT), lambda d: d.say(KEEP, 1, descriptors=[x.fileno()]),
                         lambda d: d.socket.send(b'short'), lambda d: (d.hello(1), d.say(HELLO)), lambda d: (d.hello(1), d.say(77)),
                         lambda d: (d.hello(1), d.say(KEEP, NUMBERS, descriptors=[x.fileno()])), lambda d: (d.hello(1), d.say(KEEP, 1)),
                         lambda d: (d.hello(1), d.say(KEEP, 1, descriptors=[x.fileno()] * 2))):
                self.refused(what)

    def test_strangers(self):
        if os.geteuid() != 0:
            self.skipTest('needs root')
        os.chmod(self.folder.name, 0o755)
        os.chmod(self.path, 0o666)
        child = os.fork()
        if child == 0:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            try:
                Daemon(self.path)
            except (EOFError, ConnectionError):
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_only_its_own_user_may_connect(self):
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_no_room(self):
        self.stop()
        self.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        daemon = self.daemon()
        self.assertEqual(daemon.room, 32)
        with file_of(b'x') as x:
            for number in range(32):
                daemon.keep(number, x)
            daemon.say(COMMIT)
            daemon.keep(32, x)
        self.assertTrue(daemon.ended())
        self.assertEqual(len(self.daemon().given), 32)

    def test_system_calls_are_limited(self):
        with open(f'/proc/{self.keeper.pid}/status', encoding='ascii') as f:
            self.assertIn('Seccomp:\t2\n', f.readlines())

    def test_a_socket_in_use(self):
        second = subprocess.run([KEEPER, self.path], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(second.returncode, 1)
        self.assertIn('Address already in use', second.stderr)

    def test_a_socket_that_was_left(self):
        self.stop()
        self.start()
        self.daemon()

    def test_usage(self):
        for arguments, status in (((), 2), (('a', 'b'), 2), (('--what',), 2), (('--help',), 0), (('--version',), 0)):
            self.assertEqual(subprocess.run([KEEPER, *arguments], capture_output=True, timeout=SECONDS).returncode, status, arguments)


if __name__ == '__main__':
    unittest.main()
