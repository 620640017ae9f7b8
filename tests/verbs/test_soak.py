#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-lab soak: what a seed draws, what is an error and what a hang, and real programs under faults, with and without bugs.

  tests/verbs/test_soak.py            less than a minute
  tests/verbs/test_soak.py --long     100 repetitions of each fault of verbs
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from labs import LAB, UP_SECONDS, closed_to_others, lab_command, lab_up, main  # noqa: E402
from uroce_lab import daemon, faults, pairs  # noqa: E402
from uroce_lab.faults import End, Plan, judge  # noqa: E402
from uroce_lab.soak import fault_names, seconds, whole  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

NAME = f'k{os.getpid()}'
SECONDS = 60
BUGS = os.path.join(daemon.build_dir(), 'tests/verbs/verbs_soak_bugs')
LATE_SECONDS = 0.1
SETUID = os.path.join(daemon.build_dir(), 'tests/verbs/verbs_soak_setuid')
LONG_RUN = ['ib_send_bw', '-d', 'uroce0', '-D', '10']  # longer than a daemon needs to start on a busy machine
PINGPONG = ['ibv_rc_pingpong', '-d', 'uroce0', '-g', '1']
BEFORE = 'loss=0.001,seed=5'
PLANS = ['reorder=0.0406,gap=33,delay=762; flap of 66 ms after 26 ms; send-error=1 on h1',
         'corrupt=0.003,delay=494; recv-error=247 on h2',
         'reorder=0.0512,gap=24,dup=0.0165; flap of 59 ms after 23 ms; restart of h1 after 715 ms']
LONG = '--long' in sys.argv
SAME = 100 if LONG else 2   # runs of which each must be as the first


def soak(*words, timeout=SECONDS):
    return subprocess.run([LAB, 'soak', *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)


def seed_of(name, most, host=None):
    """@return a seed that draws this fault of verbs for a number of at most `most`"""
    plans = (Plan(seed, [name]) for seed in range(1000))
    return next(plan.seed for plan in plans if int(plan.verbs.split('=')[1]) <= most and host in (None, plan.host))


class Plans(unittest.TestCase):
    def test_a_seed_draws_the_same_always(self):
        """These are what users noted down."""
        self.assertEqual([Plan(seed, faults.NAMES).text() for seed in (1, 2, 3)], PLANS)

    def test_what_a_fault_is_like_does_not_depend_on_others(self):
        for seed in range(50):
            whole = Plan(seed, faults.NAMES)
            for name in whole.names:
                alone = Plan(seed, [name])
                self.assertEqual(alone.names, [name])
                if name in faults.VERBS:
                    self.assertEqual((alone.verbs, alone.host), (whole.verbs, whole.host))
                elif name == faults.FLAP:
                    self.assertEqual(alone.flap, whole.flap)
                elif name == faults.RESTART:
                    self.assertEqual(alone.restart, whole.restart)
                else:
                    self.assertLessEqual(set(alone.settings.split(',')), set(whole.settings.split(',')))

    def test_every_fault_comes_and_none_that_was_not_named(self):
        seen = set()
        for seed in range(200):
            plan = Plan(seed, faults.NAMES)
            self.assertTrue(plan.names)
            seen.update(plan.names)
            self.assertLessEqual(set(Plan(seed, ['loss', 'qp-error']).names), {'loss', 'qp-error'})
        self.assertEqual(seen, set(faults.NAMES))

    def test_numbers_stay_in_their_ranges(self):
        for seed in range(300):
            name, number = Plan(seed, ['reg-fail', 'qp-error']).verbs.split('=')
            self.assertTrue(1 <= int(number) <= faults.VERBS[name])
            after, length = Plan(seed, ['flap']).flap
            self.assertTrue(1 <= after <= 100 and 50 <= length <= 150)
            host, after = Plan(seed, ['restart']).restart
            self.assertTrue(host in ('h1', 'h2') and 1 <= after <= 1000)
            loss = re.search(r'^loss=(\S+)$', Plan(seed, ['loss']).text())[1]
            self.assertTrue(0.001 <= float(loss) <= 0.02)


class Judgements(unittest.TestCase):
    def judge(self, server, client, serves=False):
        return '; '.join(judge([server, client], serves))

    def test_good_ends(self):
        self.assertEqual(self.judge(End('h1', 0), End('h2', 0)), '')
        self.assertEqual(self.judge(End('h1', None), End('h2', 0), serves=True), '')

    def test_an_error_is_right_only_after_a_fault_of_verbs(self):
        self.assertIn('h2 ended with status 1', self.judge(End('h1', 0), End('h2', 1)))
        self.assertEqual(self.judge(End('h1', 0), End('h2', 1, hit=True)), '')
        self.assertEqual(self.judge(End('h1', 1), End('h2', 1, hit=True)), '')
        self.assertEqual(self.judge(End('h1', 1, hit=True), End('h2', None, started=False)), '')

    def test_whose_peer_has_failed_may_wait_for_ever(self):
        self.assertEqual(self.judge(End('h1', None), End('h2', 1, hit=True)), '')
        self.assertEqual(self.judge(End('h1', 1, hit=True), End('h2', None)), '')

    def test_hangs(self):
        self.assertIn('h2 hangs', self.judge(End('h1', 0), End('h2', None)))
        self.assertIn('h2 hangs', self.judge(End('h1', None), End('h2', None), serves=True))
        self.assertIn('h1 hangs', self.judge(End('h1', None), End('h2', 0)))
        self.assertIn('h2 hangs', self.judge(End('h1', 1), End('h2', None, hit=True)))
        both = self.judge(End('h1', None), End('h2', None, hit=True))
        self.assertIn('h2 hangs', both)
        self.assertNotIn('h1', both)

    def test_crashes_are_wrong_whatever_happened(self):
        for code, name in ((-11, 'SIGSEGV'), (139, 'SIGSEGV'), (-6, 'SIGABRT'), (-9, 'SIGKILL'), (-40, 'signal 40')):
            for hit in (False, True):
                self.assertIn(f'h2 crashed: {name}', self.judge(End('h1', None), End('h2', code, hit=hit)))
        self.assertEqual(self.judge(End('h1', 0), End('h2', 255, hit=True)), '')

    def test_a_client_that_never_started(self):
        self.assertIn('h2 was not started', self.judge(End('h1', 0), End('h2', None, started=False)))


class Mistakes(unittest.TestCase):
    def test_each_is_named_with_what_would_be_right(self):
        for convert, text, said in ((fault_names, 'los,reorder', "'los': there is no such fault; give some of loss,reorder,"),
                                    (fault_names, '', 'the name of a fault is empty; give some of loss,'),
                                    (fault_names, 'loss,', 'the name of a fault is empty'),
                                    (whole(1, 1000000), '0', "'0': must be a whole number from 1 to 1000000"),
                                    (whole(1, 1000000), '', "'': must be a whole number"),
                                    (whole(0, 9), '-1', "'-1': must be a whole number from 0 to 9"),
                                    (whole(0, 9), '1.5', 'must be a whole number'),
                                    (whole(0, 9), '\u0663', 'must be a whole number'),
                                    (seconds, '0', "'0': must be a number of seconds above 0"),
                                    (seconds, 'nan', "'nan': must be a number of seconds"),
                                    (seconds, 'inf', "'inf': must be a number of seconds"),
                                    (seconds, '', "'': must be a number of seconds")):
            with self.subTest(text=text), self.assertRaises(argparse.ArgumentTypeError) as raised:
                convert(text)
            self.assertIn(said, str(raised.exception))
        self.assertEqual((fault_names('qp-error,loss,loss'), whole(1, 20)('20'), seconds('.5')), (['loss', 'qp-error'], 20, 0.5))

    def test_they_are_found_before_there_is_a_lab(self):
        for words, said in ((['--faults', 'los', 'true'], "argument --faults: 'los': there is no such fault"),
                            (['--seeds', '0', 'true'], "argument --seeds: '0': must be a whole number from 1 to 1000000"),
                            (['--seeds', '1'], 'which program?')):
            done = soak(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ''))
            self.assertIn(said, done.stderr)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = lab_up('--impair', BEFORE, name=NAME)
        cls.lab = cls.up.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.up.__exit__(None, None, None)

    def tearDown(self):
        self.assertTrue(self.lab.whole(), 'a daemon ended:\n' + self.lab.logs())
        done = lab_command('impair', '--name', NAME, 'all', '--counters', '--json')
        self.assertEqual([host['settings'] for host in json.loads(done.stdout).values()], [BEFORE.split(',')] * 2)

    def soak(self, *words):
        return soak('--name', NAME, *words)

    def test_pingpong_survives_a_bad_wire(self):
        done = self.soak('--seeds', '3', '--faults', 'loss,reorder,flap', *PINGPONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r'(?m)^seed [123]: .*: h1 status 0, h2 status 0: well$', done.stdout)), 3, done.stdout)
        rows = {row[0]: row[1:] for row in map(str.split, done.stdout.splitlines()) if row and row[0] in faults.NAMES}
        self.assertEqual(set(rows), {'loss', 'reorder', 'flap'})
        self.assertGreater(sum(int(row[1]) for row in rows.values()), 0, 'no fault happened:\n' + done.stdout)
        self.assertIn('3 runs, none hung or ended wrongly', done.stdout)

    def test_an_error_of_verbs_is_expected(self):
        done = self.soak('--seed', str(seed_of('qp-error', 300, 'h2')), '--seeds', '1', '--faults', 'qp-error', *PINGPONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r'(?m)^seed \d+: qp-error=\d+ on h2: h1 was stopped, h2 status 1 \(its verbs were hit\): '
                                      'an error, as expected$')
        self.assertRegex(done.stdout, r'(?m)^qp-error +1 +1 +0 +1$')

    def bug(self, what, host):
        return self.soak('--seed', str(seed_of('send-error', 500, host)), '--seeds', '5', '--faults', 'send-error', '--timeout', '3',
                         '--wait', '0.2', BUGS, what, '--client', BUGS, what)

    def test_a_hang_is_caught_and_its_seed_repeats_it(self):
        done = self.bug('hang', 'h2')
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('h2 hangs: it still ran when it had to be stopped, after a fault of its own verbs', done.stdout)
        self.assertIn('h2: uroce: UROCE_FAULTS: send-error=', done.stdout)
        self.assertRegex(done.stdout, r'(?m)^  h2, QP \d+: ERR since .* an lkey is unknown')
        seed = seed_of('send-error', 500, 'h2')
        command = re.search(r'(?m)^repeat it: (.*)$', done.stdout)[1]
        self.assertIn(f'--seed {seed} --seeds 1 ', command)
        again = subprocess.run([LAB, *shlex.split(command)[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                               check=False)
        # Whether the other end had ended by then depends on the machine.
        said = [[line.replace('h1 status 0,', 'h1 was stopped,') for line in text.splitlines() if ', QP ' not in line]
                for text in (again.stdout, done.stdout)]
        self.assertEqual((again.returncode, said[0]), (1, said[1]))

    def test_a_crash_is_caught(self):
        done = self.bug('crash', 'h1')
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('h1 crashed: SIGABRT', done.stdout)

    def test_programs_that_fail_without_faults_are_not_tried(self):
        done = self.soak('--wait', '0.2', 'sleep', '0.5', '--client', 'sh', '-c', 'echo why; exit 3')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('h2: why\nwithout faults: h2 ended with status 3', done.stderr)

    def client_says(self, plan, *program):
        """@return what a client under faults says of them and of its completions; its server is stopped then"""
        port = self.lab.tcp_port()
        server = pairs.start_server(self.lab, list(program), port)
        client = pairs.start_client(self.lab, ['env', f'UROCE_FAULTS={plan}', *program], port)
        try:
            self.assertTrue(client.wait(time.monotonic() + 20), client.report())
            self.assertNotEqual(client.status, 0, client.report())
        finally:
            server.kill()
            client.kill()
        # A QP in ERR flushes its receives and what is posted to its SQ at the same time: which comes first in a CQ of both isn't promised.
        said = [re.sub(r' for wr_id \d+', '', line) for line in client.text().splitlines()
                if re.search('UROCE_FAULTS|[Ss]tatus|scnt|Completion', line)]
        self.assertGreater(len(said), 1, client.text())
        return said

    def test_the_same_faults_have_the_same_statuses(self):
        for program in (PINGPONG, ['ib_send_bw', '-d', 'uroce0', '-n', '5']):
            for plan in ('send-error=3', 'qp-error=3'):
                with self.subTest(program=program[0], plan=plan):
                    first = self.client_says(plan, *program)
                    for _ in range(SAME - 1):
                        self.assertEqual(self.client_says(plan, *program), first)
                    if LONG:
                        print(f'{program[0]} {plan}: {SAME} of {SAME}:', *first, sep='\n  ', flush=True)

    def test_each_fault_of_verbs_has_its_statuses(self):
        # What the program does, and the status of each completion; -1: there is no device any more.
        for what, plan, statuses in (('statuses', 'send-error=6', [0] * 5 + [4] + [5] * 10),
                                     ('statuses', 'qp-error=6', [0] * 5 + [5] * 11),
                                     ('receives', 'device-fatal=6', ([0] * 5 + [-1] * 11) * 2),
                                     ('receives', 'recv-error=6', [0] * 5 + [11] + [5] * 10 + [0] * 5 + [4] + [5] * 10),
                                     ('receives', 'late-completion=6', [0] * 32),
                                     ('statuses', 'late-completion=1', [0] * 16),
                                     ('events', 'late-completion=16', [0] * 16),
                                     ('extended', 'late-completion=6', [0] * 16)):
            for _ in range(SAME if LONG else 1):
                began = time.monotonic()
                done = self.lab.run('h1', 'env', f'UROCE_FAULTS={plan}', BUGS, what)
                self.assertEqual(done.returncode, 0, done.stdout)
                line = re.search('^statuses: (.*)$', done.stdout, re.M)
                self.assertEqual([int(word) for word in re.findall(r'-?\d+', line[1])], statuses, done.stdout)
                self.assertIn(f'uroce: UROCE_FAULTS: {plan}: ', done.stdout)
                self.assertEqual('; event: local catastrophic error' in line[1], 'device' in plan, done.stdout)
                if 'late' in plan:
                    self.assertGreater(time.monotonic() - began, LATE_SECONDS)
            if LONG:
                print(f'{what} {plan}: {SAME} of {SAME}: {line[1]}', flush=True)

    def test_no_completion_that_is_late_is_lost(self):
        """Whichever it is, and however the program waits for it."""
        for what in ('events', 'statuses', 'extended') if LONG else ('events',):
            for number in range(1, 17, 1 if LONG else 5):
                done = self.lab.run('h1', 'env', f'UROCE_FAULTS=late-completion={number}', BUGS, what)
                self.assertIn(f'statuses: {" ".join("0" * 16)}\n', done.stdout)

    def test_a_wrong_variable_is_named_and_no_device_opens(self):
        for text, why in (('send-eror=3', '"send-eror": there is no such fault; there are reg-fail=N, send-error=N, recv-error=N'),
                          ('send-error=', 'send-error has no number'), ('', 'it is empty'),
                          ('qp-error=1,log=/nowhere/x', 'log=/nowhere/x: No such file or directory')):
            done = self.lab.run('h1', 'env', f'UROCE_FAULTS={text}', 'ibv_devinfo')
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f'uroce: UROCE_FAULTS: {why}', done.stdout)


    def test_setuid_programs_ignore_the_variable(self):
        """They find neither our library nor the lab's socket by the environment: so by their RUNPATH, and where the socket is by default."""
        if not is_root():
            self.skipTest('it takes root to have a setuid program and a mount')
        if why := closed_to_others():
            self.skipTest(why)
        with tempfile.TemporaryDirectory() as top:
            os.chmod(top, 0o755)
            program, sockets = os.path.join(top, 'setuid'), os.path.join(top, 'sockets')
            shutil.copy(SETUID, program)
            os.mkdir(sockets)
            for mode, user, statuses in ((0o755, [], [0] * 5 + [4] + [5] * 10),
                                         (0o4755, ['setpriv', '--reuid', '65534', '--clear-groups'], [0] * 16)):
                os.chmod(program, mode)
                words = shlex.join(['env', '-u', 'UROCE_SOCKET', 'UROCE_FAULTS=send-error=6', *user, program, 'statuses'])
                done = self.lab.run('h1', 'unshare', '--mount', 'sh', '-ec', f'''
                    mount --bind {shlex.quote(os.path.dirname(self.lab.hosts['h1']['socket']))} {sockets}
                    mount -t tmpfs none /run
                    mkdir /run/uroce
                    mount --bind {sockets} /run/uroce
                    exec {words}''')
                self.assertIn(f'statuses: {" ".join(map(str, statuses))}\n', done.stdout)

    def test_a_lab_that_can_not_restart_says_how(self):
        done = self.soak('--faults', 'restart', 'true')
        self.assertEqual(done.returncode, 1)
        self.assertIn('raise it by --one-process, or with --wire veth', done.stderr)


class Restarts(unittest.TestCase):
    def test_programs_go_on_with_another_daemon(self):
        seed = next(seed for seed in range(1000) if Plan(seed, ['restart']).restart[1] < 50)
        with lab_up('--one-process', '--impair', BEFORE, name=f'{NAME}r') as lab:
            before = lab.pid('h1')
            done = soak('--name', lab.name, '--seed', str(seed), '--seeds', '1', '--faults', 'restart', *LONG_RUN, timeout=UP_SECONDS)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r'(?m)^seed \d+: restart of h[12] after \d+ ms: h1 status 0, h2 status 0: well$')
            self.assertRegex(done.stdout, r'(?m)^restart +1 +1 +1 +0$')
            self.assertNotEqual(lab.pid('h1'), before)
            counters = json.loads(lab_command('impair', '--name', lab.name, 'all', '--counters', '--json').stdout)
            self.assertEqual([host['settings'] for host in counters.values()], [BEFORE.split(',')] * 2)


if __name__ == '__main__':
    sys.exit(main([word for word in sys.argv if word != '--long']))
