# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A Debian release beside this machine's own: a root folder made by debootstrap, in which scripts build and test. Source it after lib.sh.
#
# All of it is in the cache folder, ${XDG_CACHE_HOME:-~/.cache}/uroce/RELEASE: the root folder, and ccache's files. The root folder has what
# lib.sh's lists of packages name; mounts exist only in a mount namespace of the command that runs in it, and end with that.
#
# RELEASE-ARCH (trixie-arm64) is a root folder of this machine's processor as well. In it scripts build for the other one, with that one's
# libraries beside its own (multiarch).

UROCE_RELEASES="bookworm trixie"
UROCE_ARCHES="arm64"
UROCE_MIRROR=${UROCE_MIRROR:-http://deb.debian.org/debian}

# own_release: prints the name of this machine's release.
own_release()
{
	(. /etc/os-release && printf '%s\n' "${VERSION_CODENAME-}")
}

# other_release: prints the first of the releases that is not this machine's.
other_release()
{
	local release
	for release in $UROCE_RELEASES; do
		[ "$release" = "$(own_release)" ] || { printf '%s\n' "$release"; return; }
	done
}

# release_inside: whether this runs in a root folder of release_run.
release_inside()
{
	[ -n "${UROCE_INSIDE-}" ]
}

release_folder()
{
	printf '%s/uroce/%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}" "$1"
}

# release_is_ready RELEASE: whether its root folder has the packages that the tests need.
release_is_ready()
{
	[ -e "$(release_folder "$1")/root/ready" ]
}

# release_set_ready: in a root folder, once the packages are installed.
release_set_ready()
{
	! release_inside || touch /ready
}

# is_in LIST WORD: whether it is one of the list's.
is_in()
{
	case " $1 " in
	*" $2 "*) ;;
	*) return 1 ;;
	esac
}

# release_known RELEASE: whether it is one of the releases.
release_known()
{
	is_in "$UROCE_RELEASES" "$1"
}

# arch_packages ARCH: prints what a build for ARCH needs: the libraries are that one's, the tools this machine's.
arch_packages()
{
	local package
	for package in $UROCE_PACKAGES_BUILD; do
		case $package in
		lib*-dev) printf '%s:%s ' "$package" "$1" ;;
		gcc) ;;
		*) printf '%s ' "$package" ;;
		esac
	done
}

# release_make RELEASE[-ARCH]: makes its root folder if there is none. Status 1 with a reason on stderr if it can't be had.
release_make()
{
	local name=$1 release=${1%%-*} folder new
	folder=$(release_folder "$name")
	[ -e "$folder/root" ] && return
	is_root || { echo "only root can make a root folder of $name" >&2; return 1; }
	need_packages debootstrap debian-archive-keyring
	mkdir -p "$folder" || return 1
	if ! wget -q --timeout=20 --tries=2 -O /dev/null "$UROCE_MIRROR/dists/$release/InRelease"; then
		echo "the mirror $UROCE_MIRROR can't be reached (another one: UROCE_MIRROR=ADDRESS)" >&2
		return 1
	fi
	new=$folder/new
	rm -rf --one-file-system "$new"
	say "$name: debootstrap into $folder (log: $folder/debootstrap.log)"
	if ! debootstrap --variant=minbase --include=ccache "$release" "$new" "$UROCE_MIRROR" >"$folder/debootstrap.log" 2>&1; then
		tail -5 "$folder/debootstrap.log" >&2
		return 1
	fi
	# It is thrown away if the machine breaks down: dpkg needn't wait for the disk. Nobody reads its documentation, but rdma-core's own tests
	# are there, so are programs and an input that rows of docs/programs.md need, and a check of our packages looks at theirs.
	echo force-unsafe-io >"$new/etc/dpkg/dpkg.cfg.d/uroce"
	printf '%s\n' 'path-exclude=/usr/share/doc/*' 'path-include=/usr/share/doc/rdma-core/*' 'path-include=/usr/share/doc/libucx-dev/*' \
		'path-include=/usr/share/doc/hpcc/*' 'path-include=/usr/share/doc/*uroce*' >>"$new/etc/dpkg/dpkg.cfg.d/uroce"
	[ "$name" = "$release" ] || printf '%s\n' "$(dpkg --print-architecture)" "${name#*-}" >"$new/var/lib/dpkg/arch"
	mkdir "$new/uroce" "$new/ccache" "$folder/ccache" 2>/dev/null
	mv "$new" "$folder/root"
}

# release_can_run: whether the namespaces and mounts of release_run can be had.
release_can_run()
{
	unshare --mount --propagation private --pid --fork mount -t tmpfs none /mnt 2>/dev/null
}

# release_enter FOLDER TREE BUILD COMMAND...: in namespaces of its own, mounts what a root folder needs and runs COMMAND in it.
release_enter()
{
	local folder=$1 tree=$2 build=$3 root=$1/root
	shift 3
	# On itself first: only a mount can become the root of the namespace. In a chroot() /proc would show other paths, and ip netns fails.
	mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
		mount -t tmpfs -o mode=0755 none "$root/run" && mount -t tmpfs -o mode=1777 none "$root/tmp" &&
		mount --bind "$folder/ccache" "$root/ccache" &&
		mount --bind "$tree" "$root/uroce" && mount --bind "$build" "$root/uroce/${build##*/}" &&
		mount -o remount,bind,ro "$root/uroce" || die "what $root needs can't be mounted here"
	cd "$root" && pivot_root . . && umount -l . && cd / || die "$root can't become the root folder here"
	exec /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" CCACHE_DIR=/ccache \
		PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		"UROCE_BUILD=/uroce/${build##*/}" "UROCE_FUZZ_BUILD=/uroce/${build##*/}/fuzz" "UROCE_SANITIZE_BUILD=/uroce/${build##*/}/sanitize" \
		UROCE_INSIDE=1 \
		${http_proxy:+"http_proxy=$http_proxy"} "$@"
}

# release_run RELEASE COMMAND...: runs COMMAND in the root folder. This tree is /uroce there, read-only but for its build folder,
# build-RELEASE. When COMMAND ends, so do all processes that it started, and the mounts. One command at a time; others wait.
release_run()
{
	local release=$1 folder build status
	shift
	folder=$(release_folder "$release")
	build=$UROCE_ROOT/build-$release
	mkdir -p "$build" || return 1
	cp /etc/resolv.conf "$folder/root/etc/resolv.conf" 2>/dev/null
	exec {lock}>"$folder/lock"
	flock "$lock"
	# unshare ignores SIGTERM and SIGINT: if this shell is stopped, all that it started ends too.
	setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child -- \
		bash -c '. "$1/scripts/lib.sh"; . "$1/scripts/release.sh"; release_enter "${@:2}"' \
		release "$UROCE_ROOT" "$folder" "$UROCE_ROOT" "$build" "$@" {lock}>&-
	status=$?
	exec {lock}>&-
	return $status
}
