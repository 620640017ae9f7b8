/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-keeper: holds duplicates of a daemon's descriptors, so that they outlive it when it crashes, and gives them to the next one: its
 * options, its start and what it gives up before it listens to anybody.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <seccomp.h>

#include "common/keeper.h"
#include "common/notify.h"
#include "kept.h"
#include "serve.h"

enum { OWN_FDS = 32, BACKLOG = 4, FIRST_S = 60, EXIT_USAGE = 2 };

static const char usage[] =
	"Usage: uroce-keeper [--stay] [--ready FD] SOCKET\n"
	"\n"
	"Holds descriptors of a uroced with daemon.survive_crash, and gives them to the next one if it crashes. uroced starts it, unless something\n"
	"listens at SOCKET, which is the path of the daemon's socket and .keeper, already.\n"
	"\n"
	"  --stay      wait for the next daemon also when one has ended properly, or nobody came in time\n"
	"  --ready FD  close FD when it listens\n"
	"  --version   the version\n";

static struct {
	dev_t dev;
	ino_t ino;
} bound; /* its socket */

static int
complain(const char *what, const char *why)
{
	fprintf(stderr, "uroce-keeper: %s: %s\n", what, why);
	return -1;
}

static int
listen_at(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (sock < 0 || (size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path) >= sizeof(sa.sun_path))
		return complain(path, sock < 0 ? strerror(errno) : "the path is too long for a socket");
	/* One that a keeper has left. */
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && connect(sock, (struct sockaddr *)&sa, sizeof(sa)) != 0 && errno == ECONNREFUSED)
		unlink(path);
	close(sock);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	umask(0177);
	if (sock < 0 || bind(sock, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(sock, BACKLOG) != 0)
		return complain(path, strerror(errno));
	if (lstat(path, &st) != 0)
		return complain(path, strerror(errno));
	bound.dev = st.st_dev;
	bound.ino = st.st_ino;
	return sock;
}

/* Another keeper may have taken the name meanwhile. */
static void
remove_socket(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && st.st_dev == bound.dev && st.st_ino == bound.ino)
		unlink(path);
}

static int
confine(void)
{
	static const int calls[] = {
		SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(accept4), SCMP_SYS(getsockopt), SCMP_SYS(shutdown), SCMP_SYS(close),
		SCMP_SYS(clock_gettime), SCMP_SYS(write), SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(lstat),
		SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex),
		SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall), SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect),
		SCMP_SYS(madvise), SCMP_SYS(rseq), SCMP_SYS(pidfd_open), SCMP_SYS(set_robust_list), SCMP_SYS(rt_sigprocmask), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(tgkill),
	};
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = f != NULL ? seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	return -rc;
}

/* @param room  Receives for how many descriptors there is room. */
static int
prepare(uint32_t *room)
{
	static const int ignored[] = { SIGINT, SIGHUP, SIGQUIT, SIGPIPE };
	struct rlimit l;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		return complain("its limit of descriptors", strerror(errno));
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	*room = l.rlim_cur < KEEPER_NUMBERS ? (uint32_t)l.rlim_cur : KEEPER_NUMBERS;
	*room -= *room > OWN_FDS ? OWN_FDS : *room;
	/* What it holds is everybody's. */
	prctl(PR_SET_DUMPABLE, 0);
	errno = kept_start();
	if (errno != 0)
		return complain("a thread", strerror(errno));
	errno = confine();
	return errno == 0 ? 0 : complain("its system calls can't be limited", strerror(errno));
}

int
main(int argc, char **argv)
{
	static const struct option options[] = { { "stay", no_argument, NULL, 's' }, { "ready", required_argument, NULL, 'r' },
						 { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'v' }, { NULL, 0, NULL, 0 } };
	int listener, opt, ready = -1;
	uint32_t room;
	uid_t uid = geteuid();
	bool stay = false;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 's')
			stay = true;
		else if (opt == 'r')
			ready = atoi(optarg);
		else if (opt == 'v')
			return printf("uroce-keeper %s\n", UROCE_VERSION) < 0;
		else
			return fputs(usage, opt == 'h' ? stdout : stderr) < 0 || opt != 'h' ? EXIT_USAGE : EXIT_SUCCESS;
	}
	if (optind != argc - 1)
		return fputs(usage, stderr) < 0 ? EXIT_FAILURE : EXIT_USAGE;
	listener = listen_at(argv[optind]);
	if (listener < 0)
		return EXIT_FAILURE;
	/* Only as a service of its own: a keeper that a daemon has started would report that daemon as ready. Not after prepare(), which forbids sockets. */
	if (stay)
		notify_ready();
	if (prepare(&room) != 0)
		return EXIT_FAILURE;
	if (ready >= 0)
		close(ready);
	serve(listener, uid, room, FIRST_S, stay);
	remove_socket(argv[optind]);
	return EXIT_SUCCESS;
}
