# SPDX-License-Identifier: BSD-3-Clause
"""A build folder that a test makes for itself: with another compiler or other options than the one it was started from."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRINTED = 8000


def die(text, status=2):
    """End with a message."""
    print(f'run: {text}', file=sys.stderr)
    sys.exit(status)


def quietly(*command, **options):
    """Run a command whose output matters only if it fails. @return its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        print(done.stdout[-PRINTED:], file=sys.stderr)
        die(f'{" ".join(map(str, command[:4]))} failed')
    return done.stdout


def configure(folder, compiler, *options):
    """
    Make a build folder with warnings as errors and assertions, if it isn't there, and make sure that it is up to date. Reports need lines, and a debugger's
    knowledge of types costs a sixth of the compiler's time.
    """
    if not (folder / 'build.ninja').exists():
        ccache = 'ccache ' if shutil.which('ccache') else ''
        quietly('meson', 'setup', folder, ROOT, '-Dassertions=true', '-Dwerror=true', '-Dc_args=-g1', *options,
                env=os.environ | {'CC': f'{ccache}{compiler}'})
    quietly('ninja', '-C', folder, 'build.ninja')


@contextlib.contextmanager
def alone(folder):
    """One process at a time builds in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / '.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
