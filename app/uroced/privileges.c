/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>

#include "control/observe/sysfs.h"
#include "privileges.h"
#include "sandbox.h"

#define UNIX_PREFIX "unix:"

/* What these compilers put into the daemon has system calls of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

int
privileges_prepare(struct privileges *p, const struct uroced_config *confs, unsigned int n)
{
	char said[512];

	for (unsigned int i = 1; i < n; i++) {
		if (strcmp(confs[i].user, confs[0].user) == 0 && confs[i].seccomp == confs[0].seccomp && confs[i].survive_crash == confs[0].survive_crash)
			continue;
		fprintf(stderr, "uroced: %s and %s are served by one process, so daemon.user, daemon.seccomp and daemon.survive_crash must be the same in both\n",
			confs[0].socket, confs[i].socket);
		return -1;
	}
	p->seccomp = confs[0].seccomp && !SANITIZED;
	if (identity_find(confs[0].user, &p->id, said, sizeof(said)) != 0) {
		fprintf(stderr, "uroced: %s\n", said);
		return -1;
	}
	if (said[0] != '\0')
		fprintf(stderr, "uroced: warning: %s\n", said);
	/* A daemon that stays root has one, too: whoever looks at a program's mappings waits for that program. */
	if (!p->id.drop && !shared_ops_own().privileged)
		return 0;
	p->broker = broker_start();
	if (p->broker == NULL) {
		fprintf(stderr, "uroced: the broker can't be started: %s\n", strerror(errno));
		return -1;
	}
	return 0;
}

/** @param survives  The next daemon goes on with it if this one crashes. */
static void
remove_at_end(struct broker *b, const char *path, bool survives)
{
	int rc = survives ? broker_remove_unless_crashed(b, path) : broker_remove_at_end(b, path);

	if (rc != 0)
		fprintf(stderr, "uroced: warning: %s will not be removed when the daemon ends: %s\n", path, strerror(rc));
}

/** Name to the broker what an ordinary user can't undo. */
static void
name_remains(struct broker *b, const struct uroce *u)
{
	char path[BROKER_PATH_BYTES];
	uint32_t ifindex;

	remove_at_end(b, u->conf.socket, u->conf.survive_crash > 0);
	snprintf(path, sizeof(path), "%s.sys", u->conf.socket);
	remove_at_end(b, path, u->conf.survive_crash > 0);
	if (u->conf.telemetry) {
		snprintf(path, sizeof(path), "%s.telemetry", u->conf.socket);
		remove_at_end(b, path, false);
	}
	if (strncmp(u->conf.metrics, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		remove_at_end(b, u->conf.metrics + strlen(UNIX_PREFIX), false);
	for (uint16_t i = 0; i < u->nb_ports; i++) {
		ifindex = net_port_xdp_ifindex(u->ports[i]);
		if (ifindex != 0 && broker_detach_at_end(b, ifindex) != 0)
			fprintf(stderr, "uroced: warning: the XDP program of %s will stay there when the daemon ends\n", u->ports[i]->netdev);
	}
}

/** The broker gets its tasks and keeps only the rights for them; then the daemon gives up its own, unless it stays root. @return 0, or -1 with a message printed. */
static int
give_up_rights(struct privileges *p, struct uroce *const *of, unsigned int n)
{
	char path[BROKER_PATH_BYTES];
	int rc;

	for (unsigned int i = 0; i < n; i++) {
		name_remains(p->broker, of[i]);
		if (p->id.drop)
			sysfs_give(of[i]->control, p->id.uid, p->id.gid);
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/dpdk_telemetry.v2", rte_eal_get_runtime_dir()) < sizeof(path))
		remove_at_end(p->broker, path, false);
	rc = broker_seal(p->broker, &p->id, p->seccomp);
	if (rc != 0) {
		fprintf(stderr, "uroced: the broker can't give up rights: %s\n", strerror(rc));
		return -1;
	}
	rc = p->id.drop ? identity_take(&p->id) : 0;
	if (rc != 0)
		fprintf(stderr, "uroced: can't give up root's rights: %s; daemon.user = root keeps them\n", strerror(rc));
	return rc == 0 ? 0 : -1;
}

int
privileges_drop(struct privileges *p, struct uroce *const *of, unsigned int n)
{
	int rc;

	if (p->broker != NULL && give_up_rights(p, of, n) != 0)
		return -1;
	/* Root without seccomp is left as it is. */
	if (!p->seccomp && !p->id.drop)
		return 0;
	rc = sandbox_enter(p->seccomp ? SANDBOX_DAEMON : SANDBOX_NONE);
	if (rc == 0)
		return 0;
	fprintf(stderr, "uroced: its system calls can't be limited: %s; daemon.seccomp = off goes on without\n", strerror(rc));
	return -1;
}

void
privileges_end(struct privileges *p)
{
	broker_end(p->broker);
	p->broker = NULL;
}
