# SPDX-License-Identifier: BSD-3-Clause
"""
A virtual machine of two CPUs with one of Debian's kernels. Its / is the host's or a folder of the host's, read-only by 9p under a tmpfs; nothing it does
is kept.
"""

import collections
import contextlib
import glob
import os
import shutil
import subprocess
import tempfile
import threading

import guest
from packages import GUEST_MODULES, LAB_MODULES

HERE = os.path.dirname(os.path.realpath(__file__))
INIT = os.path.join(HERE, 'guest/init')
CPUS = 2
MEMORY_MB = 3072
NEEDS = {program: guest.NEEDS[program] for program in ('qemu-system-x86_64', 'busybox', 'cpio')}
# qemu: the program; machine, cpu: what it emulates, if that is to be asked for; console: the kernel's; port: the serial port for what the program prints,
# and its arguments of QEMU; parameters: of the kernel.
Processor = collections.namedtuple('Processor', 'qemu machine cpu console port serial parameters')
# Emulated CPUs have no time stamp counter that the kernel trusts, and reading any other clock takes it microseconds.
AMD64 = Processor('qemu-system-x86_64', 'q35', 'max', 'ttyS0', 'ttyS1', ('-serial', 'stdio'), 'tsc=reliable ')
ARM64 = Processor('qemu-system-aarch64', 'virt', 'neoverse-n1', 'ttyAMA0', 'ttyS0',
                  ('-chardev', 'stdio,id=stdio', '-device', 'pci-serial,chardev=stdio'), '')


def missing():
    """@return the packages that this machine lacks"""
    return sorted(package for program, package in NEEDS.items() if not shutil.which(program))


def initramfs(kernel, folder, modules, busybox):
    """@return an image with busybox, the kernel's modules that are named, and the init"""
    image = os.path.join(folder, 'initramfs.img')
    with tempfile.TemporaryDirectory(dir=folder) as root:
        for name in ('bin', 'modules', 'proc', 'sys', 'dev'):
            os.mkdir(os.path.join(root, name))
        shutil.copy(busybox, os.path.join(root, 'bin/busybox'))
        shutil.copy(INIT, os.path.join(root, 'init'))
        guest.add_modules(root, kernel.modules(modules))
        guest.pack(root, image)
    return image


class Machine:
    """A virtual machine that runs one program and ends."""

    def __init__(self, kernel, folder, program, *args, modules=GUEST_MODULES + LAB_MODULES, memory_mb=MEMORY_MB, machine=None, prefix=(),
                 devices=(), parameters='', processor=AMD64, root='/', seconds=None, qemu=None):
        """
        @param folder  where its console goes
        @param args  without blanks and colons
        @param modules  what the kernel loads before the program runs
        @param machine  QEMU's, with its properties, if not the processor's
        @param prefix  a command that starts QEMU
        @param devices  further arguments of QEMU
        @param parameters  further ones of the kernel
        @param processor  AMD64 or ARM64
        @param root  the folder that is the machine's /; unless it is our own, with that processor's busybox
        @param seconds  how long it may run, for ever by default
        @param qemu  the program, if not the processor's
        """
        self.console = os.path.join(folder, 'console')
        accel = guest.accelerator() if processor is AMD64 else 'tcg'
        append = f'console={processor.console} quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on cryptomgr.notests {processor.parameters}' \
                 f'uroce.run={program} uroce.args={":".join(args)} uroce.port={processor.port} {parameters}'
        busybox = shutil.which('busybox') if root == '/' else os.path.join(root, 'bin/busybox')
        self.ran = self.waited = 0
        self.alarm = threading.Timer(seconds, self._kill) if seconds else None
        self.child = subprocess.Popen(
            [*prefix, qemu or processor.qemu, '-name', 'kernels,debug-threads=on', '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
             '-machine', machine or processor.machine, '-accel', accel, '-cpu', 'host' if accel == 'kvm' else processor.cpu, '-smp', str(CPUS),
             '-m', str(memory_mb), '-kernel', kernel.image, '-initrd', initramfs(kernel, folder, modules, busybox), '-append', append,
             '-serial', f'file:{self.console}', *processor.serial, '-fsdev', f'local,id=host,path={root},security_model=none,readonly=on,multidevs=remap',
             '-device', 'virtio-9p-pci,fsdev=host,mount_tag=host', *devices],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', preexec_fn=guest.with_us)
        if self.alarm:
            self.alarm.daemon = True
            self.alarm.start()

    def lines(self):
        """What the program prints, line by line, until the machine ends."""
        for line in self.child.stdout:
            yield line.rstrip()
        self.child.wait()

    def starved(self):
        """
        @return the share of the time since the last call in which the virtual CPUs had to wait for real ones, because other programs had
        them. It is 0 if the host's kernel doesn't count that.
        """
        ran = waited = 0
        for task in glob.glob(f'/proc/{self.child.pid}/task/*'):
            with contextlib.suppress(OSError):
                with open(f'{task}/comm', encoding='ascii') as comm, open(f'{task}/schedstat', encoding='ascii') as stat:
                    if comm.read().startswith('CPU '):
                        times = stat.read().split()
                        ran += int(times[0])
                        waited += int(times[1])
        share = (waited - self.waited) / max(1, ran + waited - self.ran - self.waited)
        self.ran, self.waited = ran, waited
        return max(0.0, share)

    def tail(self):
        """The end of the console's output."""
        if not os.path.exists(self.console):
            return ''
        with open(self.console, encoding='utf-8', errors='replace') as f:
            return f.read()[-2000:]

    def _kill(self):
        self.child.kill()

    def stop(self):
        if self.alarm:
            self.alarm.cancel()
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
