# SPDX-License-Identifier: BSD-3-Clause
"""Packages of Debian's releases, and kernels in particular, from the Debian mirror that apt is configured for. Nothing is installed.

A kernel is downloaded once. Its image and the few modules that a guest needs are kept in a cache folder.
"""

import contextlib
import fcntl
import lzma
import os
import re
import shutil
import subprocess
import tempfile

KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
AMD64, ARM64 = 'amd64', 'arm64'
# What guests load: all need the first ones, tests/kernels and tests/arm64 the second, tests/interop the third, tests/nic the third and the fourth.
# A kernel may have some of them built in.
GUEST_MODULES = ('virtio_pci', '9pnet_virtio', '9p', 'overlay')
LAB_MODULES = ('veth',)
ROCE_MODULES = ('virtio_net', 'virtio_rng', 'crc32_generic', 'crc32_pclmul', 'ib_uverbs', 'rdma_ucm', 'rdma_rxe')
NIC_MODULES = ('vfio_iommu_type1', 'vfio_pci')
MODULES = {AMD64: GUEST_MODULES + LAB_MODULES + ROCE_MODULES + NIC_MODULES, ARM64: GUEST_MODULES + LAB_MODULES}
# Files in the cache folder, beside the modules.
IMAGE = 'vmlinuz'
VERSION = 'version'
BUILTIN = 'modules.builtin'
WANTED = 'wanted'           # the processor's MODULES when the kernel was unpacked


class NoPackage(Exception):
    """Why a package can't be had."""


class Kernel:
    """A kernel in the cache folder."""

    def __init__(self, suite, folder):
        self.suite = suite
        self.folder = folder
        self.image = os.path.join(folder, IMAGE)
        with open(os.path.join(folder, VERSION), encoding='ascii') as f:
            self.version = f.read().strip()

    def modules(self, names):
        """@return the paths of these modules and of those that they need, in the order in which they can be loaded"""
        return ModuleTree(self.folder).order(names)


def cache_dir():
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(base, 'uroce/kernels')


def command(*args, **options):
    """@return what the command printed; NoPackage if it fails."""
    try:
        done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    except FileNotFoundError:
        raise NoPackage(f'{args[0]} is not installed') from None
    if done.returncode:
        raise NoPackage(f'`{" ".join(args[:1] + args[-2:])}`: {(done.stderr or done.stdout).strip()}')
    return done.stdout


def mirror():
    """@return the address of Debian's archive in apt's configuration"""
    listed = command('apt-get', 'indextargets', '--format', '$(REPO_URI) $(LABEL)', 'Created-By: Packages')
    for line in listed.splitlines():
        address, _, label = line.partition(' ')
        if label == 'Debian':
            return address
    raise NoPackage("apt's package lists have no archive of Debian's: as root, apt-get update")


class Apt:
    """apt with a configuration and lists of its own, for one release and one processor."""

    def __init__(self, folder, suite, arch=AMD64):
        os.makedirs(os.path.join(folder, 'lists/partial'))
        os.makedirs(os.path.join(folder, 'cache/archives/partial'))
        with open(os.path.join(folder, 'release.list'), 'w', encoding='ascii') as f:
            f.write(f'deb [signed-by={KEYRING} arch={arch}] {mirror()} {suite} main\n')
        self.folder = folder
        places = {'Dir::Etc::SourceList': 'release.list', 'Dir::Etc::SourceParts': 'none', 'Dir::State::Lists': 'lists',
                  'Dir::State::status': 'none', 'Dir::Cache': 'cache'}
        self.options = [f'-o{key}={os.path.join(folder, name)}' for key, name in places.items()]
        # The folder is closed to the user as whom apt downloads otherwise.
        self.options += ['-oAPT::Sandbox::User=root', '-oAcquire::Languages=none', f'-oAPT::Architecture={arch}']

    def run(self, program, *args):
        return command(program, *self.options, *args, cwd=self.folder)


def unpack_file(path):
    """@return the content of a module, which may be compressed"""
    with (lzma.open if path.endswith('.xz') else open)(path, 'rb') as f:
        return f.read()


def plain(name):
    return re.sub(r'\.ko(\.xz)?$', '', os.path.basename(name)).replace('-', '_')


class ModuleTree:
    """The modules in a folder and the folders in it."""

    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, BUILTIN), encoding='ascii') as f:
            self.builtin = {plain(name) for name in f.read().split()}
        self.files = {plain(name): os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if '.ko' in name}

    def order(self, names):
        """@return the paths of these modules and of those that they need, in the order in which they can be loaded"""
        have, paths = set(self.builtin), []

        def load(name):
            if name in have:
                return
            if name not in self.files:
                raise NoPackage(f'the kernel in {self.root} has no module {name}')
            have.add(name)
            for other in re.search(rb'\0depends=([^\0]*)\0', unpack_file(self.files[name]))[1].decode().split(','):
                if other:
                    load(other.replace('-', '_'))
            paths.append(self.files[name])

        for name in names:
            load(name)
        return paths


def download(suite, arch, target):
    """Put the newest kernel of a release into the folder `target`."""
    with tempfile.TemporaryDirectory(prefix='uroce-kernel-') as folder:
        apt = Apt(folder, suite, arch)
        apt.run('apt-get', 'update', '--error-on=any')
        meta = f'linux-image-{arch}'
        package = re.search(r'^Depends:.*\b(linux-image-\d\S+)', apt.run('apt-cache', 'show', '--no-all-versions', meta), re.MULTILINE)
        if not package:
            raise NoPackage(f'{meta} of {suite} depends on no kernel')
        apt.run('apt-get', 'download', package[1])
        archive = next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.deb'))
        root = os.path.join(folder, 'root')
        command('dpkg-deb', '-x', archive, root)
        version = package[1].partition('linux-image-')[2]
        modules = next(path for path in (os.path.join(root, top, 'modules', version) for top in ('usr/lib', 'lib')) if os.path.isdir(path))
        shutil.copy(os.path.join(root, 'boot', 'vmlinuz-' + version), os.path.join(target, IMAGE))
        shutil.copy(os.path.join(modules, BUILTIN), target)
        for path in ModuleTree(modules).order(MODULES[arch]):
            with open(os.path.join(target, plain(path) + '.ko'), 'wb') as f:
                f.write(unpack_file(path))
    for name, text in ((WANTED, ' '.join(MODULES[arch])), (VERSION, version)):
        with open(os.path.join(target, name), 'w', encoding='ascii') as f:
            f.write(text + '\n')


def is_current(folder, arch):
    """@return whether a kernel was unpacked there with all the modules that are wanted now"""
    try:
        with open(os.path.join(folder, WANTED), encoding='ascii') as f:
            return set(f.read().split()) >= set(MODULES[arch])
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(folder):
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def own_suite():
    """@return the name of this machine's release of Debian"""
    with open('/etc/os-release', encoding='utf-8') as f:
        found = re.search(r'^VERSION_CODENAME="?(\w+)', f.read(), re.MULTILINE)
    if not found:
        raise NoPackage('/etc/os-release names no release of Debian')
    return found[1]


def kernel(suite, arch=AMD64):
    """@return the Kernel of a release, downloaded if the cache folder has none; NoPackage if it can't be had."""
    base = cache_dir()
    target = os.path.join(base, suite if arch == AMD64 else f'{suite}-{arch}')
    os.makedirs(base, exist_ok=True)
    with locked(base):
        if not is_current(target, arch):
            if not os.path.exists(KEYRING):
                raise NoPackage(f'no {KEYRING}: as root, apt-get install debian-archive-keyring')
            with tempfile.TemporaryDirectory(prefix=suite, dir=base) as new:
                download(suite, arch, new)
                shutil.rmtree(target, ignore_errors=True)
                os.rename(new, target)
                os.mkdir(new)       # for TemporaryDirectory to remove
    return Kernel(suite, target)
