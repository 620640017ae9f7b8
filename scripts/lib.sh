# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the scripts share: the list of packages, installing, building, hugepages. Source it; it runs nothing by itself.

UROCE_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
UROCE_BUILD=$(realpath -m -- "${UROCE_BUILD:-$UROCE_ROOT/build}")

# All Debian packages that scripts need: to build, to run a lab with Debian's own verbs programs, to test.
UROCE_PACKAGES_BUILD="gcc libc6-dev pkg-config meson ninja-build clang libdpdk-dev libisal-dev libbsd-dev libbpf-dev
	libelf-dev libedit-dev libmnl-dev libseccomp-dev libcmocka-dev libibverbs-dev librdmacm-dev libjson-c-dev libsmartcols-dev libncurses-dev"
UROCE_PACKAGES_RUN="python3 iproute2 ethtool ibverbs-utils perftest procps"
UROCE_PACKAGES_TEST="tshark strace rdmacm-utils ucx-utils python3-pyverbs python3-jsonschema python3-pexpect llvm libclang-rt-dev make zsh mandoc
	openmpi-bin libopenmpi-dev python3-yaml"
# What some tests, and the plots of `scripts/bench --report` and `uroce-lab report`, need: the tests are skipped without. So are the rows of
# docs/programs.md for which nothing is installed.
UROCE_PACKAGES_OPTIONAL="python3-matplotlib chromium
	fio libfabric-bin tgt libiscsi-bin qemu-utils qemu-block-extra qperf iperf3 dapl2-utils libucx-dev
	mpich libmpich-dev netpipe-openmpi netpipe-mpich2 hpcc scalapack-mpi-test lammps python3-mpi4py"
# To build for arm64 and to run what was built, in a root folder (release.sh); with the libraries of UROCE_PACKAGES_BUILD for arm64. The last ones
# are for the emulated machine.
UROCE_PACKAGES_CROSS="crossbuild-essential-arm64 qemu-user qemu-system-arm mmdebstrap cpio"
# A virtual machine with Linux's Soft-RoCE at the other end of the wire.
UROCE_PACKAGES_INTEROP="qemu-system-x86 busybox-static cpio debian-archive-keyring ibverbs-providers tshark"
# A virtual machine with NICs, which is set up as docs/operations.md says; with what is above.
UROCE_PACKAGES_NIC="dpdk pciutils kmod mount passwd util-linux"
# A container in which a systemd of its own runs the units.
UROCE_PACKAGES_SYSTEMD="systemd-container"

say()
{
	printf '== %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

is_root()
{
	[ "$(id -u)" = 0 ]
}

# missing_packages PACKAGE...: prints those that are not installed.
missing_packages()
{
	local package
	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || printf '%s ' "$package"
	done
}

# packages_there PACKAGE...: prints those that this release of Debian has.
packages_there()
{
	local package
	for package in "$@"; do
		apt-cache show "$package" >/dev/null 2>&1 && printf '%s ' "$package"
	done
}

apt_get()
{
	DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# need_packages PACKAGE...: installs what is missing, as root; for others it ends the script and says what to install.
need_packages()
{
	local missing
	command -v dpkg-query >/dev/null || die "this needs Debian 12 or a relative of it (no dpkg-query here)"
	missing=$(missing_packages "$@")
	if [ -z "$missing" ]; then
		say "packages: all there"
		return
	fi
	is_root || die "missing packages; as root: apt-get install $missing"
	say "packages: installing $missing"
	# Package lists may be missing (fresh image) or older than the mirror: refresh them only then.
	# shellcheck disable=SC2086
	if ! apt_get install --no-install-recommends $missing; then
		say "packages: refreshing the lists and trying again"
		apt_get update || die "apt-get update failed: is a Debian mirror reachable?"
		apt_get install --no-install-recommends $missing || die "could not install: $missing"
	fi
}

# configure_uroce [MESON OPTION...]: creates or changes the build folder $UROCE_BUILD.
configure_uroce()
{
	local dir=$UROCE_BUILD
	if [ -e "$dir" ] && ! [ -w "$dir" ]; then
		die "$dir belongs to another user: remove it, or choose another folder with UROCE_BUILD=DIR"
	fi
	say "build: $dir"
	if [ -f "$dir/build.ninja" ]; then
		[ $# = 0 ] || meson configure "$dir" "$@" || die "could not configure $dir"
	else
		meson setup "$dir" "$UROCE_ROOT" "$@" || die "could not configure $dir (log: $dir/meson-logs/meson-log.txt)"
	fi
}

# build_everything: with the tests.
build_everything()
{
	ninja -C "$UROCE_BUILD" || die "the build failed"
}

# build_product: everything but the tests.
build_product()
{
	local targets
	ninja -C "$UROCE_BUILD" build.ninja >/dev/null || die "could not configure $UROCE_BUILD anew"
	targets=$(meson introspect --targets "$UROCE_BUILD" | /usr/bin/python3 -c '
import json
import os
import sys

build, root = sys.argv[1:]
for target in json.load(sys.stdin):
    if target["build_by_default"] and not os.path.relpath(target["defined_in"], root).startswith("tests/"):
        print(*(os.path.relpath(name, build) for name in target["filename"]))
' "$UROCE_BUILD" "$UROCE_ROOT") || die "meson can't list what to build in $UROCE_BUILD"
	# shellcheck disable=SC2086
	ninja -C "$UROCE_BUILD" $targets || die "the build failed"
}

# hugepages_kept POOL: how many pages the pool keeps. Surplus pages, which programs still use after they were taken out of the pool, go back to the
# kernel with their last user; nr_hugepages counts them when it is read, but not when it is written.
hugepages_kept()
{
	echo $(($(cat "$1/nr_hugepages") - $(cat "$1/surplus_hugepages")))
}

# hugepages_up FILE PAGES [OTHERS]: make PAGES 2 MiB pages free, beyond OTHERS that others may still take before ours are taken. FILE says afterwards how many that added to the
# system's pool: a pool that grows takes its surplus pages back first, and then new ones.
# Status 1 with a reason on stderr if the machine refuses pages or their file system; then nothing has changed.
hugepages_up()
{
	local file=$1 pages=$2 others=${3:-0} pool=/sys/kernel/mm/hugepages/hugepages-2048kB kept all free added=0
	is_root || { echo "only root can reserve hugepages" >&2; return 1; }
	[ -r $pool/nr_hugepages ] || { echo "the kernel has no 2 MiB hugepages" >&2; return 1; }
	if ! unshare -m mount -t hugetlbfs -o pagesize=2M none /mnt 2>/dev/null; then
		echo "hugetlbfs can't be mounted here" >&2
		return 1
	fi
	kept=$(hugepages_kept $pool)
	all=$(cat $pool/nr_hugepages)
	free=$(($(cat $pool/free_hugepages) - $(cat $pool/resv_hugepages) - others))
	if [ "$free" -lt "$pages" ]; then
		if ! { echo $((all + pages - free)) >$pool/nr_hugepages; } 2>/dev/null; then
			echo "nr_hugepages can't be changed here" >&2
			return 1
		fi
		added=$(($(hugepages_kept $pool) - kept))
		free=$((free + $(cat $pool/nr_hugepages) - all))
	fi
	echo "$added" >"$file"
	if [ "$free" -lt "$pages" ]; then
		echo "only $free of $pages hugepages can be had" >&2
		hugepages_down "$file"
		return 1
	fi
}

# hugepages_down FILE: undo hugepages_up.
hugepages_down()
{
	local file=$1 pool=/sys/kernel/mm/hugepages/hugepages-2048kB added now
	[ -f "$file" ] || return 0
	added=$(cat "$file")
	if [ "$added" -gt 0 ]; then
		now=$(hugepages_kept $pool)
		echo $((now > added ? now - added : 0)) >$pool/nr_hugepages || return 1
	fi
	rm -f "$file"
}
