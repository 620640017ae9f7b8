/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/notify.h"
#include "keeper_talk.h"
#include "standby.h"
#include "uroced.h"

/**
 * Receive what to do.
 * @param process  Receives the descriptor that came with it, or -1.
 * @return 0; EPIPE: the keeper has ended the connection; another errno value.
 */
static int
hear_turn(int sock, enum keeper_whose_turn *turn, int *process)
{
	struct keeper_turn t;
	int fds[KEEPER_BATCH];
	uint32_t nb;
	ssize_t n = keeper_hear(sock, &t, sizeof(t), fds, &nb);
	bool good = n == (ssize_t)sizeof(t) && t.magic == KEEPER_MAGIC && t.version == KEEPER_VERSION && nb <= (t.turn == KEEPER_SERVES);

	if (n < 0)
		return errno;
	*process = good && nb == 1 ? fds[0] : -1;
	for (uint32_t i = 0; i < nb && !good; i++)
		close(fds[i]);
	if (good)
		*turn = (enum keeper_whose_turn)t.turn;
	return good ? 0 : n == 0 ? EPIPE : EPROTO;
}

/** @return 0, or an errno value. */
static int
greet(struct survivor *s, const char *path, uint32_t seconds, bool *serves)
{
	const struct keeper_req q = { .magic = KEEPER_MAGIC, .op = KEEPER_STANDBY, .seconds = seconds, .version = KEEPER_VERSION };
	enum keeper_whose_turn turn;
	int process, rc;

	s->sock = keeper_connect(path);
	rc = s->sock >= 0 ? keeper_say(s->sock, &q, -1) : errno;
	if (rc == 0)
		rc = hear_turn(s->sock, &turn, &process);
	if (rc == 0 && process >= 0)
		close(process);
	if (rc == 0 && turn == KEEPER_TAKEN)
		rc = EBUSY;
	*serves = rc == 0 && turn == KEEPER_SERVES;
	return *serves ? survivor_take(s) : rc;
}

int
standby_greet(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks, bool *serves)
{
	char path[SURVIVOR_PATH_BYTES];
	int rc;

	if (seconds == 0)
		return complain("--standby: what programs have outlives a daemon only with daemon.survive_crash: set it, here and for the daemon that serves");
	if (survivor_begin(s, socket, nb_stacks, path) != 0)
		return -1;
	rc = greet(s, path, seconds, serves);
	if (rc == 0)
		return 0;
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
	if (rc == ENOENT || rc == ECONNREFUSED)
		return complain("--standby: there is no keeper at %s: start the daemon that serves first, with daemon.survive_crash, or uroce-keeper", path);
	if (rc == EBUSY)
		return complain("--standby: another standby waits at %s already", path);
	if (rc == EPIPE || rc == ETIMEDOUT)
		return complain("--standby: the keeper at %s doesn't answer: it may be of an older version, and then ends with its daemon", path);
	return complain("--standby: the keeper at %s can't be used: %s", path, strerror(rc));
}

/** The keeper has said something. */
static enum standby_end
take_turn(struct survivor *s, int *process)
{
	enum keeper_whose_turn turn;
	int rc = hear_turn(s->sock, &turn, process);

	if (rc == 0 && turn == KEEPER_ENDED) {
		printf("uroced: the daemon has ended properly, and with it its standby\n");
		return STANDBY_ENDS;
	}
	if (rc == 0)
		rc = turn == KEEPER_SERVES ? survivor_take(s) : EPROTO;
	if (rc == 0)
		return STANDBY_SERVES;
	complain("--standby: the keeper has gone: %s", strerror(rc));
	return STANDBY_FAILED;
}

enum standby_end
standby_wait(struct survivor *s, int *process)
{
	enum { KEEPER, SIGNALS, BOTH };
	struct pollfd p[BOTH] = { [KEEPER] = { .fd = s->sock, .events = POLLIN }, [SIGNALS] = { .events = POLLIN } };
	int alive_ms = notify_alive_ms() > 0 ? (int)notify_alive_ms() : -1;
	sigset_t ending;

	*process = -1;
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	p[SIGNALS].fd = signalfd(-1, &ending, SFD_CLOEXEC);
	/* What else came stays for the control. */
	while (poll(p, BOTH, alive_ms) <= 0)
		notify_alive();
	close(p[SIGNALS].fd);
	return p[KEEPER].revents == 0 ? STANDBY_ENDS : take_turn(s, process);
}
