# SPDX-License-Identifier: BSD-3-Clause
"""up, run, status, down."""

import json
import os
import signal
import subprocess
import sys

from . import LabError, daemon, places, telemetry, wires
from .state import Process, State, all_names, held_locks, is_root, lock

ALL = 'all'                 # instead of a host's name
HOSTS_MAX = 32
CPUS_PER_HOST = 2           # an engine and a program each poll
ENGINES_MAX = 16
HUGEPAGES_RINGS = 32        # per host, of 2 MiB, for the queues of programs; EAL's come on top
LIB = os.path.join(places.SCRIPTS, 'lib.sh')


def note(text):
    print(f'uroce-lab: {text}', file=sys.stderr)


def lib(function, *args):
    """
    Call a function of lib.sh, which ends what it begins: no interrupt reaches it, nor does a kill of our process group.
    It holds the lock as well, so that nobody else begins before.
    @return (status, what it said)
    """
    with wires.uninterrupted():
        done = subprocess.run(['bash', '-c', '. "$0"; "$@"', LIB, function, *map(str, args)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              start_new_session=True, pass_fds=held_locks())
        return done.returncode, done.stdout.strip()


def check_impair(settings):
    """Refuse what would break the configuration file; uroced checks the rest."""
    if not settings.isprintable() or not settings.strip() or '#' in settings:
        raise LabError('give settings like loss=0.01,delay=100 (docs/faults.md has them all)')


def check(options):
    """Check the options: LabError if they don't go together."""
    if options.impair is not None:
        check_impair(options.impair)
    if options.wire == 'veth' and not is_root():
        raise LabError('--wire veth needs root (network namespaces and raw sockets); --wire memif needs nothing')
    if options.pmd and options.wire != 'veth':
        raise LabError('--pmd chooses how a daemon reaches its veth interface: give --wire veth as well')
    if options.switch and options.wire != 'veth':
        raise LabError('--switch is a bridge between veth interfaces: give --wire veth as well')
    if options.one_process and options.wire != 'memif':
        raise LabError('--one-process joins its hosts through memory: it goes with --wire memif only')
    if options.standby and not options.survive_crash:
        raise LabError('--standby: programs outlive a crash only with --survive-crash: give that as well')
    if options.standby and options.pmd == 'af_xdp':
        raise LabError('--standby: af_xdp\'s queues are free some time after a crash; --pmd af_packet can have a standby')
    if options.user and not is_root():
        raise LabError('--user needs root: nobody else can become another user')
    if options.one_process and options.engines > 1:
        raise LabError(f'--engines {options.engines}: with --one-process each host has one engine, which all cores run by turns')
    one_process = options.one_process
    if one_process is None:
        few = len(os.sched_getaffinity(0)) < CPUS_PER_HOST * options.hosts
        one_process = few and options.wire == 'memif' and options.engines == 1
    if options.standby and options.wire == 'memif' and not one_process:
        raise LabError('--standby: memif\'s driver does not connect again when the daemon at its other end is another one; '
                       'give --one-process, or --wire veth')
    hosts_min = 1 if options.switch else 2
    if not hosts_min <= options.hosts <= HOSTS_MAX:
        raise LabError(f'--hosts {options.hosts}: {hosts_min} to {HOSTS_MAX}')
    if options.wire == 'memif' and options.hosts > 2:
        raise LabError('--wire memif joins exactly 2 hosts, because a memif port has one peer; '
                       '--wire veth (as root) joins more')
    if not 1 <= options.engines <= ENGINES_MAX:
        raise LabError(f'--engines {options.engines}: 1 to {ENGINES_MAX}')
    if options.pmd == 'af_xdp' and options.engines > 1:
        raise LabError(f'--engines {options.engines}: af_xdp needs a channel of the interface for each, and veth has one; '
                       '--pmd af_packet takes several')
    driver = (options.pmd or wires.PMDS[0]) if options.wire == 'veth' else 'memif'
    mtu = wires.MTU_DEFAULT[driver] if options.mtu is None else options.mtu
    if not wires.MTU_MIN <= mtu <= wires.MTU_MAX[driver]:
        raise LabError(f'--mtu {mtu}: {wires.MTU_MIN} to {wires.MTU_MAX[driver]} on {driver}')
    return {'wire': options.wire, 'pmd': options.pmd or wires.PMDS[0], 'mtu': mtu, 'engines': options.engines,
            'one_process': one_process, 'switched': options.switch or options.hosts > 2, 'telemetry': options.telemetry,
            'user': options.user, 'survive_crash': options.survive_crash, 'standby': options.standby}


def plan(state, options):
    """@return the description of the lab, from the options, before anything is made."""
    lab = check(options)
    lab.update(name=state.name, dir=state.dir, programs=places.find(), hugepages=False, switch='', hosts=[])
    for index in range(1, options.hosts + 1):
        name = f'h{index}'
        folder = os.path.join(state.dir, name)
        host = {'name': name, 'index': index, 'dir': folder, 'namespace': '', 'impair': options.impair or '',
                'socket': os.path.join(folder, 'uroced.sock')}
        home = lab['hosts'][0] if lab['one_process'] and lab['hosts'] else host
        host.update(pid_file=os.path.join(home['dir'], 'uroced.pid'), log=os.path.join(home['dir'], 'uroced.log'),
                    telemetry=telemetry.socket_path(lab, home, daemon.prefix(lab, home)))
        lab['hosts'].append(host)
    return lab


def up(options):
    state = State(options.name)
    lab = plan(state, options)
    children = {}
    # Only build_up() may be interrupted: before it there is nothing to tear down, after it the lab is up.
    with lock(), wires.uninterrupted():
        state.create(lab)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, wires.INTERRUPTS)
            try:
                build_up(state, children)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, wires.INTERRUPTS)
        except BaseException:
            for problem in tear_down(state, children):
                note(problem)
            raise
        # The lab is up: an interrupt that came after that is ignored.
        for number in wires.INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        print_status(state.data)


def build_up(state, children):
    lab = state.data
    for host in lab['hosts']:
        os.mkdir(host['dir'], 0o700)
        if lab['user']:
            # The daemon goes on using its files by their paths.
            os.chmod(lab['dir'], 0o711)
            os.chmod(host['dir'], 0o711)
    if is_root():
        make_namespaces(state)
        if namespaces(lab):
            make_hugepages(state)
    # One after the other: the connecting end of a memif does not start before the listening one.
    for host in lab['hosts']:
        with wires.uninterrupted():
            shared = lab['one_process'] and children.get(lab['hosts'][0]['name'])
            children[host['name']] = shared or daemon.start(lab, host)
        daemon.wait_ready(host, children[host['name']])
    for host in lab['hosts'] if lab['standby'] else ():
        if host is lab['hosts'][0] or not lab['one_process']:
            daemon.start_standby(lab, host)
    for host in lab['hosts']:
        daemon.wait_link(lab, host)


def make_namespaces(state):
    lab = state.data
    names = {host['name']: wires.namespace(lab['name'], host['name']) for host in lab['hosts']}
    switch = wires.namespace(lab['name'], 'sw')
    for ns in [*names.values(), switch]:
        if os.path.exists(f'/run/netns/{ns}'):
            raise LabError(f'there is a network namespace {ns} already, which this lab did not make; '
                           f'`ip netns del {ns}` removes it, --name OTHER avoids it')
    for host in lab['hosts']:
        host['namespace'] = names[host['name']]
    if lab['switched']:
        lab['switch'] = switch
    state.save()
    try:
        for ns in namespaces(lab):
            wires.add_namespace(ns)
    except LabError as e:
        if lab['wire'] != 'memif':
            raise
        note(f'no network namespaces here ({e}); programs exchange their set-up over localhost')
        for problem in remove_namespaces(lab):
            note(problem)
        for host in lab['hosts']:
            host['namespace'] = ''
        state.save()
        return
    wires.join(lab)


def make_hugepages(state):
    """Reserve pages. Each daemon mounts a hugetlbfs that nobody else sees: other DPDK programs take any they find."""
    lab = state.data
    daemons = 1 if lab['one_process'] else len(lab['hosts'])
    pages = len(lab['hosts']) * (daemon.HUGE_MB // 2 + HUGEPAGES_RINGS)
    if lab['standby']:
        # The standby has its own, and after a crash the keeper still has the namespace with those of the first daemon.
        pages += 2 * daemons * daemon.HUGE_MB // 2
    status, reason = lib('hugepages_up', huge_file(lab), pages, ring_hugepages())
    if status:
        note(f'ordinary pages instead of hugepages: {reason}')
        return
    lab['hugepages'] = True
    state.save()


def ring_hugepages():
    """@return how many pages the queues of programs may take at any time in all labs that are up: free, but not for daemons."""
    labs = [State(name).load() for name in all_names()]
    return sum(len(lab.data['hosts']) * HUGEPAGES_RINGS for lab in labs if lab.this_boot() and lab.data.get('hugepages'))


def huge_file(lab):
    return os.path.join(lab['dir'], 'hugepages-added')


def spare_huge_file(lab):
    """For the pages of a daemon that takes over, while there are two."""
    return huge_file(lab) + daemon.NEXT


def namespaces(lab):
    return [ns for ns in [*(host['namespace'] for host in lab['hosts']), lab['switch']] if ns]


def remove_namespaces(lab):
    problems = []
    for ns in namespaces(lab):
        try:
            wires.remove_namespace(ns)
        except LabError as e:
            problems.append(str(e))
    return problems


def tear_down(state, children=None):
    """Undo what lab.json lists, in reverse order, as far as it goes. @return what could not be undone."""
    lab = state.data
    problems = []
    if lab and state.this_boot():
        for host in lab['hosts']:
            try:
                daemon.stop(lab, host, (children or {}).get(host['name']))
            except LabError as e:
                problems.append(f'{host["name"]}: {e}')
        problems += remove_namespaces(lab)
        for file in (spare_huge_file(lab), huge_file(lab)):
            status, reason = lib('hugepages_down', file)
            if status:
                problems.append(f'hugepages: {reason}')
    if not problems:
        state.remove()
    return problems


def down(options):
    with lock():
        state = State(options.name).load()
        problems = tear_down(state)
    if problems:
        raise LabError(f'lab {state.name!r} is not wholly down:\n' + '\n'.join(problems))


def print_status(lab):
    wire = lab['wire'] if lab['wire'] == 'memif' else f'{lab["wire"]} ({lab["pmd"]})'
    memory = 'hugepages' if lab['hugepages'] else 'ordinary pages'
    print(f'lab {lab["name"]}: {len(lab["hosts"])} hosts, wire {wire}, MTU {lab["mtu"]}, '
          f'{lab["engines"]} engine(s) each, {memory}{", one process" if lab["one_process"] else ""}')
    all_alive = True
    for host in lab['hosts']:
        process = daemon.serving(host)
        alive = process.alive()
        all_alive &= alive
        where = f'namespace {host["namespace"]}' if host['namespace'] else "this machine's network"
        standby = Process.of(host['pid_file'] + daemon.STANDBY)
        if standby.alive() and standby.pid != process.pid:
            where += f', standby pid {standby.pid}'
        print(f'  {host["name"]}  uroced {"pid %d" % process.pid if alive else "NOT RUNNING"}  '
              f'{wires.ipv4(host["index"])}  {wires.ipv6(host["index"])}  {where}\n      log {host["log"]}')
    return all_alive


def described(lab):
    """@return what print_status() prints, for programs (docs/schemas/lab.json)"""
    hosts = []
    for host in lab['hosts']:
        process = daemon.serving(host)
        hosts.append({'name': host['name'], 'running': process.alive(), 'pid': process.pid if process.alive() else None, 'ipv4': wires.ipv4(host['index']),
                      'ipv6': wires.ipv6(host['index']), 'namespace': host['namespace'] or None, 'socket': host['socket'], 'log': host['log'],
                      'impair': host['impair'] or ''})
    return {**{key: lab[key] for key in ('name', 'wire', 'pmd', 'mtu', 'engines', 'one_process')}, 'hugepages': bool(lab['hugepages']), 'hosts': hosts}


def alive(host):
    """@return whether the host has a daemon. While one takes over from another, the pid file may still have the one that has ended."""
    return any(Process.of(host['pid_file'] + suffix).alive() for suffix in ('', daemon.NEXT, daemon.STANDBY, ''))


def status(options):
    """Status 0: up and whole; 1: not up, or a daemon has ended."""
    state = State(options.name).load()
    if not state.data or not state.this_boot():
        raise LabError(f'lab {state.name!r} was left by an `up` that did not end; '
                       f'`uroce-lab down --name {state.name}` removes it')
    if not options.json:
        return 0 if print_status(state.data) else 1
    found = described(state.data)
    print(json.dumps(found))
    return 0 if all(host['running'] for host in found['hosts']) else 1


def hosts_of(state, name):
    """@return the host called `name`, or all of them, in a list; LabError if a daemon of theirs has ended."""
    lab = state.data
    if not lab or not state.this_boot():
        raise LabError(f'lab {state.name!r} is not up; `uroce-lab down --name {state.name}` removes what is left of it')
    hosts = [host for host in lab['hosts'] if name in (host['name'], ALL)]
    if not hosts:
        names = ', '.join(h['name'] for h in lab['hosts'])
        raise LabError(f'no host {name!r} in lab {lab["name"]!r}: it has {names}')
    for host in hosts:
        if not alive(host):
            raise LabError(f'uroced of {host["name"]} has ended; its log: {host["log"]}')
    return hosts


def run(options):
    """Execute the program in place of this process, so that it has our streams, signals and exit status."""
    state = State(options.name).load()
    if options.host == ALL:
        raise LabError('a program runs on one host; give its name')
    lab, host = state.data, hosts_of(state, options.host)[0]
    args = [lab['programs']['uroce-run'], '--socket', host['socket'], *options.program]
    if host['namespace']:
        args = ['ip', 'netns', 'exec', host['namespace'], *args]
    # Python ignores these two signals; the program must not inherit that.
    for sig in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(sig, signal.SIG_DFL)
    try:
        os.execvp(args[0], args)
    except OSError as e:
        raise LabError(f'{args[0]}: {e.strerror}') from e

