#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command `uroce` over a lab with traffic: what it shows, its JSON against docs/schemas, wrong command lines, and top on a terminal.

  test_uroce_command.py
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../scripts')]

from labs import lab_up, main  # noqa: E402
from schemas import fits  # noqa: E402
from uroce_lab import daemon, pairs  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

NAME = f'u{os.getpid()}'
SECONDS = 20
COMMAND = os.path.join(daemon.build_dir(), 'app/uroce/uroce')
TEST = os.path.join(daemon.build_dir(), 'app/uroce-test/uroce-test')
COMPLETION = os.path.join(daemon.ROOT, 'scripts/completion/uroce')


def uroce(*args, **options):
    env = {k: v for k, v in os.environ.items() if k != 'UROCE_SOCKET'}
    return subprocess.run([COMMAND, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False, env=env, **options)


class Wrong(unittest.TestCase):
    """Without a daemon."""

    def refused(self, status, part, *args):
        done = uroce(*args)
        self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
        self.assertIn(part, done.stderr)

    def test_a_wrong_word_is_named_with_what_was_meant(self):
        self.refused(2, "no command 'linc'; did you mean 'link'?", 'linc')
        self.refused(2, "no command 'x'; there are: link,", 'x')
        self.refused(2, 'a command must be given')
        self.refused(2, "no kind of resource 'qpp'; did you mean 'qp'?", 'resource', 'show', 'qpp')
        self.refused(2, "no object of statistics 'engin'; did you mean 'engine'?", 'statistic', 'engin')
        self.refused(2, "no action of capture 'begin'", 'capture', 'begin')
        self.refused(2, "no view 'qps'; did you mean 'qp'?", 'top', '--once', '--view', 'qps')
        self.refused(2, "no column 'retrans'; did you mean 'retransmitted'?", 'top', '--once', '--sort', 'retrans')
        self.refused(2, "no column 'rtt'", 'top', '--once', '--view', 'port', '--sort', 'rtt')

    def test_a_wrong_command_line_has_status_2(self):
        for args, part in ((('--nothing',), 'no option --nothing'), (('link', '--socket'), 'an argument must follow'),
                           (('--lab', 'x'), 'a host of the lab must follow'), (('link', 'a', 'b'), "one port at most, not 'b'"),
                           (('--lab', 'a', 'h1', '--socket', 'b', 'link'), 'not both'), (('why',), 'the number of a QP'),
                           (('why', '-1'), 'no option'), (('why', 'x'), 'the number of a QP'), (('top', '--delay', '0'), 'seconds from 0.1'),
                           (('top', '--count', '0'), 'a number from 1 on'), (('top',), 'this is no terminal'),
                           (('top', '--once', 'a', 'b'), 'one text to filter by'), (('link', '--once'), "doesn't take options of top"),
                           (('statistic', 'qp', 'x'), 'give a number'), (('capture', 'start'), 'give a file'),
                           (('capture', 'start', '/a,b'), 'no commas'),
                           (('impair', 'set'), 'the settings in one word'), (('impair', 'clear', 'a', 'b'), 'one port at most'),
                           (('--lab', 'a', 'h1', 'impair', 'clear', 'a'), 'has one port'), (('impair', 'unset'), "no action of impair 'unset'"),
                           (('setup',), 'give one interface'), (('setup', 'lo', '--peer', 'x'), 'no IP address'),
                           (('doctor', 'x'), 'nothing follows it')):
            self.refused(2, part, *args)

    def findings(self, programs, *args):
        """The doctor's with these programs ({name: script}) before others."""
        with tempfile.TemporaryDirectory() as folder:
            for name, script in programs.items():
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
                    f.write(f'#!/bin/sh\n{script}\n')
                os.chmod(f.name, 0o755)
            env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
            done = subprocess.run([COMMAND, '--json', '--socket', '/nonexistent/u', 'doctor', *args], stdout=subprocess.PIPE, env=env, check=False)
        return {o['check']: o for o in json.loads(done.stdout)}

    def test_the_doctor_reads_the_rules_of_firewalls(self):
        none = {'iptables-save': 'exit 0', 'ip6tables-save': 'exit 0'}
        for rules, verdict, text in (
                ('chain a {\ntype filter hook input priority 0; policy accept;\n}', 'good', 'no rule of this machine stops'),
                ('chain a {\nudp dport 4791 counter drop\n}', 'note', 'a rule stops RoCE v2: udp dport 4791 counter drop'),
                ('chain a {\ntype filter hook forward priority 0; policy drop;\n}', 'note', 'no rule names UDP port 4791'),
                ('chain a {\ntype filter hook input priority 0; policy drop;\nudp dport 4791 accept\n}', 'good', 'no rule of')):
            found = self.findings({**none, 'nft': f"cat <<'END'\n{rules}\nEND"})['firewall']
            self.assertEqual(found['verdict'], verdict, found)
            self.assertIn(text, found['text'])
        fails = {name: 'exit 1' for name in ('nft', 'iptables-save', 'ip6tables-save')}
        self.assertIn("can't be read", self.findings(fails)['firewall']['text'])

    def test_the_doctor_asks_a_peer_how_large_packets_may_be(self):
        # The fifth argument is the number of bytes behind the headers of IP and ICMP.
        self.assertIn('carries RoCE MTU 4096', self.findings({'ping': 'exit 0'}, '--peer', '127.0.0.1')['peer']['text'])
        short = self.findings({'ping': '[ "$5" -le 1472 ]'}, '--peer', '127.0.0.1')['peer']
        self.assertEqual(short['verdict'], 'fault', short)
        self.assertIn('the path carries RoCE MTU 1024, the interface would send 4096', short['text'])
        self.assertIn("doesn't answer a ping", self.findings({'ping': 'exit 1'}, '--peer', '127.0.0.1')['peer']['text'])
        self.refused(2, '--peer x: no IP address', 'doctor', '--peer', 'x')
        self.refused(2, "link doesn't take --peer", 'link', '--peer', '127.0.0.1')

    def test_who_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'u')
            self.refused(1, f'no daemon at {path}', '--socket', path, 'link')
            self.refused(1, 'too long', '--socket', '/' + 'x' * 200, 'link')
            open(path, 'wb').close()
            self.refused(1, 'serves no telemetry', '--socket', path, 'link')
        self.refused(1, "lab 'nolab' is not up", '--lab', 'nolab', 'h1', 'link')
        self.refused(1, "no interface 'nothing0'; there are:", 'setup', 'nothing0')

    def test_what_listens_there_may_be_anything(self):
        """Neither garbage nor silence makes it fail otherwise than with a message."""
        good = b'{"version":"x","pid":1,"max_output_len":16384}'
        for greeting, answer in ((b'x', None), (b'[1]', None), (b'{}', None), (b'{"max_output_len":99999999999}', None),
                                 (b'{"error":"full"}', None), (good, b''), (good, b'{'), (good, b'{}'), (good, b'[]'), (good, b'{"a":null}'),
                                 (good, b'{"/uroce/rows":{"columns":3,"rows":4}}'), (good, b'{"/uroce/rows":{"columns":["a"],"rows":[[1,2]],"next":1}}'),
                                 (good, b'{"/uroce/rows":{"error":["no"]}}'), (good, b'{"/uroce/rows":' + b'[' * 15000),
                                 (good, b'{"/uroce/rows":{"columns":["number"],"rows":[[1]]}}'), (good, b'{"/uroce/rows":{"columns":["a'),
                                 (good, b'{"/uroce/rows":{"columns":[]}}')):
            for command in (('resource', 'show', 'qp', 'x=1'), ('top', '--once')):
                self.stranger(command, greeting, answer)

    def stranger(self, command, greeting, answer):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            path = os.path.join(folder, 'u')
            s.bind(path + '.telemetry')
            s.listen()

            def serve(s=s, greeting=greeting, answer=answer):
                peer = s.accept()[0]
                with peer:
                    peer.send(greeting)
                    if answer is not None and peer.recv(1000) and answer:
                        peer.send(answer)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            done = uroce('--socket', path, *command)
            self.assertEqual((done.returncode in (1, 2), done.stdout), (True, ''), (greeting, answer, done.stderr))
            self.assertTrue(done.stderr.startswith('uroce: '), done.stderr)
            thread.join(10)

    def test_help_and_version(self):
        self.assertRegex(uroce('--version').stdout, r'^uroce \d')
        for args in (('--help',), ('help',)):
            done = uroce(*args)
            self.assertEqual(done.returncode, 0)
            for word in ('link', 'top', 'doctor', '--json'):
                self.assertIn(word, done.stdout)
        self.assertIn('usage: uroce [OPTION...] why QP', uroce('why', '--help').stdout)

    def test_the_shell_completes(self):
        for line, expected in (('uroce lin', 'link'), ('uroce resource show cm', 'cm_id'), ('uroce --lab a h1 stat', 'statistic'),
                               ('uroce top --vi', '--view'), ('uroce top --view eng', 'engine'), ('uroce capture sta', 'start')):
            words = line.split(' ')
            script = (f'source {COMPLETION}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; '
                      '_uroce; echo "${COMPREPLY[*]}"')
            done = subprocess.run(['bash', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.stdout.strip(), done.stderr), (expected, ''), line)


@unittest.skipUnless(is_root(), 'network namespaces need root')
class Setup(unittest.TestCase):
    """What `uroce setup` prints is typed as it is."""

    def test_a_daemon_starts_as_it_says(self):
        for mtu, roce_mtu in ((1500, 1024), (4200, 4096), (9001, 4096)):
            with self.subTest(mtu=mtu), contextlib.ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='uroce-setup-'))
                namespace = f'uroce-setup-{os.getpid()}'
                inside = ['ip', 'netns', 'exec', namespace]
                self.ip('netns', 'add', namespace)
                stack.callback(self.ip, 'netns', 'delete', namespace)
                self.ip('-n', namespace, 'link', 'add', 'd0', 'mtu', str(mtu), 'type', 'veth', 'peer', 'name', 'd1', 'mtu', str(mtu))
                self.ip('-n', namespace, 'link', 'set', 'd1', 'up')
                self.ip('-n', namespace, 'address', 'add', '198.51.100.1/24', 'dev', 'd0')
                self.ip('-n', namespace, 'link', 'set', 'd0', 'up')
                config = os.path.join(folder, 'u.conf')
                said = subprocess.run([*inside, COMMAND, 'setup', 'd0', '--write', config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
                                      check=True).stdout
                line = re.search(r'as root:\n#   uroced (.*)', said)[1].split()
                service = re.search(r'#   UROCED_EAL="(.*)"', said)[1].split()
                self.assertEqual(line, [*service, '--', '--config', config])
                # The socket of the system's own daemon stays as it is.
                path = os.path.join(folder, 'u.sock')
                with open(os.path.join(folder, 'log'), 'w', encoding='utf-8') as log:
                    daemon_ = subprocess.Popen([*inside, os.path.join(daemon.build_dir(), 'app/uroced/uroced'), '--file-prefix', namespace, *line, '--socket', path],
                                               env={**os.environ, 'RUNTIME_DIRECTORY': folder}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                stack.callback(daemon_.wait)
                stack.callback(daemon_.terminate)
                end = time.monotonic() + SECONDS
                while not os.path.exists(path):
                    with open(log.name, encoding='utf-8') as f:
                        self.assertTrue(daemon_.poll() is None and time.monotonic() < end, f.read())
                    time.sleep(0.05)
                port, = json.loads(uroce('--json', '--socket', path, 'link').stdout)
                self.assertEqual((port['mtu'], port['netdev']), (roce_mtu, 'd0'))

    @staticmethod
    def ip(*words):
        subprocess.run(['ip', *words], check=True)


class Shown(unittest.TestCase):
    """Of a lab whose h2 writes to h1."""

    @classmethod
    def setUpClass(cls):
        cls.up = lab_up(name=NAME)
        cls.lab = cls.up.__enter__()
        gid = str(cls.lab.gid_index('h1', 4))
        program = ['ib_write_bw', '-d', pairs.DEVICE, '-x', gid, '-q', '2', '-s', '65536', '-D', '120']
        port = cls.lab.tcp_port()
        cls.sides = [pairs.start_server(cls.lab, program, port), pairs.start_client(cls.lab, program, port)]
        end = time.monotonic() + SECONDS
        while not [r for r in json.loads(cls.uroce('-j', 'top', '--once').stdout)['rows'] if r['tx'] > 0]:
            assert time.monotonic() < end, 'no traffic:\n' + ''.join(side.report() for side in cls.sides)

    @classmethod
    def tearDownClass(cls):
        for side in cls.sides:
            side.kill()
        cls.up.__exit__(None, None, None)

    @staticmethod
    def uroce(*args):
        return uroce('--lab', NAME, 'h2', *args)

    def good(self, *args):
        done = self.uroce(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ''), (args, done.stdout))
        return done.stdout

    def json(self, schema, *args):
        value = json.loads(self.good('--json', *args))
        self.assertEqual(json.loads(self.good('--pretty', *args)).__class__, value.__class__)
        return fits(value, schema)

    def test_link(self):
        port, = self.json('link', 'link')
        self.assertEqual((port['port'], port['state'], port['mtu']), ('uroce0', 'up', 4096))
        self.assertIn('198.18.0.2/24', port['addresses'])
        self.assertGreater(port['tx_bps'], 0)
        self.assertRegex(self.good('link', 'show', 'uroce0'), r'^PORT +STATE +MTU')
        done = self.uroce('link', 'uroce7')
        self.assertEqual(done.returncode, 1)
        self.assertIn("no port 'uroce7'; there are: uroce0", done.stderr)

    def test_resources(self):
        counts = {o['kind']: o['count'] for o in self.json('resource', 'resource')}
        self.assertEqual((counts['ctx'], counts['qp'], counts['mr']), (1, 2, 1))
        for kind in counts:
            self.assertEqual(len(self.json('resource', 'resource', 'show', kind)), counts[kind], kind)
        qps = self.json('resource', 'resource', 'qp', 'state=rts', 'program=ib_write_bw', 'port=uroce0', f'user={os.geteuid()}')
        self.assertEqual(len(qps), 2)
        self.assertEqual(qps[0]['peer'], '198.18.0.1')
        self.assertEqual(len(self.json('resource', 'resource', 'qp', f'qpn={qps[0]["number"]}')), 1)
        self.assertEqual(self.json('resource', 'resource', 'qp', 'state=ERR'), [])
        self.assertEqual(self.uroce('resource', 'qp', 'stat=RTS').returncode, 2)
        self.assertIn("did you mean 'state'", self.uroce('resource', 'qp', 'stat=RTS').stderr)
        self.assertEqual(self.uroce('resource', 'qp', 'RTS').returncode, 2)

    def test_statistics(self):
        for args in ((), ('link',), ('engine',), ('engine', '0'), ('cm',), ('qp',), ('qp', str(self.qpn())), ('ctx',)):
            self.assertTrue(self.json('statistic', 'statistic', 'show', *args), args)
        self.assertIn('tx_bytes', self.good('statistic', 'engine'))
        self.assertEqual(self.uroce('statistic', 'engine', '77').returncode, 1)
        number = json.loads(self.good('-j', 'resource', 'show', 'ctx'))[0]['number']
        share = {o['counter']: o['value'] for o in self.json('statistic', 'statistic', 'ctx', str(number))}
        self.assertGreater(share['share.bytes'], 0)
        self.assertEqual(share['share.weight'], 100)
        self.assertEqual(self.uroce('statistic', 'ctx', '99999').returncode, 1)

    def qpn(self):
        return json.loads(self.good('-j', 'resource', 'qp'))[0]['number']

    def test_why(self):
        qpn = self.qpn()
        self.assertEqual(self.json('why', 'why', str(qpn))['qpn'], qpn)
        self.assertTrue(self.good('why', str(qpn)).startswith(f'QP {qpn}, RC, RTS, of ib_write_bw'))
        self.assertEqual(self.uroce('why', '4294967295').returncode, 1)

    def test_capture(self):
        self.assertEqual(self.json('capture', 'capture')['running'], 'no')
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, 'c.pcapng')
            self.good('capture', 'start', file, 'snap=100')
            self.assertEqual(self.json('capture', 'capture', 'show')['running'], 'yes')
            time.sleep(0.3)
            self.good('capture', 'stop')
            self.assertGreater(os.path.getsize(file), 1000)
            self.assertEqual(self.uroce('capture', 'stop').returncode, 1)
            self.assertIn('no such option', self.uroce('capture', 'start', file, 'x=1').stderr)

    def test_impair(self):
        self.assertEqual(self.json('impair', 'impair'), {})
        self.good('impair', 'set', 'delay=10')
        try:
            self.assertEqual(self.json('impair', 'impair', 'show')['uroce0']['settings'], ['delay=10'])
        finally:
            self.good('impair', 'set', 'none')

    def test_a_daemon_is_impaired(self):
        target = ('--socket', self.lab.hosts['h1']['socket'])

        def settings():
            return json.loads(uroce('--json', *target, 'impair', 'show', 'uroce0').stdout)['uroce0']['settings']
        try:
            self.assertEqual(uroce(*target, 'impair', 'set', 'delay=20,seed=3').returncode, 0)
            self.assertEqual(settings(), ['delay=20', 'seed=3'])
            self.assertEqual(uroce(*target, 'impair', 'set', 'delay=10', 'uroce0').returncode, 0)
            self.assertEqual(settings(), ['delay=10'])
            refused = uroce(*target, 'impair', 'set', 'loss=2')
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, r'uroce: .*loss.*0 to 1')
            self.assertIn('uroce0', uroce(*target, 'impair', 'set', 'loss=0.1', 'eth0').stderr)
            self.assertEqual(settings(), ['delay=10'])
        finally:
            self.assertEqual(uroce(*target, 'impair', 'clear').returncode, 0)
        self.assertEqual(settings(), [])

    def test_doctor_and_setup(self):
        done = self.uroce('--json', 'doctor')
        checks = {o['check']: o for o in fits(json.loads(done.stdout), 'doctor')}
        self.assertEqual(checks['daemon']['verdict'], 'good', checks)
        self.assertEqual(checks['uroce0']['verdict'], 'good', checks)
        self.assertEqual(done.returncode, int(any(o['verdict'] == 'fault' for o in checks.values())))
        for o in checks.values():
            self.assertEqual(o['verdict'] == 'good', 'remedy' not in o, o)
        alone = uroce('--socket', '/nonexistent/u', 'doctor')
        self.assertEqual(alone.returncode, 1)
        self.assertRegex(alone.stdout, r'fault  daemon: no daemon at /nonexistent/u')
        setup = uroce('--json', 'setup', 'lo')
        fits(json.loads(setup.stdout), 'setup')
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, 'u.conf')
            self.assertEqual(uroce('setup', 'lo', '--write', file).returncode, 0)
            checked = subprocess.run([self.lab.data['programs']['uroced'], '--', '--config', file, '--check'], stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertIn('is there already', uroce('setup', 'lo', '--write', file).stderr)

    def test_run_and_lab_are_the_other_programs(self):
        self.assertIn('uroce-run', uroce('run', '--version').stdout)
        self.assertIn('UROCE_SOCKET=' + self.lab.hosts['h2']['socket'], self.good('run', 'env'))
        self.assertEqual(uroce('lab', 'nothing').returncode, 2)

    def test_uroce_test_attaches_to_the_daemon(self):
        def asked(*commands):
            words = [word for command in commands for word in ('-c', command)]
            return subprocess.run([TEST, '--attach', self.lab.hosts['h2']['socket'], *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)

        def without_rates(rows):
            return [{k: v for k, v in row.items() if not k.endswith('_bps')} for row in json.loads(rows)]
        self.assertEqual(without_rates(asked('show port json').stdout), without_rates(self.good('--json', 'link')))
        self.assertEqual(asked('show pd').stdout, self.good('resource', 'show', 'pd'))
        for command, said in (('show session', 'ib_write_bw'), ('show qp state=RTS', 'RTS'), ('show stats link', 'rx_'), ('show engine 0', 'load.turns'),
                              ('show object', 'cm_id'), ('show cm', '^($|OBJECT)'), ('show impair', 'impaired'), ('show capture', 'running +no')):
            done = asked(command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, said)
        number = json.loads(asked('show qp json').stdout)[0]['number']
        self.assertIn('ib_write_bw', asked(f'show qp {number}').stdout)
        self.assertIn("uroce-test: there is no QP 77", asked('show qp 77').stderr)
        # It has no hosts of its own.
        self.assertIn("'create': no such command", asked('create pd').stderr)
        done = subprocess.run([TEST, '--attach=/nonexistent/u', '-c', 'show qp'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('no daemon at /nonexistent/u: start it (systemctl start uroced), or give --attach=SOCKET', done.stdout)

    def test_top_for_pipes(self):
        for view in ('qp', 'session', 'port', 'engine'):
            shown = self.json('top', 'top', '--once', '--view', view)
            self.assertEqual(shown['view'], view)
            self.assertTrue(shown['rows'], view)
        rows = self.json('top', 'top', '--once', '--sort', 'sends')['rows']
        self.assertGreater(rows[0]['tx'], 0)
        self.assertGreaterEqual(rows[0]['sends'], rows[1]['sends'])
        self.assertEqual(self.json('top', 'top', '--once', 'nobody')['rows'], [])
        text = self.good('top', '--batch', '--count', '2', '--delay', '0.2')
        self.assertEqual(len(re.findall(r'^ +QP PROGRAM', text, re.M)), 2, text)

    def test_top_on_a_terminal(self):
        import pexpect                      # pylint: disable=import-outside-toplevel
        top = pexpect.spawn(COMMAND, ['--lab', NAME, 'h2', 'top', '--delay', '0.2'], dimensions=(24, 120), timeout=SECONDS,
                            env=dict(os.environ, TERM='xterm', LC_ALL='C.UTF-8'), encoding='utf-8')
        try:
            top.expect('uroce top: 2 QPs')
            top.expect('ib_write_bw')
            top.expect('[\u2581-\u2588]')
            for key, said in (('h', 'filter, space pause'), ('h', 'h: keys'), (' ', 'PAUSED'), (' ', 'h: keys'), ('>', 'by RX Gb'), ('<', 'by TX Gb'),
                              ('v', 'sessions?,'), ('v', 'ports?,'), ('v', 'engine 0'), ('v', '2 QPs'), ('/nobody\r', 'only nobody')):
                # Only what changes is drawn, unless ^L asks for all.
                top.send(key + '\x0c')
                top.expect(said)
            top.send('q')
            top.expect(pexpect.EOF)
            top.close()
            self.assertEqual(top.exitstatus, 0)
        finally:
            top.close(force=True)

    def test_top_on_a_narrow_terminal(self):
        """What tells why a QP is slow is there on the usual 80 columns, and the column that was chosen to sort by."""
        import pexpect                      # pylint: disable=import-outside-toplevel
        for args, heads in (((), r' +QP PROGRAM +TX Gb/s RX Gb/s  LOSS/s  RETX/s   RTT us WAITS FOR'),
                            (('--sort', 'in_flight'), r' +QP PROGRAM +TX Gb/s  LOSS/s  RETX/s   RTT us FLIGHT WAITS FOR')):
            top = pexpect.spawn(COMMAND, ['--lab', NAME, 'h2', 'top', '--delay', '0.2', '--count', '3', *args], dimensions=(24, 80), timeout=SECONDS,
                                env=dict(os.environ, TERM='vt100', LC_ALL='C.UTF-8'), encoding='utf-8')
            top.expect(pexpect.EOF)
            lines = [re.sub('\x1b[^a-zA-Z]*[a-zA-Z]|[\x0e\x0f]', '', line) for line in top.before.splitlines()]
            top.close()
            self.assertEqual(top.exitstatus, 0, top.before)
            self.assertTrue(any(re.match(heads + r'(?! +[A-Z])', line) for line in lines), lines)

    def test_top_ends_on_ctrl_c_and_says_when_the_daemon_is_silent(self):
        import pexpect                      # pylint: disable=import-outside-toplevel
        top = pexpect.spawn(COMMAND, ['--lab', NAME, 'h2', 'top'], dimensions=(24, 160), timeout=SECONDS, env=dict(os.environ, TERM='xterm'))
        try:
            top.expect('uroce top')
            top.kill(signal.SIGINT)
            top.expect(pexpect.EOF)
            top.close()
            self.assertEqual((top.exitstatus, top.signalstatus), (0, None))
        finally:
            top.close(force=True)


if __name__ == '__main__':
    main()
