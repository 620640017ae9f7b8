#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
test_man.py UROCED UROCE-RUN UROCE-PERF UROCE-TEST: the man pages and the sample configuration say what there is.

Keys and options come from the programs themselves: from --help, and from what uroced answers to a key that it doesn't know.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../..'))
PROGRAMS = {os.path.basename(path): path for path in sys.argv[1:]}
PROGRAMS['uroce-lab'] = os.path.join(ROOT, 'scripts/uroce-lab')
del sys.argv[1:]
PAGES = {'uroced': 'uroced.8', 'uroce': 'uroce.1', 'uroce-run': 'uroce-run.1', 'uroce-perf': 'uroce-perf.1', 'uroce-test': 'uroce-test.1',
         'uroce-lab': 'uroce-lab.1'}
# EAL's, of which the pages have those that one needs.
EAL = {'--lcores', '--no-huge', '--file-prefix', '--vdev'}
SECONDS = 20
SECTIONS = {'daemon': 'daemon', 'port uroce0': 'port uroceN'}


def read(*names):
    with open(os.path.join(ROOT, *names), encoding='utf-8') as f:
        return f.read()


def said(*args):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False)
    return done.stdout


def listed(text, before):
    """The words of `..., a, b and c` behind `before`."""
    return re.split(r',\s+|\s+and\s+', text.partition(before)[2].strip())


def shares(kinds):
    """The limits of programs and users of these kinds."""
    return [f'{whose}_max_{kind}' for kind in kinds for whose in ('session', 'user')]


def keys_of(section):
    answer, _, kinds = said(PROGRAMS['uroced'], '--', '--check', '--set', f'{section}.nothing=1').partition(
        ', and session_max_KIND and user_max_KIND with a KIND of')
    return listed(answer, 'there are') + shares(kinds.split())


def page_section(page, title):
    """The text of a page from `.Ss title` to the next section."""
    found = re.search(r'^\.Ss ' + re.escape(title) + r'\n(.*?)(?=^\.S[sh] )', read('docs/man', page), re.M | re.S)
    return found[1] if found else ''


def page_items(text):
    """What `.It Ic name No = ...` lists, with what is said of it."""
    items = {}
    for tag, rest in re.findall(r'^\.It (.*)\n((?:(?!\.It ).*\n)*)', text, re.M):
        for name in re.findall(r'Ic (\w+) No =', tag):
            items[name] = rest
    return items


def page_options(page):
    return {'-' + name if name.startswith('-') else name
            for tag in re.findall(r'^\.It (.*)', read('docs/man', page), re.M)
            for name in re.findall(r'\bFl (-[a-z0-9-]+)', tag)}


def help_options(name):
    text = said(PROGRAMS[name], '--help')
    for command in re.findall(r'^ {4}(\w+) ', text, re.M) if name == 'uroce-lab' else ():
        text += said(PROGRAMS[name], command, '--help')
    return set(re.findall(r'(?<![\w-])--[a-z][a-z0-9-]*', text))


def taken_options(name):
    """What getopt_long() is told, by a table of its own or by one of which that is made."""
    text = ''.join(read(path) for path in glob.glob(f'app/{name}/*.c', root_dir=ROOT))
    return re.findall(r'(?:\{ (?=.*_argument)|\{ \.name = |\b(?:OPTION|NUMBER)\()"([a-z0-9-]+)"', text)


def offered(*words):
    """What bash offers to complete these words by."""
    script = ('. scripts/completion/uroce; compopt() { :; }; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); '
              '$(complete -p "$1" | sed "s/.*-F \\([a-z_]*\\).*/\\1/"); printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(['bash', '-c', script, 'bash', *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, text=True,
                          timeout=60, check=True)
    return done.stdout.split()


class Completion(unittest.TestCase):
    """It has all options that there are, and no other."""

    def test_bash_has_each_option(self):
        for name in PAGES.keys() - {'uroce', 'uroce-lab'}:
            self.assertEqual(sorted(offered(name, '--')), sorted(help_options(name) - EAL), name)

    def test_bash_has_each_option_of_each_command_of_the_lab(self):
        commands = re.findall(r'^ {4}(\w+) ', said(PROGRAMS['uroce-lab'], '--help'), re.M)
        self.assertEqual(sorted(offered('uroce-lab', '')), sorted(commands))
        self.assertEqual(sorted(offered('uroce', 'lab', '')), sorted(commands))
        for command in commands:
            told = sorted(set(re.findall(r'(?<![\w-])--[a-z][a-z-]*', said(PROGRAMS['uroce-lab'], command, '--help').partition('\noptions:')[2])))
            self.assertEqual(sorted(offered('uroce-lab', command, '--')), told, command)
            self.assertEqual(sorted(offered('uroce', 'lab', command, '--')), told, command)

    def test_bash_and_zsh_have_each_command(self):
        commands = re.findall(r'^  (\w+)(?: .*)?\n {8}', said(PROGRAMS['uroce'], '--help'), re.M)
        self.assertIn('doctor', commands)
        self.assertEqual(sorted(offered('uroce', '')), sorted(commands))
        told = read('scripts/completion/_uroce')
        self.assertEqual([command for command in commands if not re.search(rf"^\t\t{command}:", told, re.M)], [])

    def test_bash_completes_settings_and_programs(self):
        for words, expected in ((('impair', 'h1', 'loss', '=', '0.01,del'), ['0.01,delay=']), (('up', '--impair', 'lo'), ['loss=']),
                                (('up', '--wire', 'm'), ['memif']), (('impair', 'h1', 'non'), ['none']), (('pair', 'x', '--'), ['--client']),
                                (('pair', '/bin/true'), ['/bin/true']), (('run', 'h1', 'x', '/bin/true'), ['/bin/true']),
                                (('run', 'h1', 'x', '--'), []), (('soak', '--faults', 'loss,du'), ['loss,duplicate'])):
            self.assertEqual(offered('uroce-lab', *words), expected, words)

    def test_zsh_has_each_option(self):
        text = read('scripts/completion/_uroce')
        there = set(re.findall(r'(?<![\w-])--[a-z][a-z0-9-]*', text))
        for name in PAGES:
            self.assertEqual(sorted(help_options(name) - EAL - {'--client'} - there), [], name)


@unittest.skipUnless(shutil.which('zsh'), 'zsh is not installed')
class Zsh(unittest.TestCase):
    """What Tab makes of a line, in a zsh of its own."""

    @classmethod
    def setUpClass(cls):
        import pexpect
        cls.folder = tempfile.TemporaryDirectory(prefix='uroce-zsh-')
        with open(os.path.join(cls.folder.name, 'my_verbs_program'), 'w', encoding='ascii') as f:
            os.chmod(f.name, 0o755)
        env = {'PATH': f'{cls.folder.name}:{os.environ["PATH"]}', 'HOME': cls.folder.name, 'TERM': 'dumb', 'LC_ALL': 'C.UTF-8'}
        cls.shell = pexpect.spawn('zsh', ['-f', '-i'], dimensions=(50, 200), timeout=SECONDS, encoding='utf-8', cwd=ROOT, env=env)
        cls.shell.sendline("PS1='>'; fpath=($PWD/scripts/completion $fpath); autoload -Uz compinit; compinit -u -D; print READ''Y")
        cls.shell.expect('READY\r\n')

    @classmethod
    def tearDownClass(cls):
        cls.shell.close(force=True)
        cls.folder.cleanup()

    def test_tab(self):
        for line, word in (('uroce sta', 'statistic'), ('uroce resource show cm', 'cm_id'), ('uroce lab soa', 'soak'), ('uroce-lab res', 'restart'),
                           ('uroce-lab restart --st', '--stop'), ('uroced --keep', '--keep-programs'), ('uroce-run my_v', 'my_verbs_program'),
                           ('uroce run my_v', 'my_verbs_program'), ('uroce lab run h1 my_v', 'my_verbs_program'), ('uroce-lab soak my_v', 'my_verbs_program'),
                           ('uroce lab soak --seeds 3 my_v', 'my_verbs_program'), ('uroce-lab pair x --cl', '--client'),
                           ('uroce-lab pair x --client my_v', 'my_verbs_program'), ('uroce-lab soak --faults los', 'loss')):
            self.shell.send(line + '\t')
            try:
                self.shell.expect_exact(line.rpartition(' ')[0] + ' ' + word)
            finally:
                self.shell.send('\x15')


class Pages(unittest.TestCase):
    def test_every_key_is_in_the_man_page(self):
        for section, title in SECTIONS.items():
            self.assertEqual(sorted(page_items(page_section('uroced.conf.5', f'[{title}]'))), sorted(keys_of(section)),
                             f'keys of [{section}]: docs/man/uroced.conf.5 has the first, uroced the second')

    def test_every_key_is_in_the_sample(self):
        text = read('config/uroced.conf')
        for section in SECTIONS:
            part = re.search(r'^\[' + section + r'\]\n(.*?)(?=^\[|\Z)', text, re.M | re.S)[1]
            self.assertEqual(sorted(re.findall(r'^(?:# )?(\w+) = ', part, re.M)), sorted(keys_of(section)),
                             f'keys of [{section}]: config/uroced.conf has the first, uroced the second')

    def test_every_key_of_a_share_is_in_both(self):
        keys = sorted(keys_of('share other'))
        self.assertEqual(sorted(page_items(page_section('uroced.conf.5', '[share NAME]'))), keys)
        part = re.search(r'^# \[share \w+\]\n(.*)', read('config/uroced.conf'), re.M | re.S)[1]
        self.assertEqual(sorted(re.findall(r'^#   (\w+) = ', part, re.M)), keys)

    def test_the_page_says_which_keys_change_at_run_time(self):
        live = {('port uroceN' if port == 'true' else 'daemon', key)
                for key, port in re.findall(r'\{ "(\w+)", (true|false), apply_', read('lib/control/reload.c'))
                if not key.endswith('_max_')}
        table = re.search(r'#define CONFIG_QUOTAS\(X\)(.*?[^\\])\n', read('lib/control/config/config.h'), re.S)[1]
        live |= {('daemon', key) for key in shares(re.findall(r'\bX\((\w+),', table))}
        found = {(title, key) for title in SECTIONS.values()
                 for key, text in page_items(page_section('uroced.conf.5', f'[{title}]')).items()
                 if 'Changes on SIGHUP' in text}
        self.assertEqual(sorted(found), sorted(live), 'docs/man/uroced.conf.5 has the first, lib/control/reload.c the second')

    def test_every_setting_of_impair_is_in_the_man_page(self):
        answer = said(PROGRAMS['uroced'], '--', '--check', '--set', 'port uroce0.impair=nothing=1')
        self.assertEqual(sorted(page_items(page_section('uroced.conf.5', 'Settings of impair'))),
                         sorted(listed(answer, 'known are')))

    def test_every_option_is_in_its_man_page_and_no_other(self):
        for name, page in PAGES.items():
            there, told = help_options(name), page_options(page)
            self.assertEqual(sorted(there - told - EAL), [], f'{page} lacks options of {name} --help')
            self.assertEqual(sorted(told - there - EAL - {'--help'}), [], f'{name} --help lacks options of {page}')

    def test_every_option_is_in_the_help(self):
        for name in PAGES.keys() - {'uroce-lab'}:
            options = taken_options(name)
            self.assertIn('help', options)
            text = said(PROGRAMS[name], '--help')
            self.assertEqual([option for option in options if not re.search(rf'--{option}\b', text)], [], f'{name} --help')

    def test_the_pages_are_well_formed(self):
        for name in sorted(os.listdir(os.path.join(ROOT, 'docs/man'))):
            path = os.path.join(ROOT, 'docs/man', name)
            if shutil.which('man'):
                done = subprocess.run(['man', '--warnings', '-l', path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, 'LC_ALL': 'C.UTF-8'})
                self.assertEqual((done.returncode, done.stderr), (0, ''), name)
                self.assertIn(name.partition('.')[0], done.stdout)
            if shutil.which('mandoc'):
                self.assertEqual(said('mandoc', '-T', 'lint', '-W', 'warning', path), '', name)
            for reference in re.findall(r'^\.Xr (uroce\S*) (\d)', read('docs/man', name), re.M):
                self.assertTrue(os.path.exists(os.path.join(ROOT, 'docs/man', '.'.join(reference))), f'{name}: {reference}')


if __name__ == '__main__':
    unittest.main(verbosity=2)
