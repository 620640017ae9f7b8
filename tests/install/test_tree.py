#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
test_tree.py BUILD: `meson install` into an empty folder; every file that is to be there, no other, and all of it works from there.

Nothing of it may need the build folder or the source tree: the programs run without UROCE_BUILD and find each other.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../..'))
sys.path[:0] = [os.path.join(ROOT, 'scripts'), os.path.join(ROOT, 'tests/verbs')]

import labs  # noqa: E402
from uroce_lab import pairs  # noqa: E402

BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else os.path.join(ROOT, 'build')
LAB = f'n{os.getpid()}'
PAIR_SECONDS = 60
APPLICATION = r"""
#include <stdio.h>
#include <uroce_verbs.h>

int
main(void)
{
	struct uroce_params params = { .nb_sets = 0 };
	char err[UROCE_ERR_BYTES];

	if (uroce_create(&params, err) != NULL)
		return 1;
	printf("%s\n%s\n", err, ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR));
	return 0;
}
"""
ANSWER = "command line: no port; add a section [port uroce0] with a key ethdev, or give --set 'port uroce0.ethdev=NAME'\n" \
         'RNR retry counter exceeded\n'
# Of docs/, which files each folder has.
DOCUMENT_FOLDERS = {'schemas': '*.json', 'pictures': '*.svg', 'grafana': '*.*'}
NOT_INSTALLED = ('bench_report.py', 'cores.py', 'setup_costs.py', 'sweep.py', 'tour.py')     # of the lab's package: quickstart's, bench's and the tests'


def run(*args, env=None, timeout=120):
    return subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', timeout=timeout, check=False, env=env)


def source(pattern):
    return [os.path.basename(path) for path in glob.glob(os.path.join(ROOT, pattern))]


class Tree:
    """An installation below a DESTDIR."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix='uroce-install-', dir='/tmp')
        options = json.loads(run('meson', 'introspect', '--buildoptions', BUILD).stdout)
        self.option = {option['name']: option['value'] for option in options}
        done = run('meson', 'install', '-C', BUILD, '--no-rebuild', '--destdir', self.root, '--quiet')
        if done.returncode:
            raise AssertionError(done.stdout)

    def remove(self):
        shutil.rmtree(self.root)

    def final(self, kind, *names):
        """Where a file ends up when there is no DESTDIR."""
        return os.path.join(self.option['prefix'], self.option[kind], *names)

    def path(self, kind, *names):
        return self.root + self.final(kind, *names)

    def unit(self, name='uroced.service'):
        folder = self.option['systemdunitdir'] or os.path.join(self.option['prefix'], 'lib/systemd/system')
        return os.path.join(folder, name)

    def files(self):
        return {os.path.join(folder, name)[len(self.root):]
                for folder, _, names in os.walk(self.root) for name in names}

    def expected(self):
        f = self.final
        docs = f('datadir', 'doc/uroce')
        lab = [name for name in source('scripts/uroce_lab/*.py') if name not in NOT_INSTALLED]
        found = {f('sbindir', 'uroced'), f('sbindir', 'uroce-keeper'), self.unit(), self.unit('uroce-keeper.service'), self.unit('uroced-standby.service'), f('prefix', 'lib/sysusers.d/uroce.conf')}
        found |= {f('bindir', name) for name in ('uroce', 'uroce-lab', 'uroce-perf', 'uroce-run', 'uroce-test')}
        found |= {f('libdir', 'uroce', name) for name in ('libibverbs.so', 'libibverbs.so.1', 'librdmacm.so', 'librdmacm.so.1', 'liburoce-sysfs.so')}
        found |= {f('libdir', name) for name in ('liburoce.so', 'liburoce.so.0', 'pkgconfig/liburoce.pc')}
        found |= {f('includedir', 'uroce', name) for name in ('uroce.h', 'uroce_verbs.h', 'uroce_verbs_names.h')}
        found |= {os.path.join(docs, 'examples', folder, name) for folder in source('examples/*')
                  for name in source(f'examples/{folder}/*') if name != 'meson.build'}
        if os.path.exists(os.path.join(BUILD, 'lib/net/uroce_xdp.o')):
            found.add(f('libdir', 'uroce/uroce_xdp.o'))
        found |= {f('datadir', 'uroce', name) for name in ('lib.sh', 'places.json', 'uroce-lab')}
        found |= {f('datadir', 'uroce/uroce_lab', name) for name in lab}
        found |= {os.path.join(docs, name) for name in ('LICENSE', 'README.md', 'examples/uroced.conf', 'examples/uroced.env')}
        found |= {f('mandir', f'man{name[-1]}', name) for name in source('docs/man/*')}
        found |= {os.path.join(docs, 'docs', name) for name in source('docs/*.md')}
        found |= {os.path.join(docs, 'docs', folder, name) for folder, files in DOCUMENT_FOLDERS.items() for name in source(f'docs/{folder}/{files}')}
        found |= {f('datadir', 'bash-completion/completions', name)
                  for name in ('uroce', 'uroce-lab', 'uroce-perf', 'uroce-run', 'uroce-test', 'uroced')}
        found.add(f('datadir', 'zsh/site-functions/_uroce'))
        found |= {os.path.join(docs, 'docs/internals', name) for name in source('docs/internals/*.md')}
        return found


class InstalledLab(pairs.Lab):
    """A lab of the installation's."""

    def __init__(self, tree):
        self.program = tree.path('bindir', 'uroce-lab')
        super().__init__(LAB)

    def command(self, host, *program):
        return [self.program, 'run', '--name', self.name, host, *program]


class Installation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = Tree()
        cls.addClassCleanup(cls.tree.remove)
        cls.env = {name: value for name, value in os.environ.items() if not name.startswith(('UROCE_', 'LD_'))}

    def run_it(self, *args):
        return run(*args, env=self.env)

    def test_every_file_is_where_a_distribution_has_it(self):
        self.assertEqual(sorted(self.tree.files()), sorted(self.tree.expected()))

    def test_the_systems_libraries_are_not_touched(self):
        for path in self.tree.files():
            if os.path.basename(path).startswith(('libibverbs', 'librdmacm')):
                self.assertEqual(os.path.dirname(path), self.tree.final('libdir', 'uroce'))

    def test_programs_can_be_run_and_nothing_can_be_written_by_others(self):
        for path in self.tree.files():
            mode = os.stat(self.tree.root + path).st_mode
            program = os.path.dirname(path) in (self.tree.final('bindir'), self.tree.final('sbindir'))
            if program:
                self.assertEqual(mode & 0o555, 0o555, path)
            self.assertEqual(mode & 0o022, 0, path)

    def test_nothing_points_into_the_build_folder(self):
        for path in self.tree.files():
            whole = self.tree.root + path
            if os.path.islink(whole):
                self.assertFalse(os.path.isabs(os.readlink(whole)), path)
            with open(whole, 'rb') as f:
                if f.read(4) != b'\x7fELF' or path.endswith('.o'):
                    continue
            for line in run('readelf', '-d', whole).stdout.splitlines():
                if 'RPATH' in line or 'RUNPATH' in line:
                    self.assertIn('[$ORIGIN]', line, path)

    def test_uroced_takes_the_sample(self):
        uroced = self.tree.path('sbindir', 'uroced')
        sample = self.tree.path('datadir', 'doc/uroce/examples/uroced.conf')
        done = self.run_it(uroced, '--version')
        self.assertEqual(done.returncode, 0, done.stdout)
        done = self.run_it(uroced, '--', '--config', sample, '--check')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('the configuration is good', done.stdout)

    def test_the_unit_starts_the_installed_daemon(self):
        with open(self.tree.root + self.tree.unit(), encoding='utf-8') as f:
            text = f.read()
        self.assertIsNone(re.search(r'@\w+@', text))
        self.assertIn(f'\nExecStart={self.tree.final("sbindir", "uroced")} ', text)
        if not shutil.which('systemd-analyze'):
            return
        for kind in ('sbindir', 'sysconfdir'):
            text = text.replace(self.tree.final(kind), self.tree.path(kind))
        with tempfile.TemporaryDirectory(prefix='uroce-unit-') as folder:
            unit = os.path.join(folder, 'uroced.service')
            with open(unit, 'w', encoding='utf-8') as f:
                f.write(text)
            done = run('systemd-analyze', 'verify', '--man=no', unit)
            self.assertNotIn('uroced.service', done.stdout)
            # At most 3.0. Old versions of systemd can't say.
            done = run('systemd-analyze', 'security', '--offline=true', '--threshold=30', '--no-pager', unit)
            if 'unrecognized option' not in done.stdout:
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_uroce_run_puts_our_libraries_before_the_systems(self):
        done = self.run_it(self.tree.path('bindir', 'uroce-run'), '--socket', '/nonexistent/u.sock', 'env')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f'\nLD_LIBRARY_PATH={os.path.realpath(self.tree.path("libdir", "uroce"))}\n', '\n' + done.stdout)
        self.assertIn('\nUROCE_SOCKET=/nonexistent/u.sock\n', '\n' + done.stdout)
        # A program without LD_LIBRARY_PATH that is on our librdmacm.so.1 must not get the system's libibverbs.so.1.
        done = self.run_it('ldd', self.tree.path('libdir', 'uroce/librdmacm.so.1'))
        self.assertIn(f'libibverbs.so.1 => {self.tree.path("libdir", "uroce/libibverbs.so.1")}', done.stdout)

    def test_an_application_builds_against_liburoce_and_starts(self):
        with tempfile.TemporaryDirectory(prefix='uroce-app-') as folder:
            # As it is without a DESTDIR.
            with open(self.tree.path('libdir', 'pkgconfig/liburoce.pc'), encoding='utf-8') as f:
                text = f.read()
            with open(os.path.join(folder, 'liburoce.pc'), 'w', encoding='utf-8') as f:
                f.write(re.sub(r'^prefix=', 'prefix=' + self.tree.root, text, flags=re.M))
            source_file, program = os.path.join(folder, 'app.c'), os.path.join(folder, 'app')
            with open(source_file, 'w', encoding='utf-8') as f:
                f.write(APPLICATION)
            env = {**self.env, 'PKG_CONFIG_PATH': folder}
            flags = run('pkg-config', '--cflags', '--libs', 'liburoce', env=env)
            self.assertEqual(flags.returncode, 0, flags.stdout)
            done = run('cc', '-Wall', '-Wextra', '-Werror', source_file, '-o', program, *flags.stdout.split(), env=env)
            self.assertEqual(done.returncode, 0, done.stdout)
            done = run(program, env={**self.env, 'LD_LIBRARY_PATH': self.tree.path('libdir')})
            self.assertEqual((done.returncode, done.stdout), (0, ANSWER))

    def test_a_lab_of_the_installed_programs(self):
        program = self.tree.path('bindir', 'uroce-lab')
        self.assertEqual(self.run_it(program, '--help').returncode, 0)
        labs.raised.add(LAB)
        up = self.run_it(program, 'up', '--name', LAB)
        self.addCleanup(self.run_it, program, 'down', '--name', LAB)
        self.assertEqual(up.returncode, 0, up.stdout)
        lab = InstalledLab(self.tree)
        for host in lab.hosts.values():
            with open(host['pid_file'], encoding='ascii') as f:
                pid = f.read().split()[0]
            self.assertEqual(os.path.realpath(f'/proc/{pid}/exe'), os.path.realpath(self.tree.path('sbindir', 'uroced')))
        pair = pairs.run_pair(lab, ['ibv_rc_pingpong', '-d', pairs.DEVICE, '-g', str(lab.gid_index('h1', 4)), '-n', '100'],
                              PAIR_SECONDS)
        self.assertTrue(pair.ok, pair.report() + lab.logs())
        self.assertIn('100 iters', pair.client.text())
        down = self.run_it(program, 'down', '--name', LAB)
        self.assertEqual(down.returncode, 0, down.stdout)
        labs.raised.remove(LAB)


if __name__ == '__main__':
    unittest.main(verbosity=2)
