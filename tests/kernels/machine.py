# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine of two CPUs with one of Debian's kernels. Its / is the host's, read-only by 9p under a tmpfs; nothing it does is kept."""

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile

import guest
from packages import GUEST_MODULES, LAB_MODULES

HERE = os.path.dirname(os.path.realpath(__file__))
INIT = os.path.join(HERE, 'guest/init')
CPUS = 2
MEMORY_MB = 3072
NEEDS = {program: guest.NEEDS[program] for program in ('qemu-system-x86_64', 'busybox', 'cpio')}


def missing():
    """@return the packages that this machine lacks"""
    return sorted(package for program, package in NEEDS.items() if not shutil.which(program))


def initramfs(kernel, folder, modules):
    """@return an image with busybox, the kernel's modules that are named, and the init"""
    image = os.path.join(folder, 'initramfs.img')
    with tempfile.TemporaryDirectory(dir=folder) as root:
        for name in ('bin', 'modules', 'proc', 'sys', 'dev'):
            os.mkdir(os.path.join(root, name))
        shutil.copy(shutil.which('busybox'), os.path.join(root, 'bin/busybox'))
        shutil.copy(INIT, os.path.join(root, 'init'))
        guest.add_modules(root, kernel.modules(modules))
        guest.pack(root, image)
    return image


class Machine:
    """A virtual machine that runs one program and ends."""

    def __init__(self, kernel, folder, program, *args, modules=GUEST_MODULES + LAB_MODULES, memory_mb=MEMORY_MB, machine='q35', prefix=(),
                 devices=(), parameters=''):
        """
        @param folder  where its console goes
        @param args  without blanks and colons
        @param modules  what the kernel loads before the program runs
        @param machine  QEMU's, with its properties
        @param prefix  a command that starts QEMU
        @param devices  further arguments of QEMU
        @param parameters  further ones of the kernel
        """
        self.console = os.path.join(folder, 'console')
        accel = guest.accelerator()
        # Emulated CPUs have no time stamp counter that the kernel trusts, and reading any other clock takes it microseconds.
        append = 'console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on cryptomgr.notests tsc=reliable ' \
                 f'uroce.run={program} uroce.args={":".join(args)} {parameters}'
        self.ran = self.waited = 0
        self.child = subprocess.Popen(
            [*prefix, 'qemu-system-x86_64', '-name', 'kernels,debug-threads=on', '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
             '-machine', machine, '-accel', accel, '-cpu', 'host' if accel == 'kvm' else 'max', '-smp', str(CPUS), '-m', str(memory_mb),
             '-kernel', kernel.image, '-initrd', initramfs(kernel, folder, modules), '-append', append, '-serial', f'file:{self.console}', '-serial', 'stdio',
             '-fsdev', 'local,id=host,path=/,security_model=none,readonly=on,multidevs=remap',
             '-device', 'virtio-9p-pci,fsdev=host,mount_tag=host', *devices],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', preexec_fn=guest.with_us)

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

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
