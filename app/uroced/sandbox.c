/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <seccomp.h>

#include "base/procmap.h"
#include "sandbox.h"

/* Calls that a processor hasn't got (open() on arm64) have a number that libseccomp leaves out. */
#define CALL(name) SCMP_SYS(name)

/** Both: memory, threads' ends, time, signals; descriptors that the process has; files, as far as its user may open them. */
static const int of_both[] = {
	CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64), CALL(lseek), CALL(close), CALL(dup), CALL(fcntl),
	CALL(open), CALL(openat), CALL(readlink), CALL(readlinkat), CALL(getdents64),
	CALL(stat), CALL(fstat), CALL(lstat), CALL(newfstatat), CALL(statx), CALL(statfs), CALL(fstatfs), CALL(access), CALL(faccessat),
	CALL(faccessat2),
	CALL(unlink), CALL(unlinkat), CALL(rmdir),
	CALL(mmap), CALL(munmap), CALL(mremap), CALL(mprotect), CALL(madvise), CALL(brk), CALL(membarrier),
	CALL(recvmsg), CALL(sendmsg), CALL(recvfrom), CALL(sendto), CALL(getsockopt), CALL(setsockopt), CALL(getsockname), CALL(bind), CALL(shutdown),
	CALL(poll), CALL(ppoll), CALL(futex), CALL(futex_waitv), CALL(set_robust_list), CALL(get_robust_list), CALL(rseq), CALL(set_tid_address),
	CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(sigaltstack), CALL(restart_syscall), CALL(tgkill),
	CALL(exit), CALL(exit_group), CALL(gettid), CALL(getpid), CALL(getppid), CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid),
	CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep), CALL(nanosleep), CALL(gettimeofday), CALL(time), CALL(getrandom),
	CALL(sched_yield), CALL(sched_getaffinity), CALL(getcpu), CALL(uname),
};

/** The daemon: sessions, engines, telemetry, captures, drivers. */
static const int of_daemon[] = {
	CALL(preadv), CALL(pwritev), CALL(preadv2), CALL(pwritev2), CALL(dup2), CALL(dup3), CALL(close_range), CALL(flock), CALL(fsync), CALL(fdatasync),
	CALL(creat), CALL(getdents), CALL(getcwd), CALL(rename), CALL(renameat), CALL(renameat2), CALL(mkdir), CALL(mkdirat), CALL(symlink), CALL(symlinkat),
	CALL(chmod), CALL(fchmod), CALL(fchmodat), CALL(umask), CALL(truncate), CALL(ftruncate), CALL(fallocate), CALL(memfd_create),
	CALL(mincore), CALL(msync), CALL(mlock), CALL(mlock2), CALL(munlock), CALL(mbind), CALL(get_mempolicy), CALL(set_mempolicy),
	CALL(pipe), CALL(pipe2), CALL(eventfd), CALL(eventfd2), CALL(signalfd4), CALL(timerfd_create), CALL(timerfd_settime), CALL(timerfd_gettime),
	CALL(epoll_create), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_wait), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(select), CALL(pselect6),
	CALL(socketpair), CALL(socket), CALL(connect), CALL(listen), CALL(accept), CALL(accept4), CALL(getpeername), CALL(sendmmsg), CALL(recvmmsg),
	CALL(rt_sigpending), CALL(rt_sigtimedwait), CALL(rt_sigsuspend), CALL(pause), CALL(wait4), CALL(waitid),
	CALL(getresuid), CALL(getresgid), CALL(getgroups), CALL(getpgrp), CALL(getsid), CALL(capget), CALL(getrlimit), CALL(prlimit64), CALL(getrusage),
	CALL(times), CALL(sysinfo), CALL(getpriority), CALL(setpriority),
	CALL(ioctl) /* drivers have many requests of their own */,
	CALL(sched_setaffinity), CALL(sched_getscheduler), CALL(sched_setscheduler), CALL(sched_getparam), CALL(sched_setparam),
	CALL(sched_getattr), CALL(sched_setattr), CALL(sched_get_priority_max), CALL(sched_get_priority_min), CALL(arch_prctl),
};

enum { NAME_AREA = 0x53564d41 /**< PR_SET_VMA: the C library names its mappings */ };

static int
allow(scmp_filter_ctx f, const int *calls, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	return rc;
}

/** Calls of which only some arguments are allowed. */
static int
allow_some_of_daemon(scmp_filter_ctx f)
{
	static const unsigned int prctls[] = { PR_SET_NAME, PR_GET_NAME, PR_SET_TIMERSLACK, PR_GET_DUMPABLE, PR_CAPBSET_READ, NAME_AREA };
	int rc = 0;

	for (size_t i = 0; i < sizeof(prctls) / sizeof(prctls[0]) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0_32(SCMP_CMP_EQ, prctls[i], 0));
	return rc;
}

/** New threads, but no processes. clone3() has its flags in memory, where a filter can't see them; the C library then takes clone(). */
static int
allow_threads(scmp_filter_ctx f)
{
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	return rc != 0 ? rc : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0);
}

static int
allow_some_of_broker(scmp_filter_ctx f)
{
	const uint32_t query = MAPS_QUERY;
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(ioctl), 1, SCMP_A1_32(SCMP_CMP_EQ, query, 0));

	/* To detach the XDP program of an interface. */
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(socket), 1, SCMP_A0_32(SCMP_CMP_EQ, AF_NETLINK, 0));
	return rc;
}

static int
fill(scmp_filter_ctx f, enum sandbox_kind kind)
{
	int rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);

	if (rc == 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 1);
	/* Engines run no code of strangers: without this some kernels would make them slower (speculative store bypass). */
	if (rc == 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
	if (rc != 0 || kind == SANDBOX_NONE)
		return rc;
	/* Not in every kernel's power. */
	seccomp_attr_set(f, SCMP_FLTATR_CTL_LOG, 1);
	/* A binary search: before 5.11 kernels execute the filter for each call. */
	seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	rc = allow(f, of_both, sizeof(of_both) / sizeof(of_both[0]));
	if (rc == 0 && kind == SANDBOX_DAEMON)
		rc = allow(f, of_daemon, sizeof(of_daemon) / sizeof(of_daemon[0]));
	if (rc == 0)
		rc = kind == SANDBOX_DAEMON ? allow_some_of_daemon(f) : allow_some_of_broker(f);
	if (rc == 0)
		rc = allow_threads(f);
	return rc;
}

int
sandbox_enter(enum sandbox_kind kind)
{
	scmp_filter_ctx f = seccomp_init(kind == SANDBOX_NONE ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
	int rc;

	if (f == NULL)
		return ENOMEM;
	rc = fill(f, kind);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	return abs(rc);
}
