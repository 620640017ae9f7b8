# SPDX-License-Identifier: BSD-3-Clause
"""One host's uroced: its configuration, its command line, its start and its end."""

import os
import shutil
import signal
import socket
import subprocess
import time

from . import LabError, telemetry, wires
from .places import ROOT, build_dir  # noqa: F401 - tests know them from here
from .state import Process, is_root, start_time

READY_SECONDS = 60          # EAL start on a busy machine
LINK_SECONDS = 15
PID_SECONDS = 2             # from the creation of a daemon's log to that of its pid file
NO_HUGE_MB = 512
ONE_PROCESS_CPUS = 4
ENGINE_NICE = -20           # of a daemon whose threads take turns with programs; docs/benchmarks.md, "Few cores"
CAP_SYS_NICE = 23
HUGE_MB = 256
SURVIVE_SECONDS = 60        # that programs wait for the next daemon: EAL start on a busy machine
LOG_TAIL_LINES = 15
KEPT_FD = 3                 # sd_listen_fds(3): the first of those that a service manager has kept
NEXT = '.next'              # behind the name of the pid file: that of a daemon which is taking over
STANDBY = '.standby'        # the same: of one that waits for the end of the other
# The daemon's process itself writes down its pid and start time (field 22 of stat). If `uroce-lab up` did it, a kill at the
# wrong moment would leave a daemon that nobody knows.
WRITE_PID = '''
[ -z "$LISTEN_FDS" ] || export LISTEN_PID=$$
read -r stat </proc/$$/stat
echo "$$ $(echo "$stat" | cut -d" " -f22)" >"$0.new"
mv "$0.new" "$0"
exec "$@"
'''
# `ip netns exec` gives each daemon its own mount namespace: this mount is seen by it alone and ends with it. min_size
# takes the pages out of the pool at once. Those that `up` has found free may be gone by now: any program may ask the kernel for some.
MOUNT_HUGE = f'''
program=$1
shift
mkdir -p "$0"
if mount -t hugetlbfs -o pagesize=2M,mode=0700,min_size={HUGE_MB}M none "$0"; then
	exec "$program" --huge-dir "$0" "$@"
fi
echo "uroce-lab: ordinary pages instead of hugepages, which can't be mounted (above)"
exec "$program" --no-huge -m {NO_HUGE_MB} "$@"
'''


def lcores(lab, host):
    """--lcores: main and the first engine share CPU i - 1 of host i; further engines take the CPUs after it."""
    cpus = sorted(os.sched_getaffinity(0))
    if lab['one_process']:
        # An lcore on each CPU: a program wakes the one on its own.
        own = ''.join(f',{lcore}@{cpu}' for lcore, cpu in enumerate(cpus[:ONE_PROCESS_CPUS], 1))
        return f'0@({",".join(map(str, cpus))}){own}'
    first = host['index'] - 1
    places = [first] + [first + engine for engine in range(lab['engines'])]
    return ','.join(f'{lcore}@{cpus[place % len(cpus)]}' for lcore, place in enumerate(places))


def write_config(lab, host, name='uroced.conf'):
    path = os.path.join(host['dir'], name)
    port = wires.ethdev(lab, host).partition(',')[0]
    i = host['index']
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'[daemon]\nsocket = {host["socket"]}\nsocket_mode = 0666\nidle = adaptive\n{user(lab)}\n'
                f'[port uroce0]\nethdev = {port}\naddresses = {wires.ipv4(i)}/24 {wires.ipv6(i)}/64\n'
                f'mtu = {lab["mtu"]}\n')
        if host['impair']:
            f.write(f'impair = {host["impair"]}\n')
    return path


def user(lab):
    """As whom the daemons run: as who raised the lab, unless somebody else was asked for."""
    name = lab['user'] or ('root' if is_root() else None)
    return f'user = {name}\n' if name else ''


def command(lab, host, configs, pid_file, hugepages):
    args = ['sh', '-c', WRITE_PID, pid_file]
    args += ['ip', 'netns', 'exec', host['namespace']] if host['namespace'] else []
    args += ['sh', '-c', MOUNT_HUGE, os.path.join(host['dir'], 'huge')] if hugepages else []
    args += [lab['programs']['uroced'], *(() if hugepages else ('--no-huge', '-m', str(NO_HUGE_MB))), '--lcores', lcores(lab, host), '--no-pci',
             '--iova-mode', 'va', '--file-prefix', first_prefix(lab, host)]
    for served in hosts_of(lab, host):
        args += ['--vdev', wires.ethdev(lab, served)]
    if host['telemetry'] is None:
        args.append('--no-telemetry')
    args.append('--')
    if lab['one_process']:
        args.append('--one-engine')
        if can_nice():
            args += ['--nice', str(ENGINE_NICE)]
    for config in configs:
        args += ['--config', config]
    return args


def can_nice():
    with open('/proc/self/status', encoding='ascii') as status:
        effective = next(line for line in status if line.startswith('CapEff:'))
    return int(effective.split()[1], 16) >> CAP_SYS_NICE & 1 == 1


def hosts_of(lab, host):
    """@return the hosts that the daemon of `host` serves: itself, or all of the lab if they share one process."""
    return lab['hosts'] if lab['one_process'] else [host]


def first_prefix(lab, host):
    return f'uroce-{lab["name"]}-{host["name"]}'


def prefix(lab, host):
    """@return the name of the daemon's folder in EAL's. One that has taken over from another has its pid in it."""
    return host.get('prefix') or first_prefix(lab, host)


def notify_socket(host):
    """@return where the daemon looks for a service manager. Only `restart --stop` is one, for as long as it takes."""
    return os.path.join(host['dir'], 'notify')


def start(lab, host, take_over=False, hugepages=None, again=False, kept=None, standby=False):
    """
    @param take_over  From the daemon that runs; then the pid file's name has NEXT behind it.
    @param standby  For the daemon that runs; then the pid file's name has STANDBY behind it.
    @param again  Another one has ended; its log goes on.
    @param kept  (descriptor, name): what the daemon before has left with the service manager.
    @param hugepages  None: as the lab has them.
    @return the Popen. The caller has blocked interrupts; the daemon gets them unblocked.
    """
    configs = [write_config(lab, served) for served in hosts_of(lab, host)]
    env = {k: v for k, v in os.environ.items() if k not in ('LD_LIBRARY_PATH', 'LD_PRELOAD')}
    env['XDG_RUNTIME_DIR'] = host['dir']
    # EAL's run-time folder goes into the lab's, unless dpdk-telemetry.py must find it in the usual place.
    env.pop('RUNTIME_DIRECTORY', None)
    if not lab['telemetry']:
        env['RUNTIME_DIRECTORY'] = host['dir']
    env['NOTIFY_SOCKET'] = notify_socket(host)
    if kept:
        env |= {'LISTEN_FDS': '1', 'LISTEN_FDNAMES': kept[1]}
    args = command(lab, host, configs, host['pid_file'] + (NEXT if take_over else STANDBY if standby else ''),
                   lab['hugepages'] if hugepages is None else hugepages)
    args.append('--keep-programs')
    if lab.get('survive_crash'):
        args += ['--survive-crash', str(SURVIVE_SECONDS)]
    if take_over:
        args.append('--take-over')
    if standby:
        args.append('--standby')
    if not take_over and not again and not standby:
        open(host['log'], 'w', encoding='utf-8').close()

    def prepare():
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if kept:
            os.dup2(kept[0], KEPT_FD)

    # Two daemons write to it for a moment.
    with open(host['log'], 'a', encoding='utf-8') as log:
        return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                cwd=host['dir'], start_new_session=True, pass_fds=(KEPT_FD,) if kept else (), preexec_fn=prepare)


def start_standby(lab, host, hugepages=None):
    """
    Start a standby beside the daemon of `host`, and wait until it stands by.
    @param hugepages  None: as the lab has them.
    @return the Popen.
    """
    log_from = os.path.getsize(host['log'])
    with wires.uninterrupted():
        child = start(lab, host, standby=True, hugepages=hugepages)
    wait_said(host, 'uroced: standby for', log_from, child.poll)
    return child


def wait_said(host, what, log_from, ended):
    """Wait until a daemon has said `what`. @param ended  Returns its status, None as long as it runs."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        with open(host['log'], encoding='utf-8', errors='replace') as f:
            f.seek(log_from)
            said = f.read()
        if what in said:
            return
        status = ended()
        if status is not None:
            raise LabError(f'the new uroced of {host["name"]} ended with status {status}:\n{said}')
        time.sleep(0.005)
    raise LabError(f'the new uroced of {host["name"]} did not say {what!r} within {READY_SECONDS} s:\n{log_tail(host)}')


def wait_ready(host, child):
    """Wait for the daemon's socket, which appears when it serves."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        if os.path.exists(host['socket']):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                if s.connect_ex(host['socket']) == 0:
                    return
        if child.poll() is not None:
            raise LabError(f'uroced of {host["name"]} ended with status {child.returncode}:\n{log_tail(host)}')
        time.sleep(0.02)
    raise LabError(f'uroced of {host["name"]} was not ready after {READY_SECONDS} s:\n{log_tail(host)}')


def wait_link(lab, host):
    """Wait until ibv_devinfo says that the port is up; without ibv_devinfo don't wait."""
    if not shutil.which('ibv_devinfo'):
        return
    end = time.monotonic() + LINK_SECONDS
    while True:
        seen = subprocess.run([lab['programs']['uroce-run'], '--socket', host['socket'], 'ibv_devinfo', '-d', 'uroce0'],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if 'PORT_ACTIVE' in seen.stdout:
            return
        if seen.returncode:
            raise LabError(f'ibv_devinfo on {host["name"]} failed:\n{seen.stdout}{log_tail(host)}')
        if time.monotonic() > end:
            raise LabError(f'the port of {host["name"]} did not come up in {LINK_SECONDS} s:\n{log_tail(host)}')
        time.sleep(0.1)


def started(host):
    """@return the daemon that `up` started. If `up` was killed a moment ago there may be a log, but no pid file yet: wait for it."""
    end = time.monotonic() + PID_SECONDS
    while os.path.exists(host['log']) and not os.path.exists(host['pid_file']) and time.monotonic() < end:
        time.sleep(0.01)
    return Process.of(host['pid_file'])


def serving(host):
    """@return the daemon of a host: that of its pid file, or its standby if that has taken over by itself."""
    first, standby = Process.of(host['pid_file']), Process.of(host['pid_file'] + STANDBY)
    return standby if standby.alive() and not first.alive() else first


def standby_prefix(lab, host, pid):
    """@return the name of the folder in EAL's of a daemon that began beside another one."""
    return f'{first_prefix(lab, host)}.{pid}'


def forget_standby(lab, host, process):
    """One that has ended."""
    if process.pid:
        shutil.rmtree(telemetry.eal_folder(lab, host, standby_prefix(lab, host, process.pid)), ignore_errors=True)


def stop_standby(lab, host):
    process = Process.of(host['pid_file'] + STANDBY)
    process.stop()
    forget_standby(lab, host, process)


def stop(lab, host, child=None):
    stop_standby(lab, host)
    process = Process(child.pid, start_time(child.pid)) if child else started(host)
    process.stop(child.poll if child else None)
    # A daemon that was killed leaves EAL's folder behind.
    shutil.rmtree(telemetry.eal_folder(lab, host, prefix(lab, host)), ignore_errors=True)


def log_tail(host):
    try:
        with open(host['log'], encoding='utf-8', errors='replace') as f:
            lines = f.read().splitlines()[-LOG_TAIL_LINES:]
    except OSError:
        return ''
    return ''.join(f'  {line}\n' for line in lines)
