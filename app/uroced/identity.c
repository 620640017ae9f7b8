/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "identity.h"

enum { THREAD_STEP_US = 1000, THREAD_STEPS = 5000 };

/** @return the user with that name or number, or NULL. */
static const struct passwd *
look_up(const char *user)
{
	const struct passwd *pw = getpwnam(user);
	unsigned long uid;
	char *end;

	if (pw != NULL || user[0] < '0' || user[0] > '9')
		return pw;
	uid = strtoul(user, &end, 10);
	return *end == '\0' && uid < (uid_t)-1 ? getpwuid((uid_t)uid) : NULL;
}

/** @return the capabilities that this thread may use. */
static unsigned long long
permitted(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data) != 0)
		return 0;
	return data[0].permitted | (unsigned long long)data[1].permitted << 32;
}

/** Keep of this thread's capabilities only @p caps, and let nothing inherit them. [signal handler] @return 0 or an errno value. */
static int
limit_thread(unsigned long long caps)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data) != 0)
		return errno;
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(caps >> 32 * i);
		data[i].effective = data[i].permitted;
		/* With these the ambient ones go, too. */
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) == 0 ? 0 : errno;
}

/* ---- All threads: capabilities are each thread's own, and the C library has no function for it ---- */
static _Atomic unsigned int limited;

static void
on_limit(int sig)
{
	int saved = errno;

	if (limit_thread(0) == 0)
		atomic_fetch_add(&limited, 1);
	errno = saved;
}

/** Have thread @p tid give up its capabilities, and wait until it has. @return 0 or an errno value; ESRCH: it has ended. */
static int
limit_other(pid_t tid, int sig)
{
	unsigned int before = atomic_load(&limited);

	if (syscall(SYS_tgkill, getpid(), tid, sig) != 0)
		return errno;
	for (unsigned int i = 0; i < THREAD_STEPS; i++) {
		if (atomic_load(&limited) != before)
			return 0;
		usleep(THREAD_STEP_US);
	}
	return ETIMEDOUT;
}

static int
limit_others(int sig)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *d;
	int rc = 0;

	if (dir == NULL)
		return errno;
	while (rc == 0 && (d = readdir(dir)) != NULL) {
		pid_t tid = (pid_t)atoi(d->d_name);

		if (tid > 0 && tid != gettid())
			rc = limit_other(tid, sig);
		rc = rc == ESRCH ? 0 : rc;
	}
	closedir(dir);
	return rc;
}

static int
limit_threads(void)
{
	const int sig = SIGRTMAX;
	struct sigaction sa = { .sa_handler = on_limit, .sa_flags = SA_RESTART }, old;
	int rc = limit_thread(0);

	if (rc == 0 && sigaction(sig, &sa, &old) != 0)
		rc = errno;
	/* Twice: in the first round a thread whose turn had not come may have made another. */
	for (int round = 0; round < 2 && rc == 0; round++)
		rc = limit_others(sig);
	if (rc == 0)
		sigaction(sig, &old, NULL);
	return rc;
}

int
identity_find(const char *user, struct identity *id, char *err, size_t err_bytes)
{
	bool by_default = user[0] == '\0', root = geteuid() == 0;
	const struct passwd *pw = by_default && !root ? NULL : look_up(by_default ? IDENTITY_DEFAULT_USER : user);

	*id = (struct identity){ 0 };
	err[0] = '\0';
	if (!root) {
		id->uid = geteuid();
		id->gid = getegid();
		id->drop = permitted() != 0;
	}
	if (by_default && pw == NULL) {
		if (root)
			snprintf(err, err_bytes,
				 "there is no user " IDENTITY_DEFAULT_USER ": uroced goes on as root. Make one (useradd --system --user-group "
				 "--shell /usr/sbin/nologin " IDENTITY_DEFAULT_USER "), name another by daemon.user, or set daemon.user = root");
		return 0;
	}
	if (pw == NULL) {
		snprintf(err, err_bytes, "daemon.user = %s: no such user; see getent passwd", user);
		return -1;
	}
	if (!root && pw->pw_uid != geteuid()) {
		snprintf(err, err_bytes, "daemon.user = %s: uroced wasn't started as root, so it can't become another user; leave it out",
			 user);
		return -1;
	}
	if (pw->pw_uid == geteuid())
		return 0;
	if (strlen(pw->pw_name) >= sizeof(id->name)) {
		snprintf(err, err_bytes, "daemon.user = %s: the name is too long", user);
		return -1;
	}
	strcpy(id->name, pw->pw_name);
	id->uid = pw->pw_uid;
	id->gid = pw->pw_gid;
	id->change = id->drop = true;
	return 0;
}

/** The C library's functions change all threads of the process. */
static int
change_ids(const struct identity *id)
{
	if (initgroups(id->name, id->gid) != 0 || setresgid(id->gid, id->gid, id->gid) != 0 ||
	    setresuid(id->uid, id->uid, id->uid) != 0)
		return errno;
	return 0;
}

int
identity_take(const struct identity *id)
{
	int rc = id->change ? change_ids(id) : limit_threads();

	/* With the last of the user IDs that are 0, all capabilities are gone (capabilities(7)). */
	if (rc == 0 && (permitted() != 0 || setresuid(0, 0, 0) == 0 || geteuid() != id->uid || getegid() != id->gid))
		rc = EPERM;
	return rc;
}

int
identity_take_keeping(const struct identity *id, unsigned long long caps)
{
	int rc = 0;

	for (int cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (id->change && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
		return errno;
	if (id->change)
		rc = change_ids(id);
	return rc != 0 ? rc : limit_thread(caps);
}
