/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon gives its programs to another one, which takes them: uroced --take-over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/notify.h"
#include "uroced.h"

/* ---- The daemon that goes ---- */
int
give_asked(void *arg, int sock)
{
	struct uroced *u = arg;
	int nobody = -1, fd = fcntl(sock, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	if (!atomic_compare_exchange_strong(&u->asked, &nobody, fd)) {
		close(fd);
		return EBUSY;
	}
	uroce_control_stop(u->stacks[0]);
	return 0;
}

void
leave(struct uroced *u, pid_t successor)
{
	char path[BROKER_PATH_BYTES];

	survivor_end(&u->survivor);
	for (unsigned int i = 0; i < u->nb_stacks; i++) {
		const char *socket = u->confs[i].socket;

		stack_leave(u->stacks[i]);
		if (u->privileges.broker == NULL)
			continue;
		broker_keep(u->privileges.broker, socket);
		if ((size_t)snprintf(path, sizeof(path), "%s.sys", socket) < sizeof(path))
			broker_keep(u->privileges.broker, path);
	}
	/* The broker detaches what only root can detach from interfaces. */
	privileges_end(&u->privileges);
	if (successor != 0)
		notify_successor(successor);
	fflush(NULL);
	/* Without EAL's clean-up, which would only unmap memory that nobody uses any more. */
	_exit(EXIT_SUCCESS);
}

void
go_on(struct uroced *u)
{
	char err[UROCE_ERR_BYTES];

	if (launch_engines(u) != 0)
		complain("no engine runs any more; the daemon must be started again");
	suspend_undo(u->stacks, u->nb_stacks);
	for (unsigned int i = 1; i < u->nb_stacks; i++)
		if (uroce_control_start(u->stacks[i], err) != 0)
			complain("%s", err);
}

int
write_down(struct uroced *u, struct stream_out *o)
{
	for (unsigned int i = 1; i < u->nb_stacks; i++)
		uroce_control_stop(u->stacks[i]);
	suspend_settle(u->stacks, u->nb_stacks);
	stop_engines(u);
	return suspend_save(u->stacks, u->nb_stacks, o);
}

bool
give_programs(struct uroced *u)
{
	int sock = atomic_load(&u->asked), rc;
	char text[TALK_TEXT_BYTES] = "";
	struct stream_out o = { 0 };
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	printf("uroced: another daemon, pid %d, takes over\n", (int)peer.pid);
	fflush(stdout);
	rc = write_down(u, &o);
	if (rc == 0)
		rc = talk_send(sock, &o, text);
	else
		snprintf(text, sizeof(text), "%s", suspend_why(rc));
	if (rc == 0)
		leave(u, peer.pid);
	complain("the other daemon, pid %d, didn't take over: %s. This one goes on", (int)peer.pid, text);
	stream_free(&o);
	go_on(u);
	close(sock);
	atomic_store(&u->asked, -1);
	return false;
}

/* ---- The daemon that comes ---- */
int
check_programs(struct uroced *u, const struct options *o, struct stream_in *in, char *text)
{
	return suspend_check(in, u->confs, o->nb_stacks, u->nb_engines, u->nb_cpus, text);
}

int
take_programs(struct uroced *u, const struct options *o, const struct vdevs *v, struct stream_in *in)
{
	char text[TALK_TEXT_BYTES];
	struct talk t;
	int process;

	if (talk_ask(u->confs[0].socket, &t, in, text) != 0)
		return complain("--take-over: %s", text);
	if (check_programs(u, o, in, text) != 0) {
		talk_reply(&t, EINVAL, text);
		return complain("--take-over: the daemon at %s goes on: %s", u->confs[0].socket, text);
	}
	if (talk_taken(&t, &process) != 0 || !vdevs_wait(v, u, process, false))
		return complain("--take-over: the daemon at %s has handed its programs over, but doesn't end", u->confs[0].socket);
	return 0;
}
