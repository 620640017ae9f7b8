# SPDX-License-Identifier: BSD-3-Clause
"""impair: change how bad the wire of a running lab is, and count what was done to its packets."""

import json
import os
import signal
import subprocess
import time

from . import LabError, daemon
from .lab import check_impair, hosts_of
from .state import Process, State, lock
from .telemetry import ask

IN_FORCE_SECONDS = 10
NONE = 'none'


def reloads(lab, host):
    """@return (SIGHUPs that the daemon accepted, those it refused, the reason of the last refusal)"""
    config = ask(lab, host, '/uroce/config')
    return config['reloads'], config['refused'], ''.join(config['error'])


def prepare(lab, host):
    """Write the host's new configuration beside the current one, and check it with `uroced`."""
    new = daemon.write_config(lab, host, 'uroced.conf.new')
    done = subprocess.run([lab['programs']['uroced'], '--', '--config', new, '--check'],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        os.unlink(new)
        raise LabError(f'nothing was changed: {done.stdout.strip()}')
    return new


def put_in_force(lab, host, new):
    """SIGHUP, and wait until the daemon says that it has read the file."""
    before = reloads(lab, host)
    os.rename(new, os.path.join(host['dir'], 'uroced.conf'))
    if not Process.of(host['pid_file']).signal(signal.SIGHUP):
        raise LabError(f'uroced of {host["name"]} has ended; its log: {host["log"]}')
    end = time.monotonic() + IN_FORCE_SECONDS
    while time.monotonic() < end:
        now = reloads(lab, host)
        if now[1] > before[1]:
            raise LabError(f'uroced of {host["name"]} refuses its configuration: {now[2]}')
        if now[0] > before[0]:
            return
        time.sleep(0.01)
    raise LabError(f'uroced of {host["name"]} did not read its configuration in {IN_FORCE_SECONDS} s:\n'
                   f'{daemon.log_tail(host)}')


def change(options):
    settings = '' if options.settings == NONE else options.settings
    if settings:
        check_impair(settings)
    with lock():
        state = State(options.name).load()
        hosts = hosts_of(state, options.host)
        for host in hosts:
            host['impair'] = settings
        ready = [(host, prepare(state.data, host)) for host in hosts]
        for host, new in ready:
            put_in_force(state.data, host, new)
        state.save()


def show(options):
    state = State(options.name).load()
    found = {host['name']: ask(state.data, host, '/uroce/impair,uroce0') for host in hosts_of(state, options.host)}
    if options.json:
        print(json.dumps(found))
        return
    for name, seen in found.items():
        print(f'{name}  {",".join(seen.pop("settings")) or "not impaired"}')
        rules = seen.pop('rules', [])
        for counter, value in seen.items():
            print(f'    {counter:<14}{value}')
        for number, value in enumerate(rules, 1):
            print(f'    rule {number:<9}{value}')


def run(options):
    """Status 0: the settings are in force; 1: nothing was changed."""
    if options.counters:
        # As for other programs: a closed pipe ends it, as in `... | head`.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        show(options)
    else:
        change(options)
